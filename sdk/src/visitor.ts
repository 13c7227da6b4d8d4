import { consentOf, defaultText } from './consent.js';
import { cookieOf, cookieText } from './cookies.js';
import { idOf, uuid } from './ids.js';
import { LONG_SECONDS } from './limits.js';
import { pastOf } from './past.js';
import { PREVIEW_COOKIE, verifyPreview } from './signature.js';
import type { Consent, Visitor, VisitorPast } from './types.js';

/** The headers of a visitor's request that Edge reads. */
const COPIED_HEADERS = ['accept-language', 'sec-gpc', 'x-forwarded-for'];

export interface VisitorOptions {
  /** The ID cookie. Default `anon_id`. */
  cookie?: string;
  /** `Domain` of the ID cookie. Default: the host alone. */
  cookieDomain?: string;
  /** The consent of a visitor without the cookie `px_consent`. Default `granted`. */
  consentDefault?: 'denied' | 'granted';
  /** Replaces the cookie `px_consent`. */
  consent?: (request: Request) => Consent;
  /** True: `Sec-GPC: 1` refuses both consents. */
  honorGpc?: boolean;
  country?: (request: Request) => string | undefined;
  /** The public address of the site. Default: from the headers of the request. */
  siteUrl?: string;
  /** The secret of `previewHandler`. */
  previewSecret?: string;
}

export interface IdCookie {
  /** The value of a `Set-Cookie` header. */
  header: string;
  name: string;
  value: string;
  options: { path: string; maxAge: number; sameSite: 'lax'; secure: boolean; httpOnly: false; domain?: string };
}

export interface RequestVisitor {
  /** The visitor for `resolve` and `variants`. */
  visitor: Visitor;
  /** The headers and the past of the visitor for `resolve` and `variants`. */
  request: { init: { headers: Record<string, string> }; past: VisitorPast };
  anonId?: string;
  /** True for an ID from a valid cookie, false for a new one. */
  isKnown: boolean;
  consent: Consent;
  isPreview: boolean;
  /** True with the signed cookie of `previewHandler`. */
  isDraft: boolean;
  /** Null for a response that sets no ID: not a document, a prefetch, no consent, or a preview. */
  setCookie: IdCookie | null;
}

/** Reads the visitor of a page request. Mints an ID for a document whose visitor has none, so that experiments match at once. */
export async function visitorFrom(request: Request, options: VisitorOptions = {}): Promise<RequestVisitor> {
  const { headers } = request;
  const cookies = headers.get('cookie') ?? '';
  const url = pageUrl(request, options.siteUrl);
  const consent = consentFrom(request, cookies, options);
  const isDraft = (await verifyPreview(options.previewSecret, cookieOf(cookies, PREVIEW_COOKIE))) !== null;
  const isPreview = isDraft || (url.search !== '' && url.searchParams.has('px-preview'));
  const isDocument = (headers.get('sec-fetch-dest') ?? 'document') === 'document';
  const mayHaveId = consent.personalize || consent.measure;

  const name = options.cookie ?? 'anon_id';
  const known = idOf(cookies, name);
  const mayMint = isDocument && mayHaveId && !isPreview && !isPrefetch(headers);
  const id = known ?? (mayMint ? uuid() : undefined);
  const anonId = mayHaveId ? id : undefined;

  return {
    visitor: {
      anonId: consent.personalize ? anonId : undefined,
      personalize: consent.personalize ? undefined : false,
      url: url.href,
      referrer: headers.get('referer') ?? undefined,
      userAgent: headers.get('user-agent') ?? undefined,
      country: options.country?.(request),
    },
    request: { init: { headers: copied(headers) }, past: pastOf(cookies, known === undefined, consent) },
    anonId,
    isKnown: known !== undefined && mayHaveId,
    consent,
    isPreview,
    isDraft,
    setCookie: mayMint && anonId ? idCookie(name, anonId, options.cookieDomain, url.protocol === 'https:') : null,
  };
}

/** Returns whether the browser loads the document ahead. The visitor may never see it, so it makes no visitor. */
function isPrefetch(headers: Headers): boolean {
  return /prefetch/i.test(`${headers.get('sec-purpose')} ${headers.get('purpose')}`);
}

function consentFrom(request: Request, cookies: string, options: VisitorOptions): Consent {
  if (options.honorGpc && request.headers.get('sec-gpc') === '1') return { personalize: false, measure: false };
  return options.consent?.(request) ?? consentOf(cookies, defaultText(options.consentDefault));
}

/** Returns the URL that the visitor sees. After a reverse proxy, the URL of the request may name `localhost`. */
export function pageUrl(request: Request, siteUrl?: string): URL {
  const { headers } = request;
  const url = new URL(request.url);
  const first = (name: string) => headers.get(name)?.split(',')[0]!.trim();
  const scheme = first('x-forwarded-proto') || url.protocol.slice(0, -1);
  const host = first('x-forwarded-host') || headers.get('host') || url.host;
  const base = siteUrl ?? `${scheme}://${host}`;
  if (base === url.origin || !URL.canParse(base)) return url;
  // Not the two-argument form of `new URL`: for the path `//other.example/` it takes the host from the path.
  return Object.assign(new URL(base), { pathname: url.pathname, search: url.search });
}

function copied(headers: Headers): Record<string, string> {
  const pairs = COPIED_HEADERS.map((name) => [name, headers.get(name)] as const);
  return Object.fromEntries(pairs.filter((pair): pair is [string, string] => pair[1] !== null));
}

function idCookie(name: string, value: string, domain: string | undefined, secure: boolean): IdCookie {
  const header = cookieText(name, encodeURIComponent(value), LONG_SECONDS, domain, secure);
  const options: IdCookie['options'] = { path: '/', maxAge: LONG_SECONDS, sameSite: 'lax', secure, httpOnly: false };
  if (domain) options.domain = domain;
  return { header, name, value, options };
}
