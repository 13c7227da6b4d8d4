import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { type Client, ParallaxError, createClient, staticCombinations } from '../../src/index.js';
import { type TestServer, startServer } from '../server.js';

const GERMAN = { anonId: 'visitor-1', locale: 'de-DE' };

describe('the client with a real server', () => {
  let server: TestServer;
  let client: Client;
  before(async () => {
    server = await startServer();
    client = createClient({ edgeUrl: `${server.url}//`, trackingId: 'track_demo' });
  });
  after(() => server.stop());

  test('resolve returns the layout that Edge selects for a visitor', async () => {
    const { data, version, requestId } = await client.resolve('/', GERMAN);
    assert.equal(data.type, 'layout');
    assert.match((data as { variants: string }).variants, /hero:deutsch/);
    assert.match(version!, /^\d+$/);
    assert.ok(requestId);
  });

  test('resolve of a forced combination is public and has cache tags', async () => {
    const { data, tags } = await client.resolve('/', { variants: 'hero:deutsch' });
    assert.equal(data.type === 'layout' && data.variants, 'hero:deutsch');
    assert.deepEqual(tags, ['fjell', 'fjell:/']);
  });

  test('an empty combination is the baseline and no decision', async () => {
    const { data } = await client.resolve('/', { variants: '' });
    assert.equal(data.type === 'layout' && data.variants, '');
  });

  test('strict refuses an unknown pair with the members of the problem', async () => {
    const failure = await client.resolve('/', { variants: 'hero:nope', strict: true }).catch((error) => error);
    assert.ok(failure instanceof ParallaxError);
    assert.deepEqual([failure.code, failure.status, failure.param, failure.retryable], ['unknown_variant', 400, 'variants', false]);
    assert.ok(failure.message && failure.requestId);
  });

  test('variants returns the decision alone, the same as resolve', async () => {
    const [decision, layout] = await Promise.all([client.variants('/', GERMAN), client.resolve('/', GERMAN)]);
    assert.equal((decision.data as any).variants, (layout.data as any).variants);
    assert.equal((decision.data as any).layout, undefined);
  });

  test('a redirect is data and no failure', async () => {
    const { data } = await client.resolve('/sleep', { variants: '' });
    assert.deepEqual(data.type === 'redirect' && [data.to, data.status], ['/sleeping-bags', 308]);
  });

  test('an unknown route is route_not_found', async () => {
    const failure = await client.variants('/nix', GERMAN).catch((error) => error);
    assert.deepEqual([failure.code, failure.status], ['route_not_found', 404]);
  });

  test('long values of the context are cut, so that the target stays below 8 KiB', async () => {
    const long = 'x'.repeat(9000);
    const { data } = await client.variants('/', { ...GERMAN, url: `https://shop.example/?${long}`, referrer: `https://a.example/${long}`, userAgent: long });
    assert.match((data as { variants: string }).variants, /hero:deutsch/);
  });

  test('routes lists all pages of the list, with the combinations of each route', async () => {
    const routes = await client.routes({ include: 'variants' });
    const front = routes.routes.find(({ path }) => path === '/');
    assert.ok(front?.variants?.includes('hero:deutsch'));
    assert.equal(routes.nextCursor, null);
    assert.ok(routes.redirects.some(({ from }) => from === '/sleep'));
  });

  test('pages of a list are joined', async () => {
    const paged = createClient({
      ...client.options,
      fetch: (url, init) => fetch(String(url).includes('/v1/routes') ? `${url}&limit=10` : url, init),
    });
    const [all, joined] = await Promise.all([client.routes(), paged.routes()]);
    assert.ok(all.routes.length > 20);
    assert.deepEqual(joined.routes, all.routes);
  });

  test('the static combinations of the front page are those that Edge lists', async () => {
    const all = await staticCombinations(client);
    const front = all.filter(({ path }) => path === '/');
    assert.equal(front.length, 16);
    assert.equal(new Set(front.map(({ variants }) => variants)).size, 16);
    for (const { variants } of front.slice(0, 4)) {
      const { data } = await client.resolve('/', { variants, strict: true });
      assert.equal(data.type === 'layout' && data.variants, variants);
    }
  });

  test('a query by GET and by POST gives the same items', async () => {
    const params = { category: 'tents', maxPrice: 9000 };
    const byGet = await client.query('products', { params, limit: 3 });
    const byPost = await client.query('products', { params, limit: 3, cache: false });
    assert.equal(byGet.data.items.length, 3);
    assert.deepEqual(byPost.data, byGet.data);
    const next = await client.query('products', { params, limit: 3, cursor: byGet.data.nextCursor });
    assert.notEqual(next.data.items[0]!.id, byGet.data.items[0]!.id);
  });

  test('a parameter of a wrong type is refused with its pointer', async () => {
    const failure = await client.query('products', { params: { maxPrice: 'cheap' }, cache: false }).catch((error) => error);
    assert.deepEqual([failure.code, failure.pointer], ['invalid_param', '/params/maxPrice']);
  });

  test('more returns the next page of an embedded query, and refuses a node without one', async () => {
    const { data } = await client.resolve('/tents', { variants: '' });
    const grid = Object.values((data as any).layout.zones).flat().find((node: any) => node.nextCursor) as any;
    const { data: next } = await client.more(grid);
    assert.ok(next.items.length > 0);
    assert.ok(next.items.every((item) => !grid.items.some(({ id }: { id: string }) => id === item.id)));
    await assert.rejects(client.more({ ...grid, nextCursor: null }), { code: 'invalid_cursor' });
  });
});

