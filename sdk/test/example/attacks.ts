import assert from 'node:assert/strict';
import { request } from 'node:http';
import { test } from 'node:test';
import { USER_AGENT } from '../chromium.js';
import { type Site, get } from './site.js';

const cookie = (text: string) => ({ cookie: `px_consent=1; ${text}` });
const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Requests a path as it is written. `fetch` would resolve `%2e%2e`. */
function statusOf(origin: string, pathname: string): Promise<number> {
  const { hostname, port } = new URL(origin);
  return new Promise((resolve, reject) => {
    request({ hostname, port, path: pathname, headers: { 'user-agent': USER_AGENT } }, (response) => resolve(response.resume().statusCode!)).on('error', reject).end();
  });
}

export function attackCases(site: () => Site): void {
  /** Another visitor gets the right page: Edge is asked, and its answer is shown. */
  async function expectOthersUnharmed() {
    const german = await get(site(), '/', { 'accept-language': 'de', ...cookie('anon_id=another-visitor') });
    assert.deepEqual([german.status, german.heading], [200, 'Gemacht für den dritten Regentag']);
  }
  const resolved = (pattern: RegExp) => site().gateway.requests.filter((target) => target.includes('/v1/resolve') && pattern.test(target)).length;

  test('forged draft cookies are an ordinary visitor, and fill no cache', async () => {
    const forged = ['__prerender_bypass=0123456789abcdef0123456789abcdef', 'px_preview=99999999999.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA', '__prerender_bypass=x; px_preview=x'];
    for (const text of forged) {
      const page = await get(site(), '/about?px-variants=hero:forged', { ...cookie(text) });
      assert.deepEqual([page.status, page.headers.get('cache-control')], [200, 'private, no-cache'], text);
      const escape = await get(site(), '/about?px-variants=../../api/parallax/revalidate', { ...cookie(text) });
      assert.equal(escape.status, 200, text);
    }
    assert.equal(resolved(/forged/), 0);
    assert.equal(resolved(/track_demo--draft.*about/), 0);
    await expectOthersUnharmed();
  });

  test('a forged hand-over cookie records nothing for another visitor', async () => {
    const event = { type: 'track', messageId: 'forged-1', timestamp: new Date().toISOString(), anonId: 'victim', event: 'Tent Bought' };
    const texts = [base64({ batch: [event] }), base64({ batch: [{ ...event, anonId: 'attacker', type: 'identify', userId: 'member-ada' }] }), '%%%', base64(null), 'A'.repeat(3000)];
    for (const text of texts) assert.equal((await get(site(), '/account/membership', cookie(`anon_id=attacker; px_events=${text}`))).status, 200);
    assert.ok(!site().edge.records().some(({ anonId, messageId }) => anonId === 'victim' || messageId === 'forged-1'));
    const victim = await get(site(), '/account/membership', cookie('anon_id=victim'));
    assert.match(victim.text, /At present 4212 people/);
  });

  test('a damaged ID ten times is a new visitor each time, and the breaker stays closed', async () => {
    const before = site().gateway.requests.length;
    for (let i = 0; i < 10; i++) {
      const page = await get(site(), '/', cookie('anon_id=%20'));
      assert.equal(page.status, 200);
      assert.match(page.headers.get('set-cookie')!, /anon_id=[0-9a-f-]{36};/);
    }
    const decisions = site().gateway.requests.slice(before).filter((target) => target.includes('/v1/variants'));
    assert.equal(decisions.length, site().isLocal ? 0 : 10); // a new visitor is decided in process
    await expectOthersUnharmed();
  });

  test('of several ID cookies the first usable one wins, as for Edge', async () => {
    const page = await get(site(), '/', cookie('anon_id=null; anon_id=first-id; anon_id=second-id'));
    assert.match(page.headers.get('set-cookie')!, /anon_id=first-id;/);
    assert.ok(site().gateway.requests.at(-1)!.includes('anonId=first-id') || site().gateway.requests.some((target) => target.includes('anonId=first-id')));
    assert.ok(!site().gateway.requests.some((target) => target.includes('second-id')));
  });

  test('garbage paths and combinations are 404 or the page itself, and fill no cache', async () => {
    for (const pathname of ['/px/-/%00', '/px/%2e%2e/api', '/%70x/-/about', '/p%78/hero!slow', '/px%2F-%2Fabout', '/px/hero!a~hero!b', '/px/~/~/~', '/px/hero!deutsch/about', `/px/${'a'.repeat(300)}/about`]) {
      assert.equal(await statusOf(site().url, pathname), 404, pathname);
    }
    for (const pathname of ['/%ff', '/%', '/a%2Fb', '/..%2f..%2fapi', '/about%00']) {
      const status = await statusOf(site().url, pathname);
      assert.ok(status === 404 || status === 400 || status === 308, `${pathname}: ${status}`);
    }
    const authorized = await get(site(), '/px/-/about', { authorization: 'Bearer wrong' });
    assert.equal(authorized.status, 404);
    assert.equal(resolved(/hero%3A[ab]\b|hero%3Adeutsch&route=%2Fabout|a{300}|%00|%2Fapi/), 0);
    await expectOthersUnharmed();
  });

  test('the revalidation handler needs the secret', async () => {
    const post = (headers: Record<string, string>) => fetch(`${site().url}/api/parallax/revalidate`, { method: 'POST', headers });
    assert.equal((await post({})).status, 401);
    assert.equal((await post({ authorization: 'Bearer wrong' })).status, 401);
  });
}
