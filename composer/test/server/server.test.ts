// The handler against a real server with an access file.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileStorage } from '../../src/server/files.js';
import { type Role, composerHandler } from '../../src/server/handler.js';
import { AUTHOR, ENVIRONMENT, parallax, program, temporaryDirectory } from './site.js';

/** Bound of the start of a server. It takes under a second on a laptop. */
const START_MS = 30_000;
const ORIGIN = 'https://www.example.com';
const DEMO = path.resolve(process.env.PARALLAX_COMPOSER!, '../snapshots/demo');

const home = temporaryDirectory();
const directory = path.join(home, 'site');
const access = path.join(home, 'access.toml');
let child: ReturnType<typeof spawn>;
let [url, admin] = ['', ''];
const tokens: Record<string, string> = {};

/** Makes a token. The program prints the entry of the access file on one stream, and the token on the other. */
function newToken(role: string): string {
  const words = ['token', 'new', '--name', role, '--role', role, '--site', 'fjell', '--days', '2'];
  const { status, stdout, stderr } = spawnSync(program(), words, { encoding: 'utf8', env: ENVIRONMENT });
  assert.equal(status, 0, stderr);
  tokens[role] = /pxt_\S+/.exec(stderr)![0];
  return stdout;
}

before(async () => {
  cpSync(DEMO, directory, { recursive: true });
  mkdirSync(path.join(home, 'snapshots'));
  parallax('compile', directory, '-o', `${home}/snapshots/`);
  writeFileSync(access, ['composer', 'analyst'].map(newToken).join('\n'), { mode: 0o600 });
  const words = ['serve', '--snapshots', `${home}/snapshots`, '--data', `${home}/data`, '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', '--access', access];
  child = spawn(program(), words, { stdio: ['ignore', 'pipe', 'pipe'], env: ENVIRONMENT });
  process.once('exit', () => child.kill('SIGKILL'));
  [url, admin] = await addresses();
});

after(() => void child?.kill('SIGKILL'));

function addresses(): Promise<[string, string]> {
  return new Promise((resolve, reject) => {
    let log = '';
    const fail = () => reject(new Error(`The server did not serve:\n${log}`));
    const timer = setTimeout(fail, START_MS);
    child.once('exit', fail);
    const read = (bytes: Buffer) => {
      log += bytes;
      const served = / serving url=(http:\/\/\S+)/.exec(log)?.[1];
      const address = /admin address url=(http:\/\/\S+)/.exec(log)?.[1];
      if (!served || !address) return;
      clearTimeout(timer);
      resolve([served, address]);
    };
    child.stdout!.on('data', read);
    child.stderr!.on('data', read);
  });
}

function handler(role: string, roles: Role[] = ['view'], token = tokens[role]!): (path: string, body?: object) => Promise<{ status: number; body: any }> {
  const handle = composerHandler({ storage: fileStorage({ directory }), authorize: async () => ({ user: AUTHOR, roles }), parallax: { adminUrl: admin, token } });
  return async (name, body) => {
    const headers = body ? { origin: ORIGIN, 'content-type': 'application/json' } : undefined;
    const response = await handle(new Request(`${ORIGIN}/api/${name}`, { method: body ? 'POST' : 'GET', body: body && JSON.stringify(body), headers }));
    return { status: response.status, body: await response.json() };
  };
}

/** Asks until the server, which has just started, is not busy. */
async function whenReady<T extends { status: number }>(ask: () => Promise<T>): Promise<T> {
  for (const endsAt = Date.now() + START_MS; ; await new Promise((resolve) => setTimeout(resolve, 50))) {
    const answer = await ask();
    if (answer.status !== 503 || Date.now() > endsAt) return answer;
  }
}

/** Records that a visitor has ordered the plan of a member. */
async function identify(anonId: string): Promise<void> {
  const event = { type: 'identify', anonId, userId: `user-${anonId}`, traits: { plan: 'member', secret: 'traits-secret' } };
  const response = await fetch(`${url}/v1/batch?site=fjell`, { method: 'POST', body: JSON.stringify({ batch: [event] }) });
  assert.equal(response.status, 200, await response.text());
}

const keyOf = (body: any, zone: string) => body.decisions.find((decision: any) => decision.zone === zone);

test('the sizes of audiences are those of the server', async () => {
  const { status, body } = await whenReady(() => handler('composer')('sizes'));
  assert.equal(status, 200, JSON.stringify(body));
  const names = Object.keys(JSON.parse(readFileSync(path.join(directory, 'audiences.json'), 'utf8')));
  assert.deepEqual(body.audiences.map((audience: any) => audience.name).sort(), names.sort());
  assert.ok(body.audiences.every((audience: any) => audience.atLeast === 0 && typeof audience.atMost === 'number' && audience.condition));
});

test('an invented visitor gets a decision with its reasons', async () => {
  const german = await handler('composer')('explain', { path: '/', url: 'https://x.example/?utm_source=sunday-letter', now: '2030-03-01T09:00:00Z', visitor: { locale: 'de-AT', country: 'NO' } });
  assert.equal(german.status, 200, JSON.stringify(german.body));
  assert.equal(german.body.type, 'layout');
  const zone = german.body.decisions.find((decision: any) => decision.key === 'deutsch');
  assert.equal(zone.source, 'audience');
  assert.deepEqual(zone.rules[0].why, { path: 'locale', operator: '$regex', expected: '^de', actual: 'de-AT' });
  const english = await handler('composer')('explain', { path: '/', visitor: { locale: 'en' } });
  assert.notEqual(keyOf(english.body, zone.zone).key, 'deutsch');
  const forced = await handler('composer')('explain', { path: '/', override: { [zone.zone]: 'deutsch' }, visitor: { locale: 'en' } });
  assert.equal(keyOf(forced.body, zone.zone).source, 'forced');
  const back = await handler('composer')('explain', { path: '/', visitor: { events: [{ type: 'page', at: '-3d', properties: { path: '/' } }] } });
  assert.equal(keyOf(back.body, 'hero').key, 'welcome-back');
  const redirect = await handler('composer')('explain', { path: '/campaigns/winter-sale' });
  assert.deepEqual([redirect.status, redirect.body.type], [200, 'redirect']);
  for (const { body } of [german, english, forced, back]) assert.equal('visitor' in body || 'visitorToken' in body || 'layout' in body, false);
});

