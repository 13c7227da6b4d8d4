import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { decisionHash } from '../../src/hash.js';
import { signPreview } from '../../src/signature.js';
import { EXPERIMENTS_CHARS_MAX, NOTIFY_MS } from '../../src/limits.js';
import { withParallax } from '../../src/next/proxy.js';
import { HOST, ROUTES, fakeEdge, siteOf, visit, warm } from './request.js';

/** The calls of the revalidation handler. */
let posts: { url: string; authorization: string | null; version: string }[];
let isHandlerOk: boolean;
/** The version that the handler reads. Undefined: the announced one. */
let handlerVersion: string | undefined;
beforeEach(() => {
  posts = [];
  isHandlerOk = true;
  handlerVersion = undefined;
  mock.method(globalThis, 'fetch', async (url: string, init: RequestInit) => {
    const { version } = JSON.parse(String(init.body));
    posts.push({ url, authorization: new Headers(init.headers).get('authorization'), version });
    return Response.json({ to: handlerVersion ?? version }, { status: isHandlerOk ? 200 : 503 });
  });
  mock.method(console, 'error', () => {});
  mock.method(console, 'warn', () => {});
});
afterEach(() => mock.restoreAll());

test('a page is rewritten to the combination of its visitor, is private, and sets the ID', async () => {
  const { client } = fakeEdge();
  const proxy = withParallax(client, { honorGpc: false });
  const first = await visit(proxy, '/?a=1', { 'sec-fetch-dest': 'document' });
  assert.deepEqual([first.rewritten, first.headers.get('cache-control')], ['/px/hero!de?a=1', 'private, no-cache']);
  assert.match(first.cookies[0]!, /^anon_id=[0-9a-f-]{36}; Path=\/; SameSite=Lax; Max-Age=34560000$/);
  const refused = await visit(proxy, '/', { cookie: 'px_consent=0' });
  assert.deepEqual([refused.rewritten, refused.cookies], ['/px/-', []]);
});

test('the internal path is 404 without the secret', async () => {
  const { client, requests } = fakeEdge();
  const proxy = withParallax(client, { secret: 'key', instanceUrl: HOST });
  for (const path of ['/px', '/px/', '/px/-/tents', '/px/x', '/%70x/-/tents', '/p%78', '/px%2F-']) assert.equal((await visit(proxy, path)).status, 404);
  assert.equal((await visit(proxy, '/px/-', { authorization: 'Bearer other' })).status, 404);
  assert.equal((await visit(proxy, '/px/-', { authorization: 'Bearer key' })).isNext, true);
  assert.equal((await visit(withParallax(client), '/px/-', { authorization: 'Bearer undefined' })).status, 404);
  assert.deepEqual(requests, []);
});

test('a rewritten request that comes back is 404 and logged once', async () => {
  const { client } = fakeEdge();
  const proxy = withParallax(client);
  const { rewritten } = await visit(proxy, '/about');
  for (let i = 0; i < 2; i++) assert.equal((await visit(proxy, rewritten!)).status, 404);
  assert.match(String((console.error as any).mock.calls[0].arguments[0]), /-H localhost/);
  assert.equal((console.error as any).mock.callCount(), 1);
});

test('with a route table, redirects, unknown paths and pages without zones need no call', async () => {
  const edge = fakeEdge();
  const proxy = withParallax(edge.client);
  await warm(proxy);
  const before = edge.requests.length;
  const redirect = await visit(proxy, '/old?x=1');
  assert.deepEqual([redirect.status, redirect.headers.get('location')], [308, `${HOST}/tents?x=1`]);
  assert.equal(redirect.headers.get('cache-control'), 'max-age=0, must-revalidate');
  assert.equal((await visit(proxy, '/away?x=1')).headers.get('location'), 'https://other.example/x?y=1');
  assert.equal((await visit(proxy, '/nothing')).isNext, true);
  assert.equal((await visit(proxy, '/about')).rewritten, '/px/-/about');
  assert.equal(edge.requests.length, before);
});

