// With PARALLAX_LONG=1: the example on the edge runtime behind nginx with a shared cache, and with basePath and trailingSlash.
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Site, EXAMPLE, get, reservePort, startNext, startSite, until } from './site.js';

const GERMAN = 'Gemacht für den dritten Regentag';
const BASELINES = ['Made for the third day of rain', 'Walk less. Stay longer.'];

const skip = process.env.PARALLAX_LONG ? false : 'PARALLAX_LONG=1 runs it';

/** Copies a directory with hard links. Without them if the copy is on another file system. */
function copyLinked(from: string, to: string): void {
  try {
    execFileSync('cp', ['-al', from, to], { stdio: 'pipe' });
  } catch {
    rmSync(to, { recursive: true, force: true });
    execFileSync('cp', ['-a', from, to]);
  }
}

/** Copies the example. A link to node_modules would leave the root of the build. */
function copyExample(): string {
  const directory = path.join(mkdtempSync(path.join(tmpdir(), 'parallax-long-')), 'site');
  copyLinked(EXAMPLE, directory);
  return directory;
}

/** Replaces a file of a copy, whose hard link would change the original. */
function replaceFile(file: string, text: string): void {
  rmSync(file, { force: true });
  writeFileSync(file, text);
}

/** Makes the proxy the middleware of the edge runtime. */
function edgeRuntimeExample(): string {
  const directory = copyExample();
  const proxy = path.join(directory, 'proxy.ts');
  const text = readFileSync(proxy, 'utf8').replace('export const proxy', 'export const middleware');
  rmSync(proxy);
  writeFileSync(path.join(directory, 'middleware.ts'), text);
  return directory;
}

/** A cache that stores all that its headers allow, for all visitors together. */
function configuration(home: string, port: number, site: string): string {
  return `daemon off; master_process off; pid ${home}/pid; error_log ${home}/error.log;
events {}
http {
  access_log off;
  proxy_cache_path ${home}/cache keys_zone=shared:1m;
  client_body_temp_path ${home}/body; proxy_temp_path ${home}/proxy; fastcgi_temp_path ${home}/f; uwsgi_temp_path ${home}/u; scgi_temp_path ${home}/s;
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass ${site};
      proxy_set_header Host $http_host;
      proxy_cache shared;
      proxy_cache_key $scheme$host$request_uri;
      add_header X-Cache $upstream_cache_status always;
    }
  }
}
`;
}

