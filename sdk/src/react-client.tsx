'use client';
import { type ReactNode, createContext, createElement, useContext, useEffect, useState } from 'react';
import { type Events, type EventsOptions, createEvents } from './browser.js';
import { createClient } from './client.js';
import { EXPERIMENTS_COOKIE, cookiesOf } from './cookies.js';
import type { ParallaxError } from './errors.js';
import { eventMethods } from './event.js';
import { decisionHash } from './hash.js';
import type { NodeProps } from './react.js';
import type { Item, Receipt } from './types.js';

/** The reasons to render the page again: a receipt for a track, identify or profile event, and a sign-out. */
export type RefreshReason = 'receipt' | 'reset';

export interface ParallaxEventsProps extends Omit<EventsOptions, 'preview' | 'onReceipt' | 'onError' | 'onReset'> {
  /** For `useMore`. Default: `eventsUrl`. */
  edgeUrl?: string;
  /** Renders the page again. Called after `reset`, and with `refreshOn` after receipts. */
  refresh?: (reason: RefreshReason) => void;
  refreshOn?: 'receipt';
  children: ReactNode;
}

interface Shared {
  events: Events;
  edgeUrl: string;
  trackingId: string;
}

const Context = createContext<Shared | null>(null);
/** The events of a browser tab, and the function of the newest provider that renders the page again. */
interface Tab {
  events: Events;
  refresh?: (reason: RefreshReason) => void;
}

/** One Events object for each tab and site, so that a remount does not make a second queue. */
const tabs = new Map<string, Tab>();

/** Provides the events of the page to `PageView`, `useParallax` and `useMore`. */
export function ParallaxEvents({ edgeUrl, refreshOn, refresh, children, ...options }: ParallaxEventsProps): ReactNode {
  const { eventsUrl, trackingId } = options;
  const tab: Tab = typeof document === 'object' ? tabOf(options) : { events: INERT };
  useEffect(() => {
    tab.refresh = (reason) => (reason === 'reset' || refreshOn) && refresh?.(reason);
  });
  const [shared] = useState(() => ({ events: tab.events, edgeUrl: edgeUrl ?? eventsUrl, trackingId }));
  return createElement(Context.Provider, { value: shared }, children);
}

/** Returns the events of the tab. Those of an earlier call stay. */
function tabOf(options: EventsOptions): Tab {
  const key = `${options.eventsUrl} ${options.trackingId}`;
  const known = tabs.get(key);
  if (known) return known;
  // A prefetch may have handed an event over before, so that the receipt counts it as a duplicate.
  const isKept = (receipt: Partial<Receipt>) => receipt.accepted! + receipt.duplicates! > 0;
  const tab: Tab = {
    events: createEvents({
      ...options,
      onReceipt: (receipt, sent) => isKept(receipt as Receipt) && sent?.some(({ type }) => type !== 'page') && tab.refresh?.('receipt'),
      onReset: () => tab.refresh?.('reset'),
    }),
  };
  tabs.set(key, tab);
  return tab;
}

/** The events of a server render and of an editor, which send nothing. */
const INERT: Events = {
  ...eventMethods(async () => null),
  shown() {},
  anonId: () => null,
  consent() {},
  flush: async () => {},
  reset() {},
  pending: 0,
};

/** Provides events that are sent nowhere, for an editor that shows the components of a site. */
export function SilentEvents({ children }: { children: ReactNode }): ReactNode {
  const [shared] = useState(() => ({ events: INERT, edgeUrl: '', trackingId: '' }));
  return createElement(Context.Provider, { value: shared }, children);
}

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
      events.shown({ variants, experiments: experiments ?? experimentsOf(path, variants, events), preview });
      const url = path + location.search;
      if (url === lastView && !isRestored) return;
      lastView = url;
      void events.page({ path });
    };
    const restored = (event: PageTransitionEvent) => event.persisted && view(true);
    view();
    addEventListener('pageshow', restored);
    return () => removeEventListener('pageshow', restored);
  }, [events, path, variants, experiments, preview]);
  return null;
}

/** Returns the experiments that the proxy named for this page, these variants and this visitor. Without any, it mints no ID. */
function experimentsOf(path: string, variants: string, events: Events): string | undefined {
  const values = cookiesOf(document.cookie, EXPERIMENTS_COOKIE);
  if (!values.length && !remembered.size) return undefined;
  const hash = decisionHash(path, variants, events.anonId());
  for (const value of values) {
    const [found, text] = value.split('.');
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
