// The one-tag build: `<script async src=".../v1/parallax.js" data-tracking-id="track_demo">` records the views of a plain page, and calls
// the functions of `Parallax.queue`, which a page fills before the script arrives.
import { type Events, type EventsOptions, createEvents } from './browser.js';

const FORM = /^track_[A-Za-z0-9_-]{1,64}$/;

/** Reads the options from the attributes of the tag. */
function optionsOf({ src, dataset }: HTMLScriptElement): EventsOptions {
  const { trackingId, eventsUrl, cookie, cookieDomain, consentDefault, storage, honorGpc, previewOrigins, visitorToken, dev } = dataset;
  const isTrue = (value?: string) => value !== undefined && value !== 'false';
  return {
    trackingId: trackingId!,
    eventsUrl: eventsUrl ?? new URL(src).origin,
    cookie,
    cookieDomain,
    consentDefault: consentDefault as EventsOptions['consentDefault'],
    storage: storage as EventsOptions['storage'],
    honorGpc: isTrue(honorGpc),
    visitorToken: isTrue(visitorToken),
    previewOrigins: previewOrigins?.split(/\s+/),
    dev: dev as EventsOptions['dev'],
  };
}

/** Records a view at load, at each change of path or query string, and at a restore from the back/forward cache. */
function recordViews(events: Events) {
  let last: string | undefined;
  const view = (isRestored?: boolean) => {
    const url = location.pathname + location.search;
    if (url === last && !isRestored) return;
    last = url;
    void events.page({ path: location.pathname });
  };
  const pushState = history.pushState;
  history.pushState = function (...values) {
    pushState.apply(this, values);
    view();
  };
  addEventListener('popstate', () => view());
  addEventListener('pageshow', ({ persisted }) => persisted && view(true));
  view();
}

function start(): Events | undefined {
  const script = document.currentScript as HTMLScriptElement | null;
  const trackingId = script?.dataset.trackingId;
  if (trackingId === undefined) return undefined;
  if (!FORM.test(trackingId)) {
    console.error(`Parallax: data-tracking-id="${trackingId}" is no tracking ID; use track_ and 1 to 64 letters, digits, "_" or "-".`);
    return undefined;
  }
  const events = createEvents(optionsOf(script!));
  if (script!.dataset.views !== 'manual') recordViews(events);
  return events;
}

type Queued = (events: Events) => void;

const events = start();

/** Calls queued functions with the events of the page. One that throws does not stop the others. */
function push(...functions: Queued[]) {
  for (const each of functions) {
    try {
      if (!events) throw new Error('Parallax: the queue needs a script tag with data-tracking-id.');
      each(events);
    } catch (error) {
      reportError(error);
    }
  }
}

const global = window as { Parallax?: { queue?: Queued[] } };
const waiting = global.Parallax?.queue ?? [];
Object.assign(window, { Parallax: { createEvents, events, queue: { push } } });
push(...waiting);
