import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { type Site, PREVIEW_SECRET, get, open, visitor } from './site.js';

const stored = (page: Page) => page.evaluate(() => Object.keys(localStorage));

export function consentCases(site: () => Site): void {
  test('without an answer, where that means no, nothing is sent and nothing is set; consent given later counts the current page', async () => {
    const context = await visitor(site(), null);
    const page = await context.newPage();
    const requests: string[] = [];
    page.on('request', (request) => request.url().startsWith(site().gateway.url) && requests.push(request.url()));
    await page.goto(`${site().url}/about`);
    await page.locator('.consent').waitFor();
    await page.waitForLoadState('networkidle');
    assert.deepEqual([requests, await context.cookies(), await stored(page)], [[], [], []]);
    const recorded = page.waitForResponse((response) => response.url().endsWith('/v1/batch'));
    await page.locator('.consent .button').first().click();
    await (await recorded).finished();
    const id = (await context.cookies()).find(({ name }) => name === 'anon_id')!.value;
    const all = await site().edge.recorded((records) => records.some(({ anonId }) => anonId === id));
    const own = all.filter(({ anonId }) => anonId === id);
    assert.deepEqual(own.map(({ type, path }) => [type, path]), [['page', '/about']]);
    await context.close();
  });

  test('a refusal sends nothing and sets nothing but itself', async () => {
    const context = await visitor(site(), null);
    const page = await context.newPage();
    const requests: string[] = [];
    page.on('request', (request) => request.url().startsWith(site().gateway.url) && requests.push(request.url()));
    await page.goto(`${site().url}/products/rype-2`);
    await page.locator('.consent').waitFor();
    await page.waitForLoadState('networkidle');
    assert.deepEqual([await context.cookies(), await stored(page)], [[], []]); // before the answer
    await page.locator('.consent .button.quiet').click();
    await page.locator('.product .button').click();
    await page.locator('.product output').waitFor();
    await page.goto(`${site().url}/account/membership`);
    await page.waitForLoadState('networkidle');
    await page.locator('input[name=name]').fill('Ada');
    await page.locator('form.card button').click();
    await page.locator('.member h3').filter({ hasText: 'Ada', visible: true }).first().waitFor();
    assert.deepEqual((await context.cookies()).map(({ name, value }) => [name, value]), [['px_consent', '0']]);
    assert.deepEqual([requests, await stored(page)], [[], []]);
    await context.close();
  });

  test('a preview shows drafts and forced combinations, sends nothing and sets no ID', async () => {
    site().edge.publish(site().source, 'draft', ['--preview', 'draft']);
    const context = await visitor(site());
    const page = await context.newPage();
    const requests: string[] = [];
    page.on('request', (request) => request.url().startsWith(site().gateway.url) && requests.push(request.url()));
    const query = new URLSearchParams({ secret: PREVIEW_SECRET, to: '/?px-variants=hero:slow' });
    await page.goto(`${site().url}/api/parallax/preview?${query}`);
    assert.equal(await page.textContent('h1'), 'Walk less. Stay longer.');
    await page.waitForLoadState('networkidle');
    assert.ok(site().gateway.requests.some((target) => target.includes('trackingId=track_demo--draft')));
    assert.deepEqual(requests, []);
    const life = Object.fromEntries((await context.cookies()).map(({ name, expires }) => [name, expires]));
    assert.deepEqual(life, { px_consent: -1, px_preview: -1, __prerender_bypass: -1 }); // all end with the browser, and no ID is set
    await context.clearCookies({ name: 'px_preview' });
    await open(site(), page, '/'); // the page is no draft either
    await page.goto(`${site().url}/api/parallax/preview?exit=1&to=/about`);
    await open(site(), page, '/');
    assert.ok((await context.cookies()).some(({ name }) => name === 'anon_id'));
    await context.close();
  });

  test('a preview needs the secret, and its target stays on the site', async () => {
    const begin = (query: string) => get(site(), `/api/parallax/preview?${query}`);
    assert.equal((await begin('secret=wrong&to=/')).status, 401);
    assert.equal((await begin('')).status, 401);
    const secret = encodeURIComponent(PREVIEW_SECRET);
    for (const to of ['//evil.example', 'https://evil.example', '/\\evil.example']) {
      assert.equal((await begin(`secret=${secret}&to=${encodeURIComponent(to)}`)).status, 400, to);
    }
  });
}