test('before the table has loaded, Edge is asked about each path, and no request waits for the table', async () => {
  const edge = fakeEdge();
  edge.answer((url) => (url.pathname === '/v1/routes' ? new Promise(() => {}) : undefined));
  const proxy = withParallax(edge.client);
  assert.equal((await visit(proxy, '/old?x=1')).headers.get('location'), `${HOST}/tents?x=1`);
  assert.equal((await visit(proxy, '/nothing')).isNext, true);
  assert.equal((await visit(proxy, '/about')).rewritten, '/px/-/about');
  assert.equal(edge.decisions(), 3);
});

test('until the site is known, Global Privacy Control counts as a refusal', async () => {
  const { client } = fakeEdge();
  const proxy = withParallax(client);
  const first = await visit(proxy, '/', { 'sec-gpc': '1' });
  assert.deepEqual(first.cookies, []);
  await first.after;
  assert.ok((await visit(proxy, '/', { 'sec-gpc': '1' })).cookies.length > 0);
});

test('pages that the site owns are left alone', async () => {
  const edge = fakeEdge();
  const proxy = withParallax(edge.client, { owns: (path) => path === '/är' });
  assert.equal((await visit(proxy, '/%C3%A4r')).isNext, true);
  assert.deepEqual(edge.requests, []);
});

const turns = async () => {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
};
const never = () => new Promise<Response>(() => {});

test('a silent Edge gives the baseline at the deadline', async () => {
  const edge = fakeEdge();
  const proxy = withParallax(edge.client);
  await warm(proxy);
  mock.timers.enable({ apis: ['setTimeout', 'Date'], now: Date.now() });
  try {
    edge.answer((url) => (url.pathname === '/v1/variants' ? never() : undefined));
    let done: string | null | undefined;
    void visit(proxy, '/').then(({ rewritten }) => (done = rewritten));
    await turns();
    mock.timers.tick(149);
    await turns();
    assert.equal(done, undefined);
    mock.timers.tick(1);
    await turns();
    assert.equal(done, '/px/-');
  } finally {
    mock.timers.reset();
  }
});

test('a slow hand-over takes at most two thirds of the one deadline', async () => {
  const edge = fakeEdge();
  const proxy = withParallax(edge.client);
  await warm(proxy);
  edge.requests.length = 0;
  mock.timers.enable({ apis: ['setTimeout', 'Date'], now: Date.now() });
  try {
    edge.answer((url) => (url.pathname === '/v1/batch' || url.pathname === '/v1/variants' ? never() : undefined));
    const batch = [{ type: 'track', messageId: 'm', anonId: 'v1', event: 'E' }];
    const cookie = `anon_id=v1; px_events=${Buffer.from(JSON.stringify({ batch })).toString('base64')}`;
    let done: string | null | undefined;
    void visit(proxy, '/', { cookie }).then(({ rewritten }) => (done = rewritten));
    await turns();
    assert.deepEqual([edge.requests.at(-1), edge.decisions()], ['/v1/batch', 0]);
    mock.timers.tick(100);
    await turns();
    assert.deepEqual([edge.decisions(), done], [1, undefined]);
    mock.timers.tick(49);
    await turns();
    assert.equal(done, undefined);
    mock.timers.tick(1);
    await turns();
    assert.equal(done, '/px/-');
  } finally {
    mock.timers.reset();
  }
});

test('after 3 failures no request reaches Edge for 2 s, then one probe', async () => {
  const edge = fakeEdge();
  const proxy = withParallax(edge.client, { routesSeconds: 3600 });
  await warm(proxy);
  edge.requests.length = 0;
  mock.timers.enable({ apis: ['Date'], now: Date.now() });
  try {
    edge.answer(() => Promise.reject(new TypeError('fetch failed')));
    for (let i = 0; i < 5; i++) assert.equal((await visit(proxy, '/', { cookie: 'anon_id=v1' })).rewritten, '/px/-');
    assert.equal(edge.decisions(), 3);
    mock.timers.tick(1999);
    await visit(proxy, '/');
    assert.equal(edge.decisions(), 3);
    assert.equal((await visit(proxy, '/old')).status, 308); // the table needs no Edge
    edge.answer(undefined);
    mock.timers.tick(1001);
    const [probe, other] = await Promise.all([visit(proxy, '/', { cookie: 'anon_id=v1' }), visit(proxy, '/', { cookie: 'anon_id=v2' })]);
    assert.deepEqual([probe.rewritten, other.rewritten, edge.decisions()], ['/px/hero!de', '/px/-', 4]);
    assert.equal((await visit(proxy, '/', { cookie: 'anon_id=v2' })).rewritten, '/px/hero!de');
  } finally {
    mock.timers.reset();
  }
});

