// The parts of the contract that the SDK needs.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Client, createClient, visitorFrom } from '../../src/index.js';
import { type TestServer, startServer } from '../server.js';

describe('the contract of the SDK', () => {
  let server: TestServer;
  let client: Client;
  before(async () => {
    server = await startServer();
    client = createClient({ edgeUrl: server.url, trackingId: 'track_demo' });
  });
  after(() => server.stop());

  test('`type` of a decision', async () => {
    assert.equal((await client.variants('/', {})).data.type, 'decision');
  });

  test('`experiments` in resolve and variants', async () => {
    const arms = new Set<string>();
    for (let i = 0; i < 40; i++) {
      const { data } = await client.variants('/', { anonId: `arm-${i}`, locale: 'en' });
      const { experiments, selected } = data as { experiments: string; selected: Record<string, string> };
      const arm = /(?:^|,)slow-front:([^,]+)/.exec(experiments)?.[1];
      assert.equal(arm, selected.hero);
      arms.add(arm!);
    }
    assert.deepEqual([...arms].sort(), ['default', 'slow']); // the control arm is named too
    const layout = await client.resolve('/', { anonId: 'arm-1' });
    assert.equal(typeof (layout.data as { experiments?: string }).experiments, 'string');
    const forced = await client.resolve('/', { variants: '' });
    assert.equal('experiments' in forced.data, false);
    assert.equal(((await client.variants('/', {})).data as { experiments: string }).experiments, '');
  });

  test('`override`', async () => {
    const { data } = await client.variants('/', { override: 'hero:welcome-back' });
    assert.equal(data.type === 'decision' && data.selected.hero, 'welcome-back');
  });

  test('`personalize=0`', async () => {
    const event = { trackingId: 'track_demo', anonId: 'owner-1', event: 'Tent Bought' };
    await fetch(`${server.url}/v1/track`, { method: 'POST', body: JSON.stringify(event) });
    const of = async (cookie: string) => {
      const v = await visitorFrom(new Request('http://shop.example/', { headers: { cookie } }));
      const { data } = await client.variants('/account/membership', { ...v.visitor, anonId: 'owner-1' }, v.request);
      return data.type === 'redirect' ? '' : data.variants;
    };
    assert.deepEqual([await of('px_consent=1'), await of('px_consent=m')], ['greeting:owner', '']);
  });

  test('`userId` of a decision', async () => {
    const event = { trackingId: 'track_demo', userId: 'user-7', event: 'Tent Bought' };
    await fetch(`${server.url}/v1/track`, { method: 'POST', body: JSON.stringify(event) });
    const { data } = await client.variants('/account/membership', { userId: 'user-7' });
    assert.equal(data.type !== 'redirect' && data.variants, 'greeting:owner');
  });

  test('`GET /v1/site`', async () => {
    const { data, version } = await client.site();
    assert.deepEqual([data.site, data.trackingId, data.cookie, data.privacy.honorGpc, data.preview], ['fjell', 'track_demo', 'anon_id', true, null]);
    assert.match(version!, /^\d+$/);
  });

  test('`total` of an embedded query', async () => {
    const { data } = await client.resolve('/tents', { variants: '' });
    const grid = Object.values((data as any).layout.zones).flat().find((node: any) => node.nextCursor) as any;
    const { data: next } = await client.more(grid);
    assert.equal(grid.total, next.total);
  });

  test('`queries` of the list of routes', async () => {
    const { queries } = await client.routes();
    assert.ok(queries!.some(({ id, hash }) => id === 'products' && hash));
  });

  test('`GET /v1/parallax.js`', async () => {
    const response = await fetch(`${server.url}/v1/parallax.js`);
    const script = await response.text();
    assert.deepEqual([response.status, response.headers.get('content-type')], [200, 'text/javascript; charset=utf-8']);
    assert.equal(script, readFileSync(path.join(process.env.PARALLAX_SDK!, 'parallax.js'), 'utf8'));
    const own = `/v1/parallax.js?h=${createHash('sha256').update(script).digest('hex').slice(0, 16)}`;
    assert.equal(response.headers.get('content-location'), own);
    assert.match((await fetch(server.url + own)).headers.get('cache-control')!, /immutable/);
  });
});
