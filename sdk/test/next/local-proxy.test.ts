// The proxy with `decide: 'local'`, a real server and the packed module.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { createClient } from '../../src/index.js';
import { type LocalClient, createLocalClient } from '../../src/local.js';
import { announcePublication } from '../../src/next/publications.js';
import { type Proxy, withParallax } from '../../src/next.js';
import { USER_AGENT } from '../chromium.js';
import { type LocalSite, startLocalSite } from '../local/site.js';
import { HOST, visit, warm } from './request.js';

const PAGE = '/account/membership';
const DOCUMENT = { 'user-agent': USER_AGENT, 'sec-fetch-dest': 'document' };

describe("the proxy with decide: 'local'", () => {
  let site: LocalSite;
  let client: LocalClient;
  let proxy: Proxy;
  before(async () => {
    site = await startLocalSite();
    client = createLocalClient({ edgeUrl: site.gateway.url, trackingId: 'track_demo', visitorKeys: site.visitorKeys });
    await client.refresh();
    proxy = withParallax(client, { decide: 'local', revalidate: '/none', timeoutMs: 2000 });
    await warm(proxy);
  });
  after(async () => {
    client?.close();
    await site?.stop();
  });
  afterEach(() => site.gateway.set('open'));

  const asked = () => site.gateway.requests.filter((request) => request.includes('/v1/variants')).length;
  const tokenCookie = (cookies: string[]) => cookies.find((text) => text.startsWith('px_visitor='));

  async function buyTent(anonId: string): Promise<string> {
    const body = JSON.stringify({ trackingId: 'track_demo', batch: [{ type: 'track', anonId, event: 'Tent Bought' }] });
    const response = await fetch(`${site.edge.url}/v1/batch?visitor=1`, { method: 'POST', headers: { 'user-agent': USER_AGENT }, body });
    return ((await response.json()) as any).visitorToken;
  }

  test('a new visitor is decided without a call, and gets an ID and no token', async () => {
    const before = asked();
    const { rewritten, cookies } = await visit(proxy, '/', { ...DOCUMENT, 'accept-language': 'de' });
    assert.match(rewritten!, /^\/px\/hero!deutsch/);
    assert.deepEqual([asked() - before, tokenCookie(cookies), cookies.some((text) => text.startsWith('anon_id='))], [0, undefined, true]);
  });

  test('a known visitor without a token is asked for once, and the token of the answer decides the next page', async () => {
    await buyTent('proxy-known');
    const first = await visit(proxy, PAGE, { ...DOCUMENT, cookie: 'anon_id=proxy-known' });
    const token = /^px_visitor=([^;~]+); Path=\/; SameSite=Lax; Max-Age=86400$/.exec(tokenCookie(first.cookies) ?? '')?.[1];
    assert.ok(token, String(first.cookies));
    const before = asked();
    const next = await visit(proxy, PAGE, { ...DOCUMENT, cookie: `anon_id=proxy-known; px_visitor=${token}` });
    assert.deepEqual([first.rewritten, next.rewritten, asked() - before, tokenCookie(next.cookies)], [`/px/greeting!owner${PAGE}`, `/px/greeting!owner${PAGE}`, 0, undefined]);
  });

  test('with a marked token Edge decides, and the token of the answer has the mark', async () => {
    const token = await buyTent('proxy-marked');
    const before = asked();
    const { cookies } = await visit(proxy, PAGE, { ...DOCUMENT, cookie: `anon_id=proxy-marked; px_visitor=~${token}` });
    assert.match(tokenCookie(cookies)!, /^px_visitor=~1\./);
    assert.equal(asked() - before, 1);
  });

  test('a prefetch is decided, and sets no token', async () => {
    await buyTent('proxy-prefetch');
    const { rewritten, cookies } = await visit(proxy, PAGE, { ...DOCUMENT, 'sec-fetch-dest': 'empty', cookie: 'anon_id=proxy-prefetch' });
    assert.deepEqual([rewritten, tokenCookie(cookies)], [`/px/greeting!owner${PAGE}`, undefined]);
  });

  test('with Edge stopped, a token and a marked token decide, and that of another visitor does not', async () => {
    const token = await buyTent('proxy-down');
    site.gateway.set('refuse');
    const page = async (cookie: string) => (await visit(proxy, PAGE, { ...DOCUMENT, cookie })).rewritten;
    assert.equal(await page(`anon_id=proxy-down; px_visitor=${token}`), `/px/greeting!owner${PAGE}`);
    assert.equal(await page(`anon_id=proxy-down; px_visitor=~${token}`), `/px/greeting!owner${PAGE}`);
    assert.equal(await page(`anon_id=proxy-other; px_visitor=${token}`), `/px/-${PAGE}`);
  });

  test('a refusal to personalize is decided without the token, which is deleted', async () => {
    const token = await buyTent('proxy-refused');
    const before = asked();
    const { rewritten, cookies } = await visit(proxy, PAGE, { ...DOCUMENT, cookie: `anon_id=proxy-refused; px_visitor=${token}; px_consent=m` });
    assert.deepEqual([rewritten, asked() - before], [`/px/-${PAGE}`, 0]);
    assert.match(tokenCookie(cookies)!, /^px_visitor=; .*Max-Age=0/);
  });

  test('a call of the revalidation handler refreshes the rules', async () => {
    const before = client.rulesVersion;
    await site.publish();
    await announcePublication(createClient({ edgeUrl: HOST, trackingId: 'track_demo' }));
    assert.ok(Number(client.rulesVersion) > Number(before));
  });

  test("decide: 'edge' asks Edge, and decide: 'local' needs a client that can", async () => {
    const before = asked();
    await visit(withParallax(client, { revalidate: '/none', timeoutMs: 2000 }), '/', DOCUMENT);
    assert.equal(asked() - before, 1);
    assert.throws(() => withParallax(client.edge, { decide: 'local' }), /createLocalClient/);
  });
});