test('the probe after failures is the decision, and not a refresh of the table', async () => {
  const edge = fakeEdge();
  const proxy = withParallax(edge.client, { routesSeconds: 0 });
  await warm(proxy);
  mock.timers.enable({ apis: ['Date'], now: Date.now() });
  try {
    edge.answer(() => Promise.reject(new TypeError('fetch failed')));
    for (let i = 0; i < 5; i++) await (await visit(proxy, '/')).after;
    edge.answer(undefined);
    mock.timers.tick(3001);
    assert.equal((await visit(proxy, '/', { cookie: 'anon_id=v1' })).rewritten, '/px/hero!de');
  } finally {
    mock.timers.reset();
  }
});

test('a crawler gets no cookie', async () => {
  const edge = fakeEdge();
  const decision = { type: 'decision', site: 'test', route: '/', variants: '', selected: {}, experiments: '', crawler: true };
  edge.answer((url) => (url.pathname === '/v1/variants' ? Response.json(decision) : undefined));
  assert.deepEqual((await visit(withParallax(edge.client), '/')).cookies, []);
});

test('the experiments of a page are a cookie with the path of the page', async () => {
  const zones = { variants: { hero: { b: [] } } };
  const edge = fakeEdge({ '/ö': zones, '/a;b': zones });
  const decide = (experiments: string) => Response.json({ type: 'decision', site: 't', route: '/ö', variants: 'hero:b', selected: {}, experiments });
  let experiments = 'front:b';
  edge.answer((url) => (url.pathname === '/v1/variants' ? decide(experiments) : undefined));
  const proxy = withParallax(edge.client, { instanceUrl: 'http://localhost:3000' });
  const named = async (path: string, headers = {}, options = {}) =>
    (await visit(proxy, path, { 'x-forwarded-proto': 'https', ...headers }, options)).cookies.find((text) => text.startsWith('px_experiments')) ?? null;
  assert.match((await named('/%C3%B6'))!, /^px_experiments=[0-9a-f]{8}\.front%3Ab; Path=\/%C3%B6; SameSite=Lax; Max-Age=300; Secure$/);
  assert.match((await named('/base/%C3%B6', {}, { nextConfig: { basePath: '/base' } }))!, /; Path=\/base\/%C3%B6;/);
  assert.equal(await named('/a;b'), null);
  assert.equal(await named('/%C3%B6', { cookie: 'px_consent=p' }), null);
  const overhead = '12345678.'.length;
  for (const [length, isSet] of [[EXPERIMENTS_CHARS_MAX - 1, true], [EXPERIMENTS_CHARS_MAX, true], [EXPERIMENTS_CHARS_MAX + 1, false]] as const) {
    experiments = 'e'.repeat(length - overhead);
    assert.equal((await named('/%C3%B6')) !== null, isSet, String(length));
  }
});

test('the cookie of the experiments is that of one visitor', async () => {
  const proxy = withParallax(fakeEdge().client);
  const hashOf = async (id: string) => (await visit(proxy, '/', { cookie: `anon_id=${id}` })).cookies.find((text) => text.startsWith('px_experiments'))!.slice(15, 23);
  const hashes = [await hashOf('v1'), await hashOf('v2'), await hashOf('v1')];
  assert.deepEqual(hashes, ['v1', 'v2', 'v1'].map((id) => decisionHash('/', 'hero:de', id)));
  assert.notEqual(hashes[0], hashes[1]);
});

test('a page without an experiment expires the cookie of an earlier one', async () => {
  const edge = fakeEdge({ ...ROUTES, '/': { ...ROUTES['/'], arm: undefined } });
  const proxy = withParallax(edge.client, { honorGpc: false });
  const earlier = { cookie: 'anon_id=v1; px_experiments=12345678.front%3Ab' };
  const named = async (path: string, headers = earlier) => (await visit(proxy, path, headers)).cookies.filter((text) => text.startsWith('px_experiments'));
  assert.deepEqual(await named('/'), ['px_experiments=; Path=/; SameSite=Lax; Max-Age=0']);
  assert.deepEqual(await named('/about'), ['px_experiments=; Path=/about; SameSite=Lax; Max-Age=0']);
  assert.deepEqual(await named('/', { cookie: 'anon_id=v1' }), []);
  const running = withParallax(fakeEdge().client);
  const { cookies } = await visit(running, '/', earlier);
  assert.match(cookies.find((text) => text.startsWith('px_experiments'))!, /front%3Ade; Path=\/;.*Max-Age=300/);
  const refused = await visit(running, '/', { cookie: `${earlier.cookie}; px_consent=0` });
  assert.deepEqual(refused.cookies, ['px_experiments=; Path=/; SameSite=Lax; Max-Age=0']);
});

