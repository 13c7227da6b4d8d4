import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { createBreaker } from '../../src/breaker.js';
import { createClient } from '../../src/client.js';
import { createRouteTable, decodeSegments } from '../../src/next/route-table.js';

interface List {
  version: string;
  since?: string | null;
  routes?: string[];
  redirects?: [string, string][];
  removed?: string[];
}

const BREAKER_FAILURES = 3;
const SITE = { site: 's', trackingId: 'track_s', cookie: 'anon_id', origins: [], privacy: { honorGpc: false }, cache: {}, preview: null };

/** Makes a table of an Edge that answers with these lists, one after the other. A number is a refusal with this status. */
function tableOf(...lists: (List | number)[]) {
  const queries: string[] = [];
  const site = { ...SITE };
  const breaker = createBreaker(BREAKER_FAILURES);
  const fake = async (input: unknown) => {
    const url = new URL(String(input));
    if (url.pathname === '/v1/site') return Response.json(site);
    queries.push(url.searchParams.get('since') ?? '');
    const list = lists.shift()!;
    if (typeof list === 'number') return Response.json({ code: 'refused' }, { status: list });
    const { routes = [], redirects = [], removed = [], ...rest } = list;
    return Response.json({
      ...rest,
      removed,
      routes: routes.map((path) => ({ path, hash: 'h', zones: path.length > 3 ? ['hero'] : [] })),
      redirects: redirects.map(([from, to]) => ({ from, to, status: 308 })),
      nextCursor: null,
    });
  };
  const client = createClient({ edgeUrl: 'http://edge', trackingId: 'track_s', fetch: fake as typeof fetch });
  const table = createRouteTable(client, { cookie: 'anon_id', seconds: 5, breaker });
  const byPath = {
    refresh: table.refresh,
    page: (path: string) => table.page(decodeSegments(path)),
    redirect: (path: string) => table.redirect(decodeSegments(path)),
    state: () => [table.version, table.isStale, table.honorGpc],
  };
  return { queries, site, breaker, table: byPath };
}

test('the first load replaces everything, and the next one asks for the differences', async () => {
  const { table, queries } = tableOf(
    { version: '1', routes: ['/', '/tents', '/gone'], redirects: [['/a', '/b']] },
    { version: '2', since: '1', routes: ['/new'], removed: ['/gone', '/a'] },
    { version: '9', since: null, routes: ['/only'] },
  );
  assert.deepEqual(table.state(), [null, true, true]);
  await table.refresh();
  assert.deepEqual(table.state(), ['1', false, false]);
  assert.deepEqual([table.page('/')?.zones, table.page('/tents')?.zones, table.redirect('/a')], [0, 1, { to: '/b', status: 308 }]);
  await table.refresh();
  assert.deepEqual([table.page('/gone'), table.redirect('/a'), table.page('/new')?.zones, table.page('/tents')?.zones], [undefined, undefined, 1, 1]);
  await table.refresh();
  assert.deepEqual([table.page('/tents'), table.page('/only')?.zones], [undefined, 1]);
  assert.deepEqual(queries, ['', '1', '2']);
});

test('a failure leaves the table as it is, and the breaker keeps it from Edge', async () => {
  const { table, queries } = tableOf({ version: '1', routes: ['/tents'] });
  await table.refresh();
  for (let i = 0; i < 5; i++) await table.refresh();
  assert.deepEqual([table.state()[0], table.page('/tents')?.zones, queries.length], ['1', 1, 4]);
});

test('a refusal counts as a response for the breaker, and a failure does not', async () => {
  for (const status of [404, 429]) {
    const { table, breaker } = tableOf(...Array(BREAKER_FAILURES).fill(status));
    for (let i = 0; i < BREAKER_FAILURES; i++) await table.refresh();
    assert.notEqual(breaker.enter(), null, String(status));
  }
  const { table, breaker } = tableOf(...Array(BREAKER_FAILURES).fill(503));
  for (let i = 0; i < BREAKER_FAILURES; i++) await table.refresh();
  assert.equal(breaker.enter(), null);
});

test('a new version brings the settings of the site again', async () => {
  const { table, site } = tableOf({ version: '1' }, { version: '1', since: '1' }, { version: '2', since: '1' });
  await table.refresh();
  site.privacy = { honorGpc: true };
  await table.refresh();
  assert.deepEqual(table.state(), ['1', false, false]);
  await table.refresh();
  assert.deepEqual(table.state(), ['2', false, true]);
});

test('a refresh without a new version does not build the tree of patterns again', async () => {
  const { table } = tableOf({ version: '1', routes: ['/tents'] }, { version: '1', since: '1' }, { version: '2', since: '1', routes: ['/new'] });
  await table.refresh();
  const set = mock.method(Map.prototype, 'set');
  const count = () => set.mock.calls.filter((call) => call.arguments[0] === 'tents').length;
  await table.refresh();
  assert.equal(count(), 0);
  await table.refresh();
  assert.equal(count(), 1);
  set.mock.restore();
  assert.equal(table.page('/tents')?.zones, 1);
});

