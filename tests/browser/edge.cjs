// Private and public responses of Edge, and their problems.
'use strict';
const { problem } = require('./bench.cjs');

const EARLY = [
  [400, 'missing_route', 'resolve', ''],
  [404, 'route_not_found', 'resolve', 'route=/nowhere'],
  [404, 'route_not_found', 'variants', 'route=/nowhere'],
  [405, 'method_not_allowed', 'resolve', 'route=/', { body: '{}' }],
  [413, 'body_too_large', 'query', '', { bodyBytes: 600_000 }],
  [414, 'target_too_long', 'resolve', `route=/&pad=${'p'.repeat(9_000)}`],
  [415, 'unsupported_type', 'query', '', { body: '{}', headers: { 'Content-Type': 'text/html' } }],
];
// Refused before the site is known, so the list of its origins does not count.
const SITELESS = [
  [400, 'missing_site', 'resolve', 'route=/'],
  [404, 'site_not_found', 'resolve', 'trackingId=track_nobody&route=/'],
  [404, 'site_not_found', 'variants', 'trackingId=track_nobody&route=/'],
];
const PUBLIC = [
  ['resolve', 'route=/&variants='],
  ['variants', 'route=/&include=combinations'],
  ['routes', ''],
  ['query', 'query=products'],
  ['openapi.json', ''],
];

module.exports = async function edge(bench) {
  const get = (caller, endpoint, query, init) => bench.fetch(caller, `${bench.server.url}/v1/${endpoint}?${query}`, init);

  await bench.each(bench.callers.filter(({ site }) => site === 'listed'), async (caller) => {
    for (const [status, code, endpoint, query, init] of EARLY) {
      const response = await get(caller, endpoint, `trackingId=track_listed&${query}`, init);
      bench.check(`private ${endpoint}, ${status} ${code}: ${caller.name}`, problem(response), [status, code]);
    }
  });
  await bench.each([...bench.callers, bench.stranger], async (caller) => {
    for (const [status, code, endpoint, query] of SITELESS) {
      bench.check(`private ${endpoint}, ${status} ${code}: ${caller.name}`, problem(await get(caller, endpoint, query)), [status, code]);
    }
    for (const [endpoint, query] of PUBLIC) {
      const url = `trackingId=track_${caller.site}&${query}`;
      const { status, error } = await get(caller, endpoint, url, { credentials: 'omit' });
      bench.check(`public ${endpoint} is readable: ${caller.name}`, status ?? error, 200);
      const included = await get(caller, endpoint, url);
      bench.check(`public ${endpoint} is unreadable with credentials: ${caller.name}`, included, { error: 'TypeError' });
    }
  });
  await privateResponses(bench, get);
};

async function privateResponses(bench, get) {
  const [listed, , open] = bench.callers;
  const tab = bench.tabs.get(listed);
  await tab.evaluate(() => {
    document.cookie = 'anon_id=from-the-cookie';
  });
  const query = 'route=/&explain=1';
  const known = await get(listed, 'resolve', `trackingId=track_listed&${query}`);
  bench.check(`private resolve has the cookie: ${listed.name}`, known.body?.visitor?.anonId, 'from-the-cookie');
  for (const header of ['x-version', 'x-variants', 'x-request-id']) {
    const exposed = header in ((await get(listed, 'resolve', 'trackingId=track_listed&route=/')).headers ?? {});
    bench.check(`${header} is exposed: ${listed.name}`, exposed, true);
  }
  const foreign = await get(bench.stranger, 'resolve', `trackingId=track_listed&${query}`, { credentials: 'omit' });
  bench.check(`private resolve is unreadable: ${bench.stranger.name}`, foreign, { error: 'TypeError' });
  const omitted = await get(open, 'resolve', `trackingId=track_open&route=/`, { credentials: 'omit' });
  bench.check(`private resolve without credentials: ${open.name}`, omitted.status ?? omitted.error, 200);
  const included = await get(open, 'resolve', `trackingId=track_open&route=/`);
  bench.check(`private resolve is unreadable with credentials: ${open.name}`, included, { error: 'TypeError' });
}
