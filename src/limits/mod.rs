//! The limits of the server. The doc of each limit gives its reason, and the consequence of reaching it.
//!
//! Values are in bytes unless the name ends in another unit or counts things. Assertions at the end of the
//! file check the relations between limits.

pub mod access;
mod audit;
mod connections;
mod experiments;
mod goals;
mod identity;
pub(crate) mod log_lines;
pub(crate) mod memory_defaults;
pub(crate) mod memory_sum;
mod patterns;
mod properties;
pub(crate) mod scrub;
mod segments;
mod visitor_token;

pub use audit::*;
pub(crate) use connections::*;
pub use connections::{
    DISCARDED_BYTES_MAX, HELD_REQUESTS_MAX, HELD_REQUESTS_OF_CLIENT_MAX, HELD_REQUESTS_OF_SITE_MAX,
    READ_BUFFER_BYTES, WAIT_S_MAX,
};
pub(crate) use experiments::PHASES_BYTES_MAX;
pub use experiments::{
    COVERAGES_KEPT_MAX, ENROLMENTS_MAX, PHASES_FILE_BYTES_MAX, PHASES_KEPT_MAX, PHASES_MAX, RAMP_STEPS_MAX,
    SEED_CHARS_MAX,
};
pub use goals::{ATTRIBUTION_MS_MAX, EXPERIMENT_VALUES_MAX, GOAL_TESTS_MAX, GOALS_ASKED_MAX, GOALS_MAX};
pub(crate) use goals::{CURRENCY_CHARS_MAX, GOAL_NAME_CHARS_MAX, GOAL_TEST_VALUES_MAX};
pub use identity::{
    IDENTITY_KEY_CHARS_MAX, IDENTITY_KEY_CHARS_MIN, IDENTITY_KEYS_BYTES_MAX, IDENTITY_KEYS_OF_SITE_MAX,
};
pub(crate) use memory_defaults::*;
pub use patterns::*;
pub use properties::*;
pub use segments::{FILTER_VALUE_CHARS_MAX, FILTER_VALUES_MAX, SEGMENT_NAME_CHARS_MAX, SITE_SEGMENTS_MAX};
pub use visitor_token::{
    VISITOR_KEY_CHARS_MAX, VISITOR_KEY_CHARS_MIN, VISITOR_KEY_ID_CHARS_MAX, VISITOR_KEYS_BYTES_MAX,
    VISITOR_KEYS_MAX, VISITOR_TOKEN_CHARS_MAX, VISITOR_TOKEN_S_MAX, VISITOR_TOKEN_SKEW_S_MAX,
};

/// Size of a request's head, from the method to the empty line. nginx and Apache allow about as much. A
/// larger head gets 431.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Number of header fields of one request. Browsers send under 30. More get 431.
pub(crate) const HEADER_FIELDS_MAX: usize = 64;
/// Size of a request target. 2 KiB of route and 2 KiB of `variants` fit with escapes. A longer target gets
/// 414.
pub const TARGET_BYTES_MAX: usize = 8 * 1024;
/// Size of a request body, on any endpoint. A larger body gets 413.
pub const BODY_BYTES_MAX: usize = 512 * 1024;
/// Size of the line before a chunk: the chunk's size and its extensions, which we ignore. A longer line gets
/// 400.
pub const CHUNK_LINE_BYTES_MAX: usize = 256;
/// Size of the trailer section of a chunked body. We discard the trailers. A larger section gets 400.
pub const TRAILER_BYTES_MAX: usize = 4 * 1024;
/// Number of client addresses with a token bucket of their own (`--rate-limit-per-ip`), and again of sites
/// (`--rate-limit-per-site`). A new one replaces the one with the fewest requests. Takes 1 MiB.
pub const RATE_LIMIT_BUCKETS_MAX: usize = 65_536;
/// Length of a client's `X-Request-Id` that the response repeats. A longer one is replaced by a generated ID.
pub(crate) const REQUEST_ID_BYTES_MAX: usize = 128;
/// Length of the client's value in a problem document, in characters, so that an error response stays small.
pub(crate) const ACTUAL_CHARS_MAX: usize = 100;