test('cacheUnpersonalized makes pages without zones public, without a cookie', async () => {
  const { client } = fakeEdge();
  const proxy = withParallax(client, { cacheUnpersonalized: true });
  await warm(proxy);
  const shared = await visit(proxy, '/about');
  assert.deepEqual([shared.headers.get('cache-control'), shared.cookies], ['public, max-age=0, s-maxage=60, stale-while-revalidate=600', []]);
  assert.equal((await visit(proxy, '/')).headers.get('cache-control'), 'private, no-cache');
  assert.equal((await visit(proxy, '/about?px-preview')).headers.get('cache-control'), 'private, no-cache');
});

test('a draft is rewritten to a forced combination, without a decision and without an ID', async () => {
  const edge = fakeEdge();
  const proxy = withParallax(edge.client, { previewSecret: 'key' });
  await warm(proxy);
  edge.requests.length = 0;
  const cookie = `px_preview=${await signPreview('key', Math.floor(Date.now() / 1000) + 60)}`;
  const forced = await visit(proxy, '/only-a-draft?px-variants=hero:b', { cookie });
  assert.deepEqual([forced.rewritten, forced.cookies], ['/px/hero!b/only-a-draft?px-variants=hero:b', []]);
  const escape = await visit(proxy, '/?px-variants=../../api/parallax/revalidate', { cookie });
  assert.match(escape.rewritten!, /^\/px\/-\?/);
  assert.equal(edge.decisions(), 0);
  const forged = await visit(proxy, '/only-a-draft?px-variants=hero:b', { cookie: 'px_preview=99999999999.x; __prerender_bypass=x' });
  assert.equal(forged.isNext, true);
});

test('a draft wins over a published redirect', async () => {
  const proxy = withParallax(fakeEdge().client, { previewSecret: 'key' });
  await warm(proxy);
  const cookie = `px_preview=${await signPreview('key', Math.floor(Date.now() / 1000) + 60)}`;
  assert.equal((await visit(proxy, '/old', { cookie })).rewritten, '/px/-/old');
});

test('a page has the draft state of the proxy: without a valid signature it gets no cookie of Next.js', async () => {
  const proxy = withParallax(fakeEdge().client, { previewSecret: 'key' });
  const passed = async (cookie: string) => (await visit(proxy, '/about', { cookie })).headers.get('x-middleware-request-cookie');
  assert.equal(await passed('a=1; __prerender_bypass=x; b=2'), 'a=1; b=2');
  const valid = `px_preview=${await signPreview('key', Math.floor(Date.now() / 1000) + 60)}`;
  assert.equal(await passed(`__prerender_bypass=x; ${valid}`), null);
  assert.equal(await passed('a=1'), null);
});

test('the revalidation handler is called once for each version, and again after a failure', async () => {
  const { client, parallax } = fakeEdge();
  const proxy = withParallax(client, { secret: 'key', instanceUrl: 'http://localhost:3000', routesSeconds: 0 });
  isHandlerOk = false;
  await warm(proxy);
  isHandlerOk = true;
  await warm(proxy);
  await warm(proxy);
  assert.equal(posts.length, 2);
  assert.deepEqual(posts[0], { url: 'http://localhost:3000/api/parallax/revalidate', authorization: 'Bearer key', version: '1' });
  parallax.publish(siteOf({ '/': {} }));
  await warm(proxy);
  assert.equal(posts.length, 3);
  isHandlerOk = false;
  parallax.publish(siteOf({ '/': {} }));
  await warm(proxy);
  await warm(proxy);
  assert.equal(posts.length, 5);
  assert.equal((console.error as any).mock.callCount(), 2); // once for each version
});

