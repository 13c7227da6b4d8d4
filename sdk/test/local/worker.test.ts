// The worker of docs/local.md in workerd, before a website of static pages.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { USER_AGENT } from '../chromium.js';
import { until } from '../example/site.js';
import { type LocalSite, startLocalSite } from './site.js';
import { type Worker, startWorker } from './workerd.js';

const GERMAN = { 'user-agent': USER_AGENT, 'accept-language': 'de' };

describe('the worker of docs/local.md', () => {
  let site: LocalSite;
  let origin: Server;
  let worker: Worker;
  before(async () => {
    site = await startLocalSite();
    origin = createServer((request, response) => response.end(request.url)); // the path of the static page
    await new Promise<void>((resolve) => origin.listen(0, '127.0.0.1', resolve));
    const page = readFileSync(path.resolve(process.env.PARALLAX_SDK!, '../docs/local.md'), 'utf8');
    const text = /`worker\.ts`:\n\n```ts\n(.*?)^```$/ms.exec(page)![1]!;
    worker = await startWorker(text, {
      EDGE_URL: site.gateway.url,
      TRACKING_ID: 'track_demo',
      ORIGIN: `http://127.0.0.1:${(origin.address() as AddressInfo).port}`,
      PARALLAX_VISITOR_KEYS: site.visitorKeys,
    });
  });
  after(async () => {
    await worker?.stop();
    origin?.close();
    await site?.stop();
  });

  const get = (pathname: string, cookie = '') => fetch(worker.url + pathname, { redirect: 'manual', headers: { ...GERMAN, cookie } });
  const asked = () => site.gateway.requests.filter((request) => request.includes('/v1/variants')).length;
  const tokenOf = (response: Response) => response.headers.getSetCookie().find((text) => text.startsWith('px_visitor='))?.split(/[=;]/)[1];

  test('Edge decides the first request, and the worker those after it', async () => {
    const first = await get('/');
    assert.match(await first.text(), /^\/px\/hero!deutsch.*\/$/);
    await until(async () => {
      const before = asked();
      await get('/');
      return asked() === before;
    });
    const before = asked();
    const response = await get('/?a=1');
    assert.match(await response.text(), /^\/px\/hero!deutsch.*\/\?a=1$/);
    assert.equal(response.headers.get('cache-control'), 'private, no-cache');
    assert.match(response.headers.getSetCookie().join(), /anon_id=/);
    assert.equal(asked(), before);
  });

  test('a known visitor is asked for once, and gets a token that decides while Edge is down', async () => {
    const event = { trackingId: 'track_demo', anonId: 'worker-visitor', event: 'Tent Bought' };
    await fetch(`${site.edge.url}/v1/track`, { method: 'POST', headers: { 'user-agent': USER_AGENT }, body: JSON.stringify(event) });
    const token = tokenOf(await get('/account/membership', 'anon_id=worker-visitor'));
    assert.ok(token);
    const before = asked();
    site.gateway.set('refuse');
    const known = await get('/account/membership', `anon_id=worker-visitor; px_visitor=${token}`);
    assert.equal(asked(), before);
    const other = await get('/account/membership', `anon_id=worker-stranger; px_visitor=${token}`);
    const marked = await get('/account/membership', `anon_id=worker-visitor; px_visitor=~${token}`);
    site.gateway.set('open');
    assert.equal(await known.text(), '/px/greeting!owner/account/membership');
    assert.equal(await marked.text(), '/px/greeting!owner/account/membership');
    assert.equal(await other.text(), '/px/-/account/membership');
  });

  test('a publication is in the decisions of the worker without a restart', async () => {
    await site.publish();
    const rules = () => site.gateway.requests.filter((request) => request.includes('/v1/rules')).length;
    const before = rules();
    await until(async () => {
      await get('/');
      return rules() > before;
    });
  });

  test('a redirect of the site is a redirect of the worker', async () => {
    const response = await get('/sleep');
    assert.deepEqual([response.status, response.headers.get('location')], [308, '/sleeping-bags']);
  });
});