/// Length of a site ID, and of a tracking ID after its prefix. Both are part of URLs, file names and cache
/// tags.
pub(crate) const SITE_ID_BYTES_MAX: usize = 64;
/// Length of an anon ID. A UUID has 36 bytes, the longest IDs of common libraries under 100. A longer one
/// gets 400.
pub(crate) const ANON_ID_BYTES_MAX: usize = 128;
/// Length of the value of an anon ID's cookie: the longest ID, with all of its bytes escaped. A longer value counts as
/// no ID.
pub(crate) const ANON_ID_COOKIE_BYTES_MAX: usize = 3 * ANON_ID_BYTES_MAX;
/// Length of the `route` parameter. It is longer than any URL that browsers and proxies agree on. A longer
/// one gets 400.
pub const ROUTE_BYTES_MAX: usize = 2 * 1024;
/// Length of the page's own URL, in a parameter or in `Referer`. The rest of a longer URL is ignored.
pub const URL_BYTES_MAX: usize = 4 * 1024;
/// Number of query parameters of the page's own URL that rules can see. Further parameters are ignored.
pub const URL_PARAMS_MAX: usize = 32;

/// The period of whose UTC offsets a snapshot knows the changes, in seconds since 1970: from 2020-01-01 to before
/// 2100-01-01. A time in the parameter `now` outside of it gets 400.
pub(crate) const CLOCK_FROM_S: i64 = 1_577_836_800;
pub(crate) const CLOCK_UNTIL_S: i64 = 4_102_444_800;

/// Length of a zone's name and of a variant's key. Both are part of URLs, unescaped.
pub const KEY_BYTES_MAX: usize = 64;
/// Number of answers that a worker prepares. A site with thousands of pages has a few thousand pairs of page
/// and variants that most of its visitors see. A new answer replaces the one in its slot. The replaced answer
/// is planned again at its next request.
pub(crate) const ANSWERS_PREPARED: usize = 4096;
/// Size of a prepared answer without the pieces of its body: key, header fields, and the body's own text.
/// Most are half as large. A larger answer is not prepared.
pub(crate) const ANSWER_BYTES_MAX: usize = 1024;
/// Number of pieces in the body of a prepared answer: those of a page with about ten personalized zones. An answer with
/// more is not prepared.
pub(crate) const ANSWER_PIECES_MAX: usize = 24;
/// Number of personalized zones of a route. The choice for a request has one byte for each, in a fixed array.
pub const ZONES_MAX: usize = 64;
/// Number of variants of a zone besides `default`.
pub const VARIANTS_MAX: usize = 64;
/// Number of rules of a zone. A request tries them one by one.
pub const RULES_MAX: usize = 64;
/// Depth of nodes and zones nested in each other. It also bounds the recursion of rendering.
pub const NODE_NESTING_MAX: usize = 16;
/// Length of the longest canonical `variants` of a route. It is sent in a header and in URLs.
pub const CANONICAL_BYTES_MAX: usize = 2 * 1024;
/// Length of the longest `experiments` of a page, without the pair of the site's holdout. It is sent in a header, and
/// proxies commonly accept 4 or 8 KiB for all header fields of a response. Events send it back. `compile` refuses a page
/// beyond it.
pub const EXPERIMENTS_BYTES_MAX: usize = 2 * 1024;
/// Number of pairs in one `variants` parameter. No route has more zones.
pub const PAIRS_MAX: usize = ZONES_MAX;
/// Size of a layout rendered with its largest variants. `compile` rejects a larger one.
pub const BODY_RENDERED_BYTES_MAX: usize = 1024 * 1024;
/// Largest number of combinations that `/v1/routes` reports for a route. A route with more reports this
/// number.
pub(crate) const COMBINATIONS_COUNTED_MAX: usize = 10_000;
/// Number of combinations listed for a route. A longer list is cut and marked `truncated`.
pub(crate) const COMBINATIONS_LISTED_MAX: usize = 256;

