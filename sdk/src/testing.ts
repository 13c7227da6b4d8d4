import type { Item, Json, LayoutNode, Properties } from './types.js';

/** A route of a test. `variants` names the nodes of a zone for each key. */
export interface TestRoute {
  zones?: Record<string, LayoutNode[]>;
  variants?: Record<string, Record<string, LayoutNode[]>>;
  /** Returns the combination for a visitor. Default: the baseline. */
  choose?(visitor: URLSearchParams): string;
  experiments?: string;
  redirect?: { to: string; status?: 301 | 302 | 303 | 307 | 308 };
}

export interface TestParallax {
  /** For `ClientOptions.fetch`: answers as Edge and Events do. */
  fetch: typeof fetch;
  /** The received events without duplicates. */
  events: readonly Record<string, Json>[];
  /** Replaces the routes and returns the new version. */
  publish(routes: Record<string, TestRoute>): string;
  /** Lets the next calls fail: without a response, without an end, or with a status. */
  fail(failure: 'network' | 'timeout' | number, times?: number): void;
}

export interface TestOptions {
  trackingId?: string;
  routes: Record<string, TestRoute>;
  queries?: Record<string, Item[]>;
}

type Handler = (query: URLSearchParams, body: Record<string, any>) => Response;

/** Makes a Parallax in memory for the tests of a site. It matches concrete paths only and evaluates no rules. */
export function createTestParallax({ trackingId = 'track_test', routes: first, queries = {} }: TestOptions): TestParallax {
  let routes = first;
  let version = 1;
  const events: Record<string, Json>[] = [];
  const failures: ('network' | 'timeout' | number)[] = [];
  const site = trackingId.replace('track_', '');

  function reply(data: object): Response {
    return Response.json(data, { headers: { 'x-version': String(version), 'x-request-id': 'test' } });
  }

  /** Answers resolve and variants. */
  function decide(query: URLSearchParams, isLayout: boolean): Response {
    const path = query.get('route') ?? '';
    const route = Object.hasOwn(routes, path) ? routes[path]! : undefined;
    if (!route) return problem(404, 'route_not_found', `The site has no route '${path}'.`);
    const common = { site, route: path };
    if (route.redirect) return reply({ type: 'redirect', ...common, pattern: path, params: {}, status: 308, ...route.redirect });
    const forced = isLayout ? query.get('variants') : null;
    const variants = forced ?? (query.get('personalize') === '0' ? '' : (route.choose?.(query) ?? ''));
    const experiments = forced === null ? { experiments: route.experiments ?? '' } : {};
    const chosen = { variants, selected: selectedOf(route, variants), ...experiments };
    if (!isLayout) return reply({ type: 'decision', ...common, ...chosen });
    return reply({ type: 'layout', ...common, pattern: path, params: {}, ...chosen, layout: { root: { props: {} }, zones: zonesOf(route, variants) } });
  }

  function list(): Response {
    const entries = Object.entries(routes);
    const pages = entries.filter(([, { redirect }]) => !redirect);
    const redirects = entries.flatMap(([from, { redirect }]) => (redirect ? [{ from, to: redirect.to, status: redirect.status ?? 308 }] : []));
    return reply({
      site,
      version: String(version),
      updatedAt: null,
      routes: pages.map(([path, route]) => ({ path, hash: hashOf(route), updatedAt: null, ...combinationsOf(route) })),
      redirects,
      removed: [],
      queries: Object.entries(queries).map(([id, items]) => ({ id, hash: hashOf(items) })),
      removedQueries: [],
      nextCursor: null,
    });
  }

  function find(id: string, limit = 12, cursor: string | null = null): Response {
    const items = Object.hasOwn(queries, id) ? queries[id]! : undefined;
    if (!items) return problem(404, 'query_not_found', `The site has no query '${id}'.`);
    const begin = Number(cursor ?? 0);
    const end = begin + limit;
    return reply({ site, query: id, items: items.slice(begin, end), total: items.length, nextCursor: end < items.length ? String(end) : null });
  }

  function receive(body: Record<string, any>): Response {
    const batch: Record<string, Json>[] = body.batch ?? [body];
    const known = new Set(events.map(({ messageId }) => messageId));
    const fresh = batch.filter(({ messageId }) => !known.has(messageId!));
    events.push(...fresh);
    const duplicates = batch.length - fresh.length;
    return reply({ accepted: fresh.length, duplicates, dropped: 0, rejected: 0, durable: 'disk', seq: String(events.length), results: [] });
  }

  const settings = { site, trackingId, cookie: 'anon_id', origins: [], privacy: { honorGpc: false }, cache: {}, preview: null };
  const endpoints: Record<string, Handler> = {
    '/v1/resolve': (query) => decide(query, true),
    '/v1/variants': (query) => decide(query, false),
    '/v1/routes': list,
    '/v1/site': () => reply(settings),
    '/v1/query': (query, body) => find(body.query ?? query.get('query'), Number(body.limit ?? query.get('limit') ?? 12), body.cursor ?? query.get('cursor')),
    '/v1/batch': (_, body) => receive(body),
    '/v1/page': (_, body) => receive(body),
    '/v1/track': (_, body) => receive(body),
  };

  async function answer(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    const request = new Request(input, init);
    const failure = failures.shift();
    if (failure === 'network') throw new TypeError('fetch failed');
    if (failure === 'timeout') return await never(request.signal);
    if (failure) return problem(failure, 'internal', 'A failure of the test.');
    const url = new URL(request.url);
    const text = await request.text();
    const body = text ? JSON.parse(text) : {};
    if ((body.trackingId ?? url.searchParams.get('trackingId')) !== trackingId) return problem(404, 'site_not_found', 'Another tracking ID.');
    return endpoints[url.pathname]?.(url.searchParams, body) ?? problem(404, 'unknown_endpoint', `No endpoint ${url.pathname}.`);
  }

  return {
    fetch: answer as typeof fetch,
    events,
    publish(next) {
      routes = next;
      return String(++version);
    },
    fail(failure, times = 1) {
      failures.push(...Array.from({ length: times }, () => failure));
    },
  };
}

