import { CONSENT_COOKIE, consentOf, consentText } from './consent.js';
import { EXPERIMENTS_COOKIE, VISITOR_COOKIE, cookieOf, cookieText, expireCookies } from './cookies.js';
import type { ParallaxError } from './errors.js';
import { type EventMethods, type Members, eventMethods } from './event.js';
import { idOf, uuid } from './ids.js';
import { EVENT_WAIT_MS, LONG_SECONDS, VISITOR_TOKEN_SECONDS } from './limits.js';
import { createQueue } from './queue.js';
import type { QueuedEvent } from './sender.js';
import type { Consent, Receipt } from './types.js';
import { VERSION } from './version.js';

export { ParallaxError } from './errors.js';
export type { Consent, Json, Properties, Receipt, ReceiptResult } from './types.js';

/** Reasons for which nothing is sent. */
export type Suppression = 'preview' | 'no_consent' | 'development';

export interface EventsOptions {
  eventsUrl: string;
  trackingId: string;
  /** The ID cookie: the name from `GET /v1/site`. Default `anon_id`. */
  cookie?: string;
  /** `Domain` of the ID cookie and of `px_consent`. Default: the host alone. */
  cookieDomain?: string;
  /** `none` keeps the queue in memory only. */
  storage?: 'local' | 'none';
  /** The consent of a visitor without the cookie `px_consent`. Default `granted`. */
  consentDefault?: 'denied' | 'granted';
  /** Replaces the cookie `px_consent`. */
  consent?: () => Consent;
  /** True: `navigator.globalPrivacyControl` refuses both consents. */
  honorGpc?: boolean;
  preview?: () => boolean;
  /** Origins of pages that show this page in a preview frame. */
  previewOrigins?: string[];
  /** Without it, nothing is sent from a page of `localhost` or of a loopback address. */
  dev?: 'send';
  /** True: keeps the visitor token of receipts in the cookie `px_visitor`, for a server that decides in process. */
  visitorToken?: boolean;
  /** Wait before a batch. Default 0: at once. */
  flushMs?: number;
  /** `sent` are the events of the receipt. */
  onReceipt?(receipt: Receipt | { suppressed: Suppression }, sent?: readonly QueuedEvent[]): void;
  onError?(error: ParallaxError): void;
  /** Called by `reset`, when the page must be rendered for the next visitor. */
  onReset?(): void;
}

export interface Events extends EventMethods {
  /** Names the variants that the page shows. Later page and track events carry them. */
  shown(page: { variants: string; experiments?: string; preview?: boolean }): void;
  /** Returns the visitor's ID and mints one if there is none. Null without any consent, in a preview, and for a new visitor on a prerendered page. */
  anonId(): string | null;
  consent(change: Partial<Consent>): void;
  flush(): Promise<void>;
  /** For sign-out: ends all that belongs to the visitor and begins a new one. Queued events are still sent, under the old ID. */
  reset(): void;
  readonly pending: number;
}

const LOOPBACK = /(^|\.)localhost$|^127\.0\.0\.1$|^\[::1]$/;

/** Returns whether the browser renders the page ahead, and the visitor does not see it yet. */
function isPrerendering(): boolean | undefined {
  return (document as { prerendering?: boolean }).prerendering;
}

