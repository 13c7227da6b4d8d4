import assert from 'node:assert/strict';
import { beforeEach, mock, test } from 'node:test';
import { workAsyncStorage } from 'next/dist/server/app-render/work-async-storage.external.js';
import { workUnitAsyncStorage } from 'next/dist/server/app-render/work-unit-async-storage.external.js';
import { createClient } from '../../src/client.js';
import { fromSegments } from '../../src/combination.js';
import { marksOf } from '../../src/next/marks.js';
import { revalidateHandler } from '../../src/next/revalidate.js';
import { changesOf } from '../../src/next/stored-routes.js';
import { pathTag } from '../../src/next/tags.js';
import type { Routes } from '../../src/types.js';
import { WARM_CONCURRENCY } from '../../src/limits.js';

/** The state of a request inside Next.js. */
let store: { pendingRevalidatedTags?: { tag: string; profile: unknown; revalidatedAt: number }[] };
const later: (() => unknown)[] = [];
/** The list in the data cache of Next.js. */
let stored: Routes | null;

/** The data cache of Next.js, in which the handler stores its marks. */
const dataCache = new Map<string, unknown>();
const incrementalCache = {
  generateSimpleCacheKey: async (key: string) => key,
  get: async (key: string, { tags }: { tags: string[] }) => (tags.some((tag) => marks().some(([marked]) => marked === tag)) ? null : { value: dataCache.get(key) }),
  set: async (key: string, value: unknown) => void dataCache.set(key, value),
};

/** Calls a handler as Next.js does. */
function call(handler: (request: Request) => Promise<Response>, headers = {}, body?: string): Promise<Response> {
  const request = new Request('http://localhost/api/parallax/revalidate', { method: 'POST', headers, body });
  const url = new URL(request.url);
  const unit = { type: 'request', phase: 'action', url };
  const run = <T>(work: () => T) => workAsyncStorage.run(store as never, () => workUnitAsyncStorage.run(unit as never, work));
  const afterContext = { after: (work: () => unknown) => later.push(() => run(work)) };
  store = { route: '/', page: '/api/parallax/revalidate/route', incrementalCache, cacheLifeProfiles: {}, afterContext } as typeof store;
  return run(() => handler(request));
}

/** Ends the process in the memory: the marks of Next.js and of the SDK are gone. */
function restart() {
  marksOf(client).clear();
  return revalidateHandler(client, OPTIONS);
}
const OPTIONS = { secret: 'key', instanceUrl: 'http://localhost:3000/' };
const BEARER = { authorization: 'Bearer key' };

/** A site whose server renders pages in the background, as Next.js does. Returns the requested URLs. */
function fakeSite(answer: (url: string, attempt: number) => { cache?: string; version?: string | null } | null) {
  const fetched: string[] = [];
  const own = mock.method(globalThis, 'fetch', async (url: string, init: RequestInit) => {
    fetched.push(`${url} ${new Headers(init.headers).get('authorization')}`);
    const attempt = fetched.filter((each) => each.startsWith(`${url} `)).length;
    const result = answer(url, attempt);
    if (!result) throw new TypeError('fetch failed');
    const { path, variants } = fromSegments(new URL(url).pathname.slice('/px/'.length).split('/'));
    if (result.version) marksOf(client).get(pathTag(client, path))?.rendered.set(variants, result.version);
    return new Response('page', { headers: result.cache ? { 'x-nextjs-cache': result.cache } : {} });
  });
  return { fetched, end: () => own.mock.restore() };
}
const marks = () => (store.pendingRevalidatedTags ?? []).map(({ tag, profile }) => [tag, profile]);

const list = (version: string, pages: Record<string, string>, rest: Partial<Routes> = {}): Routes => ({
  site: 's',
  version,
  updatedAt: null,
  nextCursor: null,
  routes: Object.entries(pages).map(([path, hash]) => ({ path, hash, updatedAt: null, zones: [], combinations: 1 })),
  redirects: [],
  removed: [],
  ...rest,
});

/** The lists of Edge, one for each read. The last one stays. */
let served: Routes[];
beforeEach(() => {
  later.length = 0;
  dataCache.clear();
  marksOf(client).clear();
  stored = null;
});

const fake = async (_url: unknown, init?: RequestInit & { next?: object }) => {
  const isExpired = marks().some(([tag]) => tag === 'px:track_s:routes');
  if (init?.next && stored && !isExpired) return Response.json(stored);
  const now = served.length > 1 ? served.shift()! : served[0]!;
  if (init?.next) stored = now;
  return Response.json(now);
};
const client = createClient({ edgeUrl: 'http://edge', trackingId: 'track_s', retries: 0, fetch: fake as typeof fetch });
const paths = () => marks().map(([tag]) => tag).filter((tag) => tag !== 'px:track_s:routes' && tag !== 'px:track_s:marks');

