import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { createBreaker } from '../../src/breaker.js';
import { createClient } from '../../src/client.js';
import { createDecide } from '../../src/decide.js';

const DECISION = { type: 'decision', variants: 'hero:b', selected: {}, experiments: '' };

/** A client of an Edge that answers as `edge` says. Counts the requests. */
function clientOf(edge: { answer: () => Promise<Response> | Response }) {
  const count = { requests: 0 };
  const fake = async (_url: unknown, init?: RequestInit) => {
    count.requests += 1;
    return Promise.race([edge.answer(), new Promise<never>((_, reject) => init!.signal!.addEventListener('abort', () => reject(new Error('aborted'))))]);
  };
  return { count, client: createClient({ edgeUrl: 'http://edge', trackingId: 'track_demo', fetch: fake as typeof fetch }) };
}
const ok = () => Response.json(DECISION, { headers: { 'x-version': '7' } });
const refused = () => Response.json({ code: 'invalid_anon_id' }, { status: 400 });
const down = () => Promise.reject(new Error('connection refused'));
const silent = () => new Promise<Response>(() => {});

test('a decision names the combination and the version', async () => {
  const choice = await createDecide(clientOf({ answer: ok }).client)('/', {});
  assert.deepEqual([choice.variants, choice.version, choice.error], ['hero:b', '7', null]);
});

test('a silent Edge gives the baseline at the deadline, and nothing later', async () => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  try {
    const { client, count } = clientOf({ answer: silent });
    let choice: { variants: string; error: { code: string } | null } | undefined;
    void createDecide(client)('/', {}).then((value) => (choice = value));
    const turn = () => new Promise((resolve) => setImmediate(resolve));
    mock.timers.tick(149);
    await turn();
    assert.equal(choice, undefined);
    mock.timers.tick(1);
    await turn();
    assert.deepEqual([choice!.variants, choice!.error!.code, count.requests], ['', 'timeout', 1]);
  } finally {
    mock.timers.reset();
  }
});

test('after 3 failures no request reaches Edge for 2 s, then one probe, and its success closes the breaker', async () => {
  mock.timers.enable({ apis: ['Date'] });
  try {
    const edge = { answer: down as () => Promise<Response> | Response };
    const { client, count } = clientOf(edge);
    const decide = createDecide(client);
    for (let i = 0; i < 3; i++) assert.equal((await decide('/', {})).error!.code, 'network');
    assert.equal(count.requests, 3); // one try each
    mock.timers.tick(1999);
    assert.deepEqual([(await decide('/', {})).variants, count.requests], ['', 3]);
    mock.timers.tick(1001);
    edge.answer = silent;
    const probe = decide('/', {}, { timeoutMs: 20 });
    const others = await Promise.all([decide('/', {}), decide('/', {})]);
    assert.deepEqual([others.map(({ variants }) => variants), count.requests], [['', ''], 4]);
    assert.equal((await probe).error!.code, 'timeout'); // the breaker opens again
    await decide('/', {});
    assert.equal(count.requests, 4);
    mock.timers.tick(3000);
    edge.answer = ok;
    assert.equal((await decide('/', {})).variants, 'hero:b');
    assert.equal((await decide('/', {})).variants, 'hero:b');
    assert.equal(count.requests, 6);
  } finally {
    mock.timers.reset();
  }
});

test('refusals, and visitors who go away, do not open the breaker', async () => {
  const { client, count } = clientOf({ answer: refused });
  const decide = createDecide(client);
  for (let i = 0; i < 5; i++) assert.equal((await decide('/', { anonId: ' ' })).error!.code, 'invalid_anon_id');
  for (let i = 0; i < 5; i++) await decide('/', {}, { signal: AbortSignal.abort(new Error('gone')) });
  await decide('/', {});
  assert.equal(count.requests, 6);
});

test('a visitor who sends too many requests does not open the breaker for the others', async () => {
  const { client, count } = clientOf({ answer: () => Response.json({ code: 'rate_limited', status: 429 }, { status: 429 }) });
  const decide = createDecide(client);
  for (let i = 0; i < 5; i++) assert.equal((await decide('/', {})).error!.status, 429);
  assert.equal(count.requests, 5);
});

test('a call that began before the breaker opened does not close it', () => {
  const breaker = createBreaker(2, [1000, 1000]);
  const early = breaker.enter()!;
  breaker.enter()!(false);
  breaker.enter()!(false);
  early(true);
  assert.equal(breaker.enter(), null);
});