describe('the example on the edge runtime', { skip }, () => {
  let site: Site;
  let directory: string;
  let home: string;
  let nginx: ChildProcess;
  let shared: { url: string };
  before(async () => {
    directory = edgeRuntimeExample();
    site = await startSite(directory);
    home = mkdtempSync(path.join(tmpdir(), 'parallax-nginx-'));
    const { port, release } = await reservePort();
    writeFileSync(path.join(home, 'nginx.conf'), configuration(home, port, site.url));
    await release();
    nginx = spawn('nginx', ['-c', path.join(home, 'nginx.conf'), '-p', home], { stdio: 'ignore' });
    shared = { url: `http://127.0.0.1:${port}` };
    await until(() => get(shared, '/').then(() => true, () => false));
  });
  after(async () => {
    nginx?.kill('SIGTERM');
    await site?.stop();
    for (const used of [path.dirname(directory), home]) rmSync(used, { recursive: true, force: true });
  });

  test('the proxy decides, redirects, and closes the internal path', async () => {
    const german = await get(site, '/', { 'accept-language': 'de' });
    assert.deepEqual([german.heading, german.headers.get('cache-control')], [GERMAN, 'private, no-cache']);
    assert.ok(BASELINES.includes((await get(site, '/', { 'accept-language': 'en', cookie: 'px_consent=1' })).heading!));
    const redirect = await get(site, '/sleep?x=1');
    assert.deepEqual([redirect.status, new URL(redirect.headers.get('location')!, site.url).pathname], [308, '/sleeping-bags']);
    for (const pathname of ['/px/-', '/px/hero!deutsch/tents', '/nothing']) assert.equal((await get(site, pathname)).status, 404, pathname);
    const forged = await get(site, '/about?px-variants=../../api', { cookie: 'px_preview=99999999999.x; __prerender_bypass=x' });
    assert.equal(forged.status, 200);
  });

  test('two visitors behind a shared cache never see the page or the cookie of the other', async () => {
    const ids = new Set<string>();
    for (let i = 0; i < 20; i++) {
      const isGerman = i % 2 === 0;
      const page = await get(shared, '/', { 'accept-language': isGerman ? 'de' : 'en', cookie: 'px_consent=1' });
      assert.ok(isGerman ? page.heading === GERMAN : BASELINES.includes(page.heading!), `${i}: ${page.heading}`);
      assert.notEqual(page.headers.get('x-cache'), 'HIT');
      ids.add(/anon_id=([^;]+)/.exec(page.headers.get('set-cookie')!)![1]!);
    }
    assert.equal(ids.size, 20);
    const { text } = await get(shared, '/');
    const script = /\/_next\/static\/[^"]+\.js/.exec(text)![0];
    await get(shared, script);
    assert.equal((await get(shared, script)).headers.get('x-cache'), 'HIT'); // the cache works
  });

  test('a publication shows, and an Edge that fails gives the baseline', async () => {
    site.gateway.set('refuse');
    assert.equal((await get(site, '/', { 'accept-language': 'de' })).heading, BASELINES[0]);
    site.gateway.set('open');
    await until(async () => (await get(site, '/', { 'accept-language': 'de' })).heading === GERMAN);
    const file = path.join(site.source, 'routes/tents.json');
    writeFileSync(file, readFileSync(file, 'utf8').replace('A roof you can carry', 'A roof on the edge'));
    site.publish();
    await until(async () => (await get(site, '/tents')).heading === 'A roof on the edge');
  });
});

describe('the example with basePath and trailingSlash', { skip }, () => {
  let site: Site;
  let directory: string;
  before(async () => {
    directory = copyExample();
    const config = readFileSync(path.join(directory, 'next.config.ts'), 'utf8');
    replaceFile(path.join(directory, 'next.config.ts'), config.replace('({})', "({ basePath: '/shop', trailingSlash: true })"));
    site = await startSite(directory);
  });
  after(async () => {
    await site?.stop();
    rmSync(path.dirname(directory), { recursive: true, force: true });
  });

  test('pages, redirects, cookies and the internal path are below the base path', async () => {
    const german = await get(site, '/shop/', { 'accept-language': 'de' });
    assert.deepEqual([german.status, german.heading], [200, GERMAN]);
    const tents = await get(site, '/shop/tents/', { cookie: 'px_consent=1' });
    assert.deepEqual([tents.status, tents.heading], [200, 'A roof you can carry']);
    const front = await get(site, '/shop/', { cookie: 'px_consent=1', 'accept-language': 'en' });
    const named = front.headers.getSetCookie().find((text) => text.startsWith('px_experiments'));
    assert.match(named ?? 'no cookie', /^px_experiments=.*slow-front.*; Path=\/shop;/);
    const redirect = await get(site, '/shop/sleep/?x=1');
    assert.deepEqual([redirect.status, redirect.headers.get('location')], [308, '/shop/sleeping-bags?x=1']);
    for (const pathname of ['/shop/px/-/', '/shop/px/hero!deutsch/', '/shop/nothing/', '/tents/']) assert.equal((await get(site, pathname)).status, 404, pathname);
  });

  test('a publication shows', async () => {
    const file = path.join(site.source, 'routes/tents.json');
    writeFileSync(file, readFileSync(file, 'utf8').replace('A roof you can carry', 'A roof below a path'));
    site.publish();
    await until(async () => (await get(site, '/shop/tents/')).heading === 'A roof below a path');
  });

  test('a second instance notices a publication by itself', async () => {
    const { port, release } = await reservePort();
    const copy = path.join(path.dirname(directory), 'second');
    copyLinked(directory, copy);
    rmSync(path.join(copy, '.next'), { recursive: true });
    execFileSync('cp', ['-a', path.join(directory, '.next'), copy]);
    const url = `http://localhost:${port}`;
    await release();
    const second = await startNext(copy, port, { ...site.environment, SITE_URL: url });
    assert.equal((await get({ url }, '/shop/tents/')).status, 200);
    const file = path.join(site.source, 'routes/tents.json');
    writeFileSync(file, readFileSync(file, 'utf8').replace('A roof below a path', 'A roof for two'));
    site.publish();
    for (const each of [site, { url }]) await until(async () => (await get(each, '/shop/tents/')).heading === 'A roof for two');
    await second.stop();
  });
});
