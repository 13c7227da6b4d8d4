import { draftMode } from 'next/headers.js';
import { PREVIEW_SECONDS } from '../limits.js';
import { PREVIEW_COOKIE, signPreview, verifyPreview } from '../signature.js';
import { pageUrl } from '../visitor.js';
import { basePathOf } from './request.js';

export interface PreviewOptions {
  /** The secret of `previewLink`, and the `previewSecret` of `withParallax`. */
  secret: string;
  /** Returns whether a reviewer may still begin a preview. Default: all whose link is valid. */
  mayPreview?: (reviewer: string) => boolean | Promise<boolean>;
}

/**
 * Returns a route handler that begins a preview by a link of `previewLink`, and ends it: `?exit=1`. It sets a signed cookie of its own,
 * because the proxy cannot verify the one of Next.js.
 */
export function previewHandler({ secret, mayPreview = () => true }: PreviewOptions): (request: Request) => Promise<Response> {
  return async (request) => {
    const { searchParams } = new URL(request.url);
    const isExit = searchParams.has('exit');
    const token = isExit ? null : await verifyPreview(secret, searchParams.get('token'));
    if (!isExit && !token) return refuse(401, 'The link of this preview is not valid or has expired; ask for a new one.');
    if (token && !(await mayPreview(token.reviewer))) return refuse(403, `Previews are closed for ${token.reviewer || 'this link'}; ask for a new link.`);
    const to = searchParams.get('to') ?? '/';
    if (!isPath(to)) return refuse(400, '`to` must be a path of this site, such as `/tents`.');
    const draft = await draftMode();
    if (token) draft.enable();
    else draft.disable();
    const isSecure = pageUrl(request).protocol === 'https:';
    const expiry = Math.floor(Date.now() / 1000) + PREVIEW_SECONDS;
    const value = token ? await signPreview(secret, Math.min(token.expiry, expiry), token.reviewer) : '';
    // A header has no letters beyond ASCII. An escape in `to` stays one.
    const location = basePathOf(request) + encodeURI(to).replaceAll('%25', '%');
    const headers = { location, 'set-cookie': cookieText(value, isSecure), 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' };
    return new Response(null, { status: 307, headers });
  };
}

function refuse(status: number, text: string): Response {
  return new Response(text, { status, headers: { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' } });
}

/**
 * An editor shows the site in a frame, so a cookie over https is sent there too. It ends with the browser, as the cookie of Next.js
 * does: else the proxy would show a draft whose page is no draft.
 */
function cookieText(value: string, isSecure: boolean): string {
  const sameSite = isSecure ? 'SameSite=None; Secure' : 'SameSite=Lax';
  return `${PREVIEW_COOKIE}=${value}; Path=/; HttpOnly; ${value ? '' : 'Max-Age=0; '}${sameSite}`;
}

/** Returns whether the target stays on the site. `//host` and `/\host` are other hosts. */
function isPath(to: string): boolean {
  return to.startsWith('/') && URL.canParse(to, 'http://site') && new URL(to, 'http://site').origin === 'http://site' && !/[\r\n]/.test(to);
}
