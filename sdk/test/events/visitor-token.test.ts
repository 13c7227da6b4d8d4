// The cookie of the visitor token in a page.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { VISITOR_TOKEN_SECONDS } from '../../src/limits.js';
import { Browser, accept, fakeClock, offline, settle, status } from './page.js';

let browser: Browser;
let clock: ReturnType<typeof fakeClock>;
let queries: string[];
/** The token of the next receipts. Undefined: a server that gives none. */
let token: string | null | undefined;

beforeEach(() => {
  browser = new Browser();
  clock = fakeClock();
  queries = [];
  token = 'first';
  browser.answer = async (sent) => Response.json({ ...(await (await accept(sent)).json()), visitorToken: token });
});
afterEach(() => clock.stop());

/** Opens a page that keeps the token, and notes the query strings of its requests. */
function open(options = {}, href?: string) {
  const events = browser.open({ visitorToken: true, ...options }, href);
  const send = globalThis.fetch;
  Object.assign(globalThis, {
    fetch: (url: string, init: RequestInit) => {
      queries.push(new URL(url).search);
      return send(url, init);
    },
  });
  return events;
}

const cookie = () => browser.cookies.get('px_visitor');

test('the token of a receipt is kept, the next receipt replaces it, and one with null deletes it', async () => {
  const events = open();
  await events.page();
  assert.equal(cookie(), 'first');
  token = 'second';
  await events.track('Tent Bought');
  assert.equal(cookie(), 'second');
  token = null;
  await events.track('Tent Bought');
  assert.equal(cookie(), undefined);
  assert.deepEqual(queries, Array(3).fill('?visitor=1'));
});

test('from an event to its receipt the token is marked', async () => {
  const events = open();
  await events.page();
  const sent = events.track('Tent Bought');
  assert.equal(cookie(), '~first');
  token = 'second';
  await sent;
  assert.equal(cookie(), 'second');
});

test('the cookie is set before the promise of the event resolves, and before onReceipt', async () => {
  const seen: (string | undefined)[] = [];
  const events = open({ onReceipt: () => seen.push(cookie()) });
  await events.page();
  assert.deepEqual([seen, cookie()], [['first'], 'first']);
});

test('the mark stays after a failed send, while another event waits, and until the retry has a receipt', async () => {
  const events = open();
  await events.page();
  const answer = browser.answer;
  browser.answer = offline;
  await events.track('Tent Bought');
  assert.equal(cookie(), '~first');
  await clock.pass(500);
  assert.equal(cookie(), '~first');
  browser.answer = answer;
  token = 'second';
  await clock.pass(31_000);
  assert.deepEqual([cookie(), events.pending], ['second', 0]);
});

test('a refused event leaves the mark for the next receipt', async () => {
  const events = open();
  await events.page();
  const answer = browser.answer;
  browser.answer = status(400);
  await events.track('Tent Bought');
  assert.equal(cookie(), '~first');
  browser.answer = answer;
  await events.page();
  assert.equal(cookie(), 'first');
});

test('a receipt of one event marks the token while another event has none', async () => {
  const events = open();
  await events.page();
  const receipts: (() => void)[] = [];
  const answer = browser.answer;
  browser.answer = async (sent) => {
    await new Promise<void>((resolve) => receipts.push(resolve));
    return answer(sent);
  };
  void events.track('One');
  void events.track('Two');
  await settle();
  token = 'second';
  receipts[0]!();
  await settle();
  assert.equal(cookie(), '~second');
  token = 'third';
  receipts[1]!();
  await settle();
  assert.equal(cookie(), 'third');
});

test('a receipt after a change of the cookie by another tab marks the token', async () => {
  const events = open();
  await events.page();
  const answer = browser.answer;
  browser.answer = (sent) => {
    browser.cookies.set('px_visitor', 'of-another-tab');
    return answer(sent);
  };
  await events.track('Tent Bought');
  assert.equal(cookie(), '~first');
  browser.answer = answer;
  await events.track('Tent Bought');
  assert.equal(cookie(), 'first');
});

test('events at the end of a page go by a beacon, and the token stays marked until the next page has sent them again', async () => {
  const events = open();
  await events.page();
  browser.answer = offline;
  void events.track('Tent Bought');
  await settle();
  browser.fire('pagehide');
  assert.deepEqual([browser.beacons.length, cookie()], [1, '~first']);
  browser.answer = async (sent) => Response.json({ ...(await (await accept(sent)).json()), visitorToken: 'second' });
  const next = open();
  await next.page();
  assert.equal(cookie(), '~second'); // the event of the page before has no receipt yet
  await clock.pass(45_000); // the queue of the page before is adopted
  assert.equal(cookie(), 'second');
});

test('reset deletes the token, and a receipt for the visitor before sets none', async () => {
  const events = open();
  await events.page();
  let receive = () => {};
  const answer = browser.answer;
  browser.answer = async (sent) => {
    await new Promise<void>((resolve) => (receive = resolve));
    return answer(sent);
  };
  void events.track('Tent Bought');
  await settle();
  events.reset();
  assert.equal(cookie(), undefined);
  receive();
  await settle();
  assert.equal(cookie(), undefined);
  browser.answer = answer;
  token = 'of-the-next';
  await events.page();
  assert.equal(cookie(), 'of-the-next');
});

test('without consent to personalize no token is requested, and a withdrawal deletes it', async () => {
  const events = open();
  await events.page();
  events.consent({ personalize: false });
  assert.equal(cookie(), undefined);
  await events.page();
  assert.deepEqual([cookie(), queries], [undefined, ['?visitor=1', '']]);
});

test('a receipt that arrives after a withdrawal sets no token', async () => {
  const events = open();
  const answer = browser.answer;
  browser.answer = (sent) => {
    events.consent({ personalize: false });
    return answer(sent);
  };
  await events.page();
  assert.equal(cookie(), undefined);
});

test('without the option, and for a server that gives no token, nothing is requested and nothing is kept', async () => {
  token = undefined;
  await open({ visitorToken: false }).page();
  await open().page();
  assert.deepEqual([cookie(), queries], [undefined, ['', '?visitor=1']]);
});

test('the cookie lives for a day, and has the domain of the ID cookie', async () => {
  const written: string[] = [];
  const events = open({ cookieDomain: 'shop.example' });
  const document = globalThis.document as { cookie: string };
  const { get, set } = Object.getOwnPropertyDescriptor(document, 'cookie')!;
  Object.defineProperty(document, 'cookie', { get, set: (text: string) => (written.push(text), set!.call(document, text)), configurable: true });
  await events.page();
  const kept = written.filter((text) => text.startsWith('px_visitor=first'));
  assert.deepEqual(kept, [`px_visitor=first; Path=/; SameSite=Lax; Max-Age=${VISITOR_TOKEN_SECONDS}; Domain=shop.example; Secure`]);
});
