// Signs people in by OpenID Connect in front of the admin address, as docs/access.md says.
'use strict';
const { spawn, spawnSync } = require('node:child_process');
const { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } = require('node:fs');
const http = require('node:http');
const { createServer } = require('node:net');
const { tmpdir } = require('node:os');
const path = require('node:path');
const { createRequire } = require('node:module');

const parallax = process.argv[2];
const root = path.join(__dirname, '../..');
const home = mkdtempSync(path.join(tmpdir(), 'parallax-access-'));
// Apache gives up its rights of root, and then reads the directory.
chmodSync(home, 0o755);
const STEP_MS = 15_000;
const SECRET = 'secret-of-the-client';
const PEOPLE = { viewer: ['marketing'], privacy: [], stranger: ['sales'] };
const children = [];
const results = { passed: 0, failed: 0 };

process.once('exit', () => {
  // The group, because Apache has processes of its own.
  for (const child of children) if (child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
  rmSync(home, { recursive: true, force: true });
});

function check(name, found, expected) {
  const isEqual = JSON.stringify(found) === JSON.stringify(expected);
  results[isEqual ? 'passed' : 'failed'] += 1;
  console.log(isEqual ? `${name}: passed` : `${name}: FAILED: ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`);
}

// Returns the fenced block of the document that begins with a line of this text.
function documented(begin) {
  const blocks = readFileSync(path.join(root, 'docs/access.md'), 'utf8').split('```');
  const block = blocks.find((text) => text.split('\n')[1] === begin);
  if (!block) throw new Error(`docs/access.md has no block that begins with ${begin}`);
  return block.slice(block.indexOf('\n') + 1);
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

async function until(what, probe) {
  const end = Date.now() + STEP_MS;
  for (;;) {
    const found = await probe().catch(() => null);
    if (found) return found;
    if (Date.now() > end) throw new Error(`not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

// An issuer that signs in the person whom the browser names in the cookie `person`.
async function startIssuer(port, callback) {
  const require_ = createRequire(path.join(process.env.NODE_PATH, 'x.cjs'));
  const { Provider } = await import(require_.resolve('oidc-provider'));
  const clients = [{ client_id: 'parallax', client_secret: SECRET, redirect_uris: [callback], grant_types: ['authorization_code'], response_types: ['code'] }];
  const provider = new Provider(`http://127.0.0.1:${port}`, {
    clients,
    claims: { openid: ['sub'], email: ['email'], groups: ['groups'] },
    scopes: ['openid', 'email', 'groups'],
    conformIdTokenClaims: false,
    features: { devInteractions: { enabled: false } },
    pkce: { required: () => false },
    cookies: { keys: ['a key of the test'] },
    interactions: { url: (_, { uid }) => `/interaction/${uid}` },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id}@example.com`, groups: PEOPLE[id] }) }),
    loadExistingGrant: async (ctx) => {
      const grant = new ctx.oidc.provider.Grant({ clientId: 'parallax', accountId: ctx.oidc.session.accountId });
      grant.addOIDCScope('openid email groups');
      await grant.save();
      return grant;
    },
  });
  const answer = provider.callback();
  const server = http.createServer((request, response) => {
    if (!request.url.startsWith('/interaction/')) return answer(request, response);
    const [, person] = /person=(\w+)/.exec(request.headers.cookie ?? '') ?? [];
    provider.interactionFinished(request, response, { login: { accountId: person } }, { mergeWithLastSubmission: false });
  });
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  return server;
}

function parse(status, url, text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${status} of ${url}: ${text.slice(0, 900)}`);
  }
}

// Sends a request without the header fields that `fetch` adds. Mod_auth_openidc sends only a navigation to the issuer.
function send(url, method, headers) {
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method, headers: { accept: '*/*', ...headers, connection: 'close' }, timeout: STEP_MS }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('end', () => {
        const text = Buffer.concat(parts).toString();
        resolve({ status: response.statusCode, headers: response.headers, text, json: () => parse(response.statusCode, url, text) });
      });
    });
    request.on('error', reject).on('timeout', () => request.destroy(new Error(`no answer of ${url}`))).end();
  });
}

// A browser of one person: it follows redirects with its cookies.
class Browser {
  constructor(person) {
    this.cookies = new Map(person ? [['person', person]] : []);
  }

  async request(url, { method = 'GET', headers = {} } = {}) {
    for (let hops = 0; hops < 12; hops++) {
      const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const response = await send(url, method, { ...headers, ...(cookie && { cookie }) });
      for (const line of response.headers['set-cookie'] ?? []) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
        if (value === '' || /expires=Thu, 01 Jan 1970/i.test(line)) this.cookies.delete(name);
        else this.cookies.set(name, value);
      }
      const { location } = response.headers;
      if (response.status < 300 || response.status >= 400 || !location) return response;
      url = new URL(location, url).href;
      method = 'GET';
    }
    throw new Error(`too many redirects to ${url}`);
  }
}

function start(command, words) {
  const child = spawn(command, words, { stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  child.log = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes) => (child.log += bytes));
  children.push(child);
  return child;
}

