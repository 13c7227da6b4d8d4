import type { IncomingMessage } from 'node:http';
import { ParallaxError } from './errors.js';
import { type EventMethods, type Members, eventMethods } from './event.js';
import { uuid } from './ids.js';
import { BATCH_EVENTS_MAX, NODE_FLUSH_MS, NODE_QUEUE_EVENTS_MAX } from './limits.js';
import { type QueuedEvent, createSender } from './sender.js';
import type { Consent, Properties, Receipt } from './types.js';
import { VERSION } from './version.js';

export { ParallaxError } from './errors.js';
export type { Consent, Json, Properties, Receipt, ReceiptResult } from './types.js';

export interface NodeEventsOptions {
  eventsUrl: string;
  trackingId: string;
  /** Number of events that are sent without waiting. Default 50. */
  flushAt?: number;
  /** Wait before a batch, so that it collects events. Default 100. */
  flushMs?: number;
  /** At the bound a new event is refused with `queue_overflow`. Default 10,000. */
  queueMax?: number;
  onReceipt?(receipt: Receipt): void;
  onError?(error: ParallaxError): void;
}

/** Returns the web request that `visitorFrom` reads, from a request of Node, of Express, or of the Pages Router of Next.js. */
export function webRequest(request: IncomingMessage & { originalUrl?: string }): Request {
  const { method, headers, url = '/', originalUrl = url } = request;
  const pairs = Object.entries(headers).flatMap(([name, value]) => [value ?? []].flat().map((each): [string, string] => [name, each]));
  const isEncrypted = (request.socket as { encrypted?: boolean }).encrypted;
  const base = `${isEncrypted ? 'https' : 'http'}://${headers.host ?? 'localhost'}`;
  // Not the two-argument form of `new URL`: for the path `//other.example/` it takes the host from the path.
  const target = URL.canParse(base + originalUrl) ? base + originalUrl : base;
  return new Request(target, { method: method === 'HEAD' ? 'HEAD' : 'GET', headers: pairs });
}

/** A visitor, and the context of the page for which the events are sent. */
export interface NodeVisitor {
  anonId?: string;
  userId?: string;
  /** The result of `userHash`, for a site that verifies user IDs. */
  userHash?: string;
  variants?: string;
  experiments?: string;
  context?: Properties;
  consent?: Consent;
  preview?: boolean;
}

export interface NodeEvents {
  visitor(visitor: NodeVisitor): EventMethods;
  flush(): Promise<void>;
  /** Sends the queue and refuses further events. A server calls it in its own shutdown. */
  close(): Promise<void>;
  readonly pending: number;
}

/** Makes a queue of events in memory. It is also sent when Node runs out of work, but not on a signal. */
export function createNodeEvents(options: NodeEventsOptions): NodeEvents {
  const { flushAt = BATCH_EVENTS_MAX, flushMs = NODE_FLUSH_MS, queueMax = NODE_QUEUE_EVENTS_MAX, onError } = options;
  let isClosed = false;
  const sender = createSender({ ...options, flushMs }, () => true, () => {});
  const flush = () => sender.flush(true);
  process.once('beforeExit', flush);

  function refuse(code: string, detail: string): null {
    onError?.(new ParallaxError(code, detail));
    return null;
  }

  async function send(visitor: NodeVisitor, type: string, members: Members, userHash = visitor.userHash): Promise<Receipt | null> {
    if (visitor.preview || visitor.consent?.measure === false) return null;
    if (isClosed) return refuse('closed', 'An event was sent after close().');
    if (sender.queue.length >= queueMax) return refuse('queue_overflow', `The queue holds ${queueMax} events, the maximum.`);
    const receipt = sender.push(eventOf(visitor, type, members, userHash));
    if (sender.queue.length >= flushAt) void sender.flush();
    return receipt;
  }

  return {
    visitor: (visitor) => eventMethods((...event) => send(visitor, ...event)),
    flush,
    async close() {
      isClosed = true;
      process.removeListener('beforeExit', flush);
      await flush();
      const lost = sender.queue.length;
      sender.drop(sender.queue);
      if (lost) refuse('network', `${lost} events could not be sent before close().`);
    },
    get pending() {
      return sender.queue.length;
    },
  };
}

function eventOf(visitor: NodeVisitor, type: string, members: Members, userHash?: string): QueuedEvent {
  const { anonId, userId, variants, experiments, context } = visitor;
  const shown = type === 'page' || type === 'track' ? { variants, experiments } : {};
  const event = {
    type,
    messageId: uuid(),
    timestamp: new Date().toISOString(),
    anonId,
    userId,
    ...shown,
    ...members,
    context: { ...context, userHash, library: { name: '@parallax/sdk', version: VERSION } },
  };
  return event;
}
