// Calls a server with openapi-fetch: `node openapi-fetch.js URL`. Fails if a response is not as expected.
import assert from 'node:assert/strict';
import createClient from 'openapi-fetch';
import type { paths } from './schema';

async function main(baseUrl: string) {
  const client = createClient<paths>({ baseUrl });
  const query = { trackingId: 'track_demo', route: '/', anonId: 'openapi-fetch' };

  const resolved = await client.GET('/v1/resolve', { params: { query } });
  assert(resolved.data?.type === 'layout', JSON.stringify(resolved.error));
  assert(Object.keys(resolved.data.layout.zones).length > 0);
  const again = await client.GET('/v1/resolve', { params: { query: { ...query, variants: resolved.data.variants } } });
  // Only the answer to a visitor names experiments.
  const { experiments, ...layout } = resolved.data;
  assert.deepEqual(again.data, layout);

  const decided = await client.GET('/v1/variants', { params: { query } });
  assert(decided.data && 'selected' in decided.data, JSON.stringify(decided.error));
  assert.deepEqual(decided.data.selected, resolved.data.selected);
  assert.equal(decided.data.experiments, experiments);

  const listed = await client.GET('/v1/query', { params: { query: { trackingId: 'track_demo', query: 'products', limit: 2 } } });
  assert.equal(listed.data?.items.length, 2);
  const queried = await client.POST('/v1/query', {
    body: { trackingId: 'track_demo', query: 'latest-articles', params: { section: 'workshop' } },
  });
  assert(queried.data?.items.every((item) => item.fields.section === 'workshop'));

  const event = { trackingId: 'track_demo', anonId: 'openapi-fetch', messageId: 'openapi-fetch', event: 'Seen', properties: { n: 1 } };
  const tracked = await client.POST('/v1/track', { body: event });
  assert.equal(tracked.data?.accepted, 1);

  const missing = await client.GET('/v1/resolve', { params: { query: { ...query, route: '/nothing/here' } } });
  assert.equal(missing.error?.code, 'route_not_found');
}

main(process.argv[2] ?? '');
