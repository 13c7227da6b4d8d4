import { cookieText } from './cookies.js';
import { PENDING_CHARS_MAX, PENDING_EVENTS_MAX, PENDING_SECONDS, QUEUE_EVENTS_MAX, QUEUE_IDLE_MS, STORE_MS } from './limits.js';
import { type QueuedEvent, type Sender, type SenderOptions, bodyOf, createSender } from './sender.js';

export interface Queue extends Sender {
  /** Deletes the events of this page. `everywhere` also deletes those of other pages and of closed ones. */
  clear(everywhere?: boolean): void;
  /** Stores the events for the next page, after a change of the visitor too. */
  store(): void;
  /** Returns whether an event of this page, or of another one of this browser, has no receipt. */
  isPending(): boolean;
}

export interface QueueOptions extends SenderOptions {
  storage?: 'local' | 'none';
}

/** The event queue of a page. It is kept in localStorage under a key of its own, so that two pages never overwrite each other. */
export function createQueue(options: QueueOptions, maySend: () => boolean, knownId: () => string | undefined): Queue {
  const prefix = `px:${options.trackingId}:`;
  const key = prefix + Math.random();
  let storage: Record<string, string> = {};
  try {
    if (options.storage !== 'none') storage = localStorage || storage;
  } catch {} // the storage is blocked: the queue stays in memory
  const sender = createSender(options, maySend, changed);

  function changed() {
    const overflow = sender.queue.slice(0, -QUEUE_EVENTS_MAX);
    if (overflow.length) sender.drop(overflow, 'queue_overflow');
    else store();
  }

  /** Keeps the events for the next page. None after a refusal, which may come from another tab. */
  function store() {
    const queue = maySend() ? sender.queue : [];
    try {
      if (queue.length) storage[key] = JSON.stringify({ at: Date.now(), queue });
      else delete storage[key];
    } catch {} // the storage is full: the queue stays in memory

    // The newest page and track events of the visitor that are not acknowledged, for the site's server.
    const id = knownId();
    const newest = queue.filter(({ type, anonId }) => /^(page|track)$/.test(type) && anonId === id).slice(-PENDING_EVENTS_MAX);
    let value: string;
    do value = newest.length ? base64(bodyOf(options.trackingId, newest)) : '';
    while (value.length > PENDING_CHARS_MAX && newest.shift());
    document.cookie = cookieText('px_events', value, value ? PENDING_SECONDS : 0);
  }

  const isStored = (name: string) => name.startsWith(prefix);

  function forEachStored(action: (name: string) => void) {
    Object.keys(storage).filter(isStored).forEach(action);
  }

  /** Takes over the queues of pages that are gone. Sending one twice is harmless: the server detects duplicates. */
  function adopt() {
    forEachStored((name) => {
      if (name === key || !maySend()) return;
      let stored: { at?: number; queue?: QueuedEvent[] } | null = null;
      try {
        stored = JSON.parse(storage[name]!);
      } catch {} // a malformed queue is empty and old
      if (Math.abs(Date.now() - stored?.at!) < QUEUE_IDLE_MS) return;
      sender.queue = [...[stored?.queue!].flat().filter((event) => event?.messageId), ...sender.queue];
      changed();
      delete storage[name];
      void sender.flush();
    });
  }

  addEventListener('pagehide', sender.beacon);
  addEventListener('visibilitychange', () => document.hidden && sender.beacon());
  addEventListener('online', () => sender.flush(true));
  adopt();
  setInterval(() => {
    if (sender.queue.length) store();
    adopt();
  }, STORE_MS);
  return Object.assign(sender, {
    store,
    isPending: () => Object.keys(storage).some(isStored) || sender.queue.length > 0,
    clear(everywhere?: boolean) {
      sender.drop(sender.queue);
      if (everywhere) forEachStored((name) => delete storage[name]);
    },
  });
}

/** The characters of base64 may be in a cookie. */
function base64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
