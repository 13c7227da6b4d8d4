// Every problem of the events surface, read by a script with credentials (R27).
'use strict';
const net = require('node:net');
const { problem } = require('./bench.cjs');
const { startRelay } = require('./server.cjs');

const EVENT = { anonId: 'v1', event: 'e' };
const text = (value) => ({ body: JSON.stringify(value) });
const POST = text(EVENT);

// The refusals of one server: status, code, request, and the query string in place of the site's tracking ID.
const REFUSALS = [
  [400, 'malformed_json', { body: '{' }],
  [400, 'malformed_json', { body: '[]' }],
  [400, 'missing_site', POST, ''],
  [400, 'invalid_tracking_id', POST, 'trackingId=acme'],
  [400, 'site_mismatch', text({ ...EVENT, site: 'another' })],
  [400, 'repeated_param', POST, 'anonId=a&anonId=b'],
  [400, 'invalid_query', POST, 'anonId=%FF'],
  [400, 'invalid_event', text({ anonId: 'v1' })],
  [400, 'invalid_event', text({ batch: [{ anonId: 'v1' }] })],
  [400, 'invalid_type', text({ ...EVENT, type: 'page' })],
  [400, 'ambiguous_event', text({ ...EVENT, traits: {} })],
  [400, 'missing_visitor', text({ event: 'e' })],
  [400, 'invalid_anon_id', text({ ...EVENT, anonId: 'a b' })],
  [400, 'placeholder_id', text({ ...EVENT, anonId: 'undefined' })],
  [400, 'invalid_timestamp', text({ ...EVENT, timestamp: 'noon' })],
  [400, 'invalid_variants', text({ ...EVENT, variants: {} })],
  [404, 'site_not_found', POST, 'trackingId=track_nobody'],
  [405, 'method_not_allowed', {}],
  [413, 'body_too_large', { bodyBytes: 600_000 }],
  [413, 'body_too_large', { bodyBytes: 8_000_000 }],
  [413, 'event_too_large', text({ ...EVENT, properties: { pad: 'p'.repeat(40_000) } })],
  [413, 'batch_too_large', text({ batch: Array(2501).fill(EVENT) })],
  [414, 'target_too_long', POST, `pad=${'p'.repeat(9_000)}`],
  [415, 'unsupported_type', { ...POST, headers: { 'Content-Type': 'text/html' } }],
  [415, 'unsupported_encoding', { ...POST, headers: { 'Content-Encoding': 'br' } }],
];

module.exports = async function refusals(bench) {
  await bench.each(bench.callers, async (caller) => {
    for (const row of REFUSALS) await refusal(bench, caller, bench.server.url, row);
    await checkAttempts(bench, caller);
    await largeHead(bench, caller);
  });
  const { server, stranger } = bench;
  await refusal(bench, stranger, server.url, [403, 'origin_not_allowed', POST]);
  await refusal(bench, stranger, server.url, [403, 'origin_not_allowed', { ...POST, headers: { 'Content-Type': 'application/json' } }]);
  await onTheWay(bench);
  await limited(bench);
  await overloaded(bench);
  await fullDisk(bench);
};

async function refusal(bench, caller, url, [status, code, init, query = `trackingId=track_${caller.site}`], note = '') {
  // The query string of a row about parameters names the site too.
  const site = /^$|trackingId/.test(query) ? '' : `trackingId=track_${caller.site}&`;
  const response = await bench.fetch(caller, `${url}/v1/track?${site}${query}`, init);
  const size = init.bodyBytes ? ` (${init.bodyBytes} bytes)` : '';
  bench.check(`${status} ${code}${size}${note}: ${caller.name}`, problem(response), [status, code]);
}

