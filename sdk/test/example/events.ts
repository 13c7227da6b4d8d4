import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { launchChromium } from '../chromium.js';
import type { RecordedEvent } from '../server.js';
import { type Site, isBatch, open, visitor } from './site.js';

/** The greetings of the membership page, by variant. */
export const GUEST = /^At present 4212 people/;
export const OWNER = 'You have one of our tents';
const MEMBER = 'Good that you are in';

export const greeting = (page: Page) => page.locator('[data-zone=greeting]').filter({ visible: true }).locator('p, h2').first();

/** Buys a tent on the page of a product, and waits for the receipts of both events. */
export async function buyTent(site: Site, page: Page): Promise<void> {
  let count = 0;
  const acknowledged = page.waitForResponse((response) => {
    if (isBatch(site, response.url())) count += (response.request().postDataJSON().batch as unknown[]).length;
    return count >= 2;
  });
  await page.locator('.product .button').click();
  await (await acknowledged).finished();
}

export function eventCases(site: () => Site): void {
  const visit = (page: Page, pathname: string) => open(site(), page, pathname);

  const buy = (page: Page) => buyTent(site(), page);

  test('after an acknowledged event a hard navigation shows the new variant', async () => {
    const context = await visitor(site());
    const page = await context.newPage();
    await visit(page, '/account/membership');
    assert.match((await greeting(page).textContent())!, GUEST);
    await visit(page, '/products/rype-2');
    await buy(page);
    await visit(page, '/account/membership');
    assert.equal(await greeting(page).textContent(), OWNER);
    await context.close();
  });

  test('after an acknowledged event a soft navigation to a prefetched page shows the new variant', async () => {
    const context = await visitor(site());
    const page = await context.newPage();
    await visit(page, '/products/rype-2');
    await page.waitForLoadState('networkidle'); // the links of the header are prefetched
    await buy(page);
    await page.evaluate(() => {
      Object.assign(window, { isSameDocument: true });
      (window as any).next.router.push('/account/membership'); // a link of the example loads its document after an event
    });
    await page.waitForURL('**/account/membership');
    await greeting(page).filter({ hasText: OWNER }).waitFor();
    assert.equal(await page.evaluate(() => (window as any).isSameDocument), true);
    await context.close();
  });

  test('a page that was visited before shows the new variant, and the back button shows the page as it was', async () => {
    const context = await visitor(site());
    const page = await context.newPage();
    await visit(page, '/account/membership');
    assert.match((await greeting(page).textContent())!, GUEST);
    await page.locator('header a[href="/tents"]').click();
    await page.locator('a[href="/products/rype-2"]').first().click();
    await page.waitForURL('**/products/rype-2');
    await page.locator('.product .button').waitFor();
    await buy(page);
    await page.locator('header a[href="/account/membership"]').click();
    await page.waitForURL('**/account/membership');
    await greeting(page).filter({ hasText: OWNER }).waitFor();
    await page.goBack();
    await page.locator('.product h1').filter({ hasText: 'Rype 2' }).waitFor();
    await context.close();
  });

  test('events without waiting, then a navigation: 20 of 20 new visitors see the new variant', async () => {
    const shown: (string | null)[] = [];
    const ids = new Set<string>();
    for (let i = 0; i < 20; i++) {
      const context = await visitor(site());
      const page = await context.newPage();
      await visit(page, '/products/rype-2');
      ids.add((await context.cookies()).find(({ name }) => name === 'anon_id')!.value);
      const next = page.waitForURL('**/account/membership');
      await page.evaluate(() => {
        document.querySelector<HTMLButtonElement>('.product .button')!.click();
        location.href = '/account/membership';
      });
      await next;
      shown.push(await greeting(page).textContent());
      await context.close();
    }
    assert.deepEqual(shown, Array(20).fill(OWNER));
    const bought = (all: RecordedEvent[]) => all.filter(({ anonId, event }) => ids.has(anonId!) && event === 'Tent Bought');
    const all = await site().edge.recorded((records) => bought(records).length >= 20);
    assert.deepEqual([ids.size, bought(all).length], [20, 20]);
  });

  test('a visitor who signs in is a member on the next page', async () => {
    const context = await visitor(site());
    const page = await context.newPage();
    await visit(page, '/account/membership');
    const acknowledged = page.waitForResponse((response) => (response.request().postData() ?? '').includes('"identify"'));
    await page.locator('input[name=name]').fill('Ada');
    await page.locator('form.card button').click();
    await (await acknowledged).finished();
    await page.locator('.member h3').filter({ hasText: 'Ada', visible: true }).first().waitFor();
    await visit(page, '/account/membership');
    assert.equal(await greeting(page).textContent(), MEMBER);
    await context.close();
  });

  test('two tabs offline, one closed: nothing is lost and nothing counts twice', async () => {
    const context = await visitor(site());
    const [closing, staying] = [await context.newPage(), await context.newPage()];
    await staying.clock.install();
    await visit(closing, '/products/rype-2');
    await visit(staying, '/products/rype-2');
    await context.setOffline(true);
    for (const page of [closing, staying]) {
      await page.locator('.product .button').click();
      await page.locator('.product output').waitFor();
    }
    await closing.close();
    await context.setOffline(false);
    await staying.clock.fastForward(31_000);
    const id = (await context.cookies()).find(({ name }) => name === 'anon_id')!.value;
    const bought = (all: RecordedEvent[]) => all.filter(({ anonId, event }) => anonId === id && event === 'Tent Bought');
    const all = await site().edge.recorded((records) => bought(records).length >= 2);
    await staying.waitForFunction('Object.keys(localStorage).every((key) => !key.startsWith("px:"))');
    assert.equal(bought(all).length, 2);
    assert.equal(bought(site().edge.records()).length, 2);
    await context.close();
  });

  test('a restore from the back/forward cache is a view, and a second effect is none', async () => {
    // Playwright turns this cache off by default.
    const browser = await launchChromium({ ignoreDefaultArgs: ['--disable-back-forward-cache'] });
    const context = await visitor({ ...site(), browser });
    const page = await context.newPage();
    await visit(page, '/about');
    const id = (await context.cookies()).find(({ name }) => name === 'anon_id')!.value;
    const views = (all: RecordedEvent[]) => all.filter(({ anonId, type, path }) => anonId === id && type === 'page' && path === '/about').length;
    assert.equal(views(await site().edge.recorded((all) => views(all) > 0)), 1);
    await page.waitForLoadState('networkidle'); // a request in flight keeps a page out of the cache
    await page.evaluate(() => addEventListener('pageshow', ({ persisted }) => Object.assign(window, { wasRestored: persisted })));
    await page.goto(`${site().url}/tents`);
    await page.goBack({ waitUntil: 'commit' });
    await page.waitForFunction('window.wasRestored === true');
    assert.equal(views(await site().edge.recorded((all) => views(all) > 1)), 2);
    await browser.close();
  });
}
