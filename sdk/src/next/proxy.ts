import { type NextFetchEvent, type NextRequest, NextResponse } from 'next/server.js';
import { createBreaker } from '../breaker.js';
import type { Client } from '../client.js';
import { toSegments, wellFormed } from '../combination.js';
import { type Choice, createDecide, isLocal } from '../decide.js';
import { EXPERIMENTS_COOKIE, cookieText } from '../cookies.js';
import { handOver } from '../hand-over.js';
import { decisionHash } from '../hash.js';
import { DECISION_DEVELOPMENT_MS, DECISION_MS, EXPERIMENTS_CHARS_MAX, EXPERIMENTS_SECONDS, ROUTES_SECONDS } from '../limits.js';
import type { LocalClient } from '../local.js';
import { visitorCookie } from '../past.js';
import type { Decision, Redirect } from '../types.js';
import { type RequestVisitor, type VisitorOptions, visitorFrom } from '../visitor.js';
import { createNotifier } from './notifier.js';
import { onPublication } from './publications.js';
import { createRouteTable, decodeSegments } from './route-table.js';
import { isBearer } from './secret.js';

export interface ProxyOptions extends VisitorOptions {
  /** The internal path of the static pages. Default `/px`. */
  prefix?: string;
  /** Returns true for a page of the site itself, which Parallax does not publish. The proxy leaves it alone. */
  owns?: (path: string) => boolean;
  /** The deadline of hand-over and decision together. Default 150, in development 2000. */
  timeoutMs?: number;
  /** The age at which the route table is refreshed. Default 5. */
  routesSeconds?: number;
  /** The path of the revalidation handler. Default `/api/parallax/revalidate`. */
  revalidate?: string;
  /** The address of this instance of the site, never of a load balancer, for example `http://localhost:3000`. */
  instanceUrl?: string;
  /** Sent to `revalidate`, only to `instanceUrl`. Also lets requests of the revalidation handler render internal pages. */
  secret?: string;
  /** Default true: the proxy sends the events of the cookie `px_events` to Edge before it asks for the decision. */
  handOver?: boolean;
  /** `local`: decides in process, with a client of `createLocalClient`, and asks Edge only where it must. Default `edge`. */
  decide?: 'local' | 'edge';
  /** True: pages without personalized zones are public and set no cookie. For a CDN in front of the site. */
  cacheUnpersonalized?: boolean;
}

/** The response to a request, and the decision behind it, if there was one. */
export interface ProxyResult {
  response: NextResponse;
  decision: Decision | null;
}

export interface Proxy {
  (request: NextRequest, event: NextFetchEvent): Promise<NextResponse>;
  /** Returns the decision too, for use together with sign-in or language code. */
  handle(request: NextRequest, event: NextFetchEvent): Promise<ProxyResult>;
}

const SHARED = 'public, max-age=0, s-maxage=60, stale-while-revalidate=600';
/** One URL has many bodies, and a cookie. A shared cache would give one visitor's page to all. */
const PRIVATE = 'private, no-cache';
/** The cookie with which Next.js turns draft mode on. */
const BYPASS_COOKIE = '__prerender_bypass';

interface Settings extends ProxyOptions {
  prefix: string;
  revalidate: string;
  timeoutMs: number;
}

function withDefaults(options: ProxyOptions): Settings {
  if (options.secret && !options.instanceUrl) throw new Error('withParallax: `secret` needs `instanceUrl`, the address that it is sent to.');
  const timeoutMs = options.timeoutMs ?? (process.env.NODE_ENV === 'development' ? DECISION_DEVELOPMENT_MS : DECISION_MS);
  const { prefix = '/px', revalidate = '/api/parallax/revalidate' } = options;
  return { ...options, prefix, revalidate, timeoutMs };
}

/** Returns the client that makes the decisions. */
function decidingClient(client: Client<any> | LocalClient<any>, { decide = 'edge' }: Settings): Client<any> | LocalClient<any> {
  if (decide === 'edge') return 'edge' in client ? client.edge : client;
  if (!isLocal(client)) throw new Error("withParallax: `decide: 'local'` needs a client of `createLocalClient` of `@parallax/sdk/local`.");
  return client;
}

/** Requests the rules of the site, unless those in memory are of this version. */
async function refreshRules(client: Client<any> | LocalClient<any>, version?: string | null): Promise<void> {
  if ('edge' in client && (version === undefined || client.rulesVersion !== version)) await client.refresh();
}