export function createEvents(options: EventsOptions): Events {
  const idName = options.cookie ?? 'anon_id';
  /** The text of the consent cookie, for a browser without one. */
  let consentAbsent = options.consentDefault === 'denied' ? '0' : '1';
  /** The ID of a browser that refuses cookies. */
  let unstoredId: string | undefined;
  let shown: { variants?: string; experiments?: string } = {};
  /** The visitor whom `shown` names. A sign-out in another tab changes the visitor of this page, too. */
  let shownTo: string | undefined;
  let isPreviewPage: boolean | undefined;
  /** The view of the current page that was suppressed for want of consent. */
  let heldView: Members | undefined;
  let previousUrl = document.referrer;

  /** The cookie of the visitor token when the last request began. Another tab, or the server of the site, may have changed it since. */
  let sentToken: string | undefined;

  const queue = createQueue({ ...options, query, onReceipt: received }, () => !suppression(), knownId);

  const tokenCookie = () => cookieOf(document.cookie, VISITOR_COOKIE);

  function query(): string {
    sentToken = tokenCookie();
    return options.visitorToken && consentNow().personalize ? '?visitor=1' : '';
  }

  /** Keeps the token of a receipt. It is marked while it may lack an event: the server of the site then asks Edge first. */
  function received(receipt: Receipt, sent: readonly QueuedEvent[]) {
    const token = receipt.visitorToken;
    // The events of the visitor before are the first ones.
    if (token !== undefined && consentNow().personalize && sent[0]!.anonId === knownId()) {
      setCookie(VISITOR_COOKIE, (queue.isPending() || tokenCookie() !== sentToken ? '~' : '') + token, token ? VISITOR_TOKEN_SECONDS : 0);
    }
    options.onReceipt?.(receipt, sent);
  }

  function consentNow(): Consent {
    const { globalPrivacyControl } = navigator as { globalPrivacyControl?: boolean };
    if (options.honorGpc && globalPrivacyControl) return { personalize: false, measure: false };
    return options.consent?.() ?? consentOf(document.cookie, consentAbsent);
  }

  function isPreview(): boolean | undefined {
    return isPreviewPage || options.preview?.() || location.search.includes('px-preview') || isFramed();
  }

  /** Returns whether the page is in a frame of one of the preview origins. Firefox has no `ancestorOrigins`. */
  function isFramed(): boolean | undefined {
    const parent = self !== top && (location.ancestorOrigins?.[0] ?? document.referrer);
    return options.previewOrigins?.some((origin) => `${parent}/`.startsWith(`${origin}/`));
  }

  function suppression(): Suppression | undefined {
    if (isPreview()) return 'preview';
    if (!consentNow().measure) return 'no_consent';
    return !options.dev && LOOPBACK.test(location.hostname) ? 'development' : undefined;
  }

  /** Replaces a cookie. One of the same name in another scope could be read first. */
  function setCookie(name: string, value: string, seconds = LONG_SECONDS) {
    expireCookies(name);
    document.cookie = cookieText(name, value, seconds, options.cookieDomain, location.protocol === 'https:');
  }

  function knownId(): string | undefined {
    return idOf(document.cookie, idName) ?? unstoredId;
  }

  function anonId(): string | null {
    const { personalize, measure } = consentNow();
    if (isPreview() || !(personalize || measure)) return null;
    const known = knownId();
    if (known || isPrerendering()) return known ?? null;
    const minted = uuid();
    setCookie(idName, minted);
    if (!knownId()) unstoredId = minted;
    return minted;
  }

  function forgetId() {
    unstoredId = undefined;
    expireCookies(idName);
    expireCookies(EXPERIMENTS_COOKIE);
    expireCookies(VISITOR_COOKIE);
  }

  async function send(type: string, members: Members, userHash?: string): Promise<Receipt | null> {
    const isPage = type === 'page';
    // The visitor may never see the page. Without `await` otherwise: the event is queued before the caller goes on.
    if (isPrerendering()) await new Promise((resolve) => document.addEventListener('prerenderingchange', resolve, { once: true }));
    const suppressed = suppression();
    if (isPage) heldView = suppressed && members;
    if (suppressed) {
      if (suppressed === 'no_consent') queue.clear();
      options.onReceipt?.({ suppressed });
      return null;
    }
    const { pathname: path, search, href: url } = location;
    const id = anonId();
    const event = {
      type,
      messageId: uuid(),
      timestamp: new Date().toISOString(),
      anonId: id,
      ...((isPage || type === 'track') && (shownTo ?? id) === id ? shown : {}),
      ...members,
      context: {
        page: { path, search, url, title: document.title, referrer: previousUrl },
        locale: navigator.language,
        userHash,
        library: { name: '@parallax/sdk', version: VERSION },
      },
    };
    if (isPage) previousUrl = url;
    const token = tokenCookie();
    if (token && token[0] !== '~') setCookie(VISITOR_COOKIE, `~${token}`, VISITOR_TOKEN_SECONDS);
    const wait = new Promise<null>((resolve) => setTimeout(resolve, EVENT_WAIT_MS, null));
    return Promise.race([queue.push(event), wait]);
  }

  return {
    ...eventMethods(send),
    shown({ variants, experiments, preview }) {
      shown = { variants, experiments };
      shownTo = knownId();
      isPreviewPage = preview;
    },
    anonId,
    consent(change) {
      const text = consentText({ ...consentNow(), ...change });
      if (!options.consent) {
        consentAbsent = text;
        setCookie(CONSENT_COOKIE, text);
      }
      const { personalize, measure } = consentNow();
      if (!measure) queue.clear(true);
      if (!personalize) expireCookies(VISITOR_COOKIE);
      if (personalize || measure) anonId();
      else forgetId();
      if (measure && heldView) void send('page', heldView);
    },
    flush: () => queue.flush(true),
    reset() {
      forgetId();
      shown = {};
      shownTo = heldView = undefined;
      anonId(); // the next decision may come before the next event
      queue.store();
      options.onReset?.();
    },
    get pending() {
      return queue.queue.length;
    },
  };
}
