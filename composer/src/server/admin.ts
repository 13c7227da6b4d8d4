// Requests to the admin address of the server. The browser sees neither its token nor its address.
import { readText } from './json-body.js';
import { ADMIN_BYTES_MAX, ADMIN_MS } from './limits.js';
import { Problem } from './problem.js';

export interface AdminSettings {
  /** The URL of the admin address. It can have a path. */
  adminUrl: string;
  /** A token with the role `composer`. */
  token: string;
}

/** More of a request than its URL. One with a body is a POST. */
interface More {
  headers?: Record<string, string>;
  body?: object;
}

/** Returns the JSON of an answer of the admin address. */
export type AskAdmin = (path: string, query: URLSearchParams, more?: More) => Promise<unknown>;

/** Throws if the settings cannot be used. */
export function adminClient({ adminUrl, token }: AdminSettings): AskAdmin {
  const base = new URL(adminUrl.endsWith('/') ? adminUrl : `${adminUrl}/`);
  if (!/^https?:$/.test(base.protocol) || base.username || base.password || base.search || base.hash) {
    throw new TypeError("'parallax.adminUrl' must be an http or https URL without credentials, query and fragment.");
  }
  if (!/^[\x21-\x7e]+$/.test(token)) throw new TypeError("'parallax.token' must be visible ASCII characters.");
  // A host without a port can be a common word.
  const secrets = [token, base.origin, ...(base.port ? [base.host] : [])];

  return async (path, query, { headers, body: sent } = {}) => {
    const url = new URL(`.${path}?${query}`, base);
    const init = sent && { method: 'POST', body: JSON.stringify(sent) };
    const { status, retryAfter, text } = await send(url, { ...init, headers: { ...headers, authorization: `Bearer ${token}`, accept: 'application/json' } });
    const body = parse(text);
    if (status !== 200 || body === undefined) throw refusalOf(status, retryAfter, body, secrets);
    return body;
  };
}

interface Answer {
  status: number;
  retryAfter: string | null;
  /** Null if the body is too large. */
  text: string | null;
}

async function send(url: URL, init: RequestInit): Promise<Answer> {
  try {
    const response = await fetch(url, { ...init, redirect: 'manual', cache: 'no-store', signal: AbortSignal.timeout(ADMIN_MS) });
    return { status: response.status, retryAfter: response.headers.get('retry-after'), text: await readText(response, ADMIN_BYTES_MAX) };
  } catch (error) {
    if ((error as Error).name === 'TimeoutError') {
      throw new Problem(504, 'admin_timeout', `The Parallax server gave no answer within ${ADMIN_MS / 1000} s; try again.`);
    }
    throw new Problem(502, 'admin_unreachable', 'The Parallax server cannot be reached.');
  }
}

function parse(text: string | null): unknown {
  try {
    return text === null ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Passes on the refusals that the question caused, and only their code and detail. */
function refusalOf(status: number, retryAfter: string | null, body: unknown, secrets: string[]): Problem {
  const { code, detail } = Object(body) as { code?: unknown; detail?: unknown };
  const isPlain = typeof code === 'string' && /^[a-z_]{1,64}$/.test(code) && typeof detail === 'string' && detail.length <= 1_000;
  const isOfQuestion = (status === 400 || status === 404) && code !== 'unknown_endpoint';
  if (isOfQuestion && isPlain && !secrets.some((secret) => detail.includes(secret))) return new Problem(status, code, detail);
  if ([401, 403, 404].includes(status)) {
    return new Problem(502, 'admin_refused', 'The Parallax server refused the request: its access file must have the token of the composer, for this site.');
  }
  if (status === 429 || status === 503) {
    const seconds = /^\d{1,5}$/.test(retryAfter ?? '') ? retryAfter! : '2';
    return new Problem(503, 'admin_busy', 'The Parallax server is busy or starting; try again.', { headers: { 'retry-after': seconds } });
  }
  return new Problem(502, 'admin_failed', 'The Parallax server gave an answer that the composer does not understand.');
}