test('`%2F` is part of its segment, as for Edge', async () => {
  const { table } = tableOf({ version: '1', routes: ['/docs/page', '/topics/:topic'] });
  await table.refresh();
  assert.deepEqual([table.page('/docs%2Fpage'), table.page('/docs/page')?.zones, table.page('/topics/a%2Fb')?.zones], [undefined, 1, 1]);
});

test('a page that becomes a redirect, and the other way', async () => {
  const { table } = tableOf({ version: '1', routes: ['/page'], redirects: [['/moved', '/x']] }, { version: '2', since: '1', routes: ['/moved'], redirects: [['/page', '/y']] });
  await table.refresh();
  await table.refresh();
  assert.deepEqual([table.page('/page'), table.redirect('/page')?.to, table.page('/moved')?.zones, table.redirect('/moved')], [undefined, '/y', 1, undefined]);
});

test('redirects of patterns name the values, percent-encoded', async () => {
  const redirects: [string, string][] = [['/post/:slug', '/blog/:slug?from=:slug'], ['/files/*', 'https://files.example/*'], ['/u/:a/:b', '/v/:b/:a']];
  const { table } = tableOf({ version: '1', redirects });
  await table.refresh();
  assert.equal(table.redirect('/post/ö å')?.to, '/blog/%C3%B6%20%C3%A5?from=:slug');
  assert.equal(table.redirect('/files/a/b c')?.to, 'https://files.example/a/b%20c');
  assert.equal(table.redirect('/u/1/2')?.to, '/v/2/1');
  assert.deepEqual([table.redirect('/post'), table.redirect('/files'), table.redirect('/post/a/b')], [undefined, undefined, undefined]);
});

/** The order of matching, written as a search through all patterns. */
function oracle(patterns: string[], path: string): string | undefined {
  const segments = path.slice(1).split('/');
  const rank = (pattern: string) => pattern.slice(1).split('/').map((part) => (part === '*' ? 2 : part.startsWith(':') ? 1 : 0));
  const fits = (pattern: string) => {
    const parts = pattern.slice(1).split('/');
    if (parts.at(-1) === '*') parts.splice(-1, 1, ...Array(Math.max(1, segments.length - parts.length + 1)).fill(':rest'));
    return parts.length === segments.length && parts.every((part, i) => part.startsWith(':') || part === segments[i]);
  };
  const better = (a: number[], b: number[]) => {
    for (let i = 0; i < Math.max(a.length, b.length); i++) if ((a[i] ?? -1) !== (b[i] ?? -1)) return (a[i] ?? -1) - (b[i] ?? -1);
    return 0;
  };
  return patterns.filter(fits).sort((a, b) => better(rank(a), rank(b)))[0];
}

test('patterns match as a search through all of them does', async () => {
  const words = ['a', 'b', ':x', '*'];
  let seed = 7;
  const pick = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
  for (let round = 0; round < 200; round++) {
    const patterns = new Set<string>();
    for (let i = 0; i < 6; i++) {
      const parts = Array.from({ length: 1 + pick(3) }, () => words[pick(3)]!);
      if (pick(3) === 0) parts.push('*');
      patterns.add(`/${parts.join('/')}`);
    }
    const all = [...patterns];
    const { table } = tableOf({ version: '1', redirects: all.map((from) => [from, `/found${all.indexOf(from)}`]) });
    await table.refresh();
    for (let i = 0; i < 20; i++) {
      const path = `/${Array.from({ length: 1 + pick(4) }, () => ['a', 'b', 'c'][pick(3)]).join('/')}`;
      const expected = oracle(all, path);
      assert.equal(table.redirect(path)?.to, expected && `/found${all.indexOf(expected)}`, `${path} in ${all.join(' ')}`);
    }
  }
});

test('paths are decoded as Edge does', () => {
  const decoded = ['/', '/a/', '/%C3%B6', '/100%', '/a+b', '/%ff', '/a%2Fb/c'].map((path) => decodeSegments(path));
  assert.deepEqual(decoded, [[''], ['a'], ['ö'], ['100%'], ['a+b'], ['%ff'], ['a/b', 'c']]);
});

test('a redirect of a pattern never leads to another host', async () => {
  const redirects: [string, string][] = [['/old/*', '/*'], ['/x/:a/:b', '/:a/:b'], ['/y/*', 'https://other.example/*']];
  const { table } = tableOf({ version: '1', redirects });
  await table.refresh();
  for (const path of ['/old/%2Fevil.example/x', '/old/%2F%2Fevil.example', '/x/%2Fevil.example', '/old/\\evil.example']) {
    const to = table.redirect(path)?.to ?? '/';
    assert.equal(new URL(to, 'http://shop.example').host, 'shop.example', `${path} leads to ${to}`);
  }
  assert.equal(table.redirect('/y/z')?.to, 'https://other.example/z');
});