/** Returns the proxy of a Next.js site: it rewrites a request to the static page of the visitor's combination. */
export function withParallax(client: Client<any>, options: ProxyOptions = {}): Proxy {
  const o = withDefaults(options);
  const breaker = createBreaker();
  const table = createRouteTable(client, { cookie: o.cookie ?? 'anon_id', seconds: o.routesSeconds ?? ROUTES_SECONDS, breaker });
  const notify = createNotifier(o);
  const deciding = decidingClient(client, o);
  const decide = createDecide(deciding, { timeoutMs: o.timeoutMs, breaker });
  if (isLocal(deciding)) onPublication(client, () => refreshRules(deciding));
  let lastRewrite: string | null = null;
  const answerInternal = createInternalAnswer(o, () => lastRewrite);
  /** The versions of decisions since the table was due. Servers of Edge may differ for a time, and each version refreshes it once. */
  const seenVersions = new Set<string>();

  /** No request waits for a refresh. */
  function refresh(req: NextRequest, event: NextFetchEvent): void {
    event.waitUntil(table.refresh().then(() => Promise.all([notify(req, table.version), refreshRules(deciding, table.version)])));
  }

  function refreshIfDue(req: NextRequest, event: NextFetchEvent): void {
    if (!table.isStale) return;
    seenVersions.clear();
    refresh(req, event);
  }

  /** Asks Edge about a path. */
  async function decisionFor(req: NextRequest, event: NextFetchEvent, v: RequestVisitor): Promise<Choice> {
    const before = o.handOver === false ? undefined : () => handOver(deciding, req, v, (o.timeoutMs * 2) / 3);
    const request = { ...v.request, waitUntil: (work: Promise<unknown>) => event.waitUntil(work) };
    const choice = await decide(req.nextUrl.pathname, v.visitor, request, before);
    const { version } = choice;
    if (version !== null && version !== table.version && !seenVersions.has(version)) {
      seenVersions.add(version);
      refresh(req, event);
    }
    return choice;
  }

  async function answer(req: NextRequest, event: NextFetchEvent, segments: string[]): Promise<ProxyResult> {
    const v = await visitorFrom(req, Object.assign({}, o, { honorGpc: o.honorGpc ?? table.honorGpc }));
    if (v.isDraft) return withoutDecision(rewrite(req, o, wellFormed(req.nextUrl.searchParams.get('px-variants')), true));
    const redirect = table.redirect(segments);
    if (redirect) return withoutDecision(redirectTo(redirect, req));
    const page = table.page(segments);
    if (table.version !== null && !page) return withoutDecision(NextResponse.next());

    const choice = page?.zones === 0 ? null : await decisionFor(req, event, v);
    if (choice?.redirect) return withoutDecision(redirectTo(choice.redirect, req));
    if (choice?.error?.code === 'route_not_found') return withoutDecision(NextResponse.next());
    const response = rewrite(req, o, choice?.variants ?? '');
    const decision = choice?.decision ?? null;
    if (o.cacheUnpersonalized && page?.zones === 0 && !v.isPreview) response.headers.set('cache-control', SHARED);
    else setCookies(response, req, v, decision, isLocal(deciding) ? visitorCookie(v, choice?.visitorToken, o.cookieDomain) : null);
    return { response, decision };
  }

  async function handle(req: NextRequest, event: NextFetchEvent): Promise<ProxyResult> {
    const segments = decodeSegments(req.nextUrl.pathname);
    const path = `/${segments.join('/')}`;
    if (path === o.prefix || path.startsWith(`${o.prefix}/`)) return withoutDecision(await answerInternal(req));
    if (o.owns?.(path)) return withoutDecision(NextResponse.next());
    const result = await answer(req, event, segments);
    lastRewrite = result.response.headers.get('x-middleware-rewrite') ?? lastRewrite;
    refreshIfDue(req, event); // after the decision, which the breaker may let through as its probe
    return result;
  }
  return Object.assign(async (req: NextRequest, event: NextFetchEvent) => (await handle(req, event)).response, { handle });
}

function withoutDecision(response: NextResponse): ProxyResult {
  return { response, decision: null };
}

/**
 * Returns a function that answers a request for an internal page: visitors get 404, so that nobody can fill the page cache.
 * `lastRewrite` returns the URL of the last rewrite, with which a rewritten request that comes back is recognized.
 */
