// Accepted events, headers that a script can read, and preflights.
'use strict';
const { problem, read } = require('./bench.cjs');

const EVENT = JSON.stringify({ anonId: 'v1', event: 'e' });
const JSON_TYPE = { 'Content-Type': 'application/json' };
// The list of section 4 of the interface.
const ALLOWED_HEADERS = [
  'content-encoding',
  'authorization',
  'if-none-match',
  'prefer',
  'x-anon-id',
  'x-request-id',
  'x-preview',
  'x-debug-timing',
  'x-retry-count',
  'traceparent',
  'tracestate',
  'baggage',
];
const VALUES = { 'content-encoding': 'identity', authorization: 'Basic Og==', prefer: 'return=minimal', 'x-anon-id': 'v1' };

module.exports = async function events(bench) {
  await bench.each(bench.callers, async (caller) => {
    const track = `${bench.server.url}/v1/track?trackingId=track_${caller.site}`;
    const send = (headers, body = EVENT) => bench.fetch(caller, track, { headers, body });
    const named = (name) => `${name}: ${caller.name}`;

    const simple = await send({});
    bench.check(named('200 without a preflight'), receipt(simple), [200, 1]);
    const json = await send({ ...JSON_TYPE, 'x-request-id': 'r-1' });
    bench.check(named('200 with a preflight'), receipt(json), [200, 1]);
    bench.check(named('X-Request-Id is exposed'), json.headers?.['x-request-id'], 'r-1');
    const dropped = await send({ 'x-preview': '1' });
    bench.check(named('X-Dropped is exposed'), dropped.headers?.['x-dropped'], 'preview');
    for (const header of ALLOWED_HEADERS) {
      const { status } = await send({ ...JSON_TYPE, [header]: VALUES[header] ?? '1' });
      bench.check(named(`a preflight allows ${header}`), status === 200 || status === 204, true);
    }
    bench.check(named('a preflight refuses x-other'), await send({ 'x-other': '1' }), { error: 'TypeError' });
  });
  await nullOrigin(bench);
};

function receipt(response) {
  return response.error ? response : [response.status, response.body.accepted];
}

// Frames with the origin `null`.
const OPAQUE_FRAMES = {
  'a sandboxed frame': { srcdoc: '<p>frame', sandbox: 'allow-scripts' },
  'a data: URL': { src: 'data:text/html,<p>frame' },
};

async function nullOrigin(bench) {
  const page = await bench.open(bench.stranger);
  for (const [place, members] of Object.entries(OPAQUE_FRAMES)) {
    const frame = await openFrame(page, members);
    const send = (site, id, credentials) => {
      const body = JSON.stringify({ anonId: 'v1', event: 'e', messageId: `${place} ${id}` });
      return read(frame, `${bench.server.url}/v1/track?trackingId=track_${site}`, { body, credentials });
    };
    const plain = await send('open', 'omit', 'omit');
    bench.check(`200 without credentials, empty list: ${place}`, receipt(plain), [200, 1]);
    const json = await read(frame, `${bench.server.url}/v1/track?trackingId=track_open`, { body: EVENT, headers: JSON_TYPE, credentials: 'omit' });
    bench.check(`200 with a preflight, empty list: ${place}`, receipt(json), [200, 1]);
    const refused = await read(frame, `${bench.server.url}/v1/track?trackingId=track_open`, { body: '{', credentials: 'omit' });
    bench.check(`400 without credentials, empty list: ${place}`, problem(refused), [400, 'malformed_json']);
    const included = await send('open', 'include', 'include');
    bench.check(`unreadable with credentials, empty list: ${place}`, included, { error: 'TypeError' });
    await send('listed', 'listed', 'omit');
    const recorded = bench.server.records().some((record) => record.messageId === `${place} listed`);
    bench.check(`not recorded at a site with a list: ${place}`, recorded, false);
  }
  await page.close();
}

async function openFrame(page, members) {
  await page.evaluate((members) => {
    const frame = Object.assign(document.createElement('iframe'), members);
    return new Promise((loaded) => {
      frame.onload = loaded;
      document.body.append(frame);
    });
  }, members);
  return page.frames().at(-1);
}
