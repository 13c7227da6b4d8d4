import { CONSENT_COOKIE, consentOf, consentText } from './consent.js';
import { cookieOf, cookieText } from './cookies.js';
import type { ParallaxError } from './errors.js';
import { type EventMethods, type Members, eventMethods } from './event.js';
import { isUsableId, uuid } from './ids.js';
import { LONG_SECONDS } from './limits.js';
import { createQueue } from './queue.js';
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
  /** Wait before a batch. Default 0: at once. */
  flushMs?: number;
  onReceipt?(receipt: Receipt | { suppressed: Suppression }): void;
  onError?(error: ParallaxError): void;
}

export interface Events extends EventMethods {
  /** Names the variants that the page shows. Later page and track events carry them. */
  shown(page: { variants: string; experiments?: string; preview?: boolean }): void;
  /** Returns the visitor's ID and mints one if there is none. Null without any consent, and in a preview. */
  anonId(): string | null;
  consent(change: Partial<Consent>): void;
  flush(): Promise<void>;
  /** For sign-out: sends the queue, then deletes the queue and the ID. */
  reset(): void;
  readonly pending: number;
}

const LOOPBACK = /(^|\.)localhost$|^127\.0\.0\.1$|^\[::1]$/;

export function createEvents(options: EventsOptions): Events {
  const idName = options.cookie ?? 'anon_id';
  /** The text of the consent cookie, for a browser without one. */
  let consentAbsent = options.consentDefault === 'denied' ? '0' : '1';
  let mintedId: string | undefined;
  let shown: { variants?: string; experiments?: string } = {};
  let isPreviewPage: boolean | undefined;
  /** The view of the current page that was suppressed for want of consent. */
  let heldView: Members | undefined;
  let previousUrl = document.referrer;

  const queue = createQueue(options, () => !suppression());

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

  function setCookie(name: string, value: string, maxAge = LONG_SECONDS) {
    document.cookie = cookieText(name, value, maxAge, options.cookieDomain, location.protocol === 'https:');
  }

  function anonId(): string | null {
    const { personalize, measure } = consentNow();
    if (isPreview() || !(personalize || measure)) return null;
    const known = cookieOf(document.cookie, idName);
    if (known && isUsableId(known)) return known;
    mintedId ??= uuid();
    setCookie(idName, mintedId);
    return mintedId;
  }

  function forgetId() {
    mintedId = undefined;
    setCookie(idName, '', 0);
  }

  async function send(type: string, members: Members): Promise<Receipt | null> {
    const isPage = type === 'page';
    const suppressed = suppression();
    if (isPage) heldView = suppressed && members;
    if (suppressed) {
      if (suppressed === 'no_consent') queue.clear();
      options.onReceipt?.({ suppressed });
      return null;
    }
    const { pathname: path, search, href: url } = location;
    const event = {
      type,
      messageId: uuid(),
      timestamp: new Date().toISOString(),
      anonId: anonId(),
      ...(isPage || type === 'track' ? shown : {}),
      ...members,
      context: {
        page: { path, search, url, title: document.title, referrer: previousUrl },
        locale: navigator.language,
        library: { name: '@parallax/sdk', version: VERSION },
      },
    };
    if (isPage) previousUrl = url;
    return queue.push(event);
  }

  return {
    ...eventMethods(send),
    shown({ variants, experiments, preview }) {
      shown = { variants, experiments };
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
      if (personalize || measure) anonId();
      else forgetId();
      if (measure && heldView) void send('page', heldView);
    },
    flush: () => queue.flush(true),
    reset() {
      queue.beacon();
      queue.clear();
      forgetId();
      heldView = undefined;
    },
    get pending() {
      return queue.queue.length;
    },
  };
}