/// Number of routes on one page of `/v1/routes`. It is also the default.
pub(crate) const ROUTES_LISTED_MAX: usize = 10_000;
/// Default number of routes on one page of `/v1/routes` that includes their variants.
pub(crate) const ROUTES_LISTED_WITH_VARIANTS_DEFAULT: usize = 1_000;
/// Size of a page of `/v1/routes`. A page ends after the route that exceeds this size.
pub(crate) const ROUTES_PAGE_BYTES_MAX: usize = 1024 * 1024;
/// Number of versions of a site whose paths and hashes are kept for `since`.
pub const VERSIONS_KEPT_MAX: usize = 16;
/// Number of publications of a site whose times are kept, to explain past decisions: some months of daily
/// publications, in 3 KiB. The version that was served before the oldest of them is not known.
pub const SERVINGS_KEPT_MAX: usize = 64;
/// Largest size of these version lists, of all sites together: 16 versions of 200,000 paths. Beyond it the sites
/// with the largest lists lose their oldest versions. A caller that asks for the changes since such a version
/// gets the full list. A small machine has less ([`VERSIONS_DEFAULT`]).
pub(crate) const VERSIONS_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Size of the file `versions` in the data directory. The server writes no larger one, because its lists are smaller
/// than in memory. A larger file is damage and is not read.
pub const VERSIONS_FILE_BYTES_MAX: u64 = VERSIONS_BYTES_MAX as u64;

/// Number of parameters of one content query. Their values are kept in a fixed array.
pub const QUERY_PARAMS_MAX: usize = 16;
/// Number of items on one page of a content query. A request for more gets 400.
pub const QUERY_LIMIT_MAX: usize = 100;
/// Number of items on a page if neither the request nor the query gives one.
pub(crate) const QUERY_LIMIT_DEFAULT: usize = 20;
/// Size of one item in a response. `compile` rejects a query with a larger item.
pub(crate) const ITEM_BYTES_MAX: usize = 512 * 1024;
/// Size of the items on one page of a content query. A page ends before the item that exceeds this size.
pub(crate) const QUERY_PAGE_BYTES_MAX: usize = BODY_RENDERED_BYTES_MAX - ITEM_BYTES_MAX;
/// Number of items that one response may evaluate one by one. A clause takes about 70 ns per item, and other
/// requests of the worker wait meanwhile. A query that needs more gets 422. `compile` warns about such a
/// query, and rejects a page that embeds one.
pub const QUERY_EVALUATIONS_MAX: usize = 10_000;
/// Number of fields in the sort order of a content query, `id` included.
pub const ORDER_FIELDS_MAX: usize = 8;
/// Size of all sort values of an item together. Cursors contain them in hex, within a request target of 8
/// KiB.
pub const SORT_KEY_BYTES_MAX: usize = 1024;
/// Number of items of one collection. A worker keeps one bit for each.
pub(crate) const ITEMS_MAX: usize = 1 << 20;
/// Number of content queries of one site.
pub const QUERIES_MAX: usize = 1_024;
/// Number of queries that the nodes of one page embed with values from its path. Their cursors and values fit
/// in a rendered layout. `compile` rejects a page with more.
pub const EMBEDDED_QUERIES_MAX: usize = 64;
/// Size of a value from the path as JSON: each byte may become an escape of six. `compile` counts it for each
/// such value of a layout.
pub(crate) const ROUTE_VALUE_BYTES_MAX: usize = 6 * ROUTE_BYTES_MAX + 2;

/// Number of hosts whose referrers one site ignores. Each page event with an external referrer is compared with all of them.
/// `compile` rejects a site with more, and a server rejects its snapshot.
pub const IGNORED_REFERRERS_MAX: usize = 100;
/// Length of such a host, in characters: that of the longest host name (RFC 1035 section 2.3.4, without the root). `compile`
/// rejects a longer one.
pub const IGNORED_REFERRER_CHARS_MAX: usize = 253;