function createInternalAnswer({ secret, prefix }: Settings, lastRewrite: () => string | null): (req: NextRequest) => Promise<NextResponse> {
  let isReported = false;
  return async (req) => {
    if (await isBearer(req, secret)) return NextResponse.next();
    const url = lastRewrite();
    if (url && new URL(url).pathname === req.nextUrl.pathname && !isReported) {
      isReported = true;
      console.error(`Parallax: a rewritten request for ${prefix} reached the proxy again and is 404. If pages are 404, start Next.js with \`-H localhost\`.`);
    }
    return new NextResponse(null, { status: 404 });
  };
}

function rewrite(req: NextRequest, { prefix }: Settings, variants: string, isDraft = false): NextResponse {
  // Not a clone of the URL: that would parse it again, which takes longer than the rest of the rewrite.
  const { origin, basePath, pathname, search } = req.nextUrl;
  const path = [prefix, ...toSegments(variants)].join('/') + (pathname === '/' ? '' : pathname);
  const target = origin + basePath + path + search;
  const headers = isDraft ? undefined : withoutDraft(req);
  const response = NextResponse.rewrite(target, headers && { request: { headers } });
  response.headers.set('cache-control', PRIVATE);
  return response;
}

/** Removes the cookie of Next.js from a request that is no draft, so that the page has the draft state of the proxy. */
function withoutDraft(req: NextRequest): Headers | undefined {
  if (!req.cookies.has(BYPASS_COOKIE)) return undefined;
  const headers = new Headers(req.headers);
  const pairs = headers.get('cookie')!.split(/;\s*/);
  headers.set('cookie', pairs.filter((pair) => !pair.startsWith(`${BYPASS_COOKIE}=`)).join('; '));
  return headers;
}

/** Browsers keep a 301 or 308 without `Cache-Control`. The query of the visitor stays, unless the target has one. */
function redirectTo({ to, status }: Pick<Redirect, 'to' | 'status'>, req: NextRequest): NextResponse {
  const { basePath, origin, search } = req.nextUrl;
  const url = new URL(to.startsWith('/') ? origin + basePath + to : to);
  if (!url.search) url.search = search;
  return NextResponse.redirect(url, { status, headers: { 'cache-control': 'max-age=0, must-revalidate' } });
}

/** `tokenCookie` is the cookie of the visitor token, if it changes. */
function setCookies(response: NextResponse, req: NextRequest, v: RequestVisitor, decision: Decision | null, tokenCookie: string | null): void {
  if (v.isPreview) return;
  if (tokenCookie && !decision?.crawler) response.headers.append('set-cookie', tokenCookie);
  if (v.setCookie && !decision?.crawler) response.headers.append('set-cookie', v.setCookie.header);
  const value = decision && v.consent.measure ? experimentsOf(decision, v.anonId) : null;
  if (value === null && !req.cookies.has(EXPERIMENTS_COOKIE)) return;
  const text = experimentsCookie(req, v, value ?? '');
  if (text) response.headers.append('set-cookie', text);
}

/** Returns the value of the cookie that tells the static page why it was chosen, or null for a decision without an experiment. */
function experimentsOf({ route, variants, experiments }: Decision, anonId?: string): string | null {
  if (!experiments) return null;
  const value = encodeURIComponent(`${decisionHash(route, variants, anonId)}.${experiments}`);
  if (value.length <= EXPERIMENTS_CHARS_MAX) return value;
  if (process.env.NODE_ENV === 'development') {
    console.warn(`Parallax: the experiments of ${route} take ${value.length} characters; the limit is ${EXPERIMENTS_CHARS_MAX}.`);
  }
  return null;
}

/**
 * Returns the cookie of the experiments. Without a value it expires an earlier one, whose experiment has ended. Its path keeps a
 * prefetch of another page from replacing it.
 */
function experimentsCookie(req: NextRequest, v: RequestVisitor, value: string): string | null {
  const { basePath, pathname } = req.nextUrl;
  const path = (basePath + pathname).replace(/(?<=.)\/$/, '');
  if (path.includes(';')) return null; // it would end the attribute
  return cookieText(EXPERIMENTS_COOKIE, value, value ? EXPERIMENTS_SECONDS : 0, undefined, v.visitor.url?.startsWith('https:'), path);
}
