import { ParallaxError, errorOf } from '../errors.js';
import { RULES_FRESH_MS, RULES_LAST_MS, RULES_MS } from '../limits.js';
import type { Decider } from './decider.js';

/** The rules of a site, which are kept fresh. */
export interface Rules {
  /** The rules, if they may decide now. `isLast` allows older ones, after a failure of Edge. */
  usable(isLast?: boolean): Decider | null;
  /** Starts a refresh if one is due. */
  refreshIfDue(waitUntil?: (work: Promise<unknown>) => void): void;
  /** Requests the rules now. Never throws. */
  refresh(): Promise<void>;
  close(): void;
}

export interface RulesOptions {
  /** The address of the rules. */
  url: string;
  seconds: number;
  fetch?: typeof fetch;
  report(error: ParallaxError): void;
  /** Called after each refresh without a failure. */
  succeeded(): void;
}

/** `load` compiles the module. Nothing begins before the first call, because a worker of a CDN allows no request before. */
export function createRules({ url, seconds, fetch: send, report, succeeded }: RulesOptions, load: () => Promise<Decider>): Rules {
  let decider: Decider | null = null;
  let etag: string | null = null;
  /** The time of the last response that confirmed the rules. */
  let confirmedAt = -Infinity;
  /** True after a response with rules that the module refused: those in memory are older. */
  let isReplaced = false;
  let startedAt = -Infinity;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isClosed = false;
  /** The numbers of the last refresh, and of the one whose response is in use. A response may arrive after that of a later request. */
  let begun = 0;
  let applied = 0;

  async function request(turn: number): Promise<void> {
    const at = Date.now();
    const loaded = decider ?? (await load());
    decider ??= loaded;
    const { response, rules } = await get();
    if (turn < applied || isClosed) return;
    applied = turn;
    if (!rules && response.status !== 304) {
      if (response.status === 404) forget();
      throw errorOf(response, await response.json().catch(() => null));
    }
    confirmedAt = at;
    if (!rules) return;
    etag = response.headers.get('etag');
    isReplaced = true;
    decider.open(rules);
    isReplaced = false;
  }

  /** Requests the rules, unless those in memory or refused ones are the present ones. */
  async function get(): Promise<{ response: Response; rules: Uint8Array | null }> {
    const headers = etag && (isReplaced || decider!.version !== null) ? { 'if-none-match': etag } : undefined;
    // Not `AbortSignal.timeout`, whose timer lives on after the response.
    const abort = new AbortController();
    const deadline = setTimeout(() => abort.abort(new Error(`timeout of ${RULES_MS} ms`)), RULES_MS);
    try {
      const response = await (send ?? fetch)(url, { headers, cache: 'no-store', signal: abort.signal });
      return { response, rules: response.ok ? new Uint8Array(await response.arrayBuffer()) : null };
    } catch (error) {
      const { cause, message } = error as Error & { cause?: { code?: string } };
      throw new ParallaxError('network', `No response from ${url}: ${cause?.code ?? message}`);
    } finally {
      clearTimeout(deadline);
    }
  }

  /** Forgets rules that Edge publishes no more. */
  function forget(): void {
    decider?.clear();
    etag = null;
  }

  async function refresh(): Promise<void> {
    if (isClosed) return;
    startedAt = Date.now();
    await request(++begun).then(succeeded, report);
    if (!isClosed) schedule();
  }

  /** Refreshes without requests, where a timer can run between them and does not keep the process alive. */
  function schedule(): void {
    clearTimeout(timer);
    timer = setTimeout(refresh, seconds * 1000);
    const { unref } = timer as { unref?: () => void };
    if (unref) unref.call(timer);
    else clearTimeout(timer);
  }

  return {
    usable(isLast) {
      const ageMs = Date.now() - confirmedAt;
      const isUsable = isLast ? ageMs < RULES_LAST_MS : ageMs < RULES_FRESH_MS && !isReplaced;
      return isUsable && decider?.version ? decider : null;
    },
    refreshIfDue(waitUntil) {
      if (isClosed || Date.now() - startedAt < seconds * 1000) return;
      const work = refresh();
      waitUntil?.(work);
    },
    refresh,
    close() {
      isClosed = true;
      clearTimeout(timer);
      forget();
    },
  };
}
