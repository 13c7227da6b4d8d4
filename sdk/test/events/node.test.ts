import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { createNodeEvents } from '../../src/node.js';
import { type TestServer, startServer } from '../server.js';

describe('events in Node with a real server', () => {
  let server: TestServer;
  before(async () => {
    server = await startServer();
  });
  after(() => server.stop());

  test('every kind of event is recorded for its visitor', async () => {
    const events = createNodeEvents({ eventsUrl: server.url, trackingId: 'track_demo' });
    const visitor = events.visitor({ anonId: 'node-1', variants: 'hero:deutsch', context: { locale: 'de-DE' } });
    const receipts = await Promise.all([
      visitor.page({ path: '/tents' }),
      visitor.track('Order Placed', { revenue: 12 }),
      visitor.identify('u1', { plan: 'member' }),
      visitor.increment({ orders: 1 }),
    ]);
    assert.deepEqual(receipts.map((receipt) => receipt!.accepted), [4, 4, 4, 4]); // one request
    const all = await server.recorded((records) => records.length >= 4); // an export may be a moment behind the receipt
    const records = all.filter(({ anonId }) => anonId === 'node-1');
    assert.deepEqual(records.map(({ type }) => type), ['page', 'track', 'identify', 'profile']);
    assert.deepEqual([records[0]!.path, records[0]!.variants, records[1]!.event], ['/tents', 'hero:deutsch', 'Order Placed']);
    await events.close();
  });

  test('an event changes the next decision of its visitor', async () => {
    const events = createNodeEvents({ eventsUrl: server.url, trackingId: 'track_demo', flushMs: 1 });
    await events.visitor({ anonId: 'node-2' }).identify('u2', { plan: 'member' });
    const decision = await (await fetch(`${server.url}/v1/variants?trackingId=track_demo&route=/account/membership&anonId=node-2`)).json();
    assert.match(decision.variants, /greeting:/);
    await events.close();
  });

  test('a preview, and a visitor without consent, send nothing', async () => {
    const events = createNodeEvents({ eventsUrl: server.url, trackingId: 'track_demo' });
    assert.equal(await events.visitor({ anonId: 'node-3', preview: true }).track('a'), null);
    assert.equal(await events.visitor({ anonId: 'node-3', consent: { personalize: true, measure: false } }).track('a'), null);
    assert.equal(events.pending, 0);
    await events.close();
  });

  test('flushAt sends at once, and a full queue refuses an event', async () => {
    const errors: string[] = [];
    const events = createNodeEvents({ eventsUrl: server.url, trackingId: 'track_demo', flushAt: 2, flushMs: 60_000, queueMax: 2, onError: ({ code }) => errors.push(code) });
    const visitor = events.visitor({ anonId: 'node-4' });
    const [first, , refused] = [visitor.track('a'), visitor.track('b'), visitor.track('c')];
    assert.equal((await first)!.accepted, 2);
    assert.equal(await refused, null);
    assert.deepEqual(errors, ['queue_overflow']);
    await events.close();
    assert.equal(await visitor.track('d'), null);
    assert.deepEqual(errors, ['queue_overflow', 'closed']);
  });

  test('close reports the events that it could not send', async () => {
    const errors: string[] = [];
    const events = createNodeEvents({ eventsUrl: 'http://127.0.0.1:9', trackingId: 'track_demo', flushMs: 60_000, onError: ({ code }) => errors.push(code) });
    const receipt = events.visitor({ anonId: 'node-5' }).track('a');
    await events.close();
    assert.deepEqual([await receipt, events.pending, errors], [null, 0, ['network']]);
  });

  test('a program that ends sends its queue first', async () => {
    const code = `import { createNodeEvents } from '@parallax/sdk/node';
      createNodeEvents({ eventsUrl: ${JSON.stringify(server.url)}, trackingId: 'track_demo', flushMs: 60000 }).visitor({ anonId: 'node-6' }).track('Left');`;
    execFileSync(process.execPath, ['--input-type=module', '-e', code], { timeout: 20_000, cwd: process.env.PARALLAX_PACKED });
    const left = await server.recorded((records) => records.some(({ anonId }) => anonId === 'node-6'));
    assert.deepEqual(left.filter(({ anonId }) => anonId === 'node-6').map(({ event }) => event), ['Left']);
  });
});
