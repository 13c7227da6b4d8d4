import { VISITOR_COOKIE, cookieOf, cookieText } from './cookies.js';
import { VISITOR_TOKEN_CHARS_MAX, VISITOR_TOKEN_SECONDS } from './limits.js';
import type { Consent, VisitorPast } from './types.js';
import type { RequestVisitor } from './visitor.js';

/** The characters that a cookie may have. The module verifies the rest. */
const TOKEN = /^(~?)([!#-+\--:<-[\]-}]+)$/;

/** Reads the cookie of the visitor token. Without consent to measure no event is on its way. */
export function pastOf(cookies: string, isNew: boolean, { measure }: Consent): VisitorPast {
  const [, mark, token = ''] = TOKEN.exec(cookieOf(cookies, VISITOR_COOKIE) ?? '') ?? [];
  const isUsable = token !== '' && token.length <= VISITOR_TOKEN_CHARS_MAX;
  return { isNew, token: isUsable ? token : null, isStale: mark === '~' && measure };
}

/**
 * Returns the value of a `Set-Cookie` header that keeps a visitor token of Edge, or deletes the cookie after null. Null without a
 * change: for a token that is undefined, and for a request that is no document, because the events of a page may be on their way.
 * A mark stays until a receipt removes it: an event may reach Edge after this decision.
 */
export function visitorCookie(visitor: RequestVisitor, token: string | null | undefined, cookieDomain?: string): string | null {
  const { past } = visitor.request;
  const isSecure = visitor.visitor.url?.startsWith('https:');
  const isKept = visitor.consent.personalize && token && token.length <= VISITOR_TOKEN_CHARS_MAX;
  if (isKept) return visitor.setCookie && cookieText(VISITOR_COOKIE, (past.isStale ? '~' : '') + token, VISITOR_TOKEN_SECONDS, cookieDomain, isSecure);
  const isRevoked = !visitor.consent.personalize || (token !== undefined && visitor.setCookie !== null);
  return isRevoked && past.token ? cookieText(VISITOR_COOKIE, '', 0, cookieDomain, isSecure) : null;
}