async function startServer(admin) {
  const snapshots = path.join(home, 'snapshots');
  mkdirSync(snapshots);
  for (const site of ['acme', 'beta']) {
    const source = path.join(home, site);
    mkdirSync(path.join(source, 'routes'), { recursive: true });
    writeFileSync(path.join(source, 'site.json'), JSON.stringify({ site, trackingId: `track_${site}`, name: site }));
    writeFileSync(path.join(source, 'routes/index.json'), '{"path":"/","layout":{"root":{"props":{}},"zones":{}}}');
    const made = spawnSync(parallax, ['compile', source, '-o', path.join(snapshots, `${site}.snapshot`)], { encoding: 'utf8' });
    if (made.status !== 0) throw new Error(made.stderr);
  }
  const access = path.join(home, 'access.toml');
  writeFileSync(access, documented('# The people of this example'), { mode: 0o600 });
  const settings = documented('# The settings of this example').replace('/etc/parallax/access.toml', access);
  const config = path.join(home, 'parallax.toml');
  writeFileSync(config, settings);
  const places = ['--snapshots', snapshots, '--data', path.join(home, 'data'), '--listen', '127.0.0.1:0', '--admin', `127.0.0.1:${admin}`];
  const server = start(parallax, ['serve', '--config', config, ...places]);
  await until('the server serves', async () => / serving url=/.test(server.log) || (server.exitCode !== null && Promise.reject(new Error(server.log))));
  return server;
}

async function startApache({ proxy, admin, issuer }) {
  const replacements = { 'https://login.example.com': `http://127.0.0.1:${issuer}`, '"…"': `"${SECRET}"`, 'http://127.0.0.1:9090': `http://127.0.0.1:${admin}` };
  let site = documented('# The site of the console');
  for (const [text, value] of Object.entries(replacements)) site = site.replaceAll(text, value);
  const modules = ['mpm_event', 'authn_core', 'authz_core', 'authz_user', 'headers', 'proxy', 'proxy_http', 'auth_openidc'];
  const loads = modules.map((name) => `LoadModule ${name}_module /usr/lib/apache2/modules/mod_${name}.so`);
  const file = path.join(home, 'apache.conf');
  const log = path.join(home, 'apache.log');
  const own = [`ServerRoot ${home}`, `PidFile ${home}/apache.pid`, `ErrorLog ${log}`, `Listen 127.0.0.1:${proxy}`, 'User www-data', 'Group www-data', 'ServerName 127.0.0.1', `DefaultRuntimeDir ${home}`];
  writeFileSync(file, `${[...loads, ...own].join('\n')}\n${site}`);
  const apache = start('apache2', ['-f', file, '-DFOREGROUND']);
  const url = `http://127.0.0.1:${proxy}`;
  await until('Apache answers', async () => {
    if (apache.exitCode !== null) throw new Error(apache.log);
    return fetch(url, { redirect: 'manual' });
  }).catch((error) => {
    throw new Error(`${error.message}\n${apache.log}\n${spawnSync('cat', [log], { encoding: 'utf8' }).stdout}`);
  });
  return url;
}

async function main() {
  const [proxy, admin, issuer] = [await freePort(), await freePort(), await freePort()];
  const provider = await startIssuer(issuer, `http://127.0.0.1:${proxy}/redirect_uri`);
  await startServer(admin);
  const url = await startApache({ proxy, admin, issuer });
  const forged = { 'x-forwarded-email': 'operator@example.com', 'x-forwarded-groups': 'marketing' };

  const viewer = new Browser('viewer');
  const rights = await (await viewer.request(`${url}/access`, { headers: forged })).json();
  check('a person signs in, and a forged header is not believed', [rights.kind, rights.name], ['user', 'viewer@example.com']);
  check('the groups of the issuer give grants', rights.grants, [{ role: 'viewer', sites: ['acme'] }]);
  const { sites } = await (await viewer.request(`${url}/sites`)).json();
  check('a person sees the own sites', sites.map(({ site }) => site), ['acme']);
  check('a viewer sees no visitor', (await viewer.request(`${url}/visitors?site=acme&anonId=a`)).status, 404);
  check('the page of the console', (await viewer.request(`${url}/`)).headers['content-type'], 'text/html; charset=utf-8');

  const privacy = new Browser('privacy');
  const target = `${url}/visitors?site=beta&anonId=nobody`;
  await privacy.request(`${url}/access`);
  const erase = async (headers) => (await (await privacy.request(target, { method: 'DELETE', headers })).json()).code;
  check('a change without an origin', await erase({}), 'origin_not_allowed');
  check('a change of another origin', await erase({ origin: 'http://evil.example' }), 'origin_not_allowed');
  check('a change of the console', await erase({ origin: url }), 'visitor_not_found');
  const cross = await privacy.request(`${url}/sites`, { headers: { 'sec-fetch-site': 'cross-site' } });
  check('a read of another origin', (await cross.json()).code, 'origin_not_allowed');

  const stranger = new Browser('stranger');
  check('a stranger', (await (await stranger.request(`${url}/sites`)).json()).code, 'access_denied');

  const nobody = await send(`${url}/sites`, 'GET', forged);
  check('without a session, the issuer is asked', [nobody.status, new URL(nobody.headers.location).port], [302, String(issuer)]);
  const script = await send(`${url}/sites`, 'GET', { ...forged, 'sec-fetch-mode': 'cors' });
  check('without a session, a request of the console is refused by the proxy', [script.status, /text\/html/.test(script.headers['content-type'])], [401, true]);
  viewer.cookies = new Map([['person', 'privacy']]);
  const again = await (await viewer.request(`${url}/access`)).json();
  check('after the end of the session, another person signs in', again.name, 'privacy@example.com');
  const audit = spawnSync(parallax, ['audit', path.join(home, 'data'), '--format', 'json', '--action', 'refuse'], { encoding: 'utf8' });
  const people = audit.stdout.trim().split('\n').map((line) => JSON.parse(line).actor.name ?? null);
  check('the audit log names the refused person', people.includes('viewer@example.com'), true);
  provider.closeAllConnections();
  provider.close();
}

main()
  .catch((error) => {
    console.error(error);
    results.failed += 1;
  })
  .finally(() => {
    console.log(`${results.passed} passed, ${results.failed} failed`);
    process.exit(results.failed > 0 ? 1 : 0);
  });
