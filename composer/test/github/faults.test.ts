import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { GitHubError, Save } from '../../src/server/index.js';
import { type FakeGitHub, type Fault, OWNER, TOKEN, problem } from './fake-github.js';
import { HOME, NOW, SITE, assertConsistent, change, edit, etagOf, failure, githubWith, isMutation, saveOf, storageOf } from './site.js';

const SAVE: Save = saveOf(edit('mine'), change('routes/new.json', '{}', null), change('tests/front.json', null, '[]'));
/** The requests of this save: repository, branch, tree, two blobs, and four that write. */
const REQUESTS = 9;

/** Asserts that the save is exactly one open pull request, and that the default branch has nothing of it. */
function assertSavedOnce(github: FakeGitHub, revision: string): void {
  assertConsistent(github);
  const open = github.pulls.filter(({ state }) => state === 'open');
  assert.deepEqual(
    open.map(({ sha }) => sha),
    [revision],
  );
  const files = github.files(revision);
  assert.deepEqual([files['routes/index.json'], files['routes/new.json'], files['tests/front.json']], ['mine', '{}', undefined]);
  assert.equal(github.files('main')['routes/index.json'], HOME);
}

/** Asserts that nothing of a failed save is on a branch. */
function assertNotSaved(github: FakeGitHub): void {
  assertConsistent(github);
  assert.deepEqual(Object.keys(github.branches()), ['main']);
  assert.deepEqual(
    github.pulls.filter(({ state }) => state === 'open'),
    [],
  );
}

