import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import type { RecordedEvent } from '../server.js';
import { type Site, open, visitor } from './site.js';

/** Next pages that a sign-out must not take from the router's cache, 6 visitors for each way to get there. */
const VISITORS = 6;

export function signOutCases(site: () => Site): void {
  const push = (page: Page, pathname: string) => page.evaluate((target) => (window as any).next.router.push(target), pathname);
  const idOf = async (page: Page) => (await page.context().cookies()).find(({ name }) => name === 'anon_id')!.value;

  /** Signs in and out on the page of the membership, which the visitor reached by a soft navigation from the front page. */
  async function signInAndOut(page: Page) {
    await open(site(), page, '/');
    await push(page, '/account/membership');
    await page.locator('input[name=name]').fill('Ada');
    await page.locator('form.card button').click();
    await page.locator('.member .button').click();
  }

  const ways: [string, (page: Page) => Promise<unknown>][] = [
    ['a soft navigation', (page) => push(page, '/')],
    ['a load of the document', (page) => page.goto(site().url)],
  ];
  for (const [name, leave] of ways) {
    test(`after a sign-out and ${name}, the next visitor sees and counts the own arm`, async () => {
      for (let i = 0; i < VISITORS; i++) {
        const context = await visitor(site());
        const page = await context.newPage();
        await signInAndOut(page);
        await leave(page);
        const id = await idOf(page);
        const isView = ({ anonId, type, path }: RecordedEvent) => anonId === id && type === 'page' && path === '/';
        const view = (await site().edge.recorded((all) => all.some(isView))).find(isView)!;
        const query = new URLSearchParams({ trackingId: 'track_demo', route: '/', anonId: id, locale: 'en-GB' });
        const { experiments, variants }: any = await (await fetch(`${site().edge.url}/v1/variants?${query}`)).json();
        assert.deepEqual([view.experiments, view.variants], [experiments, variants]);
        const heading = page.locator('h1').filter({ visible: true });
        assert.equal((await heading.textContent()) === 'Walk less. Stay longer.', /slow-front:slow/.test(experiments));
        await context.close();
      }
    });
  }

  test('events before a sign-out stay those of the old ID, and the cookie for the next page names none of them', async () => {
    const context = await visitor(site());
    const page = await context.newPage();
    await open(site(), page, '/account/membership');
    const before = await idOf(page);
    site().gateway.set('refuse');
    await page.locator('input[name=name]').fill('Ada');
    await page.locator('form.card button').click();
    await page.locator('.member .button').click();
    const after = await idOf(page);
    const cookies = await context.cookies();
    site().gateway.set('open');
    assert.notEqual(after, before);
    assert.equal(cookies.some(({ name }) => name === 'px_events'), false);
    await page.goto(`${site().url}/about`); // the events of the page before go by a beacon
    const isIdentify = ({ type, anonId }: RecordedEvent) => type === 'identify' && (anonId === before || anonId === after);
    const identified = (await site().edge.recorded((all) => all.some(isIdentify))).filter(isIdentify);
    assert.deepEqual(identified.map(({ anonId }) => anonId), [before]);
    await context.close();
  });
}
