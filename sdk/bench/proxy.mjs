// The cost of the proxy: `withParallax` called in Node, against a bare fetch of the same decision. 1,000 interleaved pairs. Exits with 1
// if the median of the proxy is over 1.5 times that of the fetch.
// `npm run build && node bench/proxy.mjs [URL]`, beside a server with the demo site.
import { NextRequest } from 'next/server.js';
import { createClient } from '../dist/index.js';
import { withParallax } from '../dist/next.js';

const PAIRS = 1000;
const RATIO_MAX = 1.5;
const WARM_UP = 100;

const edgeUrl = process.argv[2] ?? 'http://127.0.0.1:8080';
/** The URL of the last decision that the proxy asked for. */
let decisionUrl;
let decisionInit;
const recording = (url, init) => {
  if (String(url).includes('/v1/variants')) [decisionUrl, decisionInit] = [url, { headers: init.headers }];
  return fetch(url, init);
};
const client = createClient({ edgeUrl, trackingId: 'track_demo', fetch: recording });
const proxy = withParallax(client, { routesSeconds: 3600, revalidate: '/none', timeoutMs: 2000 });
const event = { waitUntil: (promise) => void promise.catch(() => {}) };
const headers = { cookie: 'anon_id=bench-visitor', 'accept-language': 'de-DE,de;q=0.9', 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64)' };

async function throughProxy() {
  const request = new NextRequest('http://localhost:3000/', { headers });
  const begin = performance.now();
  const response = await proxy(request, event);
  const elapsed = performance.now() - begin;
  if (!response.headers.get('x-middleware-rewrite')?.includes('hero!deutsch')) throw new Error('The proxy did not personalize.');
  return elapsed;
}

async function bare() {
  const begin = performance.now();
  await (await fetch(decisionUrl, decisionInit)).json();
  return performance.now() - begin;
}

await throughProxy(); // names the URL
const measures = { proxy: throughProxy, fetch: bare };
const times = { proxy: [], fetch: [] };
for (let i = 0; i < WARM_UP + PAIRS; i++) {
  const pair = {};
  // The first of a pair wakes the server, so the order changes.
  for (const name of i % 2 ? ['proxy', 'fetch'] : ['fetch', 'proxy']) pair[name] = await measures[name]();
  if (i < WARM_UP) continue;
  times.proxy.push(pair.proxy);
  times.fetch.push(pair.fetch);
}

const quantile = (values, q) => values.toSorted((a, b) => a - b)[Math.floor(values.length * q)];
for (const [name, values] of Object.entries(times)) {
  console.log(`${name}: min ${quantile(values, 0).toFixed(2)} ms, median ${quantile(values, 0.5).toFixed(2)} ms, p90 ${quantile(values, 0.9).toFixed(2)} ms`);
}
const ratio = quantile(times.proxy, 0.5) / quantile(times.fetch, 0.5);
console.log(`ratio of medians: ${ratio.toFixed(2)} (limit ${RATIO_MAX})`);
process.exit(ratio > RATIO_MAX ? 1 : 0);
