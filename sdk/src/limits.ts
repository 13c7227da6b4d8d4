/** The limits of the package. */

/** The bound of an event. The server refuses a larger one. */
export const EVENT_BYTES_MAX = 32_768;
/** Keepalive requests and beacons of a page share 64 KiB. Bytes, not characters. */
export const BATCH_BYTES_MAX = 60_000;
export const BATCH_EVENTS_MAX = 50;
/** Bound of the memory and of the storage of a page. At the bound the oldest events are dropped. */
export const QUEUE_EVENTS_MAX = 500;
/** The server detects duplicates for 24 hours. It could record an older event twice. */
export const EVENT_AGE_MAX_MS = 86_400_000;
/** A stored queue that no page has written for so long is adopted. */
export const QUEUE_IDLE_MS = 30_000;
/** A page stores its events again, and looks for idle queues, at this interval. Other pages see so that it is alive. */
export const STORE_MS = 10_000;
/** Deadline of a request with events. */
export const SEND_MS = 10_000;
/** The longest wait of a page for the receipt of an event. After it the event is on its way and in the queue, and the page may leave. */
export const EVENT_WAIT_MS = 300;
/** The bounds of the wait before events are sent again. The wait doubles from the first to the second, with full jitter. */
export const SEND_BACKOFF_MIN_MS = 1_000;
export const SEND_BACKOFF_MAX_MS = 30_000;
/** Bounds of the cookie `px_events`. A browser sends it with each request to the site. */
export const PENDING_EVENTS_MAX = 4;
export const PENDING_CHARS_MAX = 1_500;
/** The next page of the visitor requests its document within this time. */
export const PENDING_SECONDS = 5;

/** Wait before a batch in Node, where many visitors share a queue. */
export const NODE_FLUSH_MS = 100;
/** Bound of the memory of a server. */
export const NODE_QUEUE_EVENTS_MAX = 10_000;

/** Deadline of a call of Edge, retries and waits included. */
export const CALL_MS = 2_000;
export const CALL_RETRIES = 2;
/** The upper bound of the wait before the first retry of a call. It doubles with each retry. */
export const CALL_BACKOFF_MS = 100;
/** A query over a longer URL is a POST. Caches and proxies accept URLs of this length. */
export const QUERY_URL_CHARS_MAX = 2_048;
/** The bounds that keep the target of a decision below the 8 KiB of Edge. */
export const URL_CHARS_MAX = 2_000;
export const REFERRER_CHARS_MAX = 1_000;
export const USER_AGENT_CHARS_MAX = 500;
/** Deadline of a decision for which a page waits. */
export const DECISION_MS = 150;
/** Deadline of the hand-over of pending events, for which a decision waits. */
export const HAND_OVER_MS = 100;

/** Deadline of a decision in development, where the first compile of a page takes longer. */
export const DECISION_DEVELOPMENT_MS = 2_000;
/** Deadline of the content of a page that was never rendered, for which a visitor waits. At the deadline the visitor gets an error page. */
export const RENDER_MS = 250;
/** Age of the route table at which the next request refreshes it. A publication is noticed after this time. */
export const ROUTES_SECONDS = 5;
/** `x-nextjs-stale-time`: the time for which Next.js may show a prefetched page. */
export const EXPERIMENTS_SECONDS = 300;
/** Browsers refuse a cookie over 4,096 bytes, and send all cookies of a page with each request for it. */
export const EXPERIMENTS_CHARS_MAX = 1_000;
/** Life of a link to a preview, unless it names another one. */
export const PREVIEW_LINK_DAYS = 7;
/** The name of a reviewer is a part of a URL and of a cookie. A longer one is refused. */
export const REVIEWER_CHARS_MAX = 64;
/** Life of the cookie of a preview. */
export const PREVIEW_SECONDS = 3_600;
/** Next.js allows 256 characters for a tag. */
export const TAG_CHARS_MAX = 200;
/** Bound of the pages that are rendered ahead after a publication. The first visitor starts the render of each other page. */
export const WARM_PAGES = 200;
/** Pages that are rendered ahead at the same time. The next page waits until the one before has been rendered, so that visitors keep most of the processor. */
export const WARM_CONCURRENCY = 4;
/** Deadline of the render of a page ahead of its visitors. */
export const WARM_MS = 10_000;
/** Wait between two requests for a page that Next.js renders in the background. */
export const WARM_POLL_MS = 50;
/** Deadline of a call of the revalidation handler. A handler that hangs must not end the calls for later versions. */
export const NOTIFY_MS = 10_000;
/** Comparisons of the stored list of routes in one call: publications may follow each other. */
export const REVALIDATE_TURNS_MAX = 3;
/** Life of a page without Cache Components, and without a call of the revalidation handler. */
export const CLASSIC_PAGE_SECONDS = 3_600;

/** The server gives no longer visitor token. A browser sends it with each request to the site, and refuses a cookie over 4,096 bytes. */
export const VISITOR_TOKEN_CHARS_MAX = 1_536;
/** Life of the cookie of a visitor token: that of the token. */
export const VISITOR_TOKEN_SECONDS = 86_400;
/** Age at which the rules of a site are requested again. A publication is in the decisions after this time. */
export const RULES_SECONDS = 5;
/** Deadline of a request for the rules, in the background. */
export const RULES_MS = 10_000;
/** Age of the rules, since Edge last confirmed them, after which Edge is asked first. They decide if it fails. */
export const RULES_FRESH_MS = 3_600_000;
/** Age of the rules after which they decide no more. The visitor tokens from before have expired, too. */
export const RULES_LAST_MS = 86_400_000;

/** 400 days, the longest life of a cookie in Chromium. */
export const LONG_SECONDS = 34_560_000;

/** File systems allow 255 bytes for a name, and the file of a cached page has an ending. */
export const SEGMENT_BYTES_MAX = 200;
/** The bound of the server. */
export const PAIRS_MAX = 64;
