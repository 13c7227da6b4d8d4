// The rules in memory: their age, their replacement, and panics of the module.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import type { ParallaxError } from '../../src/errors.js';
import { RULES_FRESH_MS, RULES_LAST_MS, RULES_MS, RULES_SECONDS } from '../../src/limits.js';
import { createRules } from '../../src/local/rules.js';
import type { Decider } from '../../src/local/decider.js';
import { createLocalClient } from '../../src/local.js';
import { TRAPPING_MODULE } from './trapping.js';

let errors: string[];
let requests: (string | null)[];
/** The answer of Edge to each request. */
let answer: (etag: string | null) => Response | Promise<Response>;
const opened: string[] = [];

beforeEach(() => {
  errors = [];
  requests = [];
  opened.length = 0;
  answer = (etag) => (etag === '"1"' ? new Response(null, { status: 304 }) : rulesOf('1'));
});
afterEach(() => mock.timers.reset());

const rulesOf = (version: string) => new Response(version, { headers: { etag: `"${version}"` } });
const refused = (status: number, code: string) => Response.json({ code, detail: code }, { status });

/** A decider whose rules are the text of their version. It refuses `bad`. */
function deciderOf(): Decider {
  let version: string | null = null;
  return {
    get version() {
      return version;
    },
    open(rules) {
      const text = new TextDecoder().decode(rules);
      if (text === 'bad') throw new Error('refused');
      opened.push(text);
      version = text;
    },
    clear: () => (version = null),
    decide: () => version,
  };
}

function start(seconds = RULES_SECONDS) {
  const fetching = async (_url: unknown, init?: RequestInit) => {
    const etag = new Headers(init?.headers).get('if-none-match');
    requests.push(etag);
    return answer(etag);
  };
  const report = (error: ParallaxError) => errors.push(error.code ?? error.message);
  return createRules({ url: 'http://edge/v1/rules', seconds, fetch: fetching as typeof fetch, report, succeeded() {} }, async () => deciderOf());
}
const settle = async () => {
  for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
};

test('rules of one hour decide, older ones only if Edge fails, and those of a day no more', async () => {
  mock.timers.enable({ apis: ['Date', 'setTimeout'] });
  const rules = start();
  await rules.refresh();
  answer = () => Promise.reject(new Error('down'));
  const pass = (toMs: number) => mock.timers.setTime(toMs);
  const usable = () => [rules.usable() !== null, rules.usable(true) !== null];
  for (const [ageMs, expected] of [
    [RULES_FRESH_MS - 1, [true, true]],
    [RULES_FRESH_MS, [false, true]],
    [RULES_FRESH_MS + 1, [false, true]],
    [RULES_LAST_MS - 1, [false, true]],
    [RULES_LAST_MS, [false, false]],
    [RULES_LAST_MS + 1, [false, false]],
  ] as const) {
    pass(ageMs);
    assert.deepEqual(usable(), expected, String(ageMs));
  }
});

test('the rules are requested again with their ETag, by the timer and by a request that finds them due', async () => {
  mock.timers.enable({ apis: ['Date', 'setTimeout'] });
  const rules = start();
  rules.refreshIfDue();
  await settle();
  rules.refreshIfDue(); // not due
  assert.deepEqual(requests, [null]);
  mock.timers.tick(RULES_SECONDS * 1000);
  await settle();
  assert.deepEqual([requests, opened], [[null, '"1"'], ['1']]);
  rules.close();
  mock.timers.tick(RULES_SECONDS * 1000);
  rules.refreshIfDue();
  await rules.refresh();
  assert.deepEqual([requests.length, rules.usable()], [2, null]);
});

test('a refresh is given to waitUntil', async () => {
  const works: Promise<unknown>[] = [];
  const rules = start();
  rules.refreshIfDue((work) => works.push(work));
  await Promise.all(works);
  assert.deepEqual([works.length, rules.usable()!.version], [1, '1']);
  rules.close();
});

test('a request for the rules ends at its deadline, and the next one begins after refreshSeconds', async () => {
  mock.timers.enable({ apis: ['Date', 'setTimeout'] });
  const silent: typeof fetch = (_url, init) => new Promise((_, reject) => init!.signal!.addEventListener('abort', () => reject(init!.signal!.reason)));
  const reported: string[] = [];
  const options = { url: 'http://edge/v1/rules', seconds: RULES_SECONDS, fetch: silent, report: ({ message }: ParallaxError) => reported.push(message), succeeded() {} };
  const rules = createRules(options, async () => deciderOf());
  void rules.refresh();
  await settle();
  for (const [tickMs, count] of [[RULES_MS - 1, 0], [1, 1], [1, 1]] as const) {
    mock.timers.tick(tickMs);
    await settle();
    assert.equal(reported.length, count);
  }
  assert.match(reported[0]!, /No response .* timeout of 10000 ms/);
  rules.close();
});

test('the answer to an earlier request does not replace that to a later one', async () => {
  const rules = start();
  let late = (_response: Response) => {};
  answer = () => new Promise((resolve) => (late = resolve));
  const first = rules.refresh();
  await settle();
  answer = () => rulesOf('2');
  await rules.refresh();
  late(rulesOf('1'));
  await first;
  assert.deepEqual([opened, rules.usable()!.version], [['2'], '2']);
  rules.close();
});

test('with 404 the rules are forgotten, and a later publication brings them back', async () => {
  const rules = start();
  await rules.refresh();
  answer = () => refused(404, 'rules_not_published');
  await rules.refresh();
  assert.deepEqual([rules.usable(), rules.usable(true), errors], [null, null, ['rules_not_published']]);
  answer = () => rulesOf('3');
  await rules.refresh();
  assert.deepEqual([requests, rules.usable()!.version], [[null, '"1"', null], '3']);
  rules.close();
});

test('a failure keeps the rules', async () => {
  const rules = start();
  await rules.refresh();
  answer = () => refused(503, 'overloaded');
  await rules.refresh();
  answer = () => Promise.reject(Object.assign(new Error('fetch failed'), { cause: { code: 'ECONNREFUSED' } }));
  await rules.refresh();
  assert.deepEqual([rules.usable()!.version, errors], ['1', ['overloaded', 'network']]);
  rules.close();
});

test('rules that the module refuses are requested once, and those before decide only if Edge fails', async () => {
  const rules = start();
  await rules.refresh();
  answer = (etag) => (etag === '"bad"' ? new Response(null, { status: 304 }) : rulesOf('bad'));
  await rules.refresh();
  await rules.refresh();
  assert.deepEqual([requests, errors], [[null, '"1"', '"bad"'], ['refused']]);
  assert.deepEqual([rules.usable(), rules.usable(true)!.version], [null, '1']);
  rules.close();
});

test('after a panic Edge decides, and the next decision has a new instance with the rules', async () => {
  const reported: string[] = [];
  const edge = async (url: unknown) =>
    String(url).includes('/v1/rules') ? rulesOf('7') : Response.json({ type: 'decision', variants: 'hero:edge' });
  const client = createLocalClient({ edgeUrl: 'http://edge', trackingId: 'track_demo', fetch: edge as typeof fetch, module: TRAPPING_MODULE, onError: ({ code, message }) => reported.push(`${code} ${message}`) });
  await client.refresh();
  assert.equal(client.rulesVersion, '7');
  for (let i = 0; i < 3; i++) assert.equal(((await client.variants('/', {})).data as { variants: string }).variants, 'hero:edge');
  assert.equal(client.rulesVersion, '7');
  assert.deepEqual(reported, ['module_failed The module that decides stopped: the panic of a test']);
  client.close();
});