/// Number of routes of one site. The indices of the route table and the 32-bit offsets of the archive allow
/// far more, but memory does not.
pub(crate) const ROUTES_MAX: usize = 1_000_000;
/// Number of redirects of one site that may follow each other. Browsers stop after 20 (Fetch standard, section
/// 4.4). `compile` rejects a longer chain, and a circle.
pub const REDIRECTS_IN_A_ROW_MAX: usize = 20;
/// Number of experiments of one site. A rule stores their index as u16.
pub const EXPERIMENTS_MAX: usize = 4_096;
/// Number of guardrails of one experiment. Each one is a metric that every answer counts. `compile` rejects more.
pub const GUARDRAILS_MAX: usize = 16;
/// Size of a snapshot's archive: everything except the texts of bodies. Its offsets are signed 32-bit numbers.
/// `compile` refuses a larger one.
pub(crate) const ARCHIVE_BYTES_MAX: u64 = 1 << 30;
/// Size of a snapshot's piece data: the texts of bodies, plain and compressed. No server has memory for more.
pub(crate) const PIECE_DATA_BYTES_MAX: u64 = 1 << 40;
/// Memory limit for sealed copies of snapshots, old and new ones together, on a machine that does not tell its memory.
pub(crate) const SNAPSHOTS_MEMORY_BYTES_DEFAULT: u64 = 4 << 30;
/// Number of file names in `snapshots/` that are tracked, about 200 bytes each. Beyond it tracked names stay,
/// and new ones are ignored with a warning.
pub(crate) const SNAPSHOT_NAMES_MAX: usize = 100_000;
/// Number of workers of one process. It exceeds every machine that one process serves well from.
pub(crate) const WORKERS_MAX: usize = 256;
/// Longest time that a worker polls before it parks, in microseconds (`--busy-poll-us`). Waking a parked worker
/// costs about 30 us. For clients with a longer round trip the saving is not noticeable.
pub(crate) const BUSY_POLL_US_MAX: u64 = 1_000;

/// Nesting depth of operators that contain conditions (`$and $or $nor $not $elemMatch $size`). Nobody can
/// read a deeper rule, and strict parsing rejects it. The limit bounds the recursion of parsing, compiling
/// and evaluating.
pub const CONDITION_NESTING_MAX: usize = 16;

/// Number of audiences of one site. It determines the size of the results that a request caches for them (two
/// bits each). `compile` rejects a site with more.
pub const AUDIENCES_MAX: usize = 1024;

/// Length of a chain of audiences that refer to each other, the first one included. `compile` rejects longer
/// chains and loops. The limit bounds recursion.
pub const AUDIENCE_CHAIN_MAX: usize = 8;

/// Size of one compiled condition, the groups in it included: a group of about 40,000 UUIDs. A larger one is
/// rejected, because each evaluation may read all of it.
pub const PROGRAM_BYTES_MAX: usize = 2 << 20;

/// Number of times of one event or page that a visitor's profile keeps. `$count` with `within` cannot count
/// further, so strict parsing rejects a condition that needs more times to decide.
pub const TIMES_KEPT: u64 = 16;

/// Length of the name of a preview, in characters. It is enough for the name of a branch, and leaves half of a site ID
/// to the site. `compile --preview` refuses a longer one.
pub const PREVIEW_NAME_CHARS_MAX: usize = 32;

/// Length of the author's text that a diagnostic repeats, in characters. It is enough to recognise the text.
pub const DIAGNOSTIC_TEXT_CHARS_MAX: usize = 60;

/// Size of one source file. The largest body that a route may render has 1 MiB. Eight times as much leaves
/// room for variants. A larger file was exported by mistake, and is rejected.
pub const SOURCE_FILE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Size of one file in `content/`, which an application exports: 100,000 items of 600 bytes.
pub const CONTENT_FILE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Number of source files of one site: twice the 100,000 routes that a site is designed for. `compile` holds
/// all of them in memory.
pub const SOURCE_FILES_MAX: usize = 200_000;

/// Nesting depth of arrays and objects in one source file. It is the depth that `serde_json` reads (it
/// rejects the 128th level), so that no source text can exhaust the stack.
pub const SOURCE_NESTING_MAX: usize = 127;

/// Size of a settings file. All keys with their help take under 8 KiB. A larger file was named by mistake,
/// and is rejected.
pub const SETTINGS_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a User-Agent that are examined. The rest is ignored. Browsers send 80 to 250, and the longest of
/// the 2,100 listed crawlers sends 285, so only padding is lost. Without the limit a head of 16 KiB would
/// cause a search through 16 KiB.
pub const USER_AGENT_BYTES_MAX: usize = 512;

