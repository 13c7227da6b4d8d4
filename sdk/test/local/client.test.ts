// The client that decides in process, with a real server and the packed module.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { ParallaxError, createClient, createDecide, handOver, visitorFrom } from '../../src/index.js';
import { type LocalClient, createLocalClient } from '../../src/local.js';
import type { Decision, Visitor, VisitorPast } from '../../src/types.js';
import { USER_AGENT } from '../chromium.js';
import { until } from '../example/site.js';
import { type LocalSite, makeKeys, startLocalSite } from './site.js';

const CLOSED = 'http://127.0.0.1:9';
const PATHS = ['/', '/tents', '/about', '/account/membership', '/products/rype-2', '/stoves', '/sleep', '/magazine'];

let site: LocalSite;
let home: string;
const clients: LocalClient[] = [];

/** Makes a client with its rules in memory. */
async function local(options: Partial<Parameters<typeof createLocalClient>[0]> = {}): Promise<LocalClient> {
  const client = createLocalClient({ edgeUrl: site.gateway.url, trackingId: 'track_demo', visitorKeys: site.visitorKeys, ...options });
  clients.push(client);
  await client.refresh();
  return client;
}

async function record(anonId: string, ...events: string[]): Promise<string | null> {
  const batch = events.map((event) => ({ type: 'track', anonId, event }));
  const body = JSON.stringify({ trackingId: 'track_demo', batch });
  const response = await fetch(`${site.edge.url}/v1/batch?visitor=1`, { method: 'POST', headers: { 'user-agent': USER_AGENT }, body });
  return ((await response.json()) as { visitorToken: string | null }).visitorToken;
}

const past = (token: string | null, isStale = false): VisitorPast => ({ isNew: false, token, isStale });
const asked = () => site.gateway.requests.filter((request) => request.includes('/v1/variants')).length;
const variantsOf = ({ data }: { data: unknown }) => (data as Decision).variants;

