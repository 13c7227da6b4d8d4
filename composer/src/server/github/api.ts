import { GitHubError, type Reply, errorOf } from './errors.js';

/** Deadline of one request. GitHub itself ends a request after 10 s. */
const REQUEST_MS = 15_000;
/** Deadline of a call of the storage with all its requests and waits. An editor waits for it. */
export const CALL_MS = 60_000;
/** Deadline of the removal of a branch after a failed save, on top of that of the call. */
export const CLEANUP_MS = 10_000;
/** Retries of one request. */
export const RETRIES_MAX = 3;
/** The upper bound of the wait before the first retry. It doubles with each retry. */
const BACKOFF_MS = 200;
/** The longest wait for a rate limit. After a later time the call ends with an error that has the time. */
export const RATE_WAIT_MAX_MS = 5_000;
/** Requests of one call at the same time. GitHub answers more than 100 of one account with a rate limit. */
export const CONCURRENCY_MAX = 10;
/** Requests of one call, retries and redirects included. GitHub allows an account 5,000 in an hour, so a call leaves half of them. */
export const REQUESTS_MAX = 2_500;
/** The largest answer: a blob of the largest file is 11 MiB as base64, and GitHub cuts a tree at 7 MB. A larger answer is an error. */
const ANSWER_BYTES_MAX = 16 << 20;
/** Redirects of one request. A renamed repository with a renamed branch needs two. */
const REDIRECTS_MAX = 3;

export interface ApiOptions {
  repository: string;
  token: string | (() => Promise<string>);
  apiUrl: string;
  fetch: typeof fetch;
  now(): number;
}

export interface ApiRequest {
  /** The path below `/repos/owner/name`, with its query. */
  path: string;
  body?: unknown;
  /** True for a write that may be done twice. A read always may. */
  isRepeatable?: boolean;
}

/** The requests of one call of the storage, with a common deadline and a common bound. */
export interface Call {
  request(method: 'GET' | 'POST' | 'DELETE', request: ApiRequest): Promise<unknown>;
  /** Waits before the retry after attempt `n`, which counts from 0. */
  pause(n: number): Promise<void>;
}

/** Runs `work` with requests that end with the call. */
export type Api = <T>(deadlineMs: number, work: (call: Call) => Promise<T>) => Promise<T>;

export function createApi(options: ApiOptions): Api {
  return async (deadlineMs, work) => {
    const end = new AbortController();
    const timer = setTimeout(() => end.abort(), deadlineMs);
    try {
      return await work(createCall(options, end.signal, deadlineMs));
    } finally {
      clearTimeout(timer);
      end.abort();
    }
  };
}

function createCall(options: ApiOptions, signal: AbortSignal, deadlineMs: number): Call {
  const { repository, now, fetch } = options;
  const endsAt = Date.now() + deadlineMs;
  const limited = createGate(CONCURRENCY_MAX);
  let requests = 0;

  async function request(method: string, { path, body, isRepeatable = method === 'GET' }: ApiRequest): Promise<unknown> {
    const target = `${method} /repos/${repository}${path.split('?')[0]}`;
    for (let n = 0; ; n++) {
      try {
        return await limited(() => attempt(target, method, path, body));
      } catch (error) {
        const waitMs = error instanceof GitHubError ? waitOf(error, n, isRepeatable) : null;
        if (waitMs === null || Date.now() + waitMs >= endsAt) throw error;
        await wait(waitMs, signal);
      }
    }
  }

  /** Returns the wait before the next attempt, or null if the error is final. */
  function waitOf(error: GitHubError, n: number, isRepeatable: boolean): number | null {
    if (n >= RETRIES_MAX) return null;
    if (error.code === 'rate_limited') {
      // A time of now or before would be an immediate retry.
      const waitMs = Math.max(error.retryAt! - now(), backoffMs(n));
      return waitMs <= RATE_WAIT_MAX_MS ? waitMs : null;
    }
    return isRepeatable && ['unreachable', 'timeout'].includes(error.code) ? backoffMs(n) : null;
  }

  async function attempt(target: string, method: string, path: string, body: unknown): Promise<unknown> {
    const token = await tokenOf(options.token, signal);
    const hide = (error: GitHubError) => new GitHubError(error.code, error.message.replaceAll(token, '[token]'), error);
    try {
      let url = new URL(`${options.apiUrl}/repos/${repository}${path}`);
      for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects++) {
        const reply = await send(target, url, method, body, token);
        if (reply.status >= 200 && reply.status < 300 && reply.body !== undefined) return reply.body;
        if (reply.status < 300) throw new GitHubError('bad_answer', `GitHub answered ${target} without JSON. Check the URL of the API.`, reply);
        const location = [301, 302, 307, 308].includes(reply.status) ? reply.headers.get('location') : null;
        if (location === null) throw errorOf(target, repository, reply, now());
        url = redirected(target, url, location);
      }
      throw new GitHubError('redirected', `GitHub redirected ${target} more than ${REDIRECTS_MAX} times. Check the name of the repository.`);
    } catch (error) {
      throw error instanceof GitHubError ? hide(error) : error;
    }
  }

  async function send(target: string, url: URL, method: string, body: unknown, token: string): Promise<Reply> {
    if (signal.aborted) throw late(target);
    if (++requests > REQUESTS_MAX) {
      throw new GitHubError('request_limit', `More than ${REQUESTS_MAX} requests in one call, at ${target}. Use a directory with fewer files.`);
    }
    const own = new AbortController();
    const timer = setTimeout(() => own.abort(), REQUEST_MS);
    try {
      const headers = headersOf(token, body !== undefined);
      const init = { method, headers, redirect: 'manual' as const, cache: 'no-store' as const, signal: AbortSignal.any([signal, own.signal]) };
      const response = await fetch(url, body === undefined ? init : { ...init, body: JSON.stringify(body) });
      return { status: response.status, headers: response.headers, body: await jsonOf(response, target) };
    } catch (error) {
      if (error instanceof GitHubError) throw error;
      if (signal.aborted) throw late(target);
      if (own.signal.aborted) throw new GitHubError('timeout', `GitHub did not answer ${target} in ${REQUEST_MS / 1000} s; try again.`);
      // The message of Node's `fetch` may hold a header with the token. The code of the cause does not.
      const cause = (error as { cause?: { code?: unknown } })?.cause?.code;
      throw new GitHubError(
        'unreachable',
        `No response from ${url.host} to ${target}${typeof cause === 'string' ? `: ${cause}` : ''}; try again.`,
      );
    } finally {
      clearTimeout(timer);
    }
  }

  function late(target: string): GitHubError {
    return new GitHubError('timeout', `GitHub did not answer ${target} in the ${deadlineMs / 1000} s of the call; try again.`);
  }

  return { request, pause: (n) => wait(backoffMs(n), signal) };
}

