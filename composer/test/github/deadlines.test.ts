// Without HTTP: the timers of Node's `fetch` fail under a clock that jumps.
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { type GitHubError, githubStorage } from '../../src/server/index.js';
import { TOKEN } from './fake-github.js';
import { NOW, failure } from './site.js';

test('a wait of five seconds is made, and a longer one is not', async () => {
  for (const [seconds, code] of [
    ['5', 'timeout'],
    ['6', 'rate_limited'],
  ] as const) {
    const { error, ms } = await withoutTime(
      (fetch) => githubStorage({ repository: 'Acme/site', token: TOKEN, fetch, now: () => NOW }).list(),
      (n) => (n === 0 ? new Response('{}', { status: 429, headers: { 'retry-after': seconds } }) : null),
    );
    assert.equal(error.code, code);
    if (code === 'rate_limited') assert.equal(ms, 0);
  }
});

test('a GitHub that is silent, and a token that never arrives, end with the deadline of the call', async () => {
  const silent = await withoutTime(
    (fetch) => githubStorage({ repository: 'Acme/site', token: TOKEN, fetch }).list(),
    () => null,
  );
  assert.equal(silent.error.code, 'timeout');
  assert.ok(silent.ms > 55_000 && silent.ms <= 61_000, String(silent.ms));
  const token = () => new Promise<string>(() => {});
  const waiting = await withoutTime(
    (fetch) => githubStorage({ repository: 'Acme/site', token, fetch }).list(),
    () => null,
  );
  assert.deepEqual([waiting.error.code, waiting.ms], ['no_token', 60_000]);
});

/** Runs a call while time runs without waiting. `answer` gives the response to request `n`, or null for silence until the abort. */
async function withoutTime(call: (fetch: typeof globalThis.fetch) => Promise<unknown>, answer: (n: number) => Response | null) {
  mock.timers.enable({ apis: ['setTimeout', 'Date'], now: NOW });
  let n = 0;
  const fetch = ((_: URL, init: RequestInit) => {
    const response = answer(n++);
    if (response) return Promise.resolve(response);
    return new Promise((_, reject) => init.signal!.addEventListener('abort', () => reject(new Error('aborted'))));
  }) as typeof globalThis.fetch;
  try {
    let error: GitHubError | undefined;
    void failure(call(fetch)).then((one) => (error = one));
    const turn = () => new Promise((resolve) => setImmediate(resolve));
    for (let n = 0; n < 5; n++) await turn();
    let ms = 0;
    for (; !error && ms < 200_000; ms += 500) {
      mock.timers.tick(500);
      for (let n = 0; n < 3; n++) await turn();
    }
    assert.ok(error, 'the call ends');
    return { error, ms };
  } finally {
    mock.timers.reset();
  }
}
