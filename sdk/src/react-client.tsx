'use client';
import { type ReactNode, createContext, createElement, useContext, useEffect, useRef, useState } from 'react';
import { type Events, type EventsOptions, createEvents } from './browser.js';
import { createClient } from './client.js';
import { cookieOf } from './cookies.js';
import type { ParallaxError } from './errors.js';
import { eventMethods } from './event.js';
import { fnv1a } from './hash.js';
import type { NodeProps } from './react.js';
import type { Item, Receipt } from './types.js';

export interface ParallaxEventsProps extends Omit<EventsOptions, 'preview' | 'onReceipt' | 'onError'> {
  /** For `useMore`. Default: `eventsUrl`. */
  edgeUrl?: string;
  /** Refreshes the page after a receipt for a track, identify or profile event. For sites without Cache Components. */
  refreshOn?: 'receipt';
  refresh?: () => void;
  children: ReactNode;
}

interface Shared {
  events: Events;
  edgeUrl: string;
  trackingId: string;
}

const Context = createContext<Shared | null>(null);
/** One Events object for each tab and site, so that a remount does not make a second queue. */
const tab = new Map<string, Events>();

/** Provides the events of the page to `PageView`, `useParallax` and `useMore`. */
export function ParallaxEvents({ edgeUrl, refreshOn, refresh, children, ...options }: ParallaxEventsProps): ReactNode {
  const { eventsUrl, trackingId } = options;
  const key = `${eventsUrl} ${trackingId}`;
  if (typeof document === 'object' && !tab.has(key)) tab.set(key, createEvents(options));
  const own = tab.get(key) ?? INERT;
  const latest = useRef(refresh);
  latest.current = refresh;
  const [shared] = useState(() => ({
    events: refreshOn ? refreshing(own, () => latest.current?.()) : own,
    edgeUrl: edgeUrl ?? eventsUrl,
    trackingId,
  }));
  return createElement(Context.Provider, { value: shared }, children);
}

/**
 * Calls `refresh` after a receipt for an event other than a page view, and after `reset`. A prefetch may have handed the event over
 * before, so that the receipt counts it as a duplicate.
 */
function refreshing(events: Events, refresh: () => void): Events {
  const send = async (type: string, sent: Promise<Receipt | null>) => {
    const receipt = await sent;
    if (type !== 'page' && receipt && receipt.accepted + receipt.duplicates) refresh();
    return receipt;
  };
  const names = ['track', 'identify', 'set', 'setOnce', 'unset', 'increment', 'append', 'union', 'remove'] as const;
  const methods = names.map((name) => [name, (...values: [any, any?]) => send(name, events[name](...values))]);
  const reset = () => (events.reset(), refresh());
  return Object.create(events, Object.getOwnPropertyDescriptors(Object.fromEntries([...methods, ['reset', reset]])));
}

/** The events of a server render, which sends nothing. */
const INERT: Events = {
  ...eventMethods(async () => null),
  shown() {},
  anonId: () => null,
  consent() {},
  flush: async () => {},
  reset() {},
  pending: 0,
};

function useShared(): Shared {
  const shared = useContext(Context);
  if (!shared) throw new Error('No <ParallaxEvents> around this component.');
  return shared;
}

/** Returns the events of the page. */
export function useParallax(): Events {
  return useShared().events;
}

export interface PageViewProps {
  /** The `route` of the layout. */
  path: string;
  variants: string;
  experiments?: string;
  preview?: boolean;
}

/** The path and query string of the last view of the document. */
let lastView: string | undefined;
const remembered = new Map<string, string>();

/** Records a view of the page. It is the only owner of page views: a second effect, a refresh and a changed variant count once. */
export function PageView({ path, variants, experiments, preview }: PageViewProps): ReactNode {
  const events = useParallax();
  useEffect(() => {
    const view = (isRestored?: boolean) => {
      events.shown({ variants, experiments: experiments ?? experimentsOf(path, variants), preview });
      const url = path + location.search;
      if (url === lastView && !isRestored) return;
      lastView = url;
      void events.page({ path });
    };
    const restored = (event: PageTransitionEvent) => event.persisted && view(true);
    const begin = () => view();
    if ((document as { prerendering?: boolean }).prerendering) document.addEventListener('prerenderingchange', begin, { once: true });
    else begin();
    addEventListener('pageshow', restored);
    return () => {
      document.removeEventListener('prerenderingchange', begin);
      removeEventListener('pageshow', restored);
    };
  }, [events, path, variants, experiments, preview]);
  return null;
}

/** Returns the experiments that the proxy named for this page and these variants: `px_experiments`, `<hash>.<experiments>`. */
function experimentsOf(path: string, variants: string): string | undefined {
  const hash = fnv1a(`${path}\n${variants}`);
  for (const pair of document.cookie.split(/;\s*/)) {
    const [found, text] = cookieOf(pair, 'px_experiments')?.split('.') ?? [];
    if (found === hash && text) remembered.set(hash, text);
  }
  return remembered.get(hash);
}

export interface More<F> {
  items: Item<F>[];
  total?: number;
  /** Loads the next page. Absent after the last one. */
  more?: () => Promise<void>;
  isLoading: boolean;
  error?: ParallaxError;
}

interface Loaded<F> {
  items: Item<F>[];
  total?: number;
  cursor: string | null;
  isLoading?: boolean;
  error?: ParallaxError;
}

/** Loads further pages of the query that a node embeds. */
export function useMore<F>(node: Pick<NodeProps<any, F>, 'items' | 'total' | 'more'>): More<F> {
  const { edgeUrl, trackingId } = useShared();
  const first = { items: node.items ?? [], total: node.total, cursor: node.more?.cursor ?? null };
  const [state, setState] = useState<Loaded<F>>(first);

  async function load(): Promise<void> {
    const { query, params } = node.more!;
    setState((now) => ({ ...now, isLoading: true, error: undefined }));
    try {
      const { data } = await createClient({ edgeUrl, trackingId }).more({ query: { id: query, params } }, state.cursor);
      const items = data.items as Item<F>[];
      setState((now) => ({ items: [...now.items, ...items], total: data.total, cursor: data.nextCursor }));
    } catch (error) {
      setState((now) => ({ ...now, isLoading: false, error: error as ParallaxError }));
    }
  }
  const { items, total, cursor, isLoading = false, error } = state;
  return { items, total, more: cursor && !isLoading ? load : undefined, isLoading, error };
}