function problem(status: number, code: string, detail: string): Response {
  return Response.json({ type: `/v1/problems/${code}`, title: code, status, code, detail }, { status });
}

function never(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
}

function selectedOf({ variants = {} }: TestRoute, text: string): Record<string, string> {
  const pairs = Object.fromEntries(text ? text.split(',').map((pair) => pair.split(':')) : []);
  return Object.fromEntries(Object.keys(variants).map((zone) => [zone, pairs[zone] ?? 'default']));
}

function zonesOf(route: TestRoute, text: string): Record<string, LayoutNode[]> {
  const chosen = Object.entries(selectedOf(route, text)).filter(([, key]) => key !== 'default');
  return { ...route.zones, ...Object.fromEntries(chosen.map(([zone, key]) => [zone, route.variants?.[zone]?.[key] ?? []])) };
}

/** Returns the zones and each single variant of them. A test needs no product of zones. */
function combinationsOf({ variants = {} }: TestRoute) {
  const zones = Object.keys(variants).sort();
  const texts = ['', ...zones.flatMap((zone) => Object.keys(variants[zone]!).map((key) => `${zone}:${key}`))];
  return { zones, combinations: texts.length, variants: texts };
}

/** Returns a hash of the content: FNV-1a of its JSON, with functions by their source. */
function hashOf(value: object): string {
  const text = JSON.stringify(value, (_, inner: Properties | (() => void)) => (typeof inner === 'function' ? String(inner) : inner));
  let hash = 0x811c9dc5;
  for (const character of text) hash = Math.imul(hash ^ character.codePointAt(0)!, 0x01000193);
  return (hash >>> 0).toString(16).padStart(16, '0');
}
