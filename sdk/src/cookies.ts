import { decodeOnce } from './combination.js';

/** The cookie in which the proxy names the experiments of a static page: `<hash of the decision>.<experiments>`. */
export const EXPERIMENTS_COOKIE = 'px_experiments';

/** The cookie of the visitor token: `TOKEN`, or `~TOKEN` after an event whose receipt has not arrived. */
export const VISITOR_COOKIE = 'px_visitor';

/** Returns the values of all cookies of this name: a browser sends one for each scope. A value with valid escapes is decoded. */
export function cookiesOf(header: string, name: string): string[] {
  const pairs = header.split(/;\s*/).filter((pair) => pair.startsWith(`${name}=`));
  return pairs.map((pair) => decodeOnce(pair.slice(name.length + 1)));
}

/** Returns the first value of a cookie, as Edge does. */
export function cookieOf(header: string, name: string): string | undefined {
  return cookiesOf(header, name)[0];
}

/** Returns a `Set-Cookie` value of the SDK, which is also the form of `document.cookie`. */
export function cookieText(name: string, value: string, maxAge: number, domain?: string, isSecure?: boolean, path = '/'): string {
  return `${name}=${value}; Path=${path}; SameSite=Lax; Max-Age=${maxAge}${domain ? `; Domain=${domain}` : ''}${isSecure ? '; Secure' : ''}`;
}

/** Expires the cookies of this name in each scope that the page can reach: its host, each parent domain, and each parent path. */
export function expireCookies(name: string): void {
  const { hostname, pathname } = location;
  const labels = hostname.split('.');
  const steps = pathname.split('/');
  for (let i = -1; i < labels.length; i++)
    for (let n = 1; n <= steps.length; n++)
      document.cookie = cookieText(name, '', 0, i < 0 ? '' : labels.slice(i).join('.'), false, steps.slice(0, n).join('/') || '/');
}
