import type { NextRequest } from 'next/server.js';
import { cutSlashes } from '../addresses.js';
import { NOTIFY_MS } from '../limits.js';
import { basePathOf } from './request.js';

/** Tells the revalidation handler of the site about a version. Never throws. */
export type Notifier = (req: NextRequest, version: string | null) => Promise<void>;

export interface NotifierOptions {
  /** The path of the handler. */
  revalidate: string;
  secret?: string;
  instanceUrl?: string;
}

/**
 * Returns a function that calls the handler once for each version. A call is repeated with the next refresh if it failed, or if the
 * handler compared another version: servers of Edge may differ for a time.
 */
export function createNotifier(options: NotifierOptions): Notifier {
  let announced: string | null = null;
  let running: string | null = null;
  let reported: string | null = null;

  /** Logs the first failure for a version. */
  function report(version: string, failure: string): void {
    if (reported !== version) console.error(`Parallax: version ${version} may show late. The next refresh calls the revalidation handler again. ${failure}`);
    reported = version;
  }

  return async (req, version) => {
    if (version === null || version === announced || version === running) return;
    running = version;
    const url = handlerUrl(req, options);
    try {
      const response = await fetch(url, { ...requestOf(version, options), signal: AbortSignal.timeout(NOTIFY_MS) });
      const result = await response.json().catch(() => null);
      if (response.ok && result?.to === version) announced = version;
      else report(version, `${url} answered ${response.status}: ${result?.detail ?? 'check that it is the revalidation handler, and its `secret`'}`);
    } catch (error) {
      report(version, `no response from ${url}: ${(error as Error).message}; check \`instanceUrl\` and \`revalidate\``);
    } finally {
      running = null;
    }
  };
}

/** The origin of a request may come from its `Host` header, so a secret goes to `instanceUrl` only. */
function requestOf(version: string, { secret, instanceUrl }: NotifierOptions): RequestInit {
  const authorization: Record<string, string> = secret && instanceUrl ? { authorization: `Bearer ${secret}` } : {};
  const headers = { 'content-type': 'application/json', ...authorization };
  return { method: 'POST', headers, body: JSON.stringify({ version }) };
}

/** Next.js takes the scheme of its own address, `localhost`, from `X-Forwarded-Proto`. But it listens without TLS. */
function handlerUrl(req: NextRequest, { revalidate, instanceUrl }: NotifierOptions): string {
  const { hostname, host, origin } = req.nextUrl;
  const own = hostname === 'localhost' ? `http://${host}` : origin;
  return cutSlashes(instanceUrl || own) + basePathOf(req) + revalidate;
}