/// Size of one event, as in common libraries. A larger event gets 413; in a batch only that event is rejected.
pub const EVENT_BYTES_MAX: usize = 32 * 1024;
/// Number of events of one batch: five times as many as any library sends at once. More get 413.
pub const EVENTS_MAX: usize = 2_500;
/// Nesting depth of arrays and objects in an event's body, the body itself included. A deeper body gets 400.
/// The limit bounds every recursion over an event.
pub const EVENT_NESTING_MAX: usize = 32;
/// Length of a message ID. A UUID has 36 bytes, and libraries put a word before it. A longer one gets 400.
pub(crate) const MESSAGE_ID_BYTES_MAX: usize = 128;
/// Length of a user ID. The longest mail address has 254 bytes. A longer one gets 400.
pub(crate) const USER_ID_BYTES_MAX: usize = 256;
/// Length of an event's name, in characters: a name, not a sentence. A longer one gets 400.
pub const EVENT_NAME_CHARS_MAX: usize = 200;
/// Length of the name of a page, a screen or a group. Page titles have a few hundred bytes. A longer one gets 400.
pub const NAME_BYTES_MAX: usize = 1024;
/// Length of an event's page that is not a route. The rest is cut off.
pub(crate) const PAGE_BYTES_MAX: usize = 1024;
/// Number of members of each object in a batch's context. Real ones have under 30, and each is looked up in
/// every event. More get 400.
pub const CONTEXT_MEMBERS_MAX: usize = 256;
/// Size of a batch's context after it is merged into each of its events: eight bodies. More get 413, and a
/// batch of half the events takes half as much.
pub const CONTEXTS_BYTES_MAX: usize = 8 * BODY_BYTES_MAX;
/// Length of a text column of a record. IDs take 128 bytes, a canonical `variants` 2 KiB, a path of 1 KiB three
/// times that after escaping, and 64 pairs of experiments 8,319 bytes. A longer text is rejected. It is under
/// 0x5000, so that no length reads like a magic number.
pub const TEXT_BYTES_MAX: usize = 9 * 1024;
/// Size of a record's JSON: an event of 32 KiB and the context of its batch of 512 KiB. A larger one is rejected.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// Size of a record's unpacked fold input: trait changes, which are no longer than their event, or the texts of a
/// touch. A larger one is rejected.
pub const FOLD_INPUT_BYTES_MAX: usize = EVENT_BYTES_MAX;
/// Size of the records of one request: 2,500 events, or 512 KiB of body with a repeated context, and as much for
/// their fold inputs. A record beyond it is rejected.
pub const REQUEST_BYTES_MAX: usize = 9 << 20;
/// Size of a batch at which the log writer stops draining the queue, so that the first request does not wait
/// for a flood of later ones.
pub const BATCH_BYTES_TARGET: usize = 4 << 20;
/// Size of a batch: the target size, one more request, and the header. A longer batch in a file is damage.
pub(crate) const BATCH_BYTES_MAX: usize = BATCH_BYTES_TARGET + REQUEST_BYTES_MAX + 64;
/// Number of records of one batch: as many of the smallest ones as fit. More in a file is damage.
pub(crate) const BATCH_RECORDS_MAX: usize = BATCH_BYTES_MAX / 80;

/// Default number of queued requests between workers and the log writer: 200,000 per second for 80 ms, which
/// is longer than a sync takes. Beyond it requests get 503 at once.
pub(crate) const QUEUE_REQUESTS_MAX: usize = 16 * 1024;
/// Size of all queued requests together. It is a term of the memory sum. Beyond it requests get 503 at once.
pub(crate) const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Number of requests of one worker that are queued or whose completion the worker has not taken yet. It is
/// the size of the ring that holds the completions, and more than a worker's connections that wait for one
/// each. Beyond it requests get 503 at once.
pub const OUTSTANDING_REQUESTS_MAX: usize = 16 * 1024;

/// Default size at which a segment is sealed. After a crash its scan takes a fifth of a second. Rewriting it
/// for an erasure takes as long. Its footer is written in a few ms, and 10 GB are 160 files.
pub const SEGMENT_BYTES_DEFAULT: u64 = 64 << 20;
/// Number of reserved zero bytes after the batches of a segment. The next batches overwrite them. More of
/// them in a file is damage. The batch that writes them takes about twice as long, because they cost about as
/// much as its sync. With a larger reserve such a batch would stand out. With a smaller one there would be
/// more of them.
pub const RESERVED_BYTES_MAX: u64 = 256 * 1024;
/// Number of records at which a segment is sealed, regardless of its size. Until then memory holds their
/// keys, 32 bytes each.
pub const SEGMENT_RECORDS_MAX: u64 = 1 << 18;
/// Size of a segment's footer: keys, Bloom filter, and at most one index entry per batch. A longer one is
/// damage.
pub(crate) const FOOTER_BYTES_MAX: u64 = 64 << 20;
/// Size of one read from a file.
pub const READ_CHUNK_BYTES: usize = 256 * 1024;