test('changed, new and removed paths, redirects and queries are the differences, and nothing else', () => {
  const before = list('1', { '/same': 'a', '/changed': 'a', '/removed': 'a', '/p/:x': 'a' }, {
    redirects: [{ from: '/r', to: '/a', status: 308 }, { from: '/s', to: '/a', status: 308 }],
    queries: [{ id: 'q', hash: 'a' }, { id: 'same', hash: 'a' }],
  });
  const now = list('2', { '/same': 'a', '/changed': 'b', '/new': 'a', '/p/:x': 'b' }, {
    redirects: [{ from: '/r', to: '/a', status: 302 }, { from: '/s', to: '/a', status: 308 }],
    queries: [{ id: 'q', hash: 'b' }, { id: 'same', hash: 'a' }, { id: 'new', hash: 'a' }],
  });
  assert.deepEqual(changesOf(before, now), { paths: ['/changed', '/removed', '/p/:x', '/r', '/new'], queries: ['q', 'new'] });
  assert.deepEqual(changesOf(now, now), { paths: [], queries: [] });
});

test('only changed pages are marked, for a render in the background', async () => {
  stored = list('1', { '/a': '1', '/b': '1' });
  served = [list('2', { '/a': '2', '/b': '1' })];
  const response = await call(revalidateHandler(client));
  assert.deepEqual(await response.json(), { from: '1', to: '2', revalidated: ['/a'], unrendered: 1 });
  assert.deepEqual(marks(), [['px:track_s:/a', 'max'], ['px:track_s:marks', { expire: 0 }], ['px:track_s:routes', { expire: 0 }]]);
});

test('the same version marks nothing, also after a restart', async () => {
  stored = list('1', { '/a': '1' });
  served = [list('1', { '/a': '1' })];
  assert.deepEqual((await (await call(revalidateHandler(client))).json()).revalidated, []);
  assert.deepEqual(marks(), []);
});

test('a version that is published between the two reads is compared too', async () => {
  stored = list('1', { '/a': '1', '/b': '1' });
  served = [list('2', { '/a': '2', '/b': '1' }), list('3', { '/a': '2', '/b': '2' })];
  await call(revalidateHandler(client));
  assert.deepEqual(paths(), ['px:track_s:/a', 'px:track_s:/b']);
  assert.equal(stored!.version, '3');
});

test('a second publication is compared with the first, although Next.js has expired the list that the first call stored', async () => {
  stored = list('1', { '/a': '1', '/b': '1' });
  served = [list('2', { '/a': '2', '/b': '1' })];
  const handler = revalidateHandler(client);
  await call(handler);
  stored = null;
  served = [list('3', { '/a': '2', '/b': '2' })];
  assert.deepEqual(await (await call(handler)).json(), { from: '2', to: '3', revalidated: ['/b'], unrendered: 2 });
});

test('of more publications than turns in one call, the rest is compared in the next call', async () => {
  stored = list('1', { '/a': '1' });
  served = ['2', '3', '4', '5'].map((version) => list(version, { '/a': version }));
  const handler = revalidateHandler(client);
  const first = await (await call(handler)).json();
  assert.deepEqual([first.from, first.to], ['1', '4']);
  assert.deepEqual(await (await call(handler)).json(), { from: '4', to: '5', revalidated: ['/a'], unrendered: 1 });
});

test('a removed page and a redirect are marked for Next.js alone', async () => {
  stored = list('1', { '/gone': '1', '/a': '1' });
  served = [list('2', { '/a': '1' }, { redirects: [{ from: '/r', to: '/a', status: 308 }] })];
  const { revalidated, unrendered } = await (await call(revalidateHandler(client))).json();
  assert.deepEqual([revalidated, unrendered, paths()], [['/gone', '/r'], 0, ['px:track_s:/gone', 'px:track_s:/r']]);
});

test('the secret is compared, and a failure of Edge is 503', async () => {
  stored = null;
  const handler = revalidateHandler(client, { secret: 'key' });
  assert.equal((await call(handler)).status, 401);
  assert.equal((await call(handler, { authorization: 'Bearer other' })).status, 401);
  const dead = createClient({ edgeUrl: 'http://edge', trackingId: 'track_s', retries: 0, fetch: () => Promise.reject(new TypeError('fetch failed')) });
  const failed = await call(revalidateHandler(dead, { secret: 'key' }), { authorization: 'bearer key' });
  assert.deepEqual([failed.status, (await failed.json()).code], [503, 'network']);
});

const ADDRESS = 'http://localhost:3000/px';

