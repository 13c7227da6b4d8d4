import { createLocalClient } from '@parallax/sdk/local';
import { withParallax } from '@parallax/sdk/next';
import { client, consentDefault, decide, instance, previewSecret, site, timeoutMs } from './parallax';

const deciding = decide === 'local' ? createLocalClient({ ...site, visitorKeys: process.env.PARALLAX_VISITOR_KEYS }) : client;

export const proxy = withParallax(deciding, {
  ...instance,
  decide,
  previewSecret,
  consentDefault,
  timeoutMs,
  country: (request) => request.headers.get('cf-ipcountry') ?? undefined,
});

export const config = { matcher: ['/((?!api/|_next/|favicon\\.ico$|icon\\.svg$).*)'] };
