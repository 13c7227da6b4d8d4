// The hash of a user ID: computed on a server, and carried by decisions and events.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createClient, userHash } from '../../src/index.js';
import { createNodeEvents } from '../../src/node.js';
import { DEMO, type TestServer, startServer } from '../server.js';

const KEY = '0123456789abcdef0123456789abcdef';

test('userHash is the HMAC-SHA-256 of common tools, in hex', async () => {
  // printf u1 | openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef
  assert.equal(await userHash(KEY, 'u1'), '39536bc0c20e6efcd22ec30bb96eec5aff9be6a37fe8e9db166b4cc950c94e7e');
  const mail = 'jürgen@shop.example';
  assert.equal(await userHash(KEY, mail), createHmac('sha256', KEY).update(mail).digest('hex'));
  await assert.rejects(userHash('', 'u1'), /`key` is empty/);
});

test('a decision carries the hash in a header beside the headers of the caller, and never in the URL', async () => {
  const sent: { url: string; headers: Headers }[] = [];
  const fake: typeof fetch = async (url, init) => {
    sent.push({ url: String(url), headers: new Headers(init?.headers) });
    return Response.json({ type: 'decision', variants: '' });
  };
  const client = createClient({ edgeUrl: 'http://127.0.0.1:1', trackingId: 'track_demo', fetch: fake });
  const visitor = { userId: 'u1', userHash: await userHash(KEY, 'u1') };
  for (const headers of [undefined, { 'Sec-GPC': '1' }, [['sec-gpc', '1']] as [string, string][], new Headers({ 'sec-gpc': '1' })]) {
    await client.variants('/', visitor, { init: { headers } });
    await client.resolve('/', visitor, { init: { headers } });
    for (const request of sent.splice(0)) {
      assert.equal(request.headers.get('x-user-hash'), visitor.userHash);
      assert.equal(request.headers.get('sec-gpc'), headers ? '1' : null);
      assert.match(request.url, /userId=u1/);
      assert.ok(!/hash/i.test(request.url), request.url);
    }
  }
  await client.variants('/', { userId: 'u1' });
  assert.equal(sent[0]!.headers.get('x-user-hash'), null);
});

describe('a site that verifies user IDs', () => {
  const home = mkdtempSync(path.join(tmpdir(), 'parallax-keys-'));
  let server: TestServer;
  before(async () => {
    const [keys, site] = [path.join(home, 'keys'), path.join(home, 'site')];
    writeFileSync(keys, `signed ${KEY}\n`, { mode: 0o600 });
    cpSync(DEMO, site, { recursive: true });
    const file = path.join(site, 'site.json');
    const authored = JSON.parse(readFileSync(file, 'utf8'));
    writeFileSync(file, JSON.stringify({ ...authored, site: 'signed', trackingId: 'track_signed', identity: { verify: 'signed' } }));
    server = await startServer(['--identity-keys', keys]);
    server.publish(site, 'signed');
    const isServed = async () => (await fetch(`${server.url}/v1/site?site=signed`)).ok;
    for (let tries = 0; !(await isServed()); tries++) {
      assert.ok(tries < 200, 'the site is not served');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  });
  after(async () => {
    await server.stop();
    rmSync(home, { recursive: true, force: true });
  });

  test('events and decisions of a user count with the hash alone', async () => {
    const client = createClient({ edgeUrl: server.url, trackingId: 'track_signed' });
    const [errors, signed] = [[] as string[], await userHash(KEY, 'user-7')];
    const events = createNodeEvents({ eventsUrl: server.url, trackingId: 'track_signed', flushMs: 1, onError: ({ code }) => errors.push(code) });
    const refused = await events.visitor({ userId: 'user-7' }).track('Tent Bought');
    assert.deepEqual([refused, errors.length], [null, 1]);
    const receipt = await events.visitor({ userId: 'user-7', userHash: signed }).track('Tent Bought');
    assert.deepEqual([receipt?.accepted, receipt?.warnings], [1, undefined]);
    const identified = await events.visitor({ anonId: 'laptop' }).identify('user-7', { plan: 'member' }, { userHash: signed });
    assert.deepEqual([identified?.accepted, identified?.warnings], [1, undefined]);
    const thief = await events.visitor({ anonId: 'thief', userHash: signed }).identify('user-8', {}, { userHash: signed });
    assert.deepEqual(thief?.warnings?.map(({ code, pointer }) => [code, pointer]), [['unverified_user', '/batch/0/userId']]);
    const variants = async (visitor: object) => ((await client.variants('/account/membership', visitor)).data as { variants: string }).variants;
    assert.match(await variants({ userId: 'user-7', userHash: signed }), /greeting:member/);
    assert.doesNotMatch(await variants({ userId: 'user-7' }), /greeting:member/);
    assert.doesNotMatch(await variants({ userId: 'user-7', userHash: await userHash(KEY, 'user-8') }), /greeting:member/);
    const records = await server.recorded((all) => all.length >= 3);
    assert.deepEqual(records.map(({ anonId, userId }) => [anonId, userId]), [[null, 'user-7'], ['laptop', 'user-7'], ['thief', null]]);
    assert.ok(!JSON.stringify(records).includes(signed), 'no record has the hash');
    await events.close();
  });
});