describe('a save with faults', () => {
  let github: FakeGitHub;
  beforeEach(async () => void (github = await githubWith()));
  afterEach(() => github.stop());

  test('the loops below reach each request', async () => {
    await storageOf(github).save(SAVE);
    assert.equal(github.requests.length, REQUESTS);
    assert.deepEqual(github.requests.map(isMutation), [false, false, false, false, false, true, true, true, true]);
  });

  for (const fault of ['die-before', 'die-after'] as const) {
    for (let n = 0; n < REQUESTS; n++) {
      test(`a connection that ends with ${fault} at request ${n} is one save`, async () => {
        github.fault = (request) => (request.n === n ? fault : undefined);
        const saved = await storageOf(github).save(SAVE);
        assert.equal(saved.kind, 'saved');
        assertSavedOnce(github, saved.revision);
      });
    }
  }

  for (const fault of ['die-before', 'die-after'] as const) {
    for (let n = 0; n < REQUESTS; n++) {
      test(`a network that ends with ${fault} from request ${n} on is no save, and saving again is one save`, async () => {
        const storage = storageOf(github);
        const dead: (request: { n: number }) => Fault = (request) => (request.n === n ? fault : request.n > n ? 'die-before' : undefined);
        github.fault = dead;
        const { code } = await failure(storage.save(SAVE));
        // From the creation of the branch on nobody can know.
        assert.equal(code, n < 7 ? 'unreachable' : 'outcome_unknown');
        if (n < 7) assertNotSaved(github);
        if (n >= 7) assert.equal((await failure(storage.save(SAVE))).code, 'outcome_unknown', 'still no network');
        github.fault = () => undefined;
        const saved = await storage.save(SAVE);
        assert.equal(saved.kind, 'saved');
        assertSavedOnce(github, saved.revision);
      });
    }
  }

  test('a branch that could not be removed is removed by the next save, also by another one', async () => {
    const storage = storageOf(github);
    github.fault = ({ n }) => (n >= 8 ? 'die-before' : undefined);
    await failure(storage.save(SAVE));
    assertConsistent(github, 1);
    github.fault = () => undefined;
    const saved = await storage.save(saveOf(edit('another')));
    assertConsistent(github);
    assert.deepEqual(
      github.pulls.map(({ sha }) => sha),
      [saved.revision],
    );
  });

  test('a pull request that exists after all is found again, also after its merge', async () => {
    for (const isMerged of [false, true]) {
      const mine = saveOf(change(`routes/${isMerged}.json`, '{}', null));
      const storage = storageOf(github);
      let last = Infinity;
      github.fault = ({ n, method, path }) => {
        if (method === 'POST' && path.endsWith('/pulls')) last = Math.min(last, n);
        return n === last ? 'die-after' : n > last ? 'die-before' : undefined;
      };
      assert.equal((await failure(storage.save(mine))).code, 'outcome_unknown');
      github.fault = () => undefined;
      const pull = github.pulls.at(-1)!;
      if (isMerged) assert.ok(github.merge(pull));
      assert.deepEqual(await storage.save(mine), { kind: 'saved', revision: pull.sha, url: `${github.url}/Acme/site/pull/${pull.number}` });
    }
    assert.equal(github.pulls.length, 2);
  });

  const refusals: [number, string, string][] = [
    [401, 'Bad credentials', 'bad_token'],
    [403, 'Resource not accessible by personal access token', 'forbidden'],
    [404, 'Not Found', 'not_found'],
    [409, 'Conflict', 'conflict'],
    [422, 'Validation Failed', 'refused'],
    [422, 'Repository rule violations found\n\nCannot create ref due to creations being restricted.', 'protected'],
    [503, 'Service Unavailable', 'unreachable'],
  ];
  for (const [status, message, code] of refusals) {
    test(`a status ${status} (${code}) at each request that writes is an error, and nothing remains`, async () => {
      for (const end of ['/git/trees', '/git/commits', '/git/refs', '/pulls']) {
        github.fault = ({ method, path }) => (method === 'POST' && path.endsWith(end) ? problem(status, message) : undefined);
        const error = await failure(storageOf(github).save(SAVE));
        assert.deepEqual([error.code, error.status], [code, status]);
        assert.ok(error.message.includes(message.split('\n')[0]!), error.message);
        assert.ok(!error.message.includes('\n'));
        github.pulls.length = 0;
        github.violations.length = 0; // an operation may not have this status
        assertNotSaved(github);
      }
    });
  }

  test('a branch that a person moved is not removed', async () => {
    github.fault = ({ method, path }) => {
      if (method !== 'POST' || !path.endsWith('/pulls')) return undefined;
      github.commit(
        { 'routes/more.json': '{}' },
        Object.keys(github.branches()).find((name) => name.startsWith('composer/')),
      );
      return problem(403, 'no');
    };
    await failure(storageOf(github).save(SAVE));
    assertConsistent(github, 1);
  });

  test('a garbled answer in place of the pull request is no save, and one after it is a save', async () => {
    const isPull = ({ method, path }: { method: string; path: string }) => method === 'POST' && path.endsWith('/pulls');
    github.fault = (request) => (isPull(request) ? { status: 200, text: '<html>' } : undefined);
    assert.equal((await failure(storageOf(github).save(SAVE))).code, 'bad_answer');
    assertNotSaved(github);
    const garbled = (async (url: URL, init: RequestInit) => {
      const response = await fetch(url, init);
      return isPull({ method: init.method!, path: url.pathname }) ? new Response('<html>', { status: 201 }) : response;
    }) as typeof fetch;
    github.fault = () => undefined;
    const saved = await storageOf(github, { fetch: garbled }).save(SAVE);
    assertSavedOnce(github, saved.revision);
  });

  test('random faults, saves, merges and edits keep what was reported', { timeout: 600_000 }, async () => {
    const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);
    console.log(`SEED=${seed}`);
    const random = randomOf(seed);
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;
    const paths = [...Object.keys(SITE), 'routes/new.json', 'content/more.json'];
    let time = NOW;
    const storage = storageOf(github, { now: () => time });
    const model = { ...SITE } as Record<string, string>;
    const merged: Record<string, string | null>[] = [];
    for (let step = 0; step < (process.env.PARALLAX_LONG ? 400 : 30); step++) {
      time += Math.floor(random() * 2) * 1000;
      github.fault = () => undefined;
      const kind = pick(['save', 'save', 'save', 'edit', 'merge', 'list']);
      if (kind === 'edit') {
        const [path, text] = [pick(paths), `by hand ${step}`];
        github.commit({ [path]: text });
        model[path] = text;
      } else if (kind === 'merge') {
        const pull = github.pulls.find(({ state }) => state === 'open');
        if (!pull || !github.merge(pull)) continue;
        const files = github.files('main');
        for (const path of paths) {
          if (path in files) model[path] = files[path]!;
          else delete model[path];
        }
      } else if (kind === 'list') {
        const { files } = await storage.list();
        assert.deepEqual(Object.fromEntries(Object.entries(files).map(([path, { text }]) => [path, text])), model);
      } else {
        const chosen = [...new Set([pick(paths), pick(paths)])];
        const isStale = random() < 0.2;
        const changes = chosen.flatMap((path) => {
          const before = isStale ? 'stale' : (model[path] ?? null);
          const text = random() < 0.2 && before !== null ? null : `text ${step}`;
          return [change(path, text, before)];
        });
        const from = github.requests.length;
        const faults = new Map([0, 1].map(() => [from + Math.floor(random() * 10), pick(['die-before', 'die-after'] as const)]));
        const pulls = github.pulls.length;
        github.fault = ({ n }) => faults.get(n);
        const saved = await storage.save(saveOf(...changes));
        const expected = changes.some(({ path, etag }) => (model[path] === undefined ? null : etagOf(model[path]!)) !== etag)
          ? 'conflict'
          : 'saved';
        assert.equal(saved.kind, expected);
        assert.equal(github.pulls.length, pulls + (expected === 'saved' ? 1 : 0));
        if (saved.kind === 'saved')
          merged.push({ revision: saved.revision, ...Object.fromEntries(changes.map(({ path, text }) => [path, text])) });
      }
      assertConsistent(github);
    }
    assert.ok(merged.length > 0);
    for (const { revision, ...texts } of merged) {
      const files = github.files(revision!);
      for (const [path, text] of Object.entries(texts)) assert.equal(files[path] ?? null, text);
      assert.ok(github.pulls.some(({ sha }) => sha === revision));
    }
  });
});

