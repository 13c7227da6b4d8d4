import { withParallax } from '@parallax/sdk/next';
import { client, consentDefault, instance, previewSecret, timeoutMs } from './parallax';

export const proxy = withParallax(client, {
  ...instance,
  previewSecret,
  consentDefault,
  timeoutMs,
  country: (request) => request.headers.get('cf-ipcountry') ?? undefined,
});

export const config = { matcher: ['/((?!api/|_next/|favicon\\.ico$|icon\\.svg$).*)'] };