/// Bytes that may be written and not yet synced with `--ack written`. Above half of it the log writer syncs
/// at once, and a batch fits in the other half. The bytes stay in memory, so that they can be written again
/// after a failed sync.
pub const UNSYNCED_BYTES_MAX: usize = 26 << 20;
/// Delay of the sync with `--ack written`, in ms, counted from the first batch that needs it. It is half of
/// the promised 100 ms.
pub(crate) const SYNC_AFTER_MS: u64 = 50;
/// Time after which an idle log writer writes the durable watermark to the file, in ms, so that other
/// processes that read the log do not lag for long.
pub const WATERMARK_AFTER_MS: u64 = 100;
/// First pause before the log writer retries a failed disk operation, in ms. The pause grows up to
/// [`RETRY_MS_MAX`].
pub(crate) const RETRY_MS_MIN: u64 = 10;
/// Longest pause before the log writer retries a failed disk operation, in ms. It is half of the second
/// within which service must resume.
pub(crate) const RETRY_MS_MAX: u64 = 500;
/// Time between two checks for expired segments, in ms.
pub const RETENTION_INTERVAL_MS: u64 = 60_000;
/// Age below which a segment is never deleted, in ms, regardless of `--retain-bytes`: the dedup window.
pub const RETAIN_MS_MIN: i64 = DEDUP_WINDOW_MS;

/// Length of the dedup window, in ms: how long the log writer remembers a message ID.
pub const DEDUP_WINDOW_MS: i64 = 24 * 60 * 60 * 1000;
/// Largest number of IDs in the dedup window. They take 310 MB (24 bytes of ring and 7 of table for each). The
/// address space is reserved at once, and the kernel provides the memory on first use. Beyond it the oldest
/// ID is dropped, and a counter shows that. A small machine has fewer ([`DEDUP_DEFAULT`]).
pub(crate) const DEDUP_IDS_MAX: usize = 10_000_000;

/// Free bytes of the disk that column files leave to the log: the next segment, a segment that an erasure rewrites, and
/// a checkpoint beside the old one. With less, column files are not written, and questions read the segments instead.
pub const COLUMNS_FREE_BYTES_MIN: u64 = 4 * SEGMENT_BYTES_DEFAULT;

