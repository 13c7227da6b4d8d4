// The script tag on pages whose Parallax is slow, silent or blocked.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { USER_AGENT, launchChromium } from '../chromium.js';
import { type TestServer, startServer } from '../server.js';
import { type Pages, TAG, servePages } from './pages.js';

const DOCUMENT = readFileSync(path.resolve(process.env.PARALLAX_SDK!, '../docs/sdk.md'), 'utf8');
const PLAIN = /```html\n(.*?)```/s.exec(DOCUMENT.split('### Plain HTML, personalized')[1]!)![1]!;
/** The greatest wait of the documented page, with room for a busy machine: an event takes 10 s when it waits for Parallax. */
const GUARDED_MS = 5_000;

describe('the script tag', () => {
  let edge: TestServer;
  let pages: Pages;
  let browser: Browser;
  let html = '';
  before(async () => {
    edge = await startServer();
    pages = await servePages(({ pathname }) => (pathname === '/silent.js' || pathname.startsWith('/v1/') ? null : html));
    browser = await launchChromium();
  });
  after(async () => {
    await browser?.close();
    pages?.stop();
    await edge?.stop();
  });

  /** Opens the page. `prepare` runs before, `problems` are the errors that the page logs or throws. */
  async function open(prepare: (page: Page) => Promise<unknown> = async () => {}) {
    const context = await browser.newContext({ userAgent: USER_AGENT, locale: 'de-DE' });
    const page = await context.newPage();
    const problems: string[] = [];
    page.on('pageerror', (error) => problems.push(error.message));
    await prepare(page);
    await page.goto(`http://www.example.test:${pages.port}/`, { waitUntil: 'domcontentloaded' });
    return { page, problems, close: () => context.close() };
  }
  const attributes = () => `data-tracking-id="track_demo" data-events-url="${edge.url}"`;

  test('functions that wait for the script run in order, later ones at once, and one that throws stops no other', async () => {
    html = `<script>
        window.ran = [];
        (window.Parallax ??= { queue: [] }).queue.push(() => ran.push(1), () => { throw new Error('of the page'); });
        Parallax.queue.push((events) => ran.push(typeof events.track));
      </script><script async src="/parallax.js" ${attributes()}></script>`;
    const { page, problems, close } = await open();
    await page.waitForFunction('window.ran.length === 2');
    assert.deepEqual(await page.evaluate('Parallax.queue.push(() => ran.push("later")), ran'), [1, 'function', 'later']);
    assert.deepEqual(problems, ['of the page']);
    await close();
  });

  test('a queue without a tracking ID is an error that says so', async () => {
    html = `<script>(window.Parallax ??= { queue: [] }).queue.push(() => {})</script><script async src="/parallax.js"></script>`;
    const { page, problems, close } = await open();
    await page.waitForFunction('window.Parallax.createEvents !== undefined');
    assert.deepEqual(problems, ['Parallax: the queue needs a script tag with data-tracking-id.']);
    await close();
  });

  test('with views of its own, a page records none by itself', async () => {
    html = `<script async src="/parallax.js" ${attributes()} data-views="manual"></script>`;
    const { page, close } = await open();
    await page.waitForFunction('window.Parallax?.events !== undefined');
    await page.evaluate(`history.pushState({}, '', '/next'), Parallax.events.track('Manual')`);
    const records = await edge.recorded((all) => all.some(({ event }) => event === 'Manual'));
    const { anonId } = records.find(({ event }) => event === 'Manual')!;
    assert.deepEqual(records.filter((record) => record.anonId === anonId).map(({ type }) => type), ['track']);
    await close();
  });

  describe('the documented plain page', () => {
    before(() => {
      html = PLAIN;
    });

    const cases: [string, (page: Page) => Promise<unknown>][] = [
      ['a blocked script', (page) => page.route('http://127.0.0.1:8080/**', (route) => route.abort('blockedbyclient'))],
      ['a silent Parallax', (page) => page.route('http://127.0.0.1:8080/**', () => {})],
      ['a Parallax that is silent after the script', (page) =>
        page.route('http://127.0.0.1:8080/**', (route) => route.request().url().endsWith('/v1/parallax.js') && route.fulfill({ contentType: 'text/javascript', body: TAG }))],
      ['a server that answers with a page of its own', (page) => page.route('http://127.0.0.1:8080/**', (route) => route.fulfill({ status: 502, body: '<h1>Bad gateway</h1>' }))],
    ];
    for (const [name, prepare] of cases) {
      test(`${name}: the document is ready, keeps its heading and throws nothing`, async () => {
        const begin = Date.now();
        const { page, problems, close } = await open(prepare);
        assert.ok(Date.now() - begin < GUARDED_MS, 'the document waits for Parallax');
        await page.waitForFunction(() => document.readyState !== 'loading');
        assert.equal(await page.textContent('h1'), 'Shop');
        // A 502 is no script: the browser reports its text. It is not an error of the page.
        assert.deepEqual(problems.filter((text) => !/Unexpected token '<'/.test(text)), []);
        await close();
      });
    }
  });

  test('a sign-in goes on after 300 ms when Parallax is silent, and the event arrives later', async () => {
    html = `<script src="/parallax.js"></script>`;
    const { page, close } = await open();
    const begin = Date.now();
    await page.evaluate(`window.events = Parallax.createEvents({ eventsUrl: location.origin, trackingId: 'track_demo' }), events.identify('user-7')`);
    assert.ok(Date.now() - begin < GUARDED_MS, 'the sign-in waits for Parallax');
    assert.match(await page.evaluate('Object.values(localStorage).join()'), /"userId":"user-7"/);
    await close();
  });
});
