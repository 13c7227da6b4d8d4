import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { previewLink } from '../../src/index.js';
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
    const recorded = page.waitForResponse((response) => /\/v1\/batch(\?|$)/.test(response.url()));
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
    await page.goto(await previewLink({ secret: PREVIEW_SECRET, siteUrl: site().url, reviewer: 'ana', to: '/?px-variants=hero:slow' }));
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

  test('a preview needs a valid link, and its target stays on the site', async () => {
    const begin = (query: string) => get(site(), `/api/parallax/preview?${query}`);
    const link = (secret: string, to = '/', days = 1) => previewLink({ secret, siteUrl: site().url, reviewer: 'ana', to, days });
    for (const query of ['', `secret=${PREVIEW_SECRET}&to=/`, new URL(await link('wrong')).search.slice(1), new URL(await link(PREVIEW_SECRET, '/', -1)).search.slice(1)]) {
      assert.equal((await begin(query)).status, 401, query);
    }
    for (const to of ['//evil.example', 'https://evil.example', '/\\evil.example']) {
      assert.equal((await begin(new URL(await link(PREVIEW_SECRET, to)).search.slice(1))).status, 400, to);
    }
  });

  test('a reviewer for whom previews are closed is refused by name', async () => {
    const query = new URL(await previewLink({ secret: PREVIEW_SECRET, siteUrl: site().url, reviewer: 'left-the-team' })).search;
    const refused = await get(site(), `/api/parallax/preview${query}`);
    assert.deepEqual([refused.status, refused.text], [403, 'Previews are closed for left-the-team; ask for a new link.']);
  });
}
