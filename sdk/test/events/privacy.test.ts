import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { Browser, accept, fakeClock, offline, settle } from './page.js';

const pendingCookie = (browser: Browser) => {
  const value = browser.cookies.get('px_events');
  return value && JSON.parse(Buffer.from(value, 'base64').toString());
};

describe('consent, preview and the visitor ID', () => {
  let clock: ReturnType<typeof fakeClock>;
  let browser: Browser;
  beforeEach(() => {
    clock = fakeClock();
    browser = new Browser();
  });
  afterEach(() => clock.stop());

  test('the ID of the cookie is that of the events, and a minted one is set for 400 days', async () => {
    browser.cookies.set('visitor', 'known-1');
    const known = browser.open({ cookie: 'visitor' });
    await known.track('a');
    assert.deepEqual([known.anonId(), browser.sent[0]!.anonId], ['known-1', 'known-1']);
    browser.cookies.set('visitor', 'undefined');
    const minted = browser.open({ cookie: 'visitor' }).anonId();
    assert.match(minted!, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.equal(browser.cookies.get('visitor'), minted);
  });

  test('where cookies are blocked, all events of a page have one ID', async () => {
    browser.cookies.set = () => browser.cookies;
    const events = browser.open();
    await events.track('a');
    await events.track('b');
    assert.ok(browser.sent[0]!.anonId);
    assert.equal(browser.sent[0]!.anonId, browser.sent[1]!.anonId);
  });

  const TABLE: [string, boolean, number][] = [['1', true, 1], ['p', true, 0], ['m', true, 1], ['0', false, 0]];
  for (const [text, hasId, sent] of TABLE) {
    test(`the consent ${text} decides about ID and events`, async () => {
      browser.cookies.set('px_consent', text);
      const suppressed: unknown[] = [];
      const events = browser.open({ onReceipt: (receipt) => 'suppressed' in receipt && suppressed.push(receipt.suppressed) });
      await events.track('a');
      assert.equal(events.anonId() !== null, hasId);
      assert.equal(browser.cookies.has('anon_id'), hasId);
      assert.equal(browser.sent.length, sent);
      assert.deepEqual(suppressed, sent ? [] : ['no_consent']);
    });
  }

  test('without consent nothing is sent and nothing is set', async () => {
    const events = browser.open({ consentDefault: 'denied' });
    assert.equal(await events.page(), null);
    assert.equal(await events.identify('u1'), null);
    browser.fire('pagehide');
    assert.deepEqual([browser.requests, browser.beacons, [...browser.cookies], Object.keys(browser.storage)], [[], [], [], []]);
  });

  test('consent given later sets the ID and counts the current page alone', async () => {
    const events = browser.open({ consentDefault: 'denied' });
    await events.page({ path: '/earlier' });
    await events.track('earlier');
    await events.page({ path: '/now' });
    events.consent({ personalize: true, measure: true });
    await settle();
    assert.equal(browser.cookies.get('px_consent'), '1');
    assert.deepEqual(browser.sent.map(({ type, properties }) => [type, properties.path]), [['page', '/now']]);
    assert.equal(browser.cookies.get('anon_id'), browser.sent[0]!.anonId);
    events.consent({ measure: true });
    await settle();
    assert.equal(browser.sent.length, 1);
  });

  test('a withdrawal deletes the queues of all pages, the pending events and the ID, and keeps the refusal', async () => {
    browser.answer = offline;
    browser.storage['px:track_demo:0.5'] = JSON.stringify({ at: Date.now(), queue: [] });
    browser.storage['other'] = 'kept';
    const events = browser.open();
    await events.track('a');
    assert.equal(events.pending, 1);
    events.consent({ personalize: false, measure: false });
    assert.deepEqual([events.pending, Object.keys(browser.storage), [...browser.cookies]], [0, ['other'], [['px_consent', '0']]]);
    browser.answer = accept;
    await clock.pass(60_000);
    assert.equal(browser.requests.length, 1);
  });

  test('a refusal in another tab stops the queue before its next request', async () => {
    browser.answer = offline;
    const events = browser.open();
    await events.track('a');
    browser.cookies.set('px_consent', 'p');
    browser.answer = accept;
    for (const name of Object.keys(browser.storage)) delete browser.storage[name]; // as the other tab does
    for (let i = 0; i < 6; i++) await clock.pass(10_000);
    browser.fire('pagehide');
    assert.deepEqual([browser.requests.length, browser.beacons.length, Object.keys(browser.storage)], [1, 0, []]);
    await events.track('b');
    assert.deepEqual([events.pending, browser.cookies.has('px_events')], [0, false]);
  });

  test('a refusal counts where the browser refuses its cookie', async () => {
    browser.cookies.set = () => browser.cookies;
    const events = browser.open();
    events.consent({ measure: false, personalize: false });
    await events.track('a');
    assert.equal(browser.requests.length, 0);
  });

  test('the consent function of a site wins over the cookie, which is not written', async () => {
    let measure = false;
    const events = browser.open({ consent: () => ({ personalize: true, measure }) });
    await events.page();
    assert.equal(browser.requests.length, 0);
    measure = true;
    events.consent({ measure: true });
    await settle();
    assert.deepEqual([browser.sent.length, browser.cookies.has('px_consent')], [1, false]);
  });

  test('Global Privacy Control refuses both consents where the site honors it', async () => {
    browser.hasGpc = true;
    const honored = browser.open({ honorGpc: true });
    await honored.track('a');
    honored.consent({ measure: true });
    await honored.track('a');
    assert.deepEqual([browser.requests.length, honored.anonId()], [0, null]);
    await browser.open().track('a');
    assert.equal(browser.requests.length, 1);
  });

  test('a preview sends nothing and mints no ID', async () => {
    const inFrame = () => {
      const events = browser.open({ previewOrigins: ['https://composer.example'] });
      Object.assign(globalThis, { top: {} });
      Object.assign(location, { ancestorOrigins: ['https://composer.example'] });
      return events;
    };
    const draft = browser.open();
    draft.shown({ variants: '', preview: true });
    const previews = [browser.open({ preview: () => true }), browser.open({}, 'https://shop.example/?px-preview'), draft];
    for (const events of [...previews.slice(0, 1), draft]) assert.equal(await events.page(), null);
    assert.equal(await browser.open({}, 'https://shop.example/?px-preview').track('a'), null);
    const framed = inFrame();
    assert.equal(await framed.track('a'), null);
    assert.deepEqual([framed.anonId(), browser.requests, [...browser.cookies]], [null, [], []]);
    Object.assign(location, { ancestorOrigins: ['https://composer.example.evil.com'] });
    assert.notEqual(await framed.track('a'), null);
  });

  test('nothing is sent in development without `dev`', async () => {
    for (const host of ['localhost:3000', 'shop.localhost', '127.0.0.1:8080', '[::1]:3000']) {
      assert.equal(await browser.open({}, `http://${host}/`).track('a'), null);
    }
    assert.equal(browser.requests.length, 0);
    assert.notEqual(await browser.open({ dev: 'send' }, 'http://localhost:3000/').track('a'), null);
    assert.notEqual(await browser.open({}, 'https://notlocalhost/').track('a'), null);
  });

  test('reset begins a new visitor: its events carry neither the old ID nor the old decision, and those of the old one are kept', async () => {
    browser.answer = offline;
    let resets = 0;
    const events = browser.open({ onReset: () => resets++ });
    browser.cookies.set('px_experiments', '12345678.front%3Ab');
    events.shown({ variants: 'hero:b', experiments: 'front:b' });
    await events.track('before');
    const before = events.anonId();
    assert.equal(pendingCookie(browser).batch[0].anonId, before);
    events.reset();
    assert.deepEqual([resets, events.pending, [...browser.cookies.keys()]], [1, 1, ['anon_id']]);
    const after = events.anonId();
    assert.notEqual(after, before);
    browser.answer = accept;
    await events.track('after');
    await clock.pass(60_000);
    const sent = browser.sent.slice(1).map(({ event, anonId, experiments = null }: any) => [event, anonId, experiments]);
    assert.deepEqual(sent, [['before', before, 'front:b'], ['after', after, null]]);
    assert.equal(events.pending, 0);
  });

  test('without consent reset mints no ID', () => {
    const events = browser.open({ consentDefault: 'denied' });
    events.reset();
    assert.equal(browser.cookies.has('anon_id'), false);
  });

  test('a sign-out in another tab ends the ID and the decision of this page', async () => {
    const events = browser.open();
    events.anonId();
    events.shown({ variants: 'hero:b', experiments: 'front:b' });
    browser.cookies.set('anon_id', 'minted-by-the-other-tab');
    await events.track('a');
    const [{ anonId, variants, experiments }] = browser.sent as any[];
    assert.deepEqual([anonId, variants, experiments], ['minted-by-the-other-tab', undefined, undefined]);
    browser.cookies.delete('anon_id');
    assert.notEqual(events.anonId(), 'minted-by-the-other-tab');
  });

  test('a silent server delays no page by more than 300 ms: the event is kept and on its way', async () => {
    let isSettled = false;
    browser.answer = () => new Promise(() => {});
    const events = browser.open();
    const sent = events.identify('user-7', { plan: 'member' }).then((receipt) => {
      isSettled = true;
      return receipt;
    });
    await clock.pass(299);
    assert.deepEqual([isSettled, browser.requests.length], [false, 1]);
    await clock.pass(1);
    assert.deepEqual([isSettled, await sent, events.pending], [true, null, 1]);
    assert.match(Object.values(browser.storage).join(), /"user-7"/);
  });

  test('the newest page and track events that are not acknowledged are in a cookie for the next page', async () => {
    browser.answer = offline;
    const events = browser.open();
    await events.track('Größe gewählt');
    const { sentAt, batch } = pendingCookie(browser);
    assert.ok(sentAt);
    assert.deepEqual(batch[0], browser.sent[0]);
    await events.identify('u1', { email: 'ana@example.com' });
    assert.deepEqual(pendingCookie(browser).batch.map(({ type }: any) => type), ['track']);
    for (let i = 0; i < 6; i++) await events.track(`e${i}`);
    assert.ok(browser.cookies.get('px_events')!.length <= 1500);
    assert.equal(pendingCookie(browser).batch.at(-1).event, 'e5');
    await events.track('too long for a cookie', { text: 'x'.repeat(2000) });
    assert.equal(browser.cookies.has('px_events'), false);
    browser.answer = accept;
    await clock.pass(60_000);
    assert.deepEqual([events.pending, browser.cookies.has('px_events')], [0, false]);
  });
});