/// Largest memory of Insights, in bytes, unless `--insights-memory` says otherwise. It holds the events of about
/// 4 million rows.
pub(crate) const INSIGHTS_MEMORY_BYTES_DEFAULT: u64 = 128 << 20;
/// Least memory of Insights that is not 0. An eighth of it holds the columns of the active segment.
pub(crate) const INSIGHTS_MEMORY_BYTES_MIN: u64 = 64 << 20;
/// Memory limit for visitor profiles of a new cluster, and on a machine that does not tell its memory: two and a half
/// million typical ones.
pub const PROFILES_MEMORY_BYTES_DEFAULT: u64 = 1 << 30;
/// Size of a stored profile. A typical one takes 200 bytes, and 10 million fit in 4 GiB. From a larger
/// profile the least recent event name, path or trait is evicted until it fits. The rest (IDs, touches,
/// visits) takes less.
pub const PROFILE_BYTES_MAX: usize = 16 * 1024;
/// Number of event names in one profile. Sites have some dozens. Beyond it the least recent one is evicted.
pub const PROFILE_EVENT_NAMES_MAX: usize = 64;
/// Number of pages in one profile. Rules seldom ask for old pages. Beyond it the least recent one is evicted.
pub const PROFILE_PATHS_MAX: usize = 64;
/// Length of a page's path in a profile. Of a longer path the profile keeps the hash, and no wildcard matches
/// it, except the one that matches every page.
pub const PROFILE_PATH_BYTES_MAX: usize = 256;
/// Number of traits of one profile, deleted ones included. Beyond it the trait with the oldest write is
/// evicted.
pub const TRAITS_MAX: usize = 64;
/// Size of a trait's value in the encoding of `condition`: a text of 1,000 letters. A larger value stays in
/// the record only. The profile keeps the previous value, and a counter shows that.
pub const TRAIT_BYTES_MAX: usize = 1024;
/// Length of a trait's name. A trait with a longer name is treated like one with a value that is too large.
pub const TRAIT_NAME_BYTES_MAX: usize = 256;
/// Length of each text of a touch. The rest is cut off.
pub const TOUCH_TEXT_BYTES_MAX: usize = 256;
/// Number of anon IDs in the profile of one user: the devices and browsers of some years. Beyond it the anon ID
/// with the oldest link is unlinked. If it returns, it starts again.
pub const USER_ANON_IDS_MAX: usize = 64;
/// Number of visits of a profile whose start and end are kept, for late events. Earlier visits are a count.
pub(crate) const VISITS_KEPT: usize = 16;
/// Time without an event of a visit after which the visit ends, in ms. All common analytics tools use this value.
pub const VISIT_TIMEOUT_MS: i64 = 30 * 60 * 1000;
/// Time after the last event of a visit for which events that make no visit, such as a server's orders, are in it, in ms:
/// 30 days, the usual time between an advertisement and an order. A later event is in no visit. A question about the
/// sources of such events reads as much of the log before its range.
pub(crate) const VISIT_REACH_MS: i64 = 30 * 24 * 60 * 60 * 1000;
/// Highest seq. At 200,000 records per second a log reaches it after 700,000 years. A higher seq in a file is
/// damage, so no file can make a seq overflow. A log that has reached it is rejected.
pub const SEQ_MAX: u64 = 1 << 62;
/// Number of IDs that one tombstone names. An erasure with more IDs appends several tombstones.
pub const TOMBSTONE_IDS_MAX: usize = 1_024;
/// Number of tombstones in one batch. An erasure with more of them appends several batches.
pub const TOMBSTONES_PER_BATCH_MAX: usize = 64;
/// Number of site IDs that the fold remembers. Beyond it no ID is added, and `/visitors` answers 404 for no site.
pub const SITE_IDS_KNOWN_MAX: usize = 100_000;
/// Number of entries of ownership since the last checkpoint, 56 MB. At this number a checkpoint is made early.
pub const RECENT_TIES_MAX: usize = 1_000_000;
/// Number of entries of ownership that an export or an erasure remembers of other visitors, one for each
/// anonymous ID included: about 10 MB. At this number it forgets them and reads them again.
pub const TIE_CACHE_ENTRIES_MAX: usize = 100_000;
/// Size of one write of an erasure.
pub const REWRITE_CHUNK_BYTES: usize = 1 << 20;

/// Size at which a response of the admin address with a visitor's records ends. The response says where to
/// continue.
pub const EXPORT_PAGE_BYTES_TARGET: usize = 2 << 20;

/// Default number of log bytes between two checkpoints. A restart folds as much in a second or two. If a
/// quarter of the last checkpoint is larger, that counts instead, so that checkpoints cost a fraction of the
/// recorded bytes.
pub(crate) const CHECKPOINT_LOG_BYTES_DEFAULT: u64 = 256 << 20;
/// Number of checkpoints that are kept. If the newest is damaged, the server reads the one before and the log
/// after it.
pub(crate) const CHECKPOINT_GENERATIONS: usize = 2;
/// Size of a checkpoint's block, which has its own checksum: three of the largest profiles, or hundreds of
/// typical ones. A longer block is damage.
pub const CHECKPOINT_BLOCK_BYTES: usize = 64 * 1024;
/// Smallest run that the checkpointer sorts in memory: 60,000 typical profiles. It is written and synced at
/// once.
pub(crate) const CHECKPOINT_RUN_BYTES: usize = 16 << 20;
/// Approximate number of sorted runs of a checkpoint, if they are larger than the smallest run. A reader
/// holds one block of each, 16 MiB together.
pub(crate) const CHECKPOINT_RUNS: u64 = 256;
/// Number of sorted runs of a checkpoint that a reader accepts: four times as many as are written. More is
/// damage.
pub const CHECKPOINT_RUNS_MAX: usize = 1024;
/// Approximate size of the buffers that carry entries from the log writer to the checkpointer. All buffers
/// take 2 MiB. If the disk is slower, the copy waits, and the log writer does not.
pub(crate) const CHECKPOINT_CHUNK_BYTES: usize = 256 * 1024;
/// Number of these buffers. See [`CHECKPOINT_CHUNK_BYTES`].
pub(crate) const CHECKPOINT_CHUNKS: usize = 8;
/// Longest time for a last checkpoint at shutdown, in ms: eight of the ten seconds of a shutdown, or less if
/// less is left. The checkpointer runs at the lowest priority, at shutdown too. After that time the next
/// start reads the log instead.
pub const CHECKPOINT_STOP_MS: u64 = 8_000;

