import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createBreaker } from '../../src/breaker.js';
import { createClient } from '../../src/client.js';
import { createRouteTable, decodePath } from '../../src/next/route-table.js';

interface List {
  version: string;
  since?: string | null;
  routes?: string[];
  redirects?: [string, string][];
  removed?: string[];
}

const SITE = { site: 's', trackingId: 'track_s', cookie: 'anon_id', origins: [], privacy: { honorGpc: false }, cache: {}, preview: null };

/** Makes a table of an Edge that answers with these lists, one after the other. */
function tableOf(...lists: List[]) {
  const queries: string[] = [];
  const fake = async (input: unknown) => {
    const url = new URL(String(input));
    if (url.pathname === '/v1/site') return Response.json(SITE);
    queries.push(url.searchParams.get('since') ?? '');
    const { routes = [], redirects = [], removed = [], ...rest } = lists.shift()!;
    return Response.json({
      ...rest,
      removed,
      routes: routes.map((path) => ({ path, hash: 'h', zones: path.length > 3 ? ['hero'] : [] })),
      redirects: redirects.map(([from, to]) => ({ from, to, status: 308 })),
      nextCursor: null,
    });
  };
  const client = createClient({ edgeUrl: 'http://edge', trackingId: 'track_s', fetch: fake as typeof fetch });
  return { queries, table: createRouteTable(client, { cookie: 'anon_id', seconds: 5, breaker: createBreaker() }) };
}

test('the first load replaces everything, and the next one asks for the differences', async () => {
  const { table, queries } = tableOf(
    { version: '1', routes: ['/', '/tents', '/gone'], redirects: [['/a', '/b']] },
    { version: '2', since: '1', routes: ['/new'], removed: ['/gone', '/a'] },
    { version: '9', since: null, routes: ['/only'] },
  );
  assert.deepEqual([table.version, table.isStale, table.honorGpc], [null, true, true]);
  await table.refresh();
  assert.deepEqual([table.version, table.isStale, table.honorGpc], ['1', false, false]);
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
  assert.deepEqual([table.version, table.page('/tents')?.zones, queries.length], ['1', 1, 4]);
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
  assert.deepEqual(['/', '/a/', '/%C3%B6', '/100%', '/a+b', '/%ff'].map(decodePath), ['/', '/a', '/ö', '/100%', '/a+b', '/%ff']);
});

test('a redirect of a pattern never leads to another host', async () => {
  const redirects: [string, string][] = [['/old/*', '/*'], ['/x/:a/:b', '/:a/:b'], ['/y/*', 'https://other.example/*']];
  const { table } = tableOf({ version: '1', redirects });
  await table.refresh();
  for (const path of ['/old/%2Fevil.example/x', '/old/%2F%2Fevil.example', '/x/%2Fevil.example', '/old/\\evil.example']) {
    const to = table.redirect(decodePath(path))?.to ?? '/';
    assert.equal(new URL(to, 'http://shop.example').host, 'shop.example', `${path} leads to ${to}`);
  }
  assert.equal(table.redirect('/y/z')?.to, 'https://other.example/z');
});
