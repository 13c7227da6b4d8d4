import { cutSlashes } from './addresses.js';
import type { Client } from './client.js';
import { cookieOf } from './cookies.js';
import { isLocal } from './decide.js';
import { call } from './http.js';
import { HAND_OVER_MS, PENDING_CHARS_MAX, PENDING_EVENTS_MAX } from './limits.js';
import type { Receipt } from './types.js';
import type { RequestVisitor } from './visitor.js';

/** The members that are sent on. A forged cookie cannot add others. */
const MEMBERS = ['type', 'messageId', 'timestamp', 'anonId', 'event', 'name', 'variants', 'experiments', 'properties', 'context'];

type Pending = Record<string, unknown>;

/**
 * Sends the events of the cookie `px_events`, which the page before sent without waiting. A decision after it knows them. The
 * `messageId` is unchanged, so each event counts once. Never throws: the page still has the events and sends them itself. For a client
 * that decides in process, it returns the visitor token with these events.
 */
export async function handOver(client: Client<any>, request: Request, visitor: RequestVisitor, timeoutMs = HAND_OVER_MS): Promise<string | null> {
  const { anonId, consent, isKnown, isPreview } = visitor;
  if (!isKnown || !consent.measure || isPreview) return null;
  const cookie = cookieOf(request.headers.get('cookie') ?? '', 'px_events');
  if (!cookie) return null; // nearly all requests
  const pending = parse(cookie);
  // A sibling subdomain can set the cookie for the whole domain, but it does not know the visitor's ID.
  const events = pending.batch.filter((event) => (event.type === 'page' || event.type === 'track') && event.anonId === anonId);
  if (!events.length) return null;
  const batch = events.map((event) => Object.fromEntries(MEMBERS.map((name) => [name, event[name]])));
  const { edgeUrl, eventsUrl = edgeUrl, trackingId } = client.options;
  const { userAgent, country } = visitor.visitor;
  const body = JSON.stringify({ trackingId, sentAt: pending.sentAt, context: { userAgent, country }, batch });
  const url = `${cutSlashes(eventsUrl)}/v1/batch${isLocal(client) && consent.personalize ? '?visitor=1' : ''}`;
  const receipt = await call<Receipt>(client.options, url, body, { ...visitor.request, timeoutMs, retries: 0 }).catch(() => null);
  return receipt?.data.visitorToken ?? null;
}

/** Reads the cookie. A malformed one holds no events. */
function parse(value: string): { sentAt?: string; batch: Pending[] } {
  try {
    const bytes = Uint8Array.from(value.length <= PENDING_CHARS_MAX ? atob(value) : '', (character) => character.charCodeAt(0));
    const { sentAt, batch } = JSON.parse(new TextDecoder().decode(bytes));
    const events = (batch as Pending[]).filter((event) => typeof event === 'object' && event !== null);
    return { sentAt: typeof sentAt === 'string' ? sentAt : undefined, batch: events.slice(0, PENDING_EVENTS_MAX) };
  } catch {
    return { batch: [] };
  }
}
