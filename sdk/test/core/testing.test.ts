import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient, createDecide, staticCombinations } from '../../src/index.js';
import { createTestParallax } from '../../src/testing.js';

const hero = (title: string) => [{ id: title, type: 'Hero', props: { title } }];
const routes = {
  '/': { zones: { hero: hero('base') }, variants: { hero: { de: hero('deutsch') } }, choose: (v: URLSearchParams) => (v.get('locale') === 'de' ? 'hero:de' : '') },
  '/old': { redirect: { to: '/' } },
};
const items = Array.from({ length: 3 }, (_, i) => ({ id: `i${i}`, type: 'item', fields: {} }));

function start() {
  const parallax = createTestParallax({ routes, queries: { all: items } });
  return { parallax, client: createClient({ edgeUrl: 'http://test', trackingId: 'track_test', fetch: parallax.fetch }) };
}

test('the server in memory decides, renders and lists as Edge does', async () => {
  const { client } = start();
  const decided = await client.resolve('/', { locale: 'de' });
  assert.equal(decided.data.type === 'layout' && decided.data.layout.zones.hero![0]!.props.title, 'deutsch');
  const forced = await client.resolve('/', { variants: '' });
  assert.equal(forced.data.type === 'layout' && forced.data.layout.zones.hero![0]!.props.title, 'base');
  assert.equal((await client.variants('/', { locale: 'de', personalize: false })).data.type, 'decision');
  assert.equal((await client.resolve('/old', {})).data.type, 'redirect');
  await assert.rejects(client.resolve('/nix', {}), { code: 'route_not_found' });
  assert.deepEqual(await staticCombinations(client), [{ path: '/', variants: '' }, { path: '/', variants: 'hero:de' }]);
  const page = await client.query('all', { limit: 2 });
  assert.equal((await client.query('all', { limit: 2, cursor: page.data.nextCursor, cache: false })).data.items.length, 1);
});

test('a publication changes the version, and the hash of the changed route alone', async () => {
  const { client, parallax } = start();
  const before = await client.routes();
  assert.equal(parallax.publish({ ...routes, '/new': {} }), '2');
  const now = await client.routes();
  assert.deepEqual([now.version, now.routes[0]!.hash], ['2', before.routes[0]!.hash]);
  assert.equal(now.routes.length, before.routes.length + 1);
});

test('scripted failures happen once each', async () => {
  const { client, parallax } = start();
  parallax.fail('network');
  parallax.fail(503);
  assert.equal((await client.resolve('/', {})).data.type, 'layout'); // after two retries
  parallax.fail('timeout');
  assert.equal((await createDecide(client, { timeoutMs: 20 })('/', {})).error!.code, 'timeout');
});

test('events are kept without duplicates', async () => {
  const { parallax } = start();
  const body = JSON.stringify({ trackingId: 'track_test', batch: [{ type: 'track', messageId: 'm1', event: 'a' }, { type: 'track', messageId: 'm2', event: 'b' }] });
  const post = async () => (await parallax.fetch('http://test/v1/batch', { method: 'POST', body })).json();
  assert.equal((await post()).accepted, 2);
  assert.deepEqual(((await post()) as { duplicates: number }).duplicates, 2);
  assert.deepEqual(parallax.events.map(({ event }) => event), ['a', 'b']);
});
