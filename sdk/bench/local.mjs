// Decisions in process against those of Edge: the time of the proxy of Next.js in one interleaved run, the start, and the memory after
// 10,000 publications. Exits with 1 if a local decision takes over a tenth of one of Edge, or if the memory grows.
// `npm run build && node bench/local.mjs [PARALLAX]`: the program, ../target/release/parallax by default.
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { brotliCompressSync } from 'node:zlib';
import { NextRequest } from 'next/server.js';
import { createClient } from '../dist/index.js';
import { createLocalClient } from '../dist/local.js';
import { withParallax } from '../dist/next.js';

const PAIRS = 2000;
const WARM_UP = 200;
const RATIO_MAX = 0.1;
const STARTS = 20;
const PUBLICATIONS = 10_000;
/** Versions of the site that follow each other again and again: each publication differs from the one before. */
const VERSIONS = 20;
/** Growth of the memory from the first tenth of the publications to the last, within which garbage collection moves it. */
const GROWTH_BYTES_MAX = 16 << 20;

const here = import.meta.dirname;
const parallax = path.resolve(process.argv[2] ?? path.join(here, '../../target/release/parallax'));
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('PARALLAX_')));
const home = mkdtempSync(path.join(tmpdir(), 'parallax-bench-'));
const source = path.join(home, 'site');
const snapshots = path.join(home, 'snapshots');
const keyFile = path.join(home, 'keys');
mkdirSync(snapshots);
cpSync(path.join(here, '../../snapshots/demo'), source, { recursive: true });
const settings = JSON.parse(readFileSync(path.join(source, 'site.json'), 'utf8'));
writeFileSync(path.join(source, 'site.json'), JSON.stringify({ ...settings, localDecisions: true }));
writeFileSync(keyFile, `k1 ${'0123456789abcdef'.repeat(4)}\n`, { mode: 0o600 });
const run = (...words) => execFileSync(parallax, words, { encoding: 'utf8', env, stdio: ['ignore', 'pipe', 'pipe'] });
const publish = (version) => run('compile', source, '-o', path.join(snapshots, 'demo.snapshot'), '--version', String(version));
publish(1);
const visitorKeys = run('visitor-keys', keyFile, settings.site).trim();

const places = ['--snapshots', snapshots, '--data', path.join(home, 'data'), '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', '--visitor-keys', keyFile];
const server = spawn(parallax, ['serve', ...places], { env, stdio: ['ignore', 'pipe', 'pipe'] });
process.once('exit', () => {
  server.kill('SIGKILL');
  rmSync(home, { recursive: true, force: true });
});
const edgeUrl = await new Promise((resolve, reject) => {
  let log = '';
  const read = (bytes) => {
    log += bytes;
    const url = / serving url=(http:\/\/\S+)/.exec(log)?.[1];
    if (url) resolve(url);
  };
  server.stdout.on('data', read);
  server.stderr.on('data', read);
  server.once('exit', () => reject(new Error(log)));
});
const site = { edgeUrl, trackingId: settings.trackingId };

const quantile = (values, q) => values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * q))];
const listed = (values, digits = 3) =>
  [['min', 0], ['median', 0.5], ['p90', 0.9], ['max', 1]].map(([name, q]) => `${name} ${quantile(values, q).toFixed(digits)} ms`).join(', ');

/** The start: the module is compiled and the rules are opened. The first one in a process is the cold one. */
async function starts() {
  const times = [];
  for (let i = 0; i < STARTS; i++) {
    const begin = performance.now();
    const client = createLocalClient({ ...site, visitorKeys });
    await client.refresh();
    if (!client.decideLocally('/', {})) throw new Error('No decision after the start.');
    times.push(performance.now() - begin);
    client.close();
  }
  console.log(`start: first ${times[0].toFixed(1)} ms, others ${listed(times.slice(1), 1)}`);
}

