// The globals of a browser page, as far as the events use them. The suite in Chromium tests the same code in a real page.
import { mock } from 'node:test';
import { type Events, type EventsOptions, createEvents } from '../../src/browser.js';
import type { Receipt } from '../../src/types.js';

export interface Sent {
  trackingId: string;
  sentAt: string;
  batch: Record<string, any>[];
}

type Answer = (sent: Sent) => Response | Promise<Response>;

export const accept: Answer = ({ batch }) =>
  Response.json({ accepted: batch.length, duplicates: 0, dropped: 0, rejected: 0, durable: 'disk', seq: '1', results: [] });
export const offline: Answer = () => Promise.reject(new TypeError('Failed to fetch'));
export const status = (code: number, headers = {}): Answer => () => Response.json({ code: 'some_code' }, { status: code, headers });

/** A browser with a cookie jar and storage. Pages of it are opened one after the other. */
export class Browser {
  storage: Record<string, string> = {};
  cookies = new Map<string, string>();
  requests: Sent[] = [];
  beacons: Sent[] = [];
  answer: Answer = accept;
  hasGpc = false;
  listeners = new Map<string, (() => void)[]>();

  /** Opens a page: its globals replace those of the page before. */
  open(options: Partial<EventsOptions> = {}, href = 'https://shop.example/tents?a=1'): Events {
    const url = new URL(href);
    this.listeners = new Map();
    const set = (name: string, value: unknown) => Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
    set('localStorage', this.storage);
    set('location', { href, hostname: url.hostname, pathname: url.pathname, search: url.search, protocol: url.protocol });
    set('navigator', { language: 'de-DE', globalPrivacyControl: this.hasGpc, sendBeacon: (_url: string, body: string) => this.beacons.push(JSON.parse(body)) });
    set('addEventListener', (name: string, listener: () => void) => this.listeners.set(name, [...(this.listeners.get(name) ?? []), listener]));
    set('self', globalThis);
    set('top', globalThis);
    set('document', this.document());
    set('fetch', async (_url: string, init: RequestInit) => {
      const sent = JSON.parse(init.body as string);
      this.requests.push(sent);
      return this.answer(sent);
    });
    return createEvents({ eventsUrl: 'https://edge.example', trackingId: 'track_demo', ...options });
  }

  document() {
    const jar = this.cookies;
    return {
      title: 'Tents',
      referrer: 'https://search.example/',
      hidden: false,
      get cookie() {
        return [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
      },
      set cookie(text: string) {
        const [pair, ...attributes] = text.split('; ');
        const [name, ...value] = pair!.split('=');
        if (attributes.includes('Max-Age=0')) jar.delete(name!);
        else jar.set(name!, value.join('='));
      },
    };
  }

  fire(name: string) {
    for (const listener of this.listeners.get(name) ?? []) listener();
  }

  /** The events of all requests, in order. */
  get sent() {
    return this.requests.flatMap(({ batch }) => batch);
  }
}

/** Replaces the clock, so that a test of 24 hours takes no time. */
export function fakeClock() {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'Date'], now: Date.parse('2026-11-23T10:00:00Z') });
  return {
    async pass(ms: number) {
      mock.timers.tick(ms);
      await settle();
    },
    stop: () => mock.timers.reset(),
  };
}

/** Lets all promises run. */
export async function settle() {
  for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
}

export type { Receipt };
