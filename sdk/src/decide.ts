import { type Breaker, createBreaker } from './breaker.js';
import type { Client } from './client.js';
import { ParallaxError } from './errors.js';
import { DECISION_MS } from './limits.js';
import type { Decision, Redirect, RequestOptions, Visitor } from './types.js';

/** The combination to show. Without a decision it is the baseline. */
export interface Choice {
  variants: string;
  decision: Decision | null;
  redirect: Redirect | null;
  /** The version of the site that decided. */
  version: string | null;
  /** The reason why there is no decision. Null with one, and while the breaker is open. */
  error: ParallaxError | null;
}

/** `before` runs first, within the same deadline, and only if the call passes the breaker. It must not throw. */
export type Decide = (route: string, visitor: Visitor, request?: RequestOptions, before?: () => Promise<void>) => Promise<Choice>;

/**
 * Returns a function that asks Edge once and within a deadline. It never throws: on a failure, and while the breaker is open, it
 * chooses the baseline.
 */
export function createDecide(client: Client<any>, options: { timeoutMs?: number; breaker?: Breaker } = {}): Decide {
  const { timeoutMs = DECISION_MS, breaker = createBreaker() } = options;
  return async (route, visitor, request, before) => {
    const report = breaker.enter();
    const baseline: Choice = { variants: '', decision: null, redirect: null, version: null, error: null };
    if (!report) return baseline;
    const endsAt = Date.now() + (request?.timeoutMs ?? timeoutMs);
    try {
      await before?.();
      const once = Object.assign({ retries: 0 }, request, { timeoutMs: endsAt - Date.now() });
      const { data, version } = await client.variants(route, visitor, once);
      report(true);
      if (data.type === 'redirect') return Object.assign(baseline, { redirect: data, version });
      return Object.assign(baseline, { variants: data.variants, decision: data, version });
    } catch (error) {
      const failure = error instanceof ParallaxError ? error : new ParallaxError('aborted', String(error));
      report(!isFailure(failure));
      return Object.assign(baseline, { error: failure });
    }
  };
}

/**
 * Returns whether an error counts for the breaker. A refusal shows that Edge answers, also one for too many requests, and a visitor
 * who goes away shows nothing. Neither may open the breaker for the others.
 */
export function isFailure(error: unknown): boolean {
  return error instanceof ParallaxError && error.retryable && error.status !== 429;
}
