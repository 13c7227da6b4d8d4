/** The types of a site and of the wire. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Properties = Record<string, Json>;

/** The types of one site. The output of `parallax types` fits. An interface does not fit an index signature, hence `object`. */
export interface SiteTypes {
  Components: object;
  Queries: object;
  NodeQueries: object;
  Path: string;
}

/** A site without generated types. */
export interface AnySite {
  Components: Record<string, Properties>;
  Queries: Record<string, { params: Properties; fields: Properties }>;
  NodeQueries: Record<string, string>;
  Path: string;
}

export type Params<S extends SiteTypes, Q extends keyof S['Queries']> = S['Queries'][Q] extends { params: infer P } ? P : Properties;
export type Fields<S extends SiteTypes, Q extends keyof S['Queries']> = S['Queries'][Q] extends { fields: infer F } ? F : Properties;

/** The fields of the embedded items of node type T. */
export type NodeFields<S extends SiteTypes, T> = T extends keyof S['NodeQueries']
  ? S['NodeQueries'][T] extends keyof S['Queries']
    ? Fields<S, S['NodeQueries'][T]>
    : Properties
  : Properties;

export interface QueryOptions<P> {
  params?: P;
  limit?: number;
  cursor?: string | null;
  /** False sends a POST, which no cache stores. */
  cache?: boolean;
}

/** The arguments of `query` after the ID. A query with a required parameter makes `params` required. */
export type QueryArguments<S extends SiteTypes, Q extends keyof S['Queries']> = {} extends Params<S, Q>
  ? [query?: QueryOptions<Params<S, Q>>, request?: RequestOptions]
  : [query: QueryOptions<Params<S, Q>> & { params: Params<S, Q> }, request?: RequestOptions];

export interface ClientOptions {
  /** On a server: Edge itself, not a CDN. Trailing slashes are cut. */
  edgeUrl: string;
  /** Default: `edgeUrl`. */
  eventsUrl?: string;
  trackingId: string;
  /** The deadline of a whole call, retries and waits included. Default 2000. */
  timeoutMs?: number;
  /** Default 2. */
  retries?: number;
  /** Default: the global function, looked up at each call. */
  fetch?: typeof fetch;
}

export interface RequestOptions {
  signal?: AbortSignal;
  timeoutMs?: number;
  retries?: number;
  /** The past of the visitor, for a client that decides in process. `visitorFrom` reads it. Other clients ignore it. */
  past?: VisitorPast;
  /** Keeps a worker of a CDN alive until a refresh of the rules has ended. For a client that decides in process. */
  waitUntil?: (work: Promise<unknown>) => void;
  /** Further options of `fetch`, such as headers. The call sets the others. */
  init?: Omit<RequestInit, 'body' | 'method' | 'signal'>;
}

/** The past of a visitor, as the cookies of a request tell it. */
export interface VisitorPast {
  /** True without an ID cookie. */
  isNew: boolean;
  /** The visitor token of the cookie `px_visitor`. */
  token: string | null;
  /** True after an event whose receipt has not arrived: the token does not contain it. */
  isStale: boolean;
}

export interface ApiResponse<T> {
  data: T;
  /** The visitor token of a decision by Edge, for `visitorCookie`. Null if Edge gave none. Only from a client that decides in process. */
  visitorToken?: string | null;
  /** The version of the site. */
  version: string | null;
  /** The entries of `Cache-Tag`. Empty in browsers, which cannot read it. */
  tags: readonly string[];
  requestId: string | null;
}

/** A combination to render without a decision. */
export interface Forced {
  variants: string;
  /** True makes an unknown pair a failure. */
  strict?: boolean;
}

/** A visitor and the context of the request, for a decision. */
export interface Visitor {
  anonId?: string;
  userId?: string;
  /** The result of `userHash`, for a site that verifies user IDs. It is sent in a header, because URLs are logged. */
  userHash?: string;
  /** False decides as for a new visitor without an ID. */
  personalize?: false;
  /** The zones to force. The others are decided. */
  override?: string;
  url?: string;
  referrer?: string;
  userAgent?: string;
  locale?: string;
  country?: string;
}

