import { fnv1a } from './hash.js';
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

type Body = Record<string, any>;
type Handler = (state: State, query: URLSearchParams, body: Body) => Response;

interface State {
  site: string;
  trackingId: string;
  version: number;
  routes: Record<string, TestRoute>;
  queries: Record<string, Item[]>;
  events: Record<string, Json>[];
  failures: ('network' | 'timeout' | number)[];
}

/** Makes a Parallax in memory for the tests of a site. It matches concrete paths only and evaluates no rules. */
export function createTestParallax({ trackingId = 'track_test', routes, queries = {} }: TestOptions): TestParallax {
  const site = trackingId.replace('track_', '');
  const state: State = { site, trackingId, version: 1, routes, queries, events: [], failures: [] };
  return {
    fetch: ((input, init) => answer(state, new Request(input, init))) as typeof fetch,
    events: state.events,
    publish(next) {
      state.routes = next;
      return String(++state.version);
    },
    fail(failure, times = 1) {
      state.failures.push(...Array.from({ length: times }, () => failure));
    },
  };
}

const ENDPOINTS: Record<string, Handler> = {
  '/v1/resolve': (state, query) => decide(state, query, true),
  '/v1/variants': (state, query) => decide(state, query, false),
  '/v1/routes': list,
  '/v1/site': settings,
  '/v1/query': find,
  '/v1/batch': receive,
  '/v1/page': receive,
  '/v1/track': receive,
};

async function answer(state: State, request: Request): Promise<Response> {
  const failure = state.failures.shift();
  if (failure === 'network') throw new TypeError('fetch failed');
  if (failure === 'timeout') return await never(request.signal);
  if (failure) return problem(failure, 'internal', 'A failure of the test.');
  const { pathname, searchParams } = new URL(request.url);
  const text = await request.text();
  const body = text ? JSON.parse(text) : {};
  const trackingId = body.trackingId ?? searchParams.get('trackingId');
  if (trackingId !== state.trackingId) return problem(404, 'site_not_found', `No published site has tracking ID '${trackingId}'.`);
  const handler = Object.hasOwn(ENDPOINTS, pathname) ? ENDPOINTS[pathname] : undefined;
  return handler?.(state, searchParams, body) ?? problem(404, 'unknown_endpoint', `${pathname} is not an endpoint.`);
}

function reply({ version }: State, data: object): Response {
  return Response.json(data, { headers: { 'x-version': String(version), 'x-request-id': 'test' } });
}

/** Answers resolve and variants. */
function decide(state: State, query: URLSearchParams, isLayout: boolean): Response {
  const path = query.get('route') ?? '';
  const route = Object.hasOwn(state.routes, path) ? state.routes[path]! : undefined;
  if (!route) return problem(404, 'route_not_found', `The site has no route '${path}'.`);
  const common = { site: state.site, route: path };
  if (route.redirect) return reply(state, { type: 'redirect', ...common, pattern: path, params: {}, status: 308, ...route.redirect });
  const forced = isLayout ? query.get('variants') : null;
  const variants = forced ?? (query.get('personalize') === '0' ? '' : (route.choose?.(query) ?? ''));
  const experiments = forced === null ? { experiments: route.experiments ?? '' } : {};
  const chosen = { variants, selected: selectedOf(route, variants), ...experiments };
  if (!isLayout) return reply(state, { type: 'decision', ...common, ...chosen });
  const layout = { root: { props: {} }, zones: zonesOf(route, variants) };
  return reply(state, { type: 'layout', ...common, pattern: path, params: {}, ...chosen, layout });
}

function list(state: State): Response {
  const { site, version, routes, queries } = state;
  const entries = Object.entries(routes);
  const pages = entries.filter(([, { redirect }]) => !redirect);
  const moved = entries.flatMap(([from, { redirect }]) => (redirect ? [{ from, status: 308, ...redirect }] : []));
  return reply(state, {
    site,
    version: String(version),
    updatedAt: null,
    routes: pages.map(([path, route]) => ({ path, hash: hashOf(route), updatedAt: null, ...combinationsOf(route) })),
    redirects: moved,
    removed: [],
    queries: Object.entries(queries).map(([id, items]) => ({ id, hash: hashOf(items) })),
    removedQueries: [],
    nextCursor: null,
  });
}

function settings(state: State): Response {
  const { site, trackingId } = state;
  const times = { sMaxAge: 0, staleWhileRevalidate: 0, staleIfError: 0 };
  const cache = { resolve: times, query: times, routes: times };
  return reply(state, { site, trackingId, cookie: 'anon_id', origins: [], privacy: { honorGpc: false }, cache, preview: null });
}

function find(state: State, query: URLSearchParams, body: Body): Response {
  const member = (name: string) => body[name] ?? query.get(name);
  const id: string = member('query');
  const items = Object.hasOwn(state.queries, id) ? state.queries[id]! : undefined;
  if (!items) return problem(404, 'query_not_found', `The site has no query '${id}'.`);
  const begin = Number(member('cursor') ?? 0);
  const end = begin + Number(member('limit') ?? 12);
  const nextCursor = end < items.length ? String(end) : null;
  return reply(state, { site: state.site, query: id, items: items.slice(begin, end), total: items.length, nextCursor });
}

function receive(state: State, _query: URLSearchParams, body: Body): Response {
  const batch: Record<string, Json>[] = body.batch ?? [body];
  const known = new Set(state.events.map(({ messageId }) => messageId));
  const fresh = batch.filter(({ messageId }) => !known.has(messageId!));
  state.events.push(...fresh);
  const counts = { accepted: fresh.length, duplicates: batch.length - fresh.length, dropped: 0, rejected: 0 };
  return reply(state, { ...counts, durable: 'disk', seq: String(state.events.length), results: [] });
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
  return fnv1a(text).padStart(16, '0');
}