describe('the limits and refusals of GitHub', () => {
  let github: FakeGitHub;
  beforeEach(async () => void (github = await githubWith()));
  afterEach(() => {
    assertConsistent(github);
    github.stop();
  });

  test('a short rate limit is waited for, also before a write', async () => {
    for (const [status, headers] of [
      [429, { 'retry-after': '1' }],
      [403, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(Math.floor(NOW / 1000) + 1) }],
    ] as const) {
      let refused = 0;
      github.fault = ({ method, path }) =>
        method === 'POST' && path.endsWith('/pulls') && refused++ === 0 ? problem(status, 'API rate limit exceeded', headers) : undefined;
      const began = Date.now();
      assert.equal((await storageOf(github).save(saveOf(edit(`${status}`)))).kind, 'saved');
      assert.ok(Date.now() - began > 400 && refused === 2);
    }
  });

  test('a long one is an error with its time', async () => {
    const in90 = NOW + 90_000;
    const cases: [number, string, Record<string, string>, number][] = [
      [429, 'x', { 'retry-after': '90' }, in90],
      [403, 'You have exceeded a secondary rate limit.', { 'retry-after': new Date(in90).toUTCString() }, Math.floor(in90 / 1000) * 1000],
      [403, 'API rate limit exceeded', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(in90 / 1000) }, in90],
      [403, 'You have exceeded a secondary rate limit.', {}, NOW + 60_000],
      [429, 'x', {}, NOW + 60_000],
      [429, 'x', { 'retry-after': 'soon' }, NOW + 60_000],
      [429, 'x', { 'retry-after': '9'.repeat(40) }, NOW + 60_000],
      [403, 'x', { 'x-ratelimit-remaining': '0' }, NOW + 60_000],
    ];
    for (const [status, message, headers, retryAt] of cases) {
      const before = github.requests.length;
      github.fault = () => problem(status, message, headers);
      const error = await failure(storageOf(github).list());
      assert.deepEqual([error.code, error.retryAt], ['rate_limited', retryAt], JSON.stringify(headers));
      assert.ok(error.message.includes(new Date(retryAt).toISOString()));
      assert.equal(github.requests.length, before + 1, 'no retry');
    }
  });

  test('each refusal says what to do', async () => {
    const cases: [number, string, Record<string, string>, string, RegExp][] = [
      [401, 'Bad credentials', {}, 'bad_token', /refused the token \(GitHub: Bad credentials\).*new one/],
      [
        403,
        'Resource not accessible by integration',
        { 'x-accepted-github-permissions': 'contents=read' },
        'forbidden',
        /permission contents=read/,
      ],
      [403, 'x', { 'x-accepted-oauth-scopes': 'repo', 'x-oauth-scopes': 'gist' }, 'forbidden', /scope repo; it has gist/],
      [
        403,
        'x',
        { 'x-github-sso': 'required; url=https://github.com/orgs/acme/sso?a=1' },
        'forbidden',
        /authorize the token at https:\/\/github\.com\/orgs\/acme\/sso\?a=1/,
      ],
      [403, 'x', {}, 'forbidden', /"contents: write" and "pull requests: write"/],
      [404, 'Not Found', {}, 'not_found', /no GET \/repos\/Acme\/site .*Check the name/],
      [451, 'Repository access blocked', {}, 'not_found', /access blocked/],
      [409, 'Git Repository is empty.', {}, 'conflict', /Git Repository is empty\)\. A repository needs a first commit/],
      [422, `echo ${TOKEN}\u0000\u001b[31m`, {}, 'refused', /echo \[token\] +\[31m\)\.$/],
      [418, 'teapot', {}, 'bad_answer', /status 418/],
    ];
    for (const [status, message, headers, code, says] of cases) {
      github.fault = () => ({ ...problem(status, message, headers), text: JSON.stringify({ message }) });
      const error = await failure(storageOf(github).list());
      assert.deepEqual([error.code, error.status], [code, status]);
      assert.match(error.message, says);
    }
  });

  test('answers that are none are errors', async () => {
    const answers: [string, string][] = [
      ['<html>', 'bad_answer'],
      ['null', 'bad_answer'],
      ['[]', 'bad_answer'],
      ['{"default_branch":1}', 'bad_answer'],
      ['', 'bad_answer'],
    ];
    for (const [text, code] of answers) {
      github.fault = () => ({ status: 200, text });
      assert.equal((await failure(storageOf(github).list())).code, code, text);
    }
    github.fault = () => ({ status: 200, text: `{"default_branch":"main","owner":{"login":"${OWNER}"},"name":"x","commit":{"sha":"../../x"}}` });
    assert.match((await failure(storageOf(github).list())).message, /lacks a SHA-1 at "commit\.sha"/);
  });

  test('an answer of 16 MiB is read, and a larger one is an error', async () => {
    for (const [bytes, says] of [
      [-1, /lacks a text/],
      [0, /lacks a text/],
      [1, /more than 16777216 bytes/],
    ] as const) {
      github.fault = () => ({ status: 200, text: `{${' '.repeat((16 << 20) - 2 + bytes)}}` });
      assert.match((await failure(storageOf(github).list())).message, says);
    }
  });

  test('a token that is none is an error without it', async () => {
    const tokens = [
      '',
      'a b',
      `${TOKEN}\n`,
      'tökén',
      async () => '',
      async () => Promise.reject(new Error(TOKEN)),
      (async () => undefined) as unknown as () => Promise<string>,
    ];
    for (const token of tokens) assert.equal((await failure(storageOf(github, { token }).list())).code, 'no_token');
    assert.equal(github.requests.length, 0);
    let calls = 0;
    await storageOf(github, { token: async () => (calls++, TOKEN) }).list();
    assert.equal(calls, github.requests.length);
  });

  test('options that are none are errors', () => {
    const bad: Partial<Parameters<typeof storageOf>[1]>[] = [
      { repository: 'site' },
      { repository: 'a/b/c' },
      { repository: '../x' },
      { repository: 'a/b?c' },
      { directory: 'a/../b' },
      { directory: 'a//b' },
      { directory: '.' },
      { branch: '' },
      { apiUrl: 'github' },
      { apiUrl: 'ftp://a' },
      { apiUrl: `https://x:${TOKEN}@a` },
      { apiUrl: 'https://a?b' },
    ];
    for (const options of bad) {
      assert.throws(
        () => storageOf(github, options),
        (error: GitHubError) => error.code === 'bad_option' && !error.message.includes(TOKEN),
        JSON.stringify(options),
      );
    }
  });

  test('a read is tried four times', async () => {
    github.fault = ({ path }) => (path.includes('/branches/') ? problem(502, 'Bad Gateway') : undefined);
    assert.equal((await failure(storageOf(github).list())).code, 'unreachable');
    assert.equal(github.requests.filter(({ path }) => path.includes('/branches/')).length, 4);
  });
});

/** mulberry32. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