/** An HTTP server whose responses are scripted, one for each request. The last one repeats. */
async function scripted(...responses: { status: number; body?: string; headers?: Record<string, string> }[]) {
  const requests: { at: number; method: string; url: string; body: string }[] = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const next = responses[Math.min(requests.length, responses.length - 1)]!;
    requests.push({ at: Date.now(), method: request.method!, url: request.url!, body });
    if (next.status === 0) return request.socket.destroy();
    if (next.status === 1) return undefined; // silent
    return response.writeHead(next.status, next.headers).end(next.body ?? '{"type":"decision","variants":""}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const edgeUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { requests, close, client: createClient({ edgeUrl, trackingId: 'track_demo' }) };
}

describe('retries and deadlines', () => {
  for (const status of [0, 408, 429, 500, 503]) {
    test(`${status || 'a network error'} is tried again`, async () => {
      const edge = await scripted({ status, body: '{}' }, { status, body: '{}' }, { status: 200 });
      const { data } = await edge.client.variants('/', {});
      assert.equal(data.type, 'decision');
      assert.equal(edge.requests.length, 3);
      edge.close();
    });
  }

  for (const status of [400, 404, 501, 505]) {
    test(`${status} is not tried again`, async () => {
      const edge = await scripted({ status, body: '{"code":"some_code","detail":"Some detail."}' });
      await assert.rejects(edge.client.variants('/', {}), { code: 'some_code', status, retryable: false, message: 'Some detail.' });
      assert.equal(edge.requests.length, 1);
      edge.close();
    });
  }

  test('the third failure is that of the call', async () => {
    const edge = await scripted({ status: 503, body: '{"code":"overloaded"}' });
    await assert.rejects(edge.client.variants('/', {}), { code: 'overloaded', status: 503, retryable: true });
    assert.equal(edge.requests.length, 3);
    edge.close();
  });

  test('Retry-After wins over the backoff, and a wait beyond the deadline is no wait', async () => {
    const edge = await scripted({ status: 429, body: '{}', headers: { 'retry-after': '1' } }, { status: 200 });
    await edge.client.variants('/', {});
    assert.ok(edge.requests[1]!.at - edge.requests[0]!.at >= 990);
    edge.close();
    const busy = await scripted({ status: 429, body: '{}', headers: { 'retry-after': '60' } });
    const began = Date.now();
    await assert.rejects(busy.client.variants('/', {}), { status: 429, retryAfter: 60 });
    assert.ok(Date.now() - began < 1500);
    busy.close();
  });

  test('one deadline covers all tries of a silent server', async () => {
    const edge = await scripted({ status: 1 });
    const began = Date.now();
    await assert.rejects(edge.client.variants('/', {}, { timeoutMs: 200 }), { code: 'timeout', status: 0, retryable: true });
    assert.ok(Date.now() - began < 1500);
    assert.equal(edge.requests.length, 1);
    edge.close();
  });

  test('the signal of the caller ends a call with its reason', async () => {
    const edge = await scripted({ status: 1 });
    const abort = new AbortController();
    const pending = edge.client.variants('/', {}, { signal: abort.signal });
    abort.abort(new Error('the visitor left'));
    await assert.rejects(pending, { message: 'the visitor left' });
    await assert.rejects(edge.client.variants('/', {}, { signal: abort.signal }), { message: 'the visitor left' });
    edge.close();
  });

  test('a 200 that is not JSON is bad_response', async () => {
    const edge = await scripted({ status: 200, body: '<h1>Hotel WiFi</h1>' });
    await assert.rejects(edge.client.variants('/', {}), { code: 'bad_response', status: 200, retryable: false });
    edge.close();
  });

  test('a problem document cannot overwrite the members of the error', async () => {
    const edge = await scripted({ status: 400, body: '{"code":"x","retryable":true,"name":"other","status":200,"stack":1}' });
    await assert.rejects(edge.client.variants('/', {}), { name: 'ParallaxError', code: 'x', status: 400, retryable: false });
    edge.close();
  });

  test('a query with a long URL is a POST, and one below 2 KB is a GET', async () => {
    const edge = await scripted({ status: 200 });
    const base = `${edge.client.options.edgeUrl}/v1/query?trackingId=track_demo&query=q&params.a=`.length;
    await edge.client.query('q', { params: { a: 'x'.repeat(2047 - base) } });
    await edge.client.query('q', { params: { a: 'x'.repeat(2048 - base) } });
    await edge.client.query('q', { params: { a: ['nested'] } });
    assert.deepEqual(edge.requests.map(({ method }) => method), ['GET', 'POST', 'POST']);
    assert.deepEqual(JSON.parse(edge.requests[2]!.body), { trackingId: 'track_demo', query: 'q', params: { a: ['nested'] } });
    edge.close();
  });

  test('a publication between two pages of a list begins the list again', async () => {
    const page = (version: string, path: string, nextCursor: string | null) =>
      ({ status: 200, body: JSON.stringify({ version, routes: [{ path }], redirects: [], removed: [], nextCursor }) });
    const edge = await scripted(page('1', '/old', 'c'), page('2', '/b', null), page('2', '/a', 'c'), page('2', '/b', null));
    const { version, routes } = await edge.client.routes();
    assert.deepEqual([version, routes.map(({ path }) => path)], ['2', ['/a', '/b']]);
    edge.close();
  });
});
