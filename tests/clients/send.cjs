// Sends events with @segment/analytics-node: `node send.cjs HOST < asked.ndjson > bodies.ndjson`.
// Input: one event per line, with the library's member names. Output: the body of each request. Fails if an event was not delivered.
const { readFileSync } = require('node:fs');
const { Analytics } = require('@segment/analytics-node');

async function main(host) {
  const analytics = new Analytics({ writeKey: 'track_demo', host, maxRetries: 0 });
  const failures = [];
  analytics.on('error', (failure) => failures.push(failure));
  analytics.on('http_request', (request) => console.log(request.body));

  for (const line of readFileSync(0, 'utf8').trim().split('\n')) {
    const { type, timestamp, ...asked } = JSON.parse(line);
    analytics[type]({ ...asked, timestamp: timestamp && new Date(timestamp) });
  }
  await analytics.closeAndFlush({ timeout: 60_000 });
  if (failures.length > 0) {
    console.error(failures[0]);
    process.exitCode = 1;
  }
}

main(process.argv[2]);
