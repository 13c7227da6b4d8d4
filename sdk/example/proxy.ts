import { createLocalClient } from '@parallax/sdk/local';
import { withParallax } from '@parallax/sdk/next';
import { type NextFetchEvent, type NextRequest, NextResponse } from 'next/server';
import { composer, personOf } from './composer';
import { client, consentDefault, decide, instance, previewSecret, site, timeoutMs } from './parallax';

const deciding = decide === 'local' ? createLocalClient({ ...site, visitorKeys: process.env.PARALLAX_VISITOR_KEYS }) : client;

const personalize = withParallax(deciding, {
  ...instance,
  decide,
  previewSecret,
  consentDefault,
  timeoutMs,
  country: (request) => request.headers.get('cf-ipcountry') ?? undefined,
});

/** The page of the composer asks for the password, which the browser then sends with the requests of the editor, too. */
async function openComposer(request: NextRequest): Promise<NextResponse> {
  if (!composer) return new NextResponse('Not found', { status: 404 });
  const headers = { 'cache-control': 'private, no-cache' };
  if (await personOf(request)) return NextResponse.next({ headers });
  return new NextResponse('Sign in to use the composer', { status: 401, headers: { ...headers, 'www-authenticate': 'Basic realm="composer", charset="UTF-8"' } });
}

export const proxy = (request: NextRequest, event: NextFetchEvent) =>
  request.nextUrl.pathname === '/composer' ? openComposer(request) : personalize(request, event);

export const config = { matcher: ['/((?!api/|_next/|favicon\\.ico$|icon\\.svg$).*)'] };
