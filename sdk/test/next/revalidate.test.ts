import assert from 'node:assert/strict';
import { beforeEach, mock, test } from 'node:test';
import { workAsyncStorage } from 'next/dist/server/app-render/work-async-storage.external.js';
import { workUnitAsyncStorage } from 'next/dist/server/app-render/work-unit-async-storage.external.js';
import { createClient } from '../../src/client.js';
import { revalidateHandler } from '../../src/next/revalidate.js';
import { changesOf } from '../../src/next/stored-routes.js';
import type { Routes } from '../../src/types.js';

/** The state of a request inside Next.js. */
let store: { pendingRevalidatedTags?: { tag: string; profile: unknown }[] };
const later: (() => unknown)[] = [];
/** The list in the data cache of Next.js. */
let stored: Routes | null;

/** Calls a handler as Next.js does. */
function call(handler: (request: Request) => Promise<Response>, headers = {}): Promise<Response> {
  const request = new Request('http://localhost/api/parallax/revalidate', { method: 'POST', headers });
  const afterContext = { after: (work: () => unknown) => later.push(work) };
  store = { route: '/', page: '/api/parallax/revalidate/route', incrementalCache: {}, cacheLifeProfiles: {}, afterContext } as typeof store;
  const unit = { type: 'request', phase: 'action' };
  return workAsyncStorage.run(store as never, () => workUnitAsyncStorage.run(unit as never, () => handler(request)));
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
const paths = () => marks().map(([tag]) => tag).filter((tag) => tag !== 'px:track_s:routes');

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
  assert.deepEqual(await response.json(), { from: '1', to: '2', revalidated: ['/a'] });
  assert.deepEqual(marks(), [['px:track_s:/a', 'max'], ['px:track_s:routes', { expire: 0 }]]);
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
  assert.deepEqual(await (await call(handler)).json(), { from: '2', to: '3', revalidated: ['/b'] });
});

test('of more publications than turns in one call, the rest is compared in the next call', async () => {
  stored = list('1', { '/a': '1' });
  served = ['2', '3', '4', '5'].map((version) => list(version, { '/a': version }));
  const handler = revalidateHandler(client);
  const first = await (await call(handler)).json();
  assert.deepEqual([first.from, first.to], ['1', '4']);
  assert.deepEqual(await (await call(handler)).json(), { from: '4', to: '5', revalidated: ['/a'] });
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

test('changed pages are rendered ahead with the secret, the baselines first, within the limit', async () => {
  stored = list('1', { '/a': '1', '/ö': '1', '/same': '1' });
  const now = list('2', { '/a': '2', '/ö': '2', '/same': '1' });
  now.routes = now.routes.map((route) => ({ ...route, variants: ['', 'z:b'] }));
  served = [now];
  const fetched: string[] = [];
  const own = mock.method(globalThis, 'fetch', async (url: string, init: RequestInit) => {
    fetched.push(`${url} ${new Headers(init.headers).get('authorization')}`);
    return new Response('page');
  });
  await call(revalidateHandler(client, { secret: 'key', siteUrl: 'http://localhost:3000/', warm: 3 }), { authorization: 'Bearer key' });
  assert.deepEqual(fetched, []);
  await later[0]!();
  own.mock.restore();
  const address = 'http://localhost:3000/px';
  assert.deepEqual(fetched, [`${address}/-/a Bearer key`, `${address}/-/%C3%B6 Bearer key`, `${address}/z!b/a Bearer key`]);
});
