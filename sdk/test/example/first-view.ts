import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RecordedEvent } from '../server.js';
import { type Site, get, open, visitor } from './site.js';

const GERMAN = 'Gemacht für den dritten Regentag';

/** A `LayoutShift` of the browser, which TypeScript does not know. */
type Shift = { value: number; sources: { node: Node | null }[] };

/** A hundredth of the layout shift of a good page (Core Web Vitals). A paint between two parts of the HTML can move an element by less. */
const SHIFT_MAX = 0.001;

export function firstViewCases(site: () => Site): void {
  test('a German visitor without JavaScript sees the German variant in the first HTML', async () => {
    const context = await visitor(site(), '1', { javaScriptEnabled: false, locale: 'de-DE' });
    const page = await context.newPage();
    const response = await page.goto(site().url);
    assert.equal(await page.textContent('h1'), GERMAN);
    assert.equal(response!.headers()['cache-control'], 'private, no-cache');
    await context.close();
  });

  test('a page has one heading from the start, no console error and no layout shift', async () => {
    const context = await visitor(site(), '1', { locale: 'de-DE' });
    await context.addInitScript(() => {
      const seen = { headings: new Set<string>(), shift: 0, moved: [] as string[] };
      Object.assign(window, { seen });
      const look = () => document.querySelectorAll('h1').forEach((heading) => seen.headings.add(heading.textContent));
      new MutationObserver(look).observe(document, { childList: true, subtree: true, characterData: true });
      new PerformanceObserver((list) => {
        for (const { value, sources } of list.getEntries() as unknown as Shift[]) {
          seen.shift += value;
          seen.moved.push(...sources.map(({ node }) => node?.textContent ?? 'a removed element'));
        }
      }).observe({ type: 'layout-shift', buffered: true });
    });
    const page = await context.newPage();
    const problems: string[] = [];
    page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
    page.on('pageerror', (error) => problems.push(error.message));
    for (const pathname of ['/', '/tents', '/account/membership', '/products/rype-2']) {
      await open(site(), page, pathname);
      const seen = await page.evaluate(() => {
        const { headings, shift, moved } = (window as any).seen;
        return { headings: [...headings], shift, moved };
      });
      assert.equal(seen.headings.length, 1, `${pathname}: ${seen.headings}`);
      assert.ok(seen.shift < SHIFT_MAX, `${pathname}: ${seen.shift} of ${seen.moved}`);
    }
    assert.deepEqual(problems, []);
    await context.close();
  });

  test('a page view is one POST without a preflight, with the variants, the experiment and the ID of the cookie', async () => {
    const context = await visitor(site());
    const page = await context.newPage();
    const requests: string[] = [];
    page.on('request', (request) => request.url().startsWith(site().gateway.url) && requests.push(`${request.method()} ${new URL(request.url()).pathname}`));
    await open(site(), page, '/tents');
    assert.deepEqual(requests, ['POST /v1/batch']);
    const cookies = await context.cookies();
    const id = cookies.find(({ name }) => name === 'anon_id')!;
    assert.ok(id.expires > Date.now() / 1000 + 399 * 86_400);
    const all = await site().edge.recorded((records) => records.some(({ anonId }) => anonId === id.value));
    const [record] = all.filter(({ anonId }) => anonId === id.value);
    assert.deepEqual([record!.type, record!.path], ['page', '/tents']);
    const heading = await page.locator('[data-zone=advice] h2').first().textContent();
    const shown = { 'Three questions before you look at any tent': '', 'Shall we ring you?': 'advice:call-back', 'You want a dome if …': 'advice:checklist' };
    assert.equal(record!.variants, shown[heading as keyof typeof shown]);
    await context.close();
  });

  /** Views the front page twice as a new visitor. Checks both views against the decision of Edge, and returns its experiments. */
  async function expectExposures(): Promise<string> {
    const context = await visitor(site());
    const page = await context.newPage();
    const prefetched = page.waitForResponse(/[?&]_rsc=/);
    await open(site(), page, '/');
    await prefetched;
    await open(site(), page, '/');
    const id = (await context.cookies()).find(({ name }) => name === 'anon_id')!.value;
    const views = (all: RecordedEvent[]) => all.filter(({ anonId, type }) => anonId === id && type === 'page');
    const counted = views(await site().edge.recorded((all) => views(all).length >= 2));
    const query = new URLSearchParams({ trackingId: 'track_demo', route: '/', anonId: id, locale: 'en-GB' });
    const { experiments, variants }: any = await (await fetch(`${site().edge.url}/v1/variants?${query}`)).json();
    assert.deepEqual(counted.map((view) => [view.experiments, view.variants]), Array(2).fill([experiments, variants]));
    const isSlow = (await page.textContent('h1')) === 'Walk less. Stay longer.';
    assert.match(experiments, isSlow ? /slow-front:slow/ : /slow-front:default/);
    await context.close();
    return experiments;
  }

  test('20 visitors: each view counts the arm that Edge decided, also the control arm and after prefetches of other pages', async () => {
    const arms = new Set<string>();
    for (let i = 0; i < 20; i++) arms.add(await expectExposures());
    assert.equal(arms.size, 2, `only ${[...arms]}`); // by chance once in 500,000 runs
  });

  test('"load more" shows 14 of 14 tents', async () => {
    const context = await visitor(site());
    const page = await context.newPage();
    await open(site(), page, '/tents');
    const output = page.locator('.more output');
    assert.equal(await output.textContent(), '12 of 14');
    await page.locator('.more button').click();
    await output.filter({ hasText: '14 of 14' }).waitFor();
    assert.equal(await page.locator('.more button').count(), 0);
    assert.equal(await page.locator('.more').locator('xpath=..').locator('.cards li').count(), 14);
    await context.close();
  });

  test('"load more" of a query with a parameter of the route leaves out the product of the page', async () => {
    const context = await visitor(site());
    const page = await context.newPage();
    await open(site(), page, '/products/rype-2');
    const links = page.locator('[data-zone=related] .cards a');
    assert.equal(await links.count(), 4);
    await page.locator('[data-zone=related] .more button').click();
    await page.locator('[data-zone=related] .more output').filter({ hasText: /^8 of/ }).waitFor();
    const shown = await links.evaluateAll((all) => all.map((link) => link.getAttribute('href')));
    assert.deepEqual([new Set(shown).size, shown.includes('/products/rype-2')], [8, false]);
    await context.close();
  });

  test('redirects keep the query, an unknown path is 404, and the internal path is closed', async () => {
    const redirect = await get(site(), '/sleep?x=1');
    assert.deepEqual([redirect.status, redirect.headers.get('location')], [308, '/sleeping-bags?x=1']);
    assert.equal((await get(site(), '/nothing/here')).status, 404);
    for (const pathname of ['/px', '/px/-', '/px/hero!deutsch', '/px/nonsense/tents', '/px/-/tents']) assert.equal((await get(site(), pathname)).status, 404, pathname);
  });
}