test('the handler is called again while it compares another version than the announced one', async () => {
  const { client } = fakeEdge();
  const proxy = withParallax(client, { routesSeconds: 0 });
  handlerVersion = '0';
  await warm(proxy);
  await warm(proxy);
  handlerVersion = undefined;
  await warm(proxy);
  await warm(proxy);
  assert.deepEqual(posts.map(({ version }) => version), ['1', '1', '1']);
});

test('a handler that hangs ends at a deadline, and the next refresh calls again', async () => {
  const { client } = fakeEdge();
  const proxy = withParallax(client, { routesSeconds: 0 });
  const timeout = mock.method(AbortSignal, 'timeout', () => AbortSignal.abort(new DOMException('too late', 'TimeoutError')));
  mock.method(globalThis, 'fetch', (_url: string, { signal }: RequestInit) => {
    posts.push({} as never);
    return new Promise((_, reject) => (signal?.aborted ? reject(signal.reason) : undefined));
  });
  await warm(proxy);
  await warm(proxy);
  assert.deepEqual([posts.length, timeout.mock.calls[0]!.arguments], [2, [NOTIFY_MS]]);
});

test('without `instanceUrl` the handler on localhost is called over http, also if the visitor came over https', async () => {
  const { client } = fakeEdge();
  await (await visit(withParallax(client), '/about', {}, {}, 'https://localhost:3000')).after;
  assert.equal(posts[0]!.url, 'http://localhost:3000/api/parallax/revalidate');
});

test('a decision of another version refreshes the table at once', async () => {
  const edge = fakeEdge();
  const proxy = withParallax(edge.client, { routesSeconds: 3600 });
  await warm(proxy);
  edge.parallax.publish(siteOf({ '/': { variants: { hero: { de: [] } } }, '/new': {} }));
  assert.equal((await visit(proxy, '/new')).isNext, true);
  await (await visit(proxy, '/')).after;
  assert.equal((await visit(proxy, '/new')).rewritten, '/px/-/new');
});

test('servers of Edge with different versions refresh the table once', async () => {
  const edge = fakeEdge();
  const proxy = withParallax(edge.client, { routesSeconds: 3600 });
  await warm(proxy);
  edge.requests.length = 0;
  const decision = { type: 'decision', site: 'test', route: '/', variants: '', selected: {}, experiments: '' };
  edge.answer((url) => (url.pathname === '/v1/variants' ? Response.json(decision, { headers: { 'x-version': '9' } }) : undefined));
  for (let i = 0; i < 5; i++) await (await visit(proxy, '/')).after;
  assert.equal(edge.requests.filter((path) => path === '/v1/routes').length, 1);
});

test('decisions of two versions in turn refresh the table once for each, until it is due', async () => {
  const edge = fakeEdge();
  const proxy = withParallax(edge.client, { routesSeconds: 3600 });
  await warm(proxy);
  edge.requests.length = 0;
  const decision = { type: 'decision', site: 'test', route: '/', variants: '', selected: {}, experiments: '' };
  const list = { site: 'test', since: null, updatedAt: null, routes: [{ path: '/', hash: 'h', zones: ['hero'] }], redirects: [], removed: [], nextCursor: null };
  let turn = 0;
  edge.answer((url) => {
    const version = ['2', '3'][turn++ % 2]!;
    if (url.pathname === '/v1/variants') return Response.json(decision, { headers: { 'x-version': version } });
    return url.pathname === '/v1/routes' ? Response.json({ ...list, version }) : undefined;
  });
  for (let i = 0; i < 10; i++) await (await visit(proxy, '/')).after;
  assert.ok(edge.requests.filter((path) => path === '/v1/routes').length <= 2, String(edge.requests));
});

test('without `instanceUrl` no secret is sent, and a secret without it is an error', async () => {
  const { client } = fakeEdge();
  await warm(withParallax(client));
  assert.deepEqual(posts, [{ url: `${HOST}/api/parallax/revalidate`, authorization: null, version: '1' }]);
  assert.throws(() => withParallax(client, { secret: 'key' }), /instanceUrl/);
});

test('another cookie name of the site is a warning', async () => {
  const { client } = fakeEdge();
  await warm(withParallax(client, { cookie: 'visitor' }));
  assert.match(String((console.warn as any).mock.calls[0].arguments[0]), /"anon_id"/);
});