// The longest canonical `variants`, which needs no escapes, fits in a target with the longest route, half of
// whose bytes are escaped. 1 KiB is left for the other parameters.
const _: () = assert!(CANONICAL_BYTES_MAX + 2 * ROUTE_BYTES_MAX + 1024 <= TARGET_BYTES_MAX);
// A cursor in hex fits in a target, and half of the target is left for parameters.
const _: () = assert!(2 * SORT_KEY_BYTES_MAX + 16 <= TARGET_BYTES_MAX / 2);
// A layout with the highest number of queries has room for a value and a cursor of each, and for itself.
const _: () = assert!(
    EMBEDDED_QUERIES_MAX * (ROUTE_VALUE_BYTES_MAX + 2 * SORT_KEY_BYTES_MAX + 64)
        < BODY_RENDERED_BYTES_MAX - 65_536
);
// A target fits in a head.
const _: () = assert!(TARGET_BYTES_MAX < HEAD_BYTES_MAX);
// A choice is one byte, and 255 means that the zone is absent.
const _: () = assert!(VARIANTS_MAX < u8::MAX as usize);
const _: () = assert!(ZONES_MAX < u8::MAX as usize);
// A batch with the highest number of events fits in a body, if the events are small.
const _: () = assert!(EVENTS_MAX * 100 < BODY_BYTES_MAX);
const _: () = assert!(TEXT_BYTES_MAX < 0x5000);
// The longest `experiments` of an event fits in its column: pairs of two keys, with `:` and `,`.
const _: () = assert!(PAIRS_MAX * (2 * KEY_BYTES_MAX + 2) <= TEXT_BYTES_MAX);
// Events accept as many pairs as a response has.
const _: () = assert!(ZONES_MAX <= PAIRS_MAX);
// These lengths cannot read like a magic number: they are below 2^24, so the last byte of the little-endian
// u32 is zero.
const _: () = assert!(BATCH_BYTES_MAX < 1 << 24 && PAYLOAD_BYTES_MAX < 1 << 24);
const _: () =
    assert!(10 * TEXT_BYTES_MAX + PAYLOAD_BYTES_MAX + 2 * FOLD_INPUT_BYTES_MAX <= REQUEST_BYTES_MAX);
// The tombstones of one batch, 35 bytes for each ID, fit in it.
const _: () = assert!(36 * TOMBSTONE_IDS_MAX * TOMBSTONES_PER_BATCH_MAX < BATCH_BYTES_MAX);
const _: () = assert!(36 * TOMBSTONE_IDS_MAX < PAYLOAD_BYTES_MAX);
// A batch without its header fits in the second half of the unsynced bytes.
const _: () = assert!(UNSYNCED_BYTES_MAX / 2 + BATCH_BYTES_MAX <= UNSYNCED_BYTES_MAX + 64);
const _: () = assert!(SYNC_AFTER_MS < 100 && RETRY_MS_MAX < 1_000);
// IDs, touches, visits and counts fit in a profile that has no names, paths or traits.
const _: () = assert!(
    SITE_ID_BYTES_MAX
        + USER_ID_BYTES_MAX
        + USER_ANON_IDS_MAX * (ANON_ID_BYTES_MAX + 2)
        + 2 * 7 * (TOUCH_TEXT_BYTES_MAX + 2)
        + VISITS_KEPT * 20
        + 100
        <= PROFILE_BYTES_MAX
);
