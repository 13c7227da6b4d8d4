// The browser part in Debian's Chromium, with a real server.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { createClient, handOver, visitorFrom } from '../../src/index.js';
import { USER_AGENT, launchChromium } from '../chromium.js';
import { type TestServer, startServer } from '../server.js';
import { bundleApp } from './pages.js';

/** Renders the greeting of a visitor, as the server of a site does. */
async function personalized(edgeUrl: string, request: Request): Promise<{ html: string; setCookie?: string }> {
  const client = createClient({ edgeUrl, trackingId: 'track_demo' });
  const visitor = await visitorFrom(request);
  await handOver(client, request, visitor, 2000);
  const { data } = await client.variants('/account/membership', visitor.visitor, visitor.request);
  return { html: `<h1>${data.type === 'redirect' ? '' : data.variants}</h1>`, setCookie: visitor.setCookie?.header };
}

/** Serves an empty page with the scripts at every path. `/account/membership` is rendered for its visitor. */
async function startSite(edge: { url: string }) {
  const script = await bundleApp();
  const tag = readFileSync(path.join(process.env.PARALLAX_SDK!, 'parallax.js'));
  const requests: { url: string; cookie: string }[] = [];
  const server = createServer(async ({ url, headers }, response) => {
    requests.push({ url: url!, cookie: headers.cookie ?? '' });
    if (url === '/app.js') return response.writeHead(200, { 'content-type': 'text/javascript' }).end(script);
    if (url === '/parallax.js') return response.writeHead(200, { 'content-type': 'text/javascript' }).end(tag);
    const attributes = new URL(url!, 'http://site').searchParams.get('attributes');
    const tagged = `<!doctype html><title>Plain</title><link rel="icon" href="data:,"><script async src="/parallax.js" ${attributes}></script>`;
    if (attributes) return response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(tagged);
    const page = '<!doctype html><title>Shop</title><link rel="icon" href="data:,"><body><script src="/app.js"></script>';
    const own = url === '/account/membership' ? await personalized(edge.url, new Request(`http://${headers.host}${url}`, { headers: headers as Record<string, string> })) : undefined;
    const html = page + (own?.html ?? '');
    if (own?.setCookie) response.setHeader('set-cookie', own.setCookie);
    return response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(html);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests, server };
}

describe('in Chromium', () => {
  let edge: TestServer;
  let site: Awaited<ReturnType<typeof startSite>>;
  let browser: Browser;
  before(async () => {
    edge = await startServer();
    site = await startSite(edge);
    browser = await launchChromium();
  });
  after(async () => {
    await browser?.close();
    site?.server.close();
    await edge?.stop();
  });

  const visitor = () => browser.newContext({ userAgent: USER_AGENT });

  /** Opens a page of the site with `window.events`. */
  async function open(context: BrowserContext, pathname = '/', options: object = {}): Promise<Page> {
    const page = await context.newPage();
    await visit(page, pathname, options);
    return page;
  }

  async function visit(page: Page, pathname: string, options: object = {}) {
    await page.goto(site.url + pathname);
    await start(page, options);
  }

  const start = (page: Page, options: object = {}) =>
    page.evaluate((all) => {
      const { createEvents } = window as any;
      Object.assign(window, { events: createEvents(all) });
    }, { eventsUrl: edge.url, trackingId: 'track_demo', dev: 'send', ...options });
  const inPage = <T>(page: Page, code: string) => page.evaluate(code) as Promise<T>;
  const named = (event: string) => async () => (await edge.recorded(() => true)).filter((record) => record.event === event);

  test('a page view is one POST without a preflight, with the ID of the cookie', async () => {
    const context = await visitor();
    const page = await context.newPage();
    const requests: string[] = [];
    page.on('request', (request) => request.url().startsWith(edge.url) && requests.push(`${request.method()} ${new URL(request.url()).pathname}`));
    await visit(page, '/tents?a=1');
    const receipt: any = await inPage(page, `events.shown({ variants: 'hero:deutsch' }), events.page()`);
    assert.equal(receipt.accepted, 1);
    assert.deepEqual(requests, ['POST /v1/batch']);
    const cookie = (await context.cookies()).find(({ name }) => name === 'anon_id')!;
    const [record] = (await edge.recorded((all) => all.some(({ anonId }) => anonId === cookie.value))).filter(({ anonId }) => anonId === cookie.value);
    assert.deepEqual([record!.type, record!.path, record!.variants], ['page', '/tents', 'hero:deutsch']);
    assert.ok(cookie.expires > Date.now() / 1000 + 399 * 86_400);
    await context.close();
  });

  test('after `await track()` a hard navigation shows the new variant', async () => {
    const context = await visitor();
    const page = await open(context);
    const decide = () =>
      inPage<string>(page, `createClient({ edgeUrl: ${JSON.stringify(edge.url)}, trackingId: 'track_demo' })
        .variants('/account/membership', { anonId: events.anonId() }).then(({ data }) => data.variants)`);
    assert.equal(await decide(), '');
    await inPage(page, `events.track('Tent Bought', { sku: 'tent-2' })`);
    await visit(page, '/account/membership');
    assert.equal(await decide(), 'greeting:owner');
    await context.close();
  });

  test('`track()` without await before a navigation: 20 of 20 events are recorded once, and the next page has them at once', async () => {
    const context = await visitor();
    const page = await open(context);
    for (let i = 0; i < 20; i++) {
      const next = page.waitForURL(`**/next-${i}`);
      await inPage(page, `void (events.track('Left', { i: ${i} }), location.href = '/next-${i}')`);
      await next;
      await start(page);
    }
    await edge.recorded((all) => all.filter(({ event }) => event === 'Left').length >= 20);
    const records = await named('Left')();
    assert.deepEqual(records.map(({ payload }) => payload.properties.i).sort((a, b) => a - b), Array.from({ length: 20 }, (_, i) => i));
    for (let i = 0; i < 20; i++) {
      const { cookie } = site.requests.find(({ url }) => url === `/next-${i}`)!;
      const pending = /px_events=([^;]*)/.exec(cookie)?.[1] ?? '';
      const { batch = [] } = pending ? JSON.parse(Buffer.from(pending, 'base64').toString()) : {};
      const ids = batch.map(({ messageId }: { messageId: string }) => messageId);
      const own = records.find(({ payload }) => payload.properties.i === i)!;
      // Without the cookie the event was acknowledged before the request: its receipt is in time for any decision of the next page.
      assert.ok(ids.includes(own.messageId) || ids.length === 0, `the cookie of navigation ${i} holds ${pending}`);
    }
    await context.close();
  });

  test('the page after `track()` without await shows the new variant in its first HTML, for 20 of 20 new visitors', async () => {
    const shown: (string | null)[] = [];
    const context = await visitor();
    const page = await context.newPage();
    for (let i = 0; i < 20; i++) {
      await context.clearCookies();
      await context.addCookies([{ name: 'anon_id', value: `racing-${i}`, url: site.url }]);
      await visit(page, '/');
      const next = page.waitForURL('**/account/membership');
      await inPage(page, `void (events.track('Tent Bought'), location.href = '/account/membership')`);
      await next;
      shown.push(await page.textContent('h1'));
    }
    await context.close();
    assert.deepEqual(shown, Array(20).fill('greeting:owner'));
  });

  test('two tabs offline, one closed: nothing is lost and nothing counts twice', async () => {
    const context = await visitor();
    const [closing, staying] = [await open(context), await context.newPage()];
    await staying.clock.install();
    await visit(staying, '/');
    await context.setOffline(true);
    await inPage(closing, `Promise.all([events.track('Offline', { i: 1 }), events.track('Offline', { i: 2 })])`);
    await inPage(staying, `events.track('Offline', { i: 3 })`);
    assert.equal(await inPage(staying, `Object.keys(localStorage).length`), 2);
    await closing.close();
    await context.setOffline(false);
    await staying.clock.fastForward(31_000);
    await start(staying); // a page that opens later, while the first queue is idle
    await edge.recorded((all) => all.filter(({ event }) => event === 'Offline').length >= 3);
    const records = await named('Offline')();
    assert.deepEqual(records.map(({ payload }) => payload.properties.i).sort(), [1, 2, 3]);
    await staying.waitForFunction('Object.keys(localStorage).length === 0');
    await context.close();
  });

  test('the queue survives a reload without a network', async () => {
    const context = await visitor();
    const page = await open(context);
    await inPage(page, `fetch = () => Promise.reject(new TypeError('Failed to fetch')); navigator.sendBeacon = () => false; events.track('Kept')`);
    await visit(page, '/again');
    assert.equal(await inPage(page, `Object.keys(localStorage).length`), 1);
    await inPage(page, `for (const key of Object.keys(localStorage)) {
      localStorage[key] = JSON.stringify({ ...JSON.parse(localStorage[key]), at: Date.now() - 31000 }); }`);
    await start(page);
    await edge.recorded((all) => all.some(({ event }) => event === 'Kept'));
    await page.waitForFunction('Object.keys(localStorage).length === 0');
    await context.close();
  });

  for (const [how, leave] of [
    ['navigates', (page: Page) => page.goto('about:blank')],
    ['closes', (page: Page) => page.close({ runBeforeUnload: true })],
  ] as const) {
    test(`a page that ${how} sends its events by a beacon`, async () => {
      const context = await visitor();
      const page = await open(context);
      const event = `Beacon when it ${how}`;
      await inPage(page, `fetch = () => Promise.reject(new TypeError('Failed to fetch')); void events.track(${JSON.stringify(event)}); events.identify('user-1')`);
      await leave(page);
      const all = await edge.recorded((records) => records.some((record) => record.event === event));
      const { anonId } = all.find((record) => record.event === event)!;
      assert.deepEqual(all.filter((record) => record.anonId === anonId).map(({ type }) => type), ['track', 'identify']);
      await context.close();
    });
  }

  test('without consent nothing is sent and nothing is set, and consent given later counts the current page', async () => {
    const context = await visitor();
    const page = await context.newPage();
    const requests: string[] = [];
    page.on('request', (request) => request.url().startsWith(edge.url) && requests.push(request.url()));
    await visit(page, '/about', { consentDefault: 'denied' });
    await inPage(page, `events.page(), events.track('No Consent')`);
    assert.deepEqual([requests, await context.cookies(), await inPage(page, 'localStorage.length')], [[], [], 0]);
    await inPage(page, `events.consent({ personalize: true, measure: true })`);
    const id = (await context.cookies()).find(({ name }) => name === 'anon_id')!.value;
    const records = (await edge.recorded((all) => all.some(({ anonId }) => anonId === id))).filter(({ anonId }) => anonId === id);
    assert.deepEqual(records.map(({ type, path }) => [type, path]), [['page', '/about']]);
    await inPage(page, `events.consent({ personalize: false, measure: false })`);
    assert.deepEqual((await context.cookies()).map(({ name, value }) => [name, value]), [['px_consent', '0']]);
    await context.close();
  });

  test('Global Privacy Control and a preview frame send nothing', async () => {
    const context = await visitor();
    await context.addInitScript(() => Object.defineProperty(navigator, 'globalPrivacyControl', { value: true }));
    const page = await open(context, '/', { honorGpc: true });
    assert.equal(await inPage(page, `events.track('Private')`), null);
    await page.evaluate((url) => {
      const frame = Object.assign(document.createElement('iframe'), { src: url });
      return new Promise((loaded) => {
        frame.onload = loaded;
        document.body.append(frame);
      });
    }, `${site.url}/framed`);
    const frame = page.frames().at(-1)!;
    const options = { eventsUrl: edge.url, trackingId: 'track_demo', dev: 'send', previewOrigins: [site.url] };
    const receipt = await frame.evaluate((all) => (window as any).createEvents(all).track('Framed'), options);
    assert.equal(receipt, null);
    assert.deepEqual(await context.cookies(), []);
    assert.equal(edge.records().some(({ event }) => event === 'Private' || event === 'Framed'), false);
    await context.close();
  });

  test('one tag on a plain page records its views', async () => {
    const context = await visitor();
    const page = await context.newPage();
    const attributes = `data-tracking-id="track_demo" data-events-url="${edge.url}" data-dev="send"`;
    await page.goto(`${site.url}/plain?attributes=${encodeURIComponent(attributes)}`);
    await inPage(page, `history.pushState({}, '', '/plain/2'), history.pushState({}, '', '/plain/2'), history.pushState({}, '', '/plain/2#part')`);
    await inPage(page, `history.pushState({}, '', '/plain/2?sort=price'), history.back()`);
    await page.waitForURL('**/plain/2#part');
    await inPage(page, `dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })), Parallax.events.track('Tagged')`);
    const all = await edge.recorded((records) => records.some(({ event }) => event === 'Tagged'));
    const { anonId } = all.find(({ event }) => event === 'Tagged')!;
    const paths = all.filter((record) => record.anonId === anonId && record.type === 'page').map((record) => record.path);
    assert.deepEqual(paths, ['/plain', '/plain/2', '/plain/2', '/plain/2', '/plain/2']); // load, push, query string, back, restore
    await context.close();
  });

  test('a tag without a tracking ID defines createEvents alone, and a malformed one is an error that names it', async () => {
    const context = await visitor();
    const page = await context.newPage();
    const errors: string[] = [];
    page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
    await page.goto(`${site.url}/plain?attributes=data-x`);
    assert.deepEqual(await inPage(page, '[typeof Parallax.createEvents, typeof Parallax.events]'), ['function', 'undefined']);
    assert.deepEqual(errors, []);
    await page.goto(`${site.url}/plain?attributes=${encodeURIComponent('data-tracking-id="UA-1"')}`);
    await inPage(page, '1');
    assert.equal(errors.length, 1);
    assert.match(errors[0]!, /data-tracking-id="UA-1" is no tracking ID/);
    assert.deepEqual(await context.cookies(), []);
    await context.close();
  });

  test('React counts one view under StrictMode, loads more items, and refreshes after a receipt', async () => {
    const context = await visitor();
    const page = await context.newPage();
    const problems: string[] = [];
    page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
    page.on('pageerror', (error) => problems.push(error.message));
    await page.goto(`${site.url}/tents`);
    await inPage(page, `renderApp(${JSON.stringify(edge.url)}, '/tents', 'receipt')`);
    const items = `[...document.querySelectorAll('output')].map((output) => +output.textContent.split(' ')[0])`;
    await page.locator('button').click({ timeout: 10_000 });
    await page.waitForFunction(`Math.max(...${items}) > 12`);
    assert.equal(await page.locator('button').count(), 0); // the second page is the last one
    const id = (await context.cookies()).find(({ name }) => name === 'anon_id')!.value;
    await edge.recorded((all) => all.some(({ anonId }) => anonId === id));
    assert.equal(await inPage(page, 'window.refreshes'), undefined);
    await inPage(page, `events.track('Clicked')`);
    await page.waitForFunction('window.refreshes === 1');
    // As if a prefetch of the next page had handed the event over before.
    await page.route('**/v1/batch', async (route) => {
      await route.fetch();
      await route.continue();
    }, { times: 1 });
    const handedOver: any = await inPage(page, `events.track('Handed Over')`);
    assert.deepEqual([handedOver.accepted, handedOver.duplicates], [0, 1]);
    await page.waitForFunction('window.refreshes === 2');
    await inPage(page, 'events.reset()');
    assert.equal(await inPage(page, 'window.refreshes'), 3);
    const own = (await edge.recorded((all) => all.some(({ event }) => event === 'Handed Over'))).filter(({ anonId }) => anonId === id);
    assert.deepEqual(own.map(({ type, path, variants }) => [type, path, variants]), [['page', '/tents', ''], ['track', '/tents', ''], ['track', '/tents', '']]);
    assert.deepEqual(problems, []);
    await context.close();
  });
});