export interface Warning {
  code: 'unknown_variant';
  zone: string;
  key: string;
}

export interface Layout<S extends SiteTypes = AnySite> {
  type: 'layout';
  site: string;
  route: string;
  pattern: string;
  params: Record<string, string>;
  variants: string;
  selected: Record<string, string>;
  /** In private responses only. */
  experiments?: string;
  layout: { root: { props: Properties }; zones: Record<string, LayoutNode<S>[]> };
  warnings?: Warning[];
  /** With `visitor=1` in the query. */
  visitorToken?: string | null;
}

/** A union over the node types: `node.type === 'Hero'` narrows `node.props`. */
export type LayoutNode<S extends SiteTypes = AnySite> = {
  [T in keyof S['Components'] & string]: NodeOf<S, T, S['Components'][T]>;
}[keyof S['Components'] & string];

export interface NodeOf<S extends SiteTypes, T, P> {
  id: string;
  type: T;
  props: P;
  zones?: Record<string, LayoutNode<S>[]>;
  query?: { id: string; params?: Properties };
  items?: Item<NodeFields<S, T>>[];
  total?: number;
  nextCursor?: string | null;
}

export interface Item<F = Properties> {
  id: string;
  type: string;
  fields: F;
}

export interface Redirect {
  type: 'redirect';
  site: string;
  route: string;
  pattern: string;
  params: Record<string, string>;
  to: string;
  status: 301 | 302 | 303 | 307 | 308;
}

export interface Route {
  path: string;
  hash: string;
  updatedAt: string | null;
  /** The personalized zones. */
  zones: string[];
  combinations: number;
  pattern?: true;
  variants?: string[];
  truncated?: true;
}

export interface Routes {
  site: string;
  version: string;
  updatedAt: string | null;
  since?: string | null;
  nextCursor: string | null;
  routes: Route[];
  redirects: { from: string; to: string; status: number }[];
  removed: string[];
  queries?: { id: string; hash: string }[];
  removedQueries?: string[];
}

export interface RoutesQuery {
  prefix?: string;
  since?: string;
  include?: 'variants';
}

export interface CacheTimes {
  sMaxAge: number;
  staleWhileRevalidate: number;
  staleIfError: number;
}

export interface SiteSettings {
  site: string;
  trackingId: string;
  cookie: string;
  origins: string[];
  privacy: { honorGpc: boolean; consentCategories?: { measure: string[]; personalize: string[] } };
  cache: Record<'resolve' | 'query' | 'routes', CacheTimes>;
  preview: string | null;
}

export interface Decision {
  type: 'decision';
  site: string;
  route: string;
  variants: string;
  selected: Record<string, string>;
  experiments: string;
  warnings?: Warning[];
  crawler?: true;
  /** With `visitor=1` in the query. */
  visitorToken?: string | null;
}

export interface QueryResult<F = Properties> {
  site: string;
  query: string;
  items: Item<F>[];
  total: number;
  nextCursor: string | null;
  warnings?: { code: 'unused_parameter'; param: string }[];
}

/** The consent of a visitor to personalized pages and to the recording of events. */
export interface Consent {
  personalize: boolean;
  measure: boolean;
}

export interface Receipt {
  accepted: number;
  duplicates: number;
  dropped: number;
  rejected: number;
  durable: 'disk' | 'written';
  seq: string | null;
  /** Only from a node of a cluster: whether its next decision knows the events. */
  visible?: boolean;
  /** With `visitor=1` in the query: the past of the visitor with these events. Null without a token. */
  visitorToken?: string | null;
  results: ReceiptResult[];
  /** Optional values that the server ignored. The events are recorded without them. */
  warnings?: IgnoredValue[];
}

export interface IgnoredValue {
  /** The index of the event, or null for a value of the whole batch. */
  index: number | null;
  code: string;
  pointer: string;
  detail: string;
}

export interface ReceiptResult {
  index: number;
  messageId: string | null;
  status: 'duplicate' | 'dropped' | 'rejected';
  reason?: string;
  code?: string;
  pointer?: string;
  detail?: string;
}
