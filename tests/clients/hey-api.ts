// Calls a server with the client of @hey-api/openapi-ts: `node hey-api.js URL`. Fails if a response is not as expected.
import assert from 'node:assert/strict';
import { query as runQuery, queryByBody, resolve, track, variants } from './hey-api-client';
import { client } from './hey-api-client/client.gen';

async function main(baseUrl: string) {
  client.setConfig({ baseUrl });
  const query = { trackingId: 'track_demo', route: '/', anonId: 'hey-api' };

  const resolved = await resolve({ query });
  assert(resolved.data?.type === 'layout', JSON.stringify(resolved.error));
  assert(Object.keys(resolved.data.layout.zones).length > 0);

  const decided = await variants({ query });
  assert(decided.data && 'selected' in decided.data, JSON.stringify(decided.error));
  assert.deepEqual(decided.data.selected, resolved.data.selected);

  const listed = await runQuery({ query: { trackingId: 'track_demo', query: 'products', limit: 2 } });
  assert.equal(listed.data?.items.length, 2);
  const queried = await queryByBody({
    body: { trackingId: 'track_demo', query: 'latest-articles', params: { section: 'workshop' } },
  });
  assert(queried.data?.items.every((item) => item.fields.section === 'workshop'));

  const event = { trackingId: 'track_demo', anonId: 'hey-api', messageId: 'hey-api', event: 'Seen', properties: { n: 1 } };
  const tracked = await track({ body: event });
  assert.equal(tracked.data?.accepted, 1);

  const missing = await resolve({ query: { ...query, route: '/nothing/here' } });
  assert.equal(missing.error?.code, 'route_not_found');
}

main(process.argv[2] ?? '');
