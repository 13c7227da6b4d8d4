import type { NextRequest } from 'next/server.js';

/** Tells the revalidation handler of the site about a version. Never throws. */
export type Notifier = (req: NextRequest, version: string | null) => Promise<void>;

/** Returns a function that calls the handler once for each version. A call that failed is repeated with the next refresh. */
export function createNotifier(options: { revalidate: string; secret?: string; siteUrl?: string }): Notifier {
  let announced: string | null = null;
  let running: string | null = null;
  let reported: string | null = null;

  /** Logs the first failure for a version. */
  function report(version: string, text: string): void {
    if (reported !== version) console.error(`Parallax: ${text}`);
    reported = version;
  }

  return async (req, version) => {
    if (version === null || version === announced || version === running) return;
    running = version;
    try {
      const response = await fetch(handlerUrl(req, options), { method: 'POST', headers: authorization(options) });
      if (response.ok) announced = version;
      else report(version, `the revalidation handler at ${options.revalidate} answered ${response.status}.`);
    } catch (error) {
      report(version, `no response from the revalidation handler at ${options.revalidate}: ${(error as Error).message}`);
    } finally {
      running = null;
    }
  };
}

/** The origin of a request may come from its `Host` header, so a secret goes to `siteUrl` only. */
function authorization({ secret, siteUrl }: { secret?: string; siteUrl?: string }): Record<string, string> {
  return secret && siteUrl ? { authorization: `Bearer ${secret}` } : {};
}

function handlerUrl(req: NextRequest, { revalidate, siteUrl }: { revalidate: string; siteUrl?: string }): string {
  return (siteUrl || req.nextUrl.origin).replace(/\/+$/, '') + req.nextUrl.basePath + revalidate;
}
