import { ParallaxError } from './errors.js';
import { call } from './http.js';
import { QUERY_URL_CHARS_MAX, REFERRER_CHARS_MAX, URL_CHARS_MAX, USER_AGENT_CHARS_MAX } from './limits.js';
import type {
  AnySite,
  ApiResponse,
  ClientOptions,
  Decision,
  Fields,
  Forced,
  Layout,
  LayoutNode,
  Properties,
  QueryArguments,
  QueryOptions,
  QueryResult,
  Redirect,
  RequestOptions,
  Routes,
  RoutesQuery,
  SiteSettings,
  SiteTypes,
  Visitor,
} from './types.js';

const CHARS_MAX: Record<string, number> = { url: URL_CHARS_MAX, referrer: REFERRER_CHARS_MAX, userAgent: USER_AGENT_CHARS_MAX };

export interface Client<S extends SiteTypes = AnySite> {
  readonly options: Readonly<ClientOptions>;
  /** Returns the layout of a path: of a forced combination, or of the variants that Edge selects for a visitor. */
  resolve(route: S['Path'], selection: Forced | Visitor, request?: RequestOptions): Promise<ApiResponse<Layout<S> | Redirect>>;
  /** Returns the decision for a visitor without the layout. */
  variants(route: S['Path'], visitor: Visitor, request?: RequestOptions): Promise<ApiResponse<Decision | Redirect>>;
  /** Returns the published routes, all pages of the list. */
  routes(query?: RoutesQuery, request?: RequestOptions): Promise<Routes>;
  query<Q extends keyof S['Queries'] & string>(id: Q, ...rest: QueryArguments<S, Q>): Promise<ApiResponse<QueryResult<Fields<S, Q>>>>;
  /** Returns the next page of an embedded query. */
  more(node: Pick<LayoutNode, 'query' | 'nextCursor'>, cursor?: string | null): Promise<ApiResponse<QueryResult>>;
  site(request?: RequestOptions): Promise<ApiResponse<SiteSettings>>;
}

export function createClient<S extends SiteTypes = AnySite>(options: ClientOptions): Client<S> {
  const { trackingId } = options;
  const base = `${options.edgeUrl.replace(/\/+$/, '')}/v1/`;

  const urlOf = (endpoint: string, query: object) => `${base}${endpoint}?${queryOf(trackingId, query)}`;

  function get<T>(endpoint: string, query: object, request?: RequestOptions): Promise<ApiResponse<T>> {
    return call(options, urlOf(endpoint, query), undefined, request);
  }

  /** Makes a method that decides for a visitor, or names a combination. */
  function decide<T>(endpoint: string) {
    return (route: string, selection: Partial<Forced> & Visitor, request?: RequestOptions) =>
      get<T>(
        endpoint,
        selectionOf(route, selection),
        selection.userHash ? withHeader(request, 'x-user-hash', selection.userHash) : request,
      );
  }

  function find<F>(id: string, { params = {}, cache, ...rest }: QueryOptions<Properties> = {}, request?: RequestOptions) {
    const named = Object.entries(params).map(([name, value]) => [`params.${name}`, value]);
    const url = urlOf('query', { query: id, ...rest, ...Object.fromEntries(named) });
    const isNested = Object.values(params).some((value) => value instanceof Object);
    const isPost = cache === false || url.length >= QUERY_URL_CHARS_MAX || isNested;
    const body = isPost ? JSON.stringify({ trackingId, query: id, params, ...rest }) : undefined;
    return call<QueryResult<F>>(options, isPost ? `${base}query` : url, body, request);
  }

  return {
    options,
    resolve: decide('resolve'),
    variants: decide('variants'),
    routes: (query, request) => allRoutes((cursor) => get('routes', { ...query, cursor }, request)),
    query: (id, ...[options, request]) => find(id, options as QueryOptions<Properties>, request),
    async more({ query, nextCursor }, cursor = nextCursor) {
      if (!query || !cursor) throw new ParallaxError('invalid_cursor', 'No next page');
      return find(query.id, { params: query.params, cursor, cache: false });
    },
    site: (request) => get('site', {}, request),
  };
}

function queryOf(trackingId: string, query: object): URLSearchParams {
  const search = new URLSearchParams({ trackingId });
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null) search.set(name, `${value}`.slice(0, CHARS_MAX[name]));
  }
  return search;
}

/** Returns the members of the query of a decision. */
function selectionOf(route: string, selection: Partial<Forced> & Visitor): object {
  return { route, ...selection, userHash: null, strict: selection.strict ? 1 : null, personalize: selection.personalize === false ? 0 : null };
}

/** Returns the query string of a decision. */
export function decisionQuery(trackingId: string, route: string, visitor: Visitor): URLSearchParams {
  return queryOf(trackingId, selectionOf(route, visitor));
}

/** Returns the options with one more header. */
function withHeader(request: RequestOptions | undefined, name: string, value: string): RequestOptions {
  const headers = new Headers(request?.init?.headers);
  headers.set(name, value);
  return { ...request, init: { ...request?.init, headers } };
}

/** Joins the pages of a list. A publication between two pages begins the list again, so that it is that of one version. */
async function allRoutes(page: (cursor?: string | null) => Promise<ApiResponse<Routes>>): Promise<Routes> {
  const all = (await page()).data;
  for (let last = all; last.nextCursor; ) {
    last = (await page(last.nextCursor)).data;
    if (last.version !== all.version) return allRoutes(page);
    for (const name of ['routes', 'redirects', 'removed'] as const) (all[name] as unknown[]).push(...last[name]);
  }
  return { ...all, nextCursor: null };
}
