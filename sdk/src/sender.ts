import { ParallaxError, errorOf } from './errors.js';
import type { Members } from './event.js';
import {
  BATCH_BYTES_MAX,
  BATCH_EVENTS_MAX,
  EVENT_AGE_MAX_MS,
  EVENT_BYTES_MAX,
  SEND_BACKOFF_MAX_MS,
  SEND_BACKOFF_MIN_MS,
  SEND_MS,
} from './limits.js';
import type { Receipt } from './types.js';

export interface QueuedEvent {
  type: string;
  messageId: string;
  timestamp: string;
  anonId?: string | null;
  context?: Members;
  /** Completes the promise of the event. JSON leaves it out. */
  done?(receipt: Receipt | null): void;
}

export interface SenderOptions {
  eventsUrl: string;
  trackingId: string;
  /** Wait before a batch, so that it collects events. Default 0: at once. */
  flushMs?: number;
  /** Returns the query string of the next request that gets a receipt. */
  query?(): string;
  onReceipt?(receipt: Receipt, sent: readonly QueuedEvent[]): void;
  onError?(error: ParallaxError): void;
}

/** A queue of events that sends itself in order, one request at a time. */
export interface Sender {
  queue: QueuedEvent[];
  /** Resolves with the receipt, or with null when the first attempt fails. The event stays queued then. */
  push(event: QueuedEvent): Promise<Receipt | null>;
  /** Removes events and completes their promises. An error code is reported with their number. */
  drop(events: readonly QueuedEvent[], code?: string): void;
  /** Sends the queue, unless a retry is due later. `isForced` does not wait for that, unless the server named the time. */
  flush(isForced?: boolean): Promise<void>;
  /** Sends events in a request that outlives the page. They stay queued, because no receipt arrives. */
  beacon(): void;
}

/** `maySend` is asked before each request. `changed` is called after each change of the queue. */
export function createSender(options: SenderOptions, maySend: () => boolean, changed: () => void): Sender {
  const { trackingId } = options;
  const url = `${options.eventsUrl.replace(/\/+$/, '')}/v1/batch`;
  let running: Promise<void> | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let batchMax = BATCH_EVENTS_MAX;
  let attempt = 0;
  /** The time of the next try, and the earliest time that the server allowed. */
  let retryAt = 0;
  let allowedAt = 0;
  const sender: Sender = { queue: [], push, drop, flush, beacon };

  function push(event: QueuedEvent): Promise<Receipt | null> {
    return new Promise((done) => {
      event.done = done;
      if (bytesOf(event) > EVENT_BYTES_MAX) return drop([event], 'event_too_large');
      sender.queue.push(event);
      changed();
      if (Date.now() < retryAt) done(null);
      else if (!options.flushMs) void flush();
      else if (!timer) schedule(options.flushMs);
    });
  }

  async function flush(isForced?: boolean): Promise<void> {
    if (nextBatch().length && Date.now() >= (isForced ? allowedAt : retryAt)) {
      running ??= drain().finally(() => {
        running = undefined;
        void flush(); // an event that arrived after the last turn
      });
      await running;
    }
  }

  async function drain() {
    clearTimeout(timer);
    timer = undefined;
    const now = Date.now();
    drop(
      sender.queue.filter(({ timestamp }) => !(now - Date.parse(timestamp) < EVENT_AGE_MAX_MS)),
      'expired',
    );
    retryAt = 0;
    for (let batch; (batch = nextBatch()).length && (await send(batch)); );
  }

  /** Returns the oldest events that fit into one request, at least one. None while nothing may be sent. */
  function nextBatch(): QueuedEvent[] {
    let bytes = 0;
    const first = maySend() ? sender.queue.slice(0, batchMax) : [];
    return first.filter((event, i) => (bytes += bytesOf(event) + 1) < BATCH_BYTES_MAX || !i);
  }

  /** Returns false for a batch that must be sent again later. */
  async function send(batch: QueuedEvent[]): Promise<boolean> {
    // `keepalive` lets the request outlive the page. A string body has the type text/plain, which needs no preflight.
    const init = { method: 'POST', keepalive: true, body: bodyOf(trackingId, batch), signal: AbortSignal.timeout(SEND_MS) };
    const response = await fetch(url + (options.query?.() ?? ''), init).catch(() => {});
    if (!response) return retryLater(0);
    const receipt = await response.json().catch(() => {});
    const error = errorOf(response, receipt);
    if (error.status === 413 && (batchMax = batch.length >> 1)) return true; // half of the batch, if it is more than one event
    if (error.retryable) return retryLater(error.retryAfter!);
    const isReceipt = receipt?.accepted >= 0;
    if (!isReceipt) {
      options.onError?.(error);
      if (response.ok) return retryLater(0); // a 200 of a proxy or of a wrong URL is no receipt
    }
    attempt = 0;
    batchMax = BATCH_EVENTS_MAX;
    drop(batch, '', isReceipt && receipt);
    if (isReceipt) options.onReceipt?.(receipt, batch);
    return true;
  }

  function beacon() {
    let batch = nextBatch();
    // Requests on their way use the same 64 KiB, so a smaller batch may pass.
    while (batch.length && !navigator.sendBeacon?.(url, bodyOf(trackingId, batch))) batch = batch.slice(0, batch.length >> 1);
  }

  function retryLater(afterSeconds: number): false {
    const now = Date.now();
    settle(sender.queue);
    allowedAt = now + afterSeconds * 1000;
    retryAt = Math.max(allowedAt, now + Math.random() * Math.min(SEND_BACKOFF_MAX_MS, SEND_BACKOFF_MIN_MS * 2 ** attempt++));
    schedule(retryAt - now);
    return false;
  }

  function schedule(delayMs: number) {
    clearTimeout(timer);
    timer = setTimeout(() => {
      retryAt = 0;
      timer = undefined;
      void flush();
    }, delayMs);
    (timer as { unref?(): void }).unref?.(); // in Node, a queue does not keep the process alive
  }

  function drop(events: readonly QueuedEvent[], code?: string, receipt?: Receipt | false) {
    settle(events, receipt);
    if (!events.length) return;
    sender.queue = sender.queue.filter((event) => !events.includes(event));
    changed();
    if (code) options.onError?.(new ParallaxError(code, `Events dropped: ${events.length}`));
  }

  function settle(events: readonly QueuedEvent[], receipt?: Receipt | false) {
    for (const { done } of events) done?.(receipt || null);
  }

  return sender;
}

function bytesOf(value: unknown): number {
  return new Blob([JSON.stringify(value)]).size;
}

/** Returns the body of a request. The server repairs the clock of the events by `sentAt`. */
export function bodyOf(trackingId: string, batch: readonly QueuedEvent[]): string {
  return JSON.stringify({ trackingId, sentAt: new Date().toISOString(), batch });
}
