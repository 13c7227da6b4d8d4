import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { fromSegments } from '../../src/combination.js';
import { CALL_MS, RENDER_MS, TAG_CHARS_MAX } from '../../src/limits.js';
import { getLayout, segmentsOf, staticParams, tagsOf } from '../../src/next/layout.js';
import { pathTag, queryTag, siteTag } from '../../src/next/tags.js';
import { fakeEdge } from './request.js';

test('static parameters are the combinations of all pages, and filter and limit restrict them', async () => {
  const { client } = fakeEdge();
  const all = (await staticParams(client)).map(({ segments }) => segments.join('/'));
  assert.deepEqual(all, ['-', 'hero!de', '-/about', '-/tents', 'hero!b/tents']);
  assert.deepEqual(await staticParams(client, { filter: (path, variants) => path === '/tents' && variants !== '' }), [{ segments: ['hero!b', 'tents'] }]);
  assert.equal((await staticParams(client, { limit: 2 })).length, 2);
});

test('an empty list is a placeholder that is no page, without a call', async () => {
  const { client, requests } = fakeEdge();
  const [placeholder] = await staticParams(client, { filter: () => false });
  const before = requests.length;
  assert.equal(await getLayout(client, placeholder!.segments), null);
  assert.equal(requests.length, before);
});

test('a build without Edge ends, or has no static pages', async () => {
  const { client, parallax } = fakeEdge();
  parallax.fail('network', 20);
  await assert.rejects(staticParams(client), /http:\/\/edge/);
  const warn = mock.method(console, 'warn', () => {});
  assert.equal((await staticParams(client, { onUnreachable: 'empty' })).length, 1);
  assert.match(String(warn.mock.calls[0]!.arguments[0]), /cannot reach Edge/);
  warn.mock.restore();
});

test('a layout of a page, a redirect, an unknown path and a failure', async () => {
  const { client, parallax } = fakeEdge();
  const layout = await getLayout(client, ['hero!de']);
  assert.deepEqual([layout?.type, layout?.type === 'layout' && layout.variants], ['layout', 'hero:de']);
  assert.equal((await getLayout(client, ['-', 'old']))?.type, 'redirect');
  assert.equal(await getLayout(client, ['-', 'nothing']), null);
  parallax.fail(500, 9);
  await assert.rejects(getLayout(client, ['-']), { status: 500 });
});

test('a visitor waits 250 ms for a page that was never rendered, and a build waits longer', async () => {
  const { NODE_ENV, NEXT_PHASE } = process.env;
  const { client, parallax } = fakeEdge();
  mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  /** Returns the error of a layout whose Parallax is silent. */
  const failureIn = async (environment: string, phase: string, options = {}) => {
    Object.assign(process.env, { NODE_ENV: environment, NEXT_PHASE: phase });
    parallax.fail('timeout');
    const failure = getLayout(client, ['-'], options).then(() => 'a layout', (error: Error) => error.message);
    mock.timers.tick(CALL_MS);
    return failure;
  };
  assert.match(await failureIn('production', ''), new RegExp(` in ${RENDER_MS} ms`));
  assert.match(await failureIn('production', '', { timeoutMs: 1_000 }), / in 1000 ms/);
  for (const [environment, phase] of [['production', 'phase-production-build'], ['development', '']] as const) {
    assert.match(await failureIn(environment, phase), new RegExp(` in ${CALL_MS} ms`));
  }
  mock.timers.reset();
  Object.assign(process.env, { NODE_ENV: NODE_ENV ?? 'test', NEXT_PHASE: NEXT_PHASE ?? '' });
});

test('the preview client is asked in place of the other, and nothing is cached', async () => {
  const [edge, draft] = [fakeEdge(), fakeEdge({ '/only-a-draft': {} })];
  const layout = await getLayout(edge.client, ['-', 'only-a-draft'], { preview: draft.client });
  assert.deepEqual([layout?.route, edge.requests], ['/only-a-draft', []]);
});

test('segments of letters beyond ASCII survive, also encoded as Next.js passes them', () => {
  const segments = segmentsOf('/størrelser/ö å', 'hero:b');
  assert.deepEqual(segments, ['hero!b', 'størrelser', 'ö å']);
  assert.deepEqual(fromSegments(segments.map(encodeURIComponent)), { variants: 'hero:b', path: '/størrelser/ö å' });
});

test('tags name the site, the path and the pattern, in ASCII without commas', async () => {
  const { client } = fakeEdge();
  const layout = { pattern: '/p/:slug' } as Parameters<typeof tagsOf>[2];
  assert.deepEqual(tagsOf(client, ['-', 'p', 'ö,x'], layout), ['px:track_test', 'px:track_test:/p/%C3%B6%2Cx', 'px:track_test:/p/%3Aslug']);
  assert.deepEqual(tagsOf(client, ['-']), ['px:track_test', 'px:track_test:/']);
  assert.deepEqual([siteTag(client), queryTag(client, 'products')], ['px:track_test', 'px:track_test:?products']);
});

test('a tag over the limit is a hash', () => {
  const { client } = fakeEdge();
  const prefix = 'px:track_test:/'.length;
  const tag = (length: number) => pathTag(client, `/${'a'.repeat(length - prefix)}`);
  assert.equal(tag(TAG_CHARS_MAX - 1).length, TAG_CHARS_MAX - 1);
  assert.equal(tag(TAG_CHARS_MAX).length, TAG_CHARS_MAX);
  assert.match(tag(TAG_CHARS_MAX + 1), /^px:track_test:#[0-9a-f]{8}$/);
});