/** The proxy, with a known visitor: `local` has a token, and `edge` asks. */
async function decisions() {
  const userAgent = 'Mozilla/5.0 (X11; Linux x86_64)';
  const batch = [{ type: 'track', anonId: 'bench-visitor', event: 'Tent Bought' }];
  const response = await fetch(`${edgeUrl}/v1/batch?visitor=1`, { method: 'POST', headers: { 'user-agent': userAgent }, body: JSON.stringify({ trackingId: site.trackingId, batch }) });
  const { visitorToken } = await response.json();
  const local = createLocalClient({ ...site, visitorKeys });
  await local.refresh();
  const options = { routesSeconds: 3600, revalidate: '/none', timeoutMs: 2000 };
  const proxies = { local: withParallax(local, { ...options, decide: 'local' }), edge: withParallax(createClient(site), options) };
  const event = { waitUntil: (promise) => void promise.catch(() => {}) };
  const headers = { cookie: `anon_id=bench-visitor; px_visitor=${visitorToken}`, 'accept-language': 'de-DE,de;q=0.9', 'user-agent': userAgent };
  const times = { local: [], edge: [] };
  const bare = [];
  for (let i = 0; i < WARM_UP + PAIRS; i++) {
    for (const name of i % 2 ? ['local', 'edge'] : ['edge', 'local']) {
      const request = new NextRequest('http://localhost:3000/account/membership', { headers });
      await new Promise(setImmediate); // the work after a response is not that of the next request
      const begin = performance.now();
      const answer = await proxies[name](request, event);
      const elapsed = performance.now() - begin;
      if (!answer.headers.get('x-middleware-rewrite')?.includes('greeting!owner')) throw new Error(`The proxy (${name}) did not personalize.`);
      if (i >= WARM_UP) times[name].push(elapsed);
    }
    const begin = performance.now();
    local.decideLocally('/account/membership', { anonId: 'bench-visitor', userAgent }, { past: { isNew: false, token: visitorToken, isStale: false } });
    if (i >= WARM_UP) bare.push(performance.now() - begin);
  }
  local.close();
  console.log(`a proxy request, decided in process: ${listed(times.local)}`);
  console.log(`a proxy request, decided by Edge:    ${listed(times.edge)}`);
  console.log(`the decision in process alone:       ${listed(bare, 4)}`);
  const ratio = quantile(times.local, 0.5) / quantile(times.edge, 0.5);
  console.log(`ratio of medians: ${ratio.toFixed(3)} (limit ${RATIO_MAX})`);
  return ratio <= RATIO_MAX;
}

/** Opens the rules of 10,000 publications in one client. */
async function memory() {
  const files = [];
  for (let version = 2; version < VERSIONS + 2; version++) {
    publish(version);
    const rules = async () => {
      const response = await fetch(`${edgeUrl}/v1/rules?trackingId=${site.trackingId}`);
      return { version: response.headers.get('x-version'), bytes: await response.arrayBuffer() };
    };
    let file = await rules();
    while (file.version !== String(version)) file = await rules();
    files.push(file.bytes);
  }
  let count = 0;
  const publications = async () => new Response(files[count++ % VERSIONS].slice(0), { headers: { etag: `"${count}"` } });
  const client = createLocalClient({ ...site, visitorKeys, fetch: publications, refreshSeconds: 3600 });
  const rss = () => {
    globalThis.gc?.();
    return process.memoryUsage().rss;
  };
  let before = 0;
  for (let i = 1; i <= PUBLICATIONS; i++) {
    await client.refresh();
    await new Promise(setImmediate); // as after a response of the network
    if (client.rulesVersion !== String(2 + ((i - 1) % VERSIONS))) throw new Error(`Publication ${i} is not in the decisions.`);
    if (i === PUBLICATIONS / 10) before = rss();
  }
  const growth = rss() - before;
  client.close();
  console.log(`memory: ${(before / 2 ** 20).toFixed(1)} MiB after ${PUBLICATIONS / 10} publications, ${(growth / 2 ** 20).toFixed(1)} MiB more after ${PUBLICATIONS}`);
  return growth <= GROWTH_BYTES_MAX;
}

const module = path.join(here, '../dist/edge.wasm');
console.log(`edge.wasm: ${statSync(module).size} bytes, brotli ${brotliCompressSync(readFileSync(module)).length}`);
await starts();
const isFast = await decisions();
const isBounded = await memory();
process.exit(isFast && isBounded ? 0 : 1);
