import { withParallax } from '@parallax/sdk/next';
import { client, consentDefault, inside, previewSecret } from './parallax';

export const proxy = withParallax(client, {
  ...inside,
  previewSecret,
  consentDefault,
  timeoutMs: Number(process.env.DECISION_MS) || undefined,
  country: (request) => request.headers.get('cf-ipcountry') ?? undefined,
});

export const config = { matcher: ['/((?!api/|_next/|favicon\\.ico$|icon\\.svg$).*)'] };
