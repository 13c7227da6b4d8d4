import { type NextFetchEvent, type NextRequest, NextResponse } from 'next/server.js';
import { createBreaker } from '../breaker.js';
import type { Client } from '../client.js';
import { toSegments, wellFormed } from '../combination.js';
import { type Choice, createDecide } from '../decide.js';
import { handOver } from '../hand-over.js';
import { fnv1a } from '../hash.js';
import { DECISION_DEVELOPMENT_MS, DECISION_MS, EXPERIMENTS_CHARS_MAX, EXPERIMENTS_SECONDS, ROUTES_SECONDS } from '../limits.js';
import type { Decision, Redirect } from '../types.js';
import { type RequestVisitor, type VisitorOptions, visitorFrom } from '../visitor.js';
import { createNotifier } from './notifier.js';
import { createRouteTable, decodePath } from './route-table.js';
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
  /** Sent to `revalidate`, only to `siteUrl`. Also lets requests of the revalidation handler render internal pages. */
  secret?: string;
  /** False: the proxy does not send pending events on before the decision. */
  handOver?: boolean;
  /** True: pages without personalized zones are public and set no cookie. For a CDN in front of the site. */
  cacheUnpersonalized?: boolean;
}

export interface Handled {
  response: NextResponse;
  decision: Decision | null;
}

export interface Proxy {
  (request: NextRequest, event: NextFetchEvent): Promise<NextResponse>;
  /** Returns the decision too, for use together with sign-in or language code. */
  handle(request: NextRequest, event: NextFetchEvent): Promise<Handled>;
}

const SHARED = 'public, max-age=0, s-maxage=60, stale-while-revalidate=600';
/** One URL has many bodies, and a cookie. A shared cache would give one visitor's page to all. */
const PRIVATE = 'private, no-cache';

interface Settings extends ProxyOptions {
  prefix: string;
  revalidate: string;
  timeoutMs: number;
  /** The path of the last rewrite, with which a rewritten request that comes back is recognized. */
  lastRewrite: string;
  isLoopReported: boolean;
}

function withDefaults(options: ProxyOptions): Settings {
  if (options.secret && !options.siteUrl) throw new Error('withParallax: `secret` needs `siteUrl`, the address that it is sent to.');
  const timeoutMs = options.timeoutMs ?? (process.env.NODE_ENV === 'development' ? DECISION_DEVELOPMENT_MS : DECISION_MS);
  const { prefix = '/px', revalidate = '/api/parallax/revalidate' } = options;
  return { ...options, prefix, revalidate, timeoutMs, lastRewrite: '', isLoopReported: false };
}

/** Returns the proxy of a Next.js site: it rewrites a request to the static page of the visitor's combination. */
export function withParallax(client: Client<any>, options: ProxyOptions = {}): Proxy {
  const o = withDefaults(options);
  const breaker = createBreaker();
  const table = createRouteTable(client, { cookie: o.cookie ?? 'anon_id', seconds: o.routesSeconds ?? ROUTES_SECONDS, breaker });
  const notify = createNotifier(o);
  const decide = createDecide(client, { timeoutMs: o.timeoutMs, breaker });

  /** No request waits for a refresh. */
  function refresh(req: NextRequest, event: NextFetchEvent): void {
    event.waitUntil(table.refresh().then(() => notify(req, table.version)));
  }

  let seenVersion: string | null = null;
  /** Asks Edge about a path. A new version in the answer refreshes the table, once: several servers of Edge may differ for a time. */
  async function decisionFor(req: NextRequest, event: NextFetchEvent, v: RequestVisitor): Promise<Choice> {
    const before = o.handOver === false ? undefined : () => handOver(client, req, v, (o.timeoutMs * 2) / 3);
    const choice = await decide(req.nextUrl.pathname, v.visitor, v.request, before);
    if (choice.version !== null && choice.version !== table.version && choice.version !== seenVersion) refresh(req, event);
    seenVersion = choice.version ?? seenVersion;
    return choice;
  }

  async function handle(req: NextRequest, event: NextFetchEvent): Promise<Handled> {
    const { pathname } = req.nextUrl;
    if (pathname === o.prefix || pathname.startsWith(`${o.prefix}/`)) return only(await internal(req, o));
    const path = decodePath(pathname);
    if (o.owns?.(path)) return only(NextResponse.next());
    if (table.isStale) refresh(req, event);
    // `siteUrl` is the address of this instance. The visitor's address is in the headers.
    const v = await visitorFrom(req, { ...o, siteUrl: undefined, honorGpc: o.honorGpc ?? table.honorGpc });
    const redirect = table.redirect(path);
    if (redirect) return only(redirectTo(redirect, req));
    const page = table.page(path);
    if (v.isDraft) return { response: rewrite(req, o, wellFormed(req.nextUrl.searchParams.get('px-variants'))), decision: null };
    if (table.version !== null && !page) return only(NextResponse.next());

    const choice = page?.zones === 0 ? null : await decisionFor(req, event, v);
    if (choice?.redirect) return only(redirectTo(choice.redirect, req));
    if (choice?.error?.code === 'route_not_found') return only(NextResponse.next());
    const response = rewrite(req, o, choice?.variants ?? '');
    const decision = choice?.decision ?? null;
    if (o.cacheUnpersonalized && page?.zones === 0 && !v.isPreview) response.headers.set('cache-control', SHARED);
    else setCookies(response, req, v, decision);
    return { response, decision };
  }
  return Object.assign(async (req: NextRequest, event: NextFetchEvent) => (await handle(req, event)).response, { handle });
}