function headersOf(token: string, hasBody: boolean): Record<string, string> {
  const headers = { accept: 'application/vnd.github+json', 'x-github-api-version': '2022-11-28', 'user-agent': 'parallax-composer' };
  return { ...headers, authorization: `Bearer ${token}`, ...(hasBody && { 'content-type': 'application/json' }) };
}

/** Returns the token. The error of its function is left out, because it may quote the token. */
async function tokenOf(source: ApiOptions['token'], signal: AbortSignal): Promise<string> {
  const token = typeof source === 'string' ? source : await untilAbort(source, signal).catch(() => null);
  if (token === null) throw new GitHubError('no_token', 'The function of the option "token" failed, or took too long. Log its error there.');
  if (typeof token === 'string' && /^[\x21-\x7e]+$/.test(token)) return token;
  throw new GitHubError(
    'no_token',
    'The token is empty or has spaces, line ends or other characters that no token has. Check the option "token".',
  );
}

function untilAbort<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) return stop();
    signal.addEventListener('abort', stop, { once: true });
    Promise.resolve()
      .then(work)
      .then(resolve, reject)
      .finally(() => signal.removeEventListener('abort', stop));
  });
}

/** Returns the next URL of a request. The token stays on its host. */
function redirected(target: string, url: URL, location: string): URL {
  const next = URL.canParse(location, url) ? new URL(location, url) : null;
  if (next?.origin === url.origin) return next;
  const place = next ? `another host, ${next.host}` : 'no valid URL';
  throw new GitHubError('redirected', `GitHub redirected ${target} to ${place}. The token is not sent there; check the URL of the API.`);
}

/** Reads the body of an answer. Returns undefined for a body that is not JSON, and null for an empty one of a status without content. */
async function jsonOf(response: Response, target: string): Promise<unknown> {
  if (response.status === 204) return null;
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += part.length;
    // Leaving the loop cancels the body.
    if (bytes > ANSWER_BYTES_MAX) throw new GitHubError('bad_answer', `The answer to ${target} has more than ${ANSWER_BYTES_MAX} bytes.`);
    parts.push(part);
  }
  try {
    return JSON.parse(await new Blob(parts as BlobPart[]).text());
  } catch {
    return undefined;
  }
}

/** Returns a function that runs at most `max` works at the same time, the rest in their order. */
function createGate(max: number) {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (running >= max) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running--;
    }
  };
}

function backoffMs(n: number): number {
  return (0.5 + Math.random() / 2) * BACKOFF_MS * 2 ** n;
}

/** Waits, at most to the end of the call. */
function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const timer = setTimeout(finish, ms);
    signal.addEventListener('abort', finish);
    function finish() {
      clearTimeout(timer);
      signal.removeEventListener('abort', finish);
      resolve();
    }
  });
}