// Delivers a body that is too large as client libraries do: they retry network errors, 408, 429 and 5xx, and nothing else.
async function checkAttempts(bench, caller) {
  const page = bench.tabs.get(caller);
  const url = `${bench.server.url}/v1/batch?trackingId=track_${caller.site}`;
  const attempts = await page.evaluate(async (url) => {
    const isRetried = (status) => status === 408 || status === 429 || status >= 500;
    for (let attempt = 1; attempt < 4; attempt += 1) {
      const init = { method: 'POST', credentials: 'include', body: 'x'.repeat(600_000) };
      const status = await fetch(url, init).then((response) => response.status, () => 599);
      if (!isRetried(status)) return attempt;
    }
    return 'more than 3';
  }, url);
  bench.check(`a body that is too large is sent once: ${caller.name}`, attempts, 1);
}

// Cookies are the usual reason for a head that is too large. They need a server of the same host, and a profile of their
// own, in which all later requests have them.
async function largeHead(bench, caller) {
  const visitor = { ...caller };
  const url = new URL(bench.server.url);
  url.hostname = new URL(caller.origin).hostname;
  await bench.fetch(visitor, bench.server.url, {});
  await bench.tabs.get(visitor).evaluate(() => {
    for (const name of 'abcde') document.cookie = `${name}=${'c'.repeat(4000)}`;
  });
  await refusal(bench, visitor, url.origin, [431, 'head_too_large', POST]);
  const response = await bench.fetch(visitor, `${url.origin}/v1/resolve?trackingId=track_${caller.site}&route=/`);
  bench.check(`private resolve, 431 head_too_large: ${caller.name}`, problem(response), [431, 'head_too_large']);
}

// Refusals that no script can cause by itself. Relays change or hold back its requests.
async function onTheWay(bench) {
  const server = await bench.startServer('timeouts', ['--timeout-head-ms', '1000', '--timeout-body-ms', '1000']);
  const expecting = await startRelay(server.url, { changeHead: (head) => head.replace('\r\n', '\r\nExpect: 200-ok\r\n') });
  const slowBody = await startRelay(server.url, { bodyBytes: 10 });
  const slowHead = await startRelay(server.url, { changeHead: (head) => head.slice(0, -4), bodyBytes: 0 });
  await bench.each(bench.callers, async (caller) => {
    await refusal(bench, caller, expecting, [417, 'expectation_failed', POST]);
    await refusal(bench, caller, slowBody, [408, 'timeout', POST], ' (body)');
    await refusal(bench, caller, slowHead, [408, 'timeout', POST], ' (head)');
  });
}

// Rate limits do not apply to loopback. So a trusted proxy reports another address.
async function limited(bench) {
  const changeHead = (head) => head.replace('\r\n', '\r\nX-Forwarded-For: 203.0.113.7\r\n');
  for (const flag of ['--rate-limit-per-site', '--rate-limit-per-ip']) {
    const server = await bench.startServer(flag.slice(2), [flag, '1', '--trusted-proxy', '127.0.0.0/8']);
    for (const caller of bench.callers) {
      // A relay of its own for each request, so that none uses a connection whose head was changed before.
      const send = async () => bench.fetch(caller, `${await startRelay(server.url, { changeHead })}/v1/track?site=${caller.site}`, POST);
      await send();
      const response = await send();
      bench.check(`429 rate_limited (${flag}): ${caller.name}`, problem(response), [429, 'rate_limited']);
      bench.check(`Retry-After is exposed: ${caller.name}`, Number(response.headers?.['retry-after']) > 0, true);
    }
  }
}

// One connection has the only place of the server.
async function overloaded(bench) {
  const server = await bench.startServer('places', ['--connections', '1', '--workers', '1']);
  const { hostname, port } = new URL(server.url);
  const holder = net.connect(Number(port), hostname);
  await new Promise((connected) => holder.on('connect', connected));
  for (const caller of bench.callers) await refusal(bench, caller, server.url, [503, 'overloaded', POST]);
  holder.destroy();
}

async function fullDisk(bench) {
  const server = await bench.startServer('full', []);
  server.failWrites();
  for (const caller of bench.callers) await refusal(bench, caller, server.url, [503, 'disk_unavailable', POST]);
}
