import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { createClient, createDecide, staticCombinations } from '../../src/index.js';
import { createTestParallax } from '../../src/testing.js';

const hero = (title: string) => [{ id: title, type: 'Hero', props: { title } }];
const zone = (key: string, when: object) => ({ default: hero('base'), variants: { [key]: hero(key) }, rules: [{ when, variant: key }] });
const page = (file: string, zones: object) => ({ path: file, layout: { root: { props: {} }, zones } });
const site = {
  'site.json': { site: 'test', trackingId: 'track_test', name: 'Test' },
  'content/items.json': Array.from({ length: 3 }, (_, i) => ({ id: `i${i}`, type: 'item', fields: { n: i } })),
  'queries.json': { all: { collection: 'items', orderBy: ['n'] } },
  'routes/front.json': page('/', { hero: zone('de', { locale: { $regex: '^de' } }) }),
  'routes/shop.json': page('/shop', { hero: zone('buyer', { 'events.Order': { $count: { $gte: 1 } } }) }),
  'routes/old.json': { path: '/old', redirect: { to: '/', status: 308 } },
};

function start(files: Record<string, unknown> = site) {
  const parallax = createTestParallax({ site: files });
  return { parallax, client: createClient({ edgeUrl: 'http://test', trackingId: 'track_test', fetch: parallax.fetch }) };
}

const post = (fetch: typeof globalThis.fetch, ...batch: object[]) =>
  fetch('http://test/v1/batch', { method: 'POST', body: JSON.stringify({ trackingId: 'track_test', batch }) });

test('the server in memory decides, renders and lists as Edge does', async () => {
  const { client } = start();
  const decided = await client.resolve('/', { locale: 'de' });
  assert.equal(decided.data.type === 'layout' && decided.data.layout.zones.hero![0]!.props.title, 'de');
  const forced = await client.resolve('/', { variants: '' });
  assert.equal(forced.data.type === 'layout' && forced.data.layout.zones.hero![0]!.props.title, 'base');
  assert.equal((await client.variants('/', { locale: 'de', personalize: false })).data.type, 'decision');
  assert.equal((await client.resolve('/old', {})).data.type, 'redirect');
  await assert.rejects(client.resolve('/nix', {}), { code: 'route_not_found' });
  const combinations = [{ path: '/', variants: '' }, { path: '/', variants: 'hero:de' }, { path: '/shop', variants: '' }, { path: '/shop', variants: 'hero:buyer' }];
  assert.deepEqual(await staticCombinations(client), combinations);
  const page = await client.query('all', { limit: 2 });
  assert.equal((await client.query('all', { limit: 2, cursor: page.data.nextCursor, cache: false })).data.items.length, 1);
});

test('an event that was acknowledged is known to the next decision', async () => {
  const { client, parallax } = start();
  const variants = async (anonId: string) => {
    const { data } = await client.variants('/shop', { anonId });
    return data.type === 'decision' ? data.variants : data.type;
  };
  assert.equal(await variants('v1'), '');
  const receipt = await (await post(parallax.fetch, { type: 'track', event: 'Order', anonId: 'v1' })).json();
  assert.equal(receipt.accepted, 1);
  assert.deepEqual([await variants('v1'), await variants('v2')], ['hero:buyer', '']);
  await post(parallax.fetch, { type: 'identify', anonId: 'v1', userId: 'ana' }, { type: 'identify', anonId: 'v2', userId: 'ana' });
  assert.equal(await variants('v2'), 'hero:buyer');
  parallax.publish();
  assert.equal(await variants('v2'), 'hero:buyer');
});

test('a publication changes the version, and the hash of the changed route alone', async () => {
  const { client, parallax } = start();
  const before = await client.routes();
  assert.equal(parallax.publish({ ...site, 'routes/new.json': page('/new', {}) }), '2');
  const now = await client.routes();
  assert.deepEqual([now.version, now.routes[0]!.hash], ['2', before.routes[0]!.hash]);
  assert.equal(now.routes.length, before.routes.length + 1);
});

test('the site is a directory, with the tracking ID of another environment', async () => {
  const directory = mkdtempSync(path.join(tmpdir(), 'parallax-site-'));
  try {
    for (const [file, content] of Object.entries(site)) {
      mkdirSync(path.join(directory, path.dirname(file)), { recursive: true });
      writeFileSync(path.join(directory, file), JSON.stringify(content));
    }
    const parallax = createTestParallax({ site: directory, trackingId: 'track_staging' });
    const client = createClient({ edgeUrl: 'http://test', trackingId: 'track_staging', fetch: parallax.fetch });
    assert.equal((await client.variants('/', { locale: 'de' })).data.type, 'decision');
    writeFileSync(path.join(directory, 'routes/front.json'), JSON.stringify(page('/front', {})));
    assert.equal(parallax.publish(), '2');
    await assert.rejects(client.resolve('/', {}), { code: 'route_not_found' });
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test('a mistake of the site is the report of `parallax compile`, and the version before stays', async () => {
  assert.throws(() => start({ ...site, 'routes/front.json': { path: '/', layuot: {} } }), /routes\/front\.json.*\n[^]*help: did you mean `layout`\?/);
  const { client, parallax } = start();
  assert.throws(() => parallax.publish({ ...site, 'queries.json': '{' }), /queries\.json/);
  assert.equal((await client.routes()).version, '1');
});

test('scripted failures happen once each', async () => {
  const { client, parallax } = start();
  parallax.fail('network');
  parallax.fail(503);
  assert.equal((await client.resolve('/', {})).data.type, 'layout'); // after two retries
  parallax.fail('timeout');
  assert.equal((await createDecide(client, { timeoutMs: 20 })('/', {})).error!.code, 'timeout');
});

test('the recorded events are kept: no duplicate, no rejected one, and none without consent', async () => {
  const { parallax } = start();
  const events = [{ type: 'track', messageId: 'm1', event: 'a', anonId: 'v1' }, { type: 'track', messageId: 'm2', event: 'b', anonId: 'v1' }];
  const others = [{ type: 'track', event: 'c' }, { type: 'track', event: 'd', anonId: 'v1', context: { consent: { measure: false } } }];
  assert.equal((await (await post(parallax.fetch, ...events, ...others)).json()).accepted, 2);
  assert.equal((await (await post(parallax.fetch, ...events)).json()).duplicates, 2);
  const body = JSON.stringify({ trackingId: 'track_test', ...events[0] });
  const minimal = await parallax.fetch('http://test/v1/track', { method: 'POST', body, headers: { prefer: 'return=minimal' } });
  assert.equal(minimal.status, 204);
  assert.deepEqual(parallax.events.map(({ event }) => event), ['a', 'b']);
});
