// Decisions in the process of the proxy: no request reaches Edge for a visitor with a token.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BrowserContext, Page } from 'playwright-core';
import { GUEST, OWNER, buyTent, greeting } from './events.js';
import { type Site, get, open, until, visitor } from './site.js';

const MEMBERSHIP = '/account/membership';
const GERMAN = 'Gemacht für den dritten Regentag';
/** Visitors of the test of an event and the next page. */
const VISITORS = 20;

export function localCases(site: () => Site): void {
  const decided = () => site().gateway.requests.filter((request) => request.includes('/v1/variants')).length;
  const cookie = async (context: BrowserContext, name: string) => (await context.cookies()).find((each) => each.name === name)?.value;
  const token = (context: BrowserContext) => cookie(context, 'px_visitor');

  /** Makes a visitor who has bought a tent, and whose token knows it. */
  async function owner(): Promise<{ context: BrowserContext; page: Page }> {
    const context = await visitor(site());
    const page = await context.newPage();
    await open(site(), page, '/products/rype-2');
    await buyTent(site(), page);
    await until(async () => /^1\./.test((await token(context)) ?? ''));
    return { context, page };
  }

  test('with Edge stopped, pages of known visitors and of new ones go on as before', async () => {
    const { context, page } = await owner();
    await page.goto(site().url + MEMBERSHIP); // the page is rendered, and Edge has answered all that it was asked
    await until(async () => (await get(site(), '/', { 'accept-language': 'de' })).heading === GERMAN);
    site().gateway.set('refuse');
    for (let i = 0; i < 10; i++) {
      await page.goto(site().url + MEMBERSHIP);
      assert.equal(await greeting(page).textContent(), OWNER);
      assert.equal((await get(site(), '/', { 'accept-language': 'de' })).heading, GERMAN);
    }
    site().gateway.set('open');
    assert.match((await token(context))!, /^~1\./); // the views of the pages have no receipt
    await context.close();
  });

  test('an acknowledged event, then a navigation: 20 of 20 see the new variant, and Edge decides none of them', async () => {
    const shown: (string | null)[] = [];
    let asked = 0;
    for (let i = 0; i < VISITORS; i++) {
      const { context, page } = await owner();
      await page.waitForLoadState('networkidle'); // the links of the page are prefetched
      await page.route('**/*.js*', (route) => route.abort()); // and those of the next page are not
      const before = decided();
      await page.goto(site().url + MEMBERSHIP);
      asked += decided() - before;
      shown.push(await greeting(page).textContent());
      await context.close();
    }
    assert.deepEqual([shown, asked], [Array(VISITORS).fill(OWNER), 0]);
  });

  test('an event without a receipt goes by a beacon, and the next page knows it and keeps the mark', async () => {
    const context = await visitor(site());
    const page = await context.newPage();
    await open(site(), page, '/products/rype-2');
    await until(async () => (await token(context)) !== undefined);
    site().gateway.set('silent', /v1\/batch/);
    await page.locator('.product .button').click();
    await page.locator('.product output').waitFor();
    assert.match((await token(context))!, /^~/);
    site().gateway.set('open');
    await open(site(), page, MEMBERSHIP);
    assert.equal(await greeting(page).textContent(), OWNER);
    assert.match((await token(context))!, /^~/); // the queue of the page before is not adopted yet
    await context.close();
  });

  test('after a sign-out the token of the visitor before is gone, and the page is that of a new visitor', async () => {
    const { context, page } = await owner();
    const before = await token(context);
    await open(site(), page, MEMBERSHIP);
    assert.equal(await greeting(page).textContent(), OWNER);
    await page.locator('input[name=name]').fill('Ada');
    await page.locator('form.card button').click();
    await page.locator('.member .button').click();
    await until(async () => (await token(context)) !== before);
    const view = page.waitForResponse((response) => response.url().includes('/v1/batch') && response.ok());
    await page.goto(site().url + MEMBERSHIP);
    assert.match((await greeting(page).textContent())!, GUEST);
    await view;
    await context.close();
  });

  test('a forged token, and that of another visitor, are not believed, with Edge and without it', async () => {
    const { context } = await owner();
    const stolen = (await token(context))!.replace('~', '');
    const forged = `${stolen.slice(0, -1)}${stolen.endsWith('A') ? 'B' : 'A'}`;
    const owned = async (id: string, value: string) => {
      const { text } = await get(site(), MEMBERSHIP, { cookie: `px_consent=1; anon_id=${id}; px_visitor=${value}` });
      return text.includes(OWNER);
    };
    const id = (await cookie(context, 'anon_id'))!;
    for (const mode of ['open', 'refuse'] as const) {
      site().gateway.set(mode);
      assert.equal(await owned('a-thief', stolen), false, mode);
      assert.equal(await owned('a-thief', `~${stolen}`), false, mode);
      assert.equal(await owned(id, forged), mode === 'open', mode);
      assert.equal(await owned(id, stolen), true, mode);
    }
    site().gateway.set('open');
    await context.close();
  });

  test('without consent to personalize the page has no token, and a withdrawal deletes it', async () => {
    const { context, page } = await owner();
    await page.evaluate('document.cookie = "px_consent=m; Path=/"');
    await page.goto(`${site().url}/about`);
    await until(async () => (await token(context)) === undefined);
    await page.goto(site().url + MEMBERSHIP);
    assert.match((await greeting(page).textContent())!, GUEST);
    await context.close();
  });
}
