import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { type Client, createClient, handOver, visitorFrom } from '../../src/index.js';
import { type TestServer, startServer } from '../server.js';

const EVENT = { type: 'track', messageId: 'm1', timestamp: new Date().toISOString(), anonId: 'v1', event: 'Tent Bought', context: { locale: 'de-DE' } };
const cookie = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64');

describe('the hand-over of pending events', () => {
  let server: TestServer;
  let client: Client;
  let requests: any[];
  before(async () => {
    server = await startServer();
  });
  after(() => server.stop());
  beforeEach(() => {
    requests = [];
    const record: typeof fetch = (url, init) => {
      requests.push(JSON.parse(init!.body as string));
      return fetch(url, init);
    };
    client = createClient({ edgeUrl: server.url, trackingId: 'track_demo', fetch: record });
  });

  async function hand(pending: string, headers: Record<string, string> = {}, id = 'v1') {
    const request = new Request('http://shop.example/?a=1', { headers: { cookie: `anon_id=${id}; px_events=${pending}`, 'user-agent': 'Mozilla/5.0 (iPhone)', ...headers } });
    await handOver(client, request, await visitorFrom(request, { honorGpc: true }));
  }

  test('an event of the cookie is known to the next decision, and counts once', async () => {
    const pending = cookie({ sentAt: new Date().toISOString(), batch: [EVENT, { ...EVENT, messageId: 'm2', type: 'page', event: undefined }] });
    await hand(pending);
    await hand(pending);
    const { data } = await createClient({ edgeUrl: server.url, trackingId: 'track_demo' }).variants('/account/membership', { anonId: 'v1' });
    assert.equal(data.type !== 'redirect' && data.variants, 'greeting:owner');
    const records = await server.recorded((all) => all.length >= 2);
    assert.deepEqual(records.map(({ messageId, type }) => [messageId, type]), [['m1', 'track'], ['m2', 'page']]);
    assert.equal((records[0] as any).device, 'mobile');
    assert.equal((records[0] as any).language, 'de');
  });

  test('a forged or malformed cookie sends nothing', async () => {
    const foreign = { ...EVENT, anonId: 'v2' };
    const identify = { ...EVENT, type: 'identify', userId: 'u1' };
    const bad = ['', '%%%', cookie('{'), cookie('null'), cookie('{"batch":7}'), cookie({ batch: [null, 1, 'a'] }), cookie({ batch: [foreign, identify] }), 'A'.repeat(1501)];
    for (const pending of bad) await hand(pending);
    assert.deepEqual(requests, []);
  });

  test('unknown members and a fifth event are left out', async () => {
    const batch = Array.from({ length: 6 }, (_, i) => ({ ...EVENT, messageId: `x${i}`, userId: 'admin', set: { plan: 'gold' } }));
    await hand(cookie({ batch }));
    assert.equal(requests[0].batch.length, 4);
    assert.deepEqual(Object.keys(requests[0].batch[0]).sort(), Object.keys(EVENT).sort());
  });

  test('without consent, in a preview, and for a new visitor nothing is sent', async () => {
    const pending = cookie({ batch: [EVENT] });
    await hand(`${pending}; px_consent=p`);
    await hand(pending, { 'sec-gpc': '1' });
    await hand(pending, {}, 'undefined');
    const preview = new Request('http://shop.example/?px-preview', { headers: { cookie: `anon_id=v1; px_events=${pending}` } });
    await handOver(client, preview, await visitorFrom(preview));
    assert.deepEqual(requests, []);
  });

  test('a failure of Events does not reach the page', async () => {
    client = createClient({ edgeUrl: 'http://127.0.0.1:9', trackingId: 'track_demo' });
    await hand(cookie({ batch: [EVENT] }));
  });
});