test('refusals of a question are passed on', async () => {
  const ask = handler('composer');
  assert.deepEqual((({ status, body }) => [status, body.code])(await ask('explain', { path: '/no-such-page' })), [400, 'invalid_param']);
  assert.deepEqual((({ status, body }) => [status, body.code])(await ask('explain', { path: '/', now: 'yesterday' })), [400, 'invalid_param']);
  assert.deepEqual((({ status, body }) => [status, body.code])(await ask('explain', { path: '//', anonId: 'a' })), [403, 'role_missing']);
});

test('a real visitor needs the role visitors, and its profile is never sent on', async () => {
  await identify('member-1');
  const question = { path: '/account/membership', anonId: 'member-1' };
  assert.equal((await handler('analyst')('explain', question)).status, 403);
  const real = await handler('analyst', ['view', 'visitors'])('explain', question);
  assert.equal(real.status, 200, JSON.stringify(real.body));
  const text = JSON.stringify(real.body);
  assert.match(text, /"expected":\["member","household"\],"actual":"member"/);
  assert.doesNotMatch(text, /traits-secret|user-member-1|"visitor"/);
  // A token of the role composer knows no recorded visitor.
  const invented = await handler('composer', ['view', 'visitors'])('explain', question);
  assert.equal(invented.status, 200);
  assert.doesNotMatch(JSON.stringify(invented.body), /"actual":"member"/);
});

test('a wrong token and a site that is not published are named errors', async () => {
  const refused = await handler('', ['view'], 'pxt_wrong-token-of-a-composer')('sizes');
  assert.deepEqual([refused.status, refused.body.code], [502, 'admin_refused']);
  const site = path.join(directory, 'site.json');
  const text = readFileSync(site, 'utf8');
  writeFileSync(site, JSON.stringify({ site: 'other' }));
  try {
    assert.equal((await handler('composer')('sizes')).body.code, 'site_not_found');
  } finally {
    writeFileSync(site, text);
  }
});

test('the token of the composer reads no visitors and no numbers, and erases nothing', async () => {
  const refused: [method: string, path: string][] = [
    ['GET', '/visitors?site=fjell&anonId=member-1'], ['DELETE', '/visitors?site=fjell&anonId=member-1'], ['GET', '/visitors/records?site=fjell&anonId=member-1'],
    ['GET', '/visitors/export?site=fjell&anonId=member-1'], ['GET', '/visitors/explain?site=fjell&anonId=member-1&seq=1'], ['GET', '/insights/visitors?site=fjell'],
    ['GET', '/insights/overview?site=fjell'], ['GET', '/insights/live?site=fjell'], ['GET', '/metrics'], ['GET', '/access/links?site=fjell'],
  ];
  const status = async (method: string, target: string, token: string) => {
    const response = await fetch(`${admin}${target}`, { method, headers: { authorization: `Bearer ${token}` } });
    return [response.status, ((await response.json().catch(() => ({}))) as { code?: string }).code];
  };
  for (const [method, target] of refused) assert.deepEqual(await status(method, target, tokens['composer']!), [404, 'unknown_endpoint'], `${method} ${target}`);
  // These endpoints exist for another role.
  assert.equal((await status('GET', '/visitors?site=fjell&anonId=member-1', tokens['analyst']!))[0], 200);
});

test('a publication compiles the saved files, and the server serves them', async () => {
  const publish = async () => {
    parallax('compile', directory, '-o', `${home}/snapshots/`, '--version', String(Math.floor(Date.now() / 1000) + 100));
    return { status: 'published' };
  };
  const storage = fileStorage({ directory, publish });
  const handle = composerHandler({ storage, authorize: async () => ({ user: AUTHOR, roles: ['view', 'edit', 'publish'] }) });
  const post = (name: string, body: object) =>
    handle(new Request(`${ORIGIN}/${name}`, { method: 'POST', body: JSON.stringify(body), headers: { origin: ORIGIN, 'content-type': 'application/json' } }));
  const { files, revision } = (await (await handle(new Request(`${ORIGIN}/site`))).json()) as any;
  const about = files['routes/about.json'];
  const text = about.text.replace('"/about"', '"/about-us"');
  assert.notEqual(text, about.text);
  const saved = (await (await post('save', { base: revision, message: 'Move the page', changes: [{ path: 'routes/about.json', text, etag: about.etag }] })).json()) as any;
  assert.equal((await post('publish', { revision })).status, 409);
  assert.deepEqual(await (await post('publish', { revision: saved.revision })).json(), { status: 'published' });
  for (const endsAt = Date.now() + START_MS; ; await new Promise((resolve) => setTimeout(resolve, 50))) {
    const { status } = await fetch(`${url}/v1/resolve?site=fjell&route=/about-us`);
    if (status === 200) break;
    assert.ok(Date.now() < endsAt, `${status}`);
  }
});
