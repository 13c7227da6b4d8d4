import { type Breaker, createBreaker } from './breaker.js';
import type { Client } from './client.js';
import { ParallaxError } from './errors.js';
import { DECISION_MS } from './limits.js';
import type { ApiResponse, Decision, Redirect, RequestOptions, Visitor } from './types.js';

/** The combination to show. Without a decision it is the baseline. */
export interface Choice {
  variants: string;
  decision: Decision | null;
  redirect: Redirect | null;
  /** The version of the site that decided. */
  version: string | null;
  /** The reason why there is no decision. Null with one, and while the breaker is open. */
  error: ParallaxError | null;
  /** The visitor token of Edge, for `visitorCookie`. Absent if Edge was not asked for one. */
  visitorToken?: string | null;
}

/**
 * `before` runs first, within the same deadline, and only if the call passes the breaker. It must not throw. It may return the visitor
 * token of a hand-over, with which a client that decides in process needs no other call.
 */
export type Decide = (route: string, visitor: Visitor, request?: RequestOptions, before?: () => Promise<string | null | void>) => Promise<Choice>;

/** The decisions of a client that has the rules of the site in memory. */
export interface LocalDecisions {
  /**
   * Decides in process. Returns null for a decision that only Edge can make. With `isLast`, after a failure of Edge, it also uses a
   * token and rules that may be older than those of Edge.
   */
  decideLocally(route: string, visitor: Visitor, request?: RequestOptions, isLast?: boolean): ApiResponse<Decision | Redirect> | null;
  /** Asks Edge for the decision and a visitor token. */
  decideAtEdge(route: string, visitor: Visitor, request?: RequestOptions): Promise<ApiResponse<Decision | Redirect>>;
}

/** Returns whether a client decides in process. */
export function isLocal(client: Client<any>): client is Client<any> & LocalDecisions {
  return 'decideLocally' in client;
}

/**
 * Returns a function that decides in process, if the client does, and else asks Edge once and within a deadline. It never throws: on a
 * failure, and while the breaker is open, it chooses the baseline.
 */
export function createDecide(client: Client<any>, options: { timeoutMs?: number; breaker?: Breaker } = {}): Decide {
  const { timeoutMs = DECISION_MS, breaker = createBreaker() } = options;
  const local = isLocal(client) ? client : null;
  const ask = local?.decideAtEdge ?? client.variants;

  return async (route, visitor, request, before) => {
    const decided = local?.decideLocally(route, visitor, request);
    if (decided) return choiceOf(decided);
    const report = breaker.enter();
    const last = (error: ParallaxError | null) => {
      const response = local?.decideLocally(route, visitor, request, true);
      return response ? choiceOf(response) : { ...BASELINE, error };
    };
    if (!report) return last(null);
    const endsAt = Date.now() + (request?.timeoutMs ?? timeoutMs);
    try {
      const token = await before?.();
      const handed = token && local?.decideLocally(route, visitor, { ...request, past: { isNew: false, token, isStale: false } });
      const once = Object.assign({ retries: 0 }, request, { timeoutMs: endsAt - Date.now() });
      const response = handed ? { ...handed, visitorToken: token } : await ask(route, visitor, once);
      report(true);
      return choiceOf(response);
    } catch (error) {
      const failure = error instanceof ParallaxError ? error : new ParallaxError('aborted', String(error));
      report(!isFailure(failure));
      return last(failure);
    }
  };
}

const BASELINE: Choice = { variants: '', decision: null, redirect: null, version: null, error: null };

function choiceOf({ data, version, visitorToken }: ApiResponse<Decision | Redirect>): Choice {
  const choice = { ...BASELINE, version, visitorToken };
  if (data.type === 'redirect') return Object.assign(choice, { redirect: data });
  return Object.assign(choice, { variants: data.variants, decision: data });
}

/**
 * Returns whether an error counts for the breaker. A refusal shows that Edge answers, also one for too many requests, and a visitor
 * who goes away shows nothing. Neither may open the breaker for the others.
 */
export function isFailure(error: unknown): boolean {
  return error instanceof ParallaxError && error.retryable && error.status !== 429;
}
