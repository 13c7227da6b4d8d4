import { draftMode } from 'next/headers.js';
import { PREVIEW_SECONDS } from '../limits.js';
import { pageUrl } from '../visitor.js';
import { PREVIEW_COOKIE, signPreview } from '../signature.js';
import { basePathOf } from './request.js';
import { isSecret } from './secret.js';

/**
 * Returns a route handler that begins a preview: `?secret=...&to=/tents`, and ends it: `?exit=1`. It sets a signed cookie of its own,
 * because the proxy cannot verify the one of Next.js.
 */
export function previewHandler({ secret }: { secret: string }): (request: Request) => Promise<Response> {
  return async (request) => {
    const { searchParams } = new URL(request.url);
    const isExit = searchParams.has('exit');
    if (!isExit && !(await isSecret(secret, searchParams.get('secret')))) {
      return new Response('Wrong or missing `secret`; use the one that `previewHandler` has.', { status: 401 });
    }
    const to = searchParams.get('to') ?? '/';
    if (!isPath(to)) return new Response('`to` must be a path of this site, such as `/tents`.', { status: 400 });
    const draft = await draftMode();
    if (isExit) draft.disable();
    else draft.enable();
    const isSecure = pageUrl(request).protocol === 'https:';
    const expiry = Math.floor(Date.now() / 1000) + PREVIEW_SECONDS;
    const value = isExit ? '' : await signPreview(secret, expiry);
    // A header has no letters beyond ASCII. An escape in `to` stays one.
    const location = basePathOf(request) + encodeURI(to).replaceAll('%25', '%');
    const headers = { location, 'set-cookie': cookieText(value, isSecure), 'cache-control': 'no-store' };
    return new Response(null, { status: 307, headers });
  };
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