test('changed pages are rendered ahead with the secret, the baselines first, within the limit', async () => {
  stored = list('1', { '/a': '1', '/ö': '1', '/same': '1' });
  const now = list('2', { '/a': '2', '/ö': '2', '/same': '1' });
  now.routes = now.routes.map((route) => ({ ...route, variants: ['', 'z:b'] }));
  served = [now];
  const site = fakeSite(() => ({ cache: 'MISS', version: '2' }));
  await call(revalidateHandler(client, { ...OPTIONS, warm: 3 }), BEARER);
  assert.deepEqual(site.fetched, []);
  await later[0]!();
  site.end();
  assert.deepEqual(site.fetched, [`${ADDRESS}/-/a Bearer key`, `${ADDRESS}/-/%C3%B6 Bearer key`, `${ADDRESS}/z!b/a Bearer key`]);
});

test('the next page is requested only after a page has been rendered', async () => {
  const names = Array.from({ length: WARM_CONCURRENCY + 1 }, (_, i) => `/p${i}`);
  stored = list('1', Object.fromEntries(names.map((name) => [name, '1'])));
  served = [list('2', Object.fromEntries(names.map((name) => [name, '2'])))];
  let unrendered = 0;
  const site = fakeSite((url, attempt) => {
    if (attempt === 1) assert.ok(++unrendered <= WARM_CONCURRENCY, url);
    if (attempt < 3) return { cache: 'STALE' };
    unrendered--;
    return { cache: 'HIT', version: '2' };
  });
  await call(revalidateHandler(client, OPTIONS), BEARER);
  await later[0]!();
  site.end();
  assert.equal(site.fetched.length, 3 * names.length);
});

test('after a restart, pages that were not rendered again are marked again, and the others are not', async () => {
  stored = list('1', { '/a': '1', '/b': '1', '/p/:x': '1' });
  const now = list('2', { '/a': '2', '/b': '2', '/p/:x': '2' }, { queries: [{ id: 'q', hash: '1' }] });
  now.routes[2]!.pattern = '/p/:x' as never;
  served = [now];
  const site = fakeSite((url) => (url.endsWith('/a') ? { cache: 'MISS', version: '2' } : null));
  await call(revalidateHandler(client, OPTIONS), BEARER);
  await later[0]!();
  const restarted = restart();
  const { revalidated } = await (await call(restarted, BEARER)).json();
  assert.deepEqual(revalidated, ['/b', '/p/:x']);
  assert.deepEqual(paths(), ['px:track_s:/b', 'px:track_s:/p/%3Ax', 'px:track_s:?q']);
  site.end();
  const working = fakeSite(() => ({ cache: 'MISS', version: '2' }));
  await later[1]!();
  working.end();
  assert.deepEqual((await (await call(restart(), BEARER)).json()).revalidated, ['/p/:x']);
});

test('a restart directly after the marks loses none of them, also of a site that renders nothing ahead', async () => {
  stored = list('1', { '/a': '1', '/b': '1' });
  served = [list('2', { '/a': '2', '/b': '1' })];
  await call(revalidateHandler(client));
  marksOf(client).clear();
  assert.deepEqual((await (await call(revalidateHandler(client))).json()).revalidated, ['/a']);
});

test('a page that an older server of Edge rendered keeps its mark, and is rendered again', async () => {
  stored = list('1', { '/a': '1' });
  served = [list('2', { '/a': '2' })];
  const timeout = mock.method(AbortSignal, 'timeout', () => AbortSignal.abort());
  const site = fakeSite(() => ({ cache: 'HIT', version: '1' }));
  await call(revalidateHandler(client, OPTIONS), BEARER);
  const [first] = store.pendingRevalidatedTags!;
  const markedAt = first!.revalidatedAt;
  await later[0]!();
  site.end();
  timeout.mock.restore();
  assert.ok(store.pendingRevalidatedTags![0]!.revalidatedAt > markedAt);
  assert.deepEqual([...marksOf(client).keys()], ['px:track_s:/a']);
});

test('a list that cannot be read for the renders is logged, and the marks stay', async () => {
  stored = list('1', { '/a': '1' });
  served = [list('2', { '/a': '2' })];
  const handler = revalidateHandler(client, OPTIONS);
  await call(handler, BEARER);
  const error = mock.method(console, 'error', () => {});
  served = [null as never];
  await later[0]!();
  assert.match(String(error.mock.calls[0]!.arguments[0]), /not rendered ahead/);
  error.mock.restore();
  assert.deepEqual([...marksOf(client).keys()], ['px:track_s:/a']);
});

test('the message of another version than that of Edge is 503, and marks the changes', async () => {
  stored = list('1', { '/a': '1' });
  served = [list('2', { '/a': '2' })];
  const handler = revalidateHandler(client);
  const early = await call(handler, {}, JSON.stringify({ version: '3' }));
  assert.deepEqual([early.status, (await early.json()).code, paths()], [503, 'other_version', ['px:track_s:/a']]);
  const equal = await call(handler, {}, JSON.stringify({ site: 's', version: '2', since: '1' }));
  assert.deepEqual([equal.status, (await equal.json()).to], [200, '2']);
});