function only(response: NextResponse): Handled {
  return { response, decision: null };
}

/** Answers a request for an internal page: visitors get 404, so that nobody can fill the page cache. */
async function internal(req: NextRequest, o: Settings): Promise<NextResponse> {
  if (await isBearer(req, o.secret)) return NextResponse.next();
  if (req.nextUrl.pathname === o.lastRewrite && !o.isLoopReported) {
    o.isLoopReported = true;
    console.error(`Parallax: a rewritten request for ${o.prefix} reached the proxy again and is 404. If pages are 404, start Next.js with \`-H localhost\`.`);
  }
  return new NextResponse(null, { status: 404 });
}

function rewrite(req: NextRequest, o: Settings, variants: string): NextResponse {
  const url = req.nextUrl.clone();
  const { pathname } = req.nextUrl;
  url.pathname = [o.prefix, ...toSegments(variants)].join('/') + (pathname === '/' ? '' : pathname);
  o.lastRewrite = url.pathname;
  const response = NextResponse.rewrite(url);
  response.headers.set('cache-control', PRIVATE);
  return response;
}

/** Browsers keep a 301 or 308 without `Cache-Control`. The query of the visitor stays, unless the target has one. */
function redirectTo({ to, status }: Pick<Redirect, 'to' | 'status'>, req: NextRequest): NextResponse {
  const { basePath, origin, search } = req.nextUrl;
  const url = new URL(to.startsWith('/') ? origin + basePath + to : to);
  if (!url.search) url.search = search;
  return NextResponse.redirect(url, { status, headers: { 'cache-control': 'max-age=0, must-revalidate' } });
}

function setCookies(response: NextResponse, req: NextRequest, v: RequestVisitor, decision: Decision | null): void {
  if (v.setCookie && !decision?.crawler) response.headers.append('set-cookie', v.setCookie.header);
  if (!decision?.experiments || !v.consent.measure || v.isPreview) return;
  const text = experimentsCookie(req, v, decision);
  if (text) response.headers.append('set-cookie', text);
}

/** Returns the cookie that tells the static page why it was chosen. Its path keeps a prefetch of another page from replacing it. */
function experimentsCookie(req: NextRequest, v: RequestVisitor, { route, variants, experiments }: Decision): string | null {
  const value = encodeURIComponent(`${fnv1a(`${route}\n${variants}`)}.${experiments}`);
  const { basePath, pathname } = req.nextUrl;
  const path = (basePath + pathname).replace(/(?<=.)\/$/, '');
  if (value.length > EXPERIMENTS_CHARS_MAX && process.env.NODE_ENV === 'development') {
    console.warn(`Parallax: the experiments of ${route} take ${value.length} characters; the limit is ${EXPERIMENTS_CHARS_MAX}.`);
  }
  // A semicolon would end the attribute.
  if (value.length > EXPERIMENTS_CHARS_MAX || path.includes(';')) return null;
  const secure = v.visitor.url?.startsWith('https:') ? '; Secure' : '';
  return `px_experiments=${value}; Path=${path}; SameSite=Lax; Max-Age=${EXPERIMENTS_SECONDS}${secure}`;
}
