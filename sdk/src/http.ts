import { ParallaxError, errorOf } from './errors.js';
import { CALL_BACKOFF_MS, CALL_MS, CALL_RETRIES } from './limits.js';
import type { ApiResponse, ClientOptions, RequestOptions } from './types.js';

/**
 * Calls Edge: a POST if there is a body, else a GET. Retries until the deadline. Rejects with a `ParallaxError`, or with the reason
 * of the caller's signal.
 */
export function call<T>(options: ClientOptions, url: string, body?: string, request?: RequestOptions): Promise<ApiResponse<T>> {
  // Not `{ ...options, ...request }`: V8 needs 60 times as long for a spread after other members.
  const { timeoutMs = CALL_MS, retries = CALL_RETRIES, signal } = Object.assign({}, options, request);
  const endsAt = Date.now() + timeoutMs;
  const abort = new AbortController();
  const init = { method: body && 'POST', body, signal: abort.signal, ...request?.init };

  async function attempts(): Promise<ApiResponse<T>> {
    for (let n = 0; ; n++) {
      try {
        abort.signal.throwIfAborted();
        return await attempt<T>(options, url, init);
      } catch (error) {
        const { retryable, retryAfter } = error as ParallaxError;
        const waitMs = retryAfter! * 1000 || Math.random() * CALL_BACKOFF_MS * 2 ** n;
        if (!retryable || n >= retries || Date.now() + waitMs >= endsAt) throw error;
        await new Promise((resolve) => setTimeout(resolve, waitMs));
      }
    }
  }

  return new Promise<ApiResponse<T>>((resolve, reject) => {
    // Only a failure aborts the request. After a success there is nothing to abort, and Node's `fetch` needs time for it.
    const fail = () => {
      reject(signal?.aborted ? signal.reason : new ParallaxError('timeout', `No response from ${url} in ${timeoutMs} ms`));
      abort.abort();
    };
    if (signal?.aborted) fail();
    signal?.addEventListener('abort', fail);
    const timer = setTimeout(fail, timeoutMs);
    attempts().then(resolve, reject).finally(() => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', fail);
    });
  });
}

/** A string body has the type `text/plain`, which needs no preflight. */
async function attempt<T>(options: ClientOptions, url: string, init: RequestInit): Promise<ApiResponse<T>> {
  let response: Response | undefined;
  let data: T | undefined;
  try {
    response = await (options.fetch ?? fetch)(url, init);
    data = await response.json();
  } catch (error) {
    const { cause, message, name } = error as Error & { cause?: { code?: string } };
    // The message of Node's `fetch` is always "fetch failed". The code of the cause says more.
    if (name !== 'SyntaxError') throw new ParallaxError('network', `No response from ${url}: ${cause?.code ?? message}`);
  }
  if (!response!.ok || !data) throw errorOf(response!, data);
  const header = (name: string) => response!.headers.get(name);
  return { data, version: header('x-version'), tags: header('cache-tag')?.split(',') ?? [], requestId: header('x-request-id') };
}
