import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { ParallaxError } from '../../src/errors.js';
import { Browser, accept, fakeClock, offline, settle, status } from './page.js';

describe('the event queue of a page', () => {
  let clock: ReturnType<typeof fakeClock>;
  let browser: Browser;
  let errors: string[];
  const onError = (error: ParallaxError) => void errors.push(error.code);
  const keys = () => Object.keys(browser.storage);
  beforeEach(() => {
    clock = fakeClock();
    browser = new Browser();
    errors = [];
  });
  afterEach(() => clock.stop());

  test('an event is one request with the wire form of a batch', async () => {
    const events = browser.open();
    events.shown({ variants: 'hero:deutsch', experiments: 'slow-front:default' });
    const receipt = await events.page({ path: '/tents' });
    assert.equal(receipt!.accepted, 1);
    const { trackingId, sentAt, batch } = browser.requests[0]!;
    assert.deepEqual([trackingId, sentAt], ['track_demo', '2026-11-23T10:00:00.000Z']);
    const { messageId, ...event } = batch[0]!;
    assert.match(messageId, /^[0-9a-f-]{36}$/);
    assert.deepEqual(event, {
      type: 'page',
      timestamp: '2026-11-23T10:00:00.000Z',
      anonId: events.anonId(),
      variants: 'hero:deutsch',
      experiments: 'slow-front:default',
      properties: { path: '/tents' },
      context: {
        page: { path: '/tents', search: '?a=1', url: 'https://shop.example/tents?a=1', title: 'Tents', referrer: 'https://search.example/' },
        locale: 'de-DE',
        library: { name: '@parallax/sdk', version: '0.1.0' },
      },
    });
    assert.deepEqual([events.pending, keys()], [0, []]);
  });

  test('the second page of a document has the first as referrer', async () => {
    const events = browser.open();
    await events.page();
    await events.page();
    assert.deepEqual(browser.sent.map(({ context }) => context.page.referrer), ['https://search.example/', 'https://shop.example/tents?a=1']);
  });

  test('events of one turn leave in order, in one request after the first', async () => {
    const events = browser.open();
    await Promise.all([events.track('a'), events.track('b'), events.identify('u1', { plan: 'member' }), events.increment({ visits: 1 })]);
    assert.deepEqual(browser.requests.map(({ batch }) => batch.length), [1, 3]);
    assert.deepEqual(browser.sent.map(({ type }) => type), ['track', 'track', 'identify', 'profile']);
    assert.deepEqual([browser.sent[2]!.userId, browser.sent[2]!.traits, browser.sent[3]!.increment], ['u1', { plan: 'member' }, { visits: 1 }]);
    assert.equal('variants' in browser.sent[2]!, false);
  });

  test('identify carries the hash of the user ID in its context, and no other event does', async () => {
    const events = browser.open();
    await Promise.all([events.identify('u1', { plan: 'member' }, { userHash: 'abc' }), events.identify('u1'), events.track('a')]);
    assert.deepEqual(browser.sent.map(({ context }) => context.userHash), ['abc', undefined, undefined]);
    assert.ok(browser.sent.every((event) => !('userHash' in event) && event.context.locale));
  });

  test('offline, await ends with null, and the same messageId is sent later', async () => {
    browser.answer = offline;
    const events = browser.open();
    assert.equal(await events.track('a'), null);
    assert.equal(events.pending, 1);
    await settle();
    browser.answer = accept;
    browser.fire('online');
    await settle();
    assert.equal(events.pending, 0);
    assert.equal(browser.sent.length, 2);
    assert.equal(browser.sent[0]!.messageId, browser.sent[1]!.messageId);
  });

  test('the backoff doubles from 1 s to 30 s, and an event in between does not wait', async () => {
    browser.answer = status(503);
    const events = browser.open();
    await events.track('a');
    assert.equal(await events.track('b'), null);
    assert.equal(browser.requests.length, 1);
    await clock.pass(1_000);
    assert.equal(browser.requests.length, 2);
    for (let i = 0; i < 8; i++) await clock.pass(30_000);
    assert.ok(browser.requests.length >= 9);
    browser.answer = accept;
    await clock.pass(30_000);
    assert.equal(events.pending, 0);
    assert.deepEqual(browser.requests.at(-1)!.batch.map(({ event }) => event), ['a', 'b']);
  });

  test('Retry-After is kept, also when the browser comes online and when the page flushes', async () => {
    browser.answer = status(429, { 'retry-after': '20' });
    const events = browser.open();
    await events.track('a');
    browser.answer = accept;
    browser.fire('online');
    await events.flush();
    await clock.pass(19_999);
    assert.equal(browser.requests.length, 1);
    await clock.pass(1);
    assert.equal(events.pending, 0);
  });

  test('413 halves the batch until it fits', async () => {
    browser.answer = offline;
    const events = browser.open();
    for (let i = 0; i < 8; i++) void events.track(`e${i}`);
    await settle();
    browser.answer = (sent) => (sent.batch.length > 2 ? status(413)(sent) : accept(sent));
    browser.requests = [];
    browser.fire('online');
    await settle();
    assert.deepEqual(browser.requests.map(({ batch }) => batch.length).slice(0, 3), [8, 4, 2]);
    assert.equal(events.pending, 0);
  });

  test('413 of a single event, and another 4xx, drop the batch and report it', async () => {
    for (const code of [413, 400, 403, 501]) {
      browser.answer = status(code);
      const events = browser.open({ onError });
      assert.equal(await events.track('a'), null);
      assert.equal(events.pending, 0);
    }
    assert.deepEqual(errors, ['some_code', 'some_code', 'some_code', 'some_code']);
  });

  test('a 200 without a receipt is no acknowledgement', async () => {
    browser.answer = () => new Response('<h1>Welcome</h1>');
    const events = browser.open({ onError });
    assert.equal(await events.track('a'), null);
    assert.deepEqual([errors, events.pending], [['bad_response'], 1]);
    browser.answer = accept;
    await clock.pass(1_000);
    assert.equal(events.pending, 0);
  });

  test('a batch has at most 50 events and 60,000 bytes', async () => {
    browser.answer = offline;
    const events = browser.open();
    for (let i = 0; i < 120; i++) void events.track('small');
    for (let i = 0; i < 4; i++) void events.track('large', { text: 'ü'.repeat(12_000) });
    await settle();
    browser.answer = accept;
    browser.requests = [];
    browser.fire('online');
    await settle();
    assert.deepEqual(browser.requests.map(({ batch }) => batch.length), [50, 50, 22, 2]);
    for (const request of browser.requests) assert.ok(Buffer.byteLength(JSON.stringify(request)) < 65_536);
  });

  test('an event over 32 KiB is refused before it is queued', async () => {
    const events = browser.open({ onError });
    assert.equal(await events.track('a', { text: 'x'.repeat(32_768) }), null);
    assert.deepEqual([errors, events.pending, browser.requests.length], [['event_too_large'], 0, 0]);
  });

  test('of more than 500 events the oldest are dropped', async () => {
    browser.answer = offline;
    const events = browser.open({ onError });
    for (let i = 0; i < 500; i++) void events.track(`e${i}`);
    await settle();
    assert.deepEqual([events.pending, errors], [500, []]);
    void events.track('e500');
    assert.deepEqual([events.pending, errors], [500, ['queue_overflow']]);
    const stored = JSON.parse(browser.storage[keys()[0]!]!);
    assert.deepEqual([stored.queue[0].event, stored.queue.at(-1).event], ['e1', 'e500']);
  });

  test('an event older than 24 hours is dropped before it is sent', async () => {
    browser.answer = offline;
    const events = browser.open({ onError });
    await events.track('old');
    for (let i = 0; i < 24 * 120 + 1; i++) await clock.pass(30_000);
    assert.deepEqual([events.pending, errors], [0, ['expired']]);
  });

  test('the queue of a closed page is adopted after 30 s, and nothing is lost', async () => {
    browser.answer = offline;
    await browser.open().track('of the closed page');
    const left = keys()[0]!;
    clock.stop(); // the timers of the closed page end
    clock = fakeClock();
    browser.answer = accept;
    browser.requests = [];
    const second = browser.open();
    await settle();
    assert.deepEqual([keys(), browser.requests.length], [[left], 0]);
    await clock.pass(29_999);
    assert.equal(browser.requests.length, 0);
    await clock.pass(1);
    assert.deepEqual(browser.sent.map(({ event }) => event), ['of the closed page']);
    assert.deepEqual([keys(), second.pending], [[], 0]);
  });

  test('a page that is alive keeps its queue', async () => {
    browser.answer = offline;
    const first = browser.open();
    await first.track('a');
    browser.open();
    for (let i = 0; i < 10; i++) await clock.pass(10_000);
    assert.equal(first.pending, 1);
    assert.equal(keys().length, 1);
  });

  test('a page looks for idle queues every 10 s, however many pages are alive', async () => {
    let scans = 0;
    Object.defineProperty(browser, 'storage', { value: new Proxy({} as Record<string, string>, { ownKeys: (all) => (scans++, Reflect.ownKeys(all)) }) });
    const beat = () => {
      for (const name of ['px:track_demo:0.1', 'px:track_demo:0.2', 'px:track_demo:0.3']) browser.storage[name] = JSON.stringify({ at: Date.now(), queue: [] });
    };
    beat();
    browser.open();
    for (let i = 0; i < 60; i++) {
      await clock.pass(10_000);
      beat();
    }
    assert.equal(scans, 61);
  });

  for (const text of ['', '{', 'null', '[]', '{"at":1,"queue":7}', '{"queue":[null,{}]}', '{"at":"x","queue":[{"a":1}]}']) {
    test(`the malformed stored queue ${text} is deleted`, async () => {
      browser.storage['px:track_demo:0.5'] = text;
      browser.storage['px:track_other:0.5'] = text;
      const events = browser.open();
      await settle();
      assert.deepEqual([keys(), events.pending, browser.requests.length], [['px:track_other:0.5'], 0, 0]);
    });
  }

  test('where storage is full or blocked, the queue stays in memory', async () => {
    browser.answer = offline;
    Object.defineProperty(browser, 'storage', { value: new Proxy({}, { set: () => { throw new Error('QuotaExceededError'); } }) });
    const events = browser.open();
    await events.track('a');
    assert.equal(events.pending, 1);
    const none = browser.open({ storage: 'none' });
    await none.track('b');
    assert.deepEqual([none.pending, keys()], [1, []]);
  });

  test('a hidden page, and a page that ends, send a beacon with everything that is not acknowledged', async () => {
    browser.answer = offline;
    const events = browser.open();
    await events.track('a');
    await events.identify('u1');
    browser.fire('pagehide');
    Object.assign(document, { hidden: true });
    browser.fire('visibilitychange');
    const names = browser.beacons.map(({ trackingId, batch }) => [trackingId, ...batch.map(({ type }) => type)]);
    assert.deepEqual(names, [['track_demo', 'track', 'identify'], ['track_demo', 'track', 'identify']]);
  });

  test('a beacon that the browser refuses is tried with fewer events', async () => {
    browser.answer = offline;
    const events = browser.open();
    for (let i = 0; i < 8; i++) await events.track(`e${i}`);
    const tried: number[] = [];
    Object.assign(navigator, { sendBeacon: (_: string, body: string) => tried.push(JSON.parse(body).batch.length) >= 3 });
    browser.fire('pagehide');
    assert.deepEqual(tried, [8, 4, 2]);
  });

  test('flushMs collects events', async () => {
    const events = browser.open({ flushMs: 200 });
    const receipts = [events.track('a'), events.track('b')];
    await clock.pass(199);
    assert.equal(browser.requests.length, 0);
    await clock.pass(1);
    assert.deepEqual(browser.requests.map(({ batch }) => batch.length), [2]);
    assert.equal((await receipts[0])!.accepted, 2);
  });
});