describe('the client that decides in process', () => {
  before(async () => {
    home = mkdtempSync(path.join(tmpdir(), 'parallax-keys-'));
    site = await startLocalSite();
  });
  after(async () => {
    await site?.stop();
    rmSync(home, { recursive: true, force: true });
  });
  afterEach(() => {
    site.gateway.set('open');
    for (const client of clients.splice(0)) client.close();
  });

  test('its decisions are those of Edge, for new and known visitors and all pages', async () => {
    const client = await local();
    const edge = createClient({ edgeUrl: site.edge.url, trackingId: 'track_demo' });
    const histories = [[], ['Tent Bought'], ['Stove Bought', 'Tent Bought'], ['Newsletter Joined']];
    let count = 0;
    for (const [i, events] of histories.entries()) {
      const anonId = `same-${i}`;
      const token = events.length ? await record(anonId, ...events) : null;
      for (const route of PATHS) {
        for (const [language, userAgent] of [['de-DE', USER_AGENT], ['en', 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Safari/604.1'], ['en', 'Googlebot/2.1']] as const) {
          const visitor: Visitor = { anonId, userAgent, url: `https://shop.example${route}?utm_source=letter`, country: 'NO' };
          const request = { init: { headers: { 'accept-language': language } } };
          const expected = (await edge.variants(route, visitor, request)).data;
          const isNew = !events.length;
          const found = client.decideLocally(route, visitor, { ...request, past: { isNew, token, isStale: false } });
          assert.deepEqual(found?.data, expected, `${route} ${language} ${userAgent} ${events}`);
          count += 1;
        }
      }
    }
    assert.equal(count, histories.length * PATHS.length * 3);
    assert.equal(asked(), 0);
  });

  test('a new visitor and a refusal to personalize are decided in process, and a known visitor without a token by Edge', async () => {
    const client = await local();
    const before = asked();
    await client.variants('/', {});
    await client.variants('/', { anonId: 'new-visitor' }, { past: { isNew: true, token: null, isStale: false } });
    await client.variants('/', { personalize: false });
    assert.equal(asked(), before);
    await client.variants('/', { anonId: 'new-visitor' });
    await client.variants('/', { userId: 'user-7' });
    await client.variants('/', { userId: 'user-7' }, { past: { isNew: true, token: null, isStale: false } });
    assert.equal(asked(), before + 3);
  });

  test('a forged, cut or foreign token is never believed', async () => {
    const client = await local();
    const token = (await record('owner-of-the-token', 'Tent Bought'))!;
    const decide = (anonId: string, text: string) => client.decideLocally('/account/membership', { anonId, userAgent: USER_AGENT }, { past: past(text) }, true);
    assert.equal(variantsOf(decide('owner-of-the-token', token)!), 'greeting:owner');
    assert.equal(decide('another-visitor', token), null);
    for (let length = 0; length < token.length; length += 7) assert.equal(decide('owner-of-the-token', token.slice(0, length) || '?'), null, String(length));
    for (let at = 0; at < token.length; at += 3) {
      const changed = token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1);
      assert.equal(decide('owner-of-the-token', changed), null, changed);
    }
    for (const text of ['x', '1', '1.k1.', `${token}A`, `${token}.${token}`, 'A'.repeat(10_000)]) assert.equal(decide('owner-of-the-token', text), null, text);
  });

  test('without the keys, and with those of another secret, a token asks Edge', async () => {
    const token = (await record('rotated', 'Tent Bought'))!;
    const { visitorKeys } = makeKeys(home, 'k2');
    for (const keys of [undefined, visitorKeys]) {
      const client = await local({ visitorKeys: keys });
      const before = asked();
      const response = await client.variants('/account/membership', { anonId: 'rotated', userAgent: USER_AGENT }, { past: past(token) });
      assert.deepEqual([variantsOf(response), asked() - before], ['greeting:owner', 1]);
      assert.equal(typeof response.visitorToken, 'string');
    }
  });

  test('an event that was just acknowledged is in the next decision, 20 of 20', async () => {
    const client = await local();
    const shown: string[] = [];
    for (let i = 0; i < 20; i++) {
      const anonId = `fast-${i}`;
      const token = await record(anonId, 'Tent Bought');
      shown.push(variantsOf(client.decideLocally('/account/membership', { anonId, userAgent: USER_AGENT }, { past: past(token) })!));
    }
    assert.deepEqual(shown, Array(20).fill('greeting:owner'));
  });

  test('the hand-over returns a token with the events of the cookie, which decides without another call', async () => {
    const client = await local();
    const event = { type: 'track', messageId: 'handed-1', timestamp: new Date().toISOString(), anonId: 'handed', event: 'Tent Bought', context: {} };
    const pending = btoa(JSON.stringify({ sentAt: new Date().toISOString(), batch: [event] }));
    const request = new Request('http://shop.example/account/membership', { headers: { cookie: `anon_id=handed; px_visitor=~1.k1.old; px_events=${pending}`, 'user-agent': USER_AGENT } });
    const v = await visitorFrom(request);
    const before = asked();
    const choice = await createDecide(client, { timeoutMs: 2000 })('/account/membership', v.visitor, v.request, () => handOver(client, request, v, 1000));
    assert.deepEqual([choice.variants, typeof choice.visitorToken, asked() - before], ['greeting:owner', 'string', 0]);
  });

  test('with Edge stopped it decides for those who have a token, a marked one too, and fails for others as Edge does', async () => {
    const client = await local({ retries: 0 });
    const token = await record('while-down', 'Tent Bought');
    site.gateway.set('refuse');
    const ask = (anonId: string, known: VisitorPast) => client.variants('/account/membership', { anonId, userAgent: USER_AGENT }, { past: known });
    assert.equal(variantsOf(await ask('while-down', past(token))), 'greeting:owner');
    assert.equal(variantsOf(await ask('while-down', past(token, true))), 'greeting:owner');
    await assert.rejects(ask('while-down', past(null)), (error) => error instanceof ParallaxError && error.code === 'network');
    await assert.rejects(ask('another', past(token, true)), { code: 'network' });
  });

  test('resolve decides in process and takes the layout of the combination from Edge', async () => {
    const client = await local();
    const edge = createClient({ edgeUrl: site.edge.url, trackingId: 'track_demo' });
    const request = { init: { headers: { 'accept-language': 'de' } } };
    const visitor = { anonId: 'of-a-layout', userAgent: USER_AGENT };
    const expected = (await edge.resolve('/', visitor, request)).data;
    const found = await client.resolve('/', visitor, { ...request, past: { isNew: true, token: null, isStale: false } });
    assert.deepEqual(found.data, expected);
    const targets = site.gateway.requests.slice(-1).map((target) => new URL(target.split(' ')[1]!, 'http://edge').searchParams);
    assert.deepEqual([targets[0]!.get('anonId'), targets[0]!.has('variants')], [null, true]);
    assert.equal((await client.resolve('/sleep', visitor)).data.type, 'redirect');
    assert.equal((await client.resolve('/', { variants: '' })).data.type, 'layout');
  });

  test('a path that is not published, and a request that Edge refuses, are the problems of Edge', async () => {
    const client = await local();
    await assert.rejects(client.variants('/nothing/here', {}), { code: 'route_not_found' });
    await assert.rejects(client.variants('/', { anonId: 'x'.repeat(200) }, { past: { isNew: true, token: null, isStale: false } }), { status: 400 });
  });

  test('a publication is in the decisions after a refresh, and without one after refreshSeconds', async () => {
    const client = await local({ refreshSeconds: 0.05 });
    const first = client.rulesVersion;
    await site.publish();
    await client.refresh();
    const second = client.rulesVersion;
    assert.ok(Number(second) > Number(first));
    await site.publish();
    await until(() => Number(client.rulesVersion) > Number(second));
    assert.equal((client.decideLocally('/', {}))!.version, client.rulesVersion);
  });

  test('a site that makes its rules private is decided by Edge from then on, and says so once', async () => {
    const codes: string[] = [];
    const client = await local({ onError: ({ code }) => codes.push(code) });
    await site.publish(false);
    await client.refresh();
    await client.refresh();
    const before = asked();
    await client.variants('/', {});
    assert.deepEqual([client.rulesVersion, codes, asked() - before], [null, ['rules_not_published'], 1]);
    await site.publish(true);
    await client.refresh();
    assert.notEqual(client.rulesVersion, null);
  });

  test('the module can be given as bytes and compiled', async () => {
    const bytes = readFileSync(path.join(process.env.PARALLAX_PACKED!, 'node_modules/@parallax/sdk/dist/edge.wasm'));
    for (const module of [bytes, await WebAssembly.compile(bytes)]) assert.notEqual((await local({ module })).rulesVersion, null);
  });

  test('a process ends while a client keeps its rules fresh, and after close() Edge decides', async () => {
    const code = `import { createLocalClient } from '@parallax/sdk/local';
      const client = createLocalClient({ edgeUrl: '${site.edge.url}', trackingId: 'track_demo' });
      await client.refresh();
      console.log(client.rulesVersion !== null);`;
    const output = execFileSync(process.execPath, ['--input-type=module', '-e', code], { cwd: process.env.PARALLAX_PACKED, encoding: 'utf8', timeout: 20_000 });
    assert.equal(output.trim(), 'true');
    const client = await local();
    client.close();
    assert.deepEqual([client.rulesVersion, client.decideLocally('/', {})], [null, null]);
  });

  test('without Edge from the start, a decision fails as that of createClient, and the reason is reported once', async () => {
    const codes: string[] = [];
    const client = await local({ edgeUrl: CLOSED, retries: 0, onError: ({ code }) => codes.push(code) });
    await assert.rejects(client.variants('/', {}), { code: 'network' });
    await client.refresh();
    assert.deepEqual(codes, ['network']);
  });
});
