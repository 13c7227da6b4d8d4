//! Every bound of the server, with its reason and what happens when it is reached.
//!
//! Bytes unless the name says otherwise. Relations between bounds are asserted at the end.

pub mod memory_sum;

/// A request's head: method to empty line. nginx and Apache allow about as much; past it 431.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Header fields of one request. Browsers send under 30; past it 431.
pub const HEADER_FIELDS_MAX: usize = 64;
/// A request target, so that 2 KiB of route and 2 KiB of `variants`, escaped, still fit; past it 414.
pub const TARGET_BYTES_MAX: usize = 8 * 1024;
/// A request body on any endpoint; past it 413.
pub const BODY_BYTES_MAX: usize = 512 * 1024;
/// The line before a chunk: its size, and extensions that nobody reads; past it 400.
pub const CHUNK_LINE_BYTES_MAX: usize = 256;
/// The trailer section of a chunked body, which is dropped; past it 400.
pub const TRAILER_BYTES_MAX: usize = 4 * 1024;
/// Connections of the public address where the operator does not say otherwise and the limit on descriptors allows it: with what
/// each costs (`CONNECTION_BYTES`) half a gibibyte.
pub const CONNECTIONS_MAX: usize = 65_536;
/// Where descriptors leave room for fewer connections than this, it is said at boot.
pub const CONNECTIONS_FEW: usize = 1_000;
/// Connections of the operator's address: scrapers, load balancers, a few people.
pub const OPERATOR_CONNECTIONS_MAX: usize = 8;
/// Connections of a worker that are told that they are too many, and waited for until they have read it; others are told only.
pub const REFUSED_WAITED_FOR_MAX: usize = 2;
/// Descriptors of a thread that serves: its listener, held twice, its ring, what wakes it, a bell with two ends, and a spare one.
pub const DESCRIPTORS_PER_THREAD: usize = 7;
/// Descriptors for all else that is not open when serving begins: a snapshot and its copy, folders, a segment that is begun, what
/// is read for `/metrics`.
pub const DESCRIPTORS_RESERVED: usize = 10;
/// What a connection costs that waits: its buffer, its task, its place among the deadlines. Some 5 KiB were measured.
pub const CONNECTION_BYTES: usize = 8 * 1024;
/// Bodies on their way and answers that are not taken yet, of all connections together, where the operator does not say otherwise;
/// past it 503. 400 of the largest answers, or 1,000 clients that ask for much and read nothing.
pub const CONNECTIONS_MEMORY_BYTES: usize = 512 * 1024 * 1024;
/// The least that makes sense for a worker: one answer and one body of the largest kind.
pub const CONNECTIONS_MEMORY_BYTES_MIN: usize = 4 * 1024 * 1024;
/// What a waiting connection reads into. Nearly every head fits; a larger one moves to a pooled buffer.
pub const READ_BUFFER_BYTES: usize = 4 * 1024;
/// Bytes of a body a second, at least, once its time of grace is over: who sends slower holds a buffer for nothing.
pub const BODY_RATE_BYTES_MIN: u64 = 1024;
/// Looks at a worker's connections in the shortest time that one of them has, so that each is ended at most a twentieth late:
/// where thousands end at once, their answers have the rest of the tenth that is allowed.
pub const SWEEPS_PER_TIMEOUT: u32 = 20;
/// Answers of pipelined requests are sent together up to here, so that a client that pipelines
/// without reading costs one such buffer and one body.
pub const FLUSH_BYTES: usize = 256 * 1024;
/// Bytes of output buffers that a worker keeps for its next answers: 32 of the largest, or those of many connections whose answers
/// are of the usual size and under way at the same time. What is more is freed.
pub const POOLED_BYTES_MAX: usize = 32 * ANSWERS_BYTES_MAX;
/// What one send can hold: the largest body, its head, and what stood before it. The largest is a page of routes, which ends behind
/// the route that passes its bound. A larger output buffer is freed, not kept.
pub const ANSWERS_BYTES_MAX: usize = FLUSH_BYTES
    + ROUTES_PAGE_BYTES_MAX
    + COMBINATIONS_LISTED_MAX * CANONICAL_BYTES_MAX
    + ROUTE_BYTES_MAX
    + HEAD_BYTES_MAX;
/// `X-Forwarded-For` fields of one request that are looked at, the last ones: proxies in a row that each add a field of their own,
/// where most add to the one that is there.
pub const FORWARDED_LINES_MAX: usize = 4;
/// Addresses, and again sites, whose requests are counted one by one for `--limit-address` and `--limit-site`. One more takes the
/// place of who asked least. 1 MiB.
pub const THROTTLED_MAX: usize = 65_536;
/// Places among which one is looked for: two cache lines.
pub const THROTTLE_SET: usize = 8;
/// An `X-Request-Id` of the caller that is echoed; a longer one is replaced by a minted one.
pub const REQUEST_ID_BYTES_MAX: usize = 128;
/// What of the caller's words a problem repeats, so that a refusal stays small.
pub const CAME_CHARS_MAX: usize = 100;

/// A tracking ID behind its prefix, and a site ID: they stand in URLs, file names and cache tags.
pub const SITE_ID_BYTES_MAX: usize = 64;
/// An anon ID: a UUID is 36, the longest ids of common libraries under 100; past it 400.
pub const ANON_ID_BYTES_MAX: usize = 128;
/// The value of `route`: longer than any URL that browsers and proxies agree on; past it 400.
pub const ROUTE_BYTES_MAX: usize = 2 * 1024;
/// Segments of a requested route: a path of 2 KiB cannot have more than half as many bytes.
pub const ROUTE_SEGMENTS_MAX: usize = ROUTE_BYTES_MAX / 2;
/// The page's own URL, as a parameter or `Referer`; what stands behind it is not looked at.
pub const URL_BYTES_MAX: usize = 4 * 1024;
/// Query parameters of the page's own URL that rules can see; later ones do not exist for them.
pub const URL_PARAMS_MAX: usize = 32;

/// A zone's name and a variant's key: they stand in URLs, unescaped.
pub const KEY_BYTES_MAX: usize = 64;
/// Personalized zones of a route: the choice of a request is one byte each in a fixed array.
pub const ZONES_MAX: usize = 64;
/// Variants of a zone beside `default`, and rules of a zone.
pub const VARIANTS_MAX: usize = 64;
/// Rules of a zone; tried one by one on the hot path.
pub const RULES_MAX: usize = 64;
/// Nodes within zones within nodes; also the recursion of rendering.
pub const NODE_NESTING_MAX: usize = 16;
/// The longest canonical `variants` of a route; it travels in a header and in URLs.
pub const CANONICAL_BYTES_MAX: usize = 2 * 1024;
/// Pairs in one `variants` parameter: no route has more zones.
pub const PAIRS_MAX: usize = ZONES_MAX;
/// A layout, rendered with its largest variants; past it `compile` refuses.
pub const BODY_RENDERED_BYTES_MAX: usize = 1024 * 1024;
/// Combinations that `/v1/routes` counts for a route; more are this many.
pub const COMBINATIONS_COUNTED_MAX: usize = 10_000;
/// Combinations that are listed for a route; more are `truncated`.
pub const COMBINATIONS_LISTED_MAX: usize = 256;
/// Steps that `compile` spends on counting the combinations of one route before it calls them
/// truncated: a hundred for each one counted.
pub const COMBINATION_STEPS_MAX: usize = 100 * COMBINATIONS_COUNTED_MAX;

/// Routes of one page of `/v1/routes`, also unless the caller says otherwise.
pub const ROUTES_LISTED_MAX: usize = 10_000;
/// Routes of one page that brings their variants along, unless the caller says otherwise.
pub const ROUTES_LISTED_WITH_VARIANTS_DEFAULT: usize = 1_000;
/// A page of `/v1/routes` ends behind the route that passes this.
pub const ROUTES_PAGE_BYTES_MAX: usize = 1024 * 1024;
/// Versions of a site whose paths and hashes are kept for `since`.
pub const VERSIONS_KEPT_MAX: usize = 16;
/// Bytes of all those lists together; past it the oldest of the sites with most of them are forgotten, and who asks for what
/// differs from one gets everything. 16 versions of 200,000 paths.
pub const VERSIONS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Parameters of one content query: their values stand in a fixed array.
pub const QUERY_PARAMS_MAX: usize = 16;
/// Items of one page of a content query; past it 400.
pub const QUERY_LIMIT_MAX: usize = 100;
/// Items of a page where neither the caller nor the query says how many.
pub const QUERY_LIMIT_DEFAULT: usize = 20;
/// One item as an answer has it; a query whose items are larger is refused by `compile`.
pub const ITEM_BYTES_MAX: usize = 512 * 1024;
/// The items of one page of a content query; a page ends before the item that passes this.
pub const QUERY_PAGE_BYTES_MAX: usize = BODY_RENDERED_BYTES_MAX - ITEM_BYTES_MAX;
/// Items that one answer may look at one by one, some 70 ns each for a clause: other requests of that worker wait for it. A
/// query that needs more is 422, and `compile` warns that it may; a page that may is refused.
pub const QUERY_EVALUATIONS_MAX: usize = 10_000;
/// Fields that a content query may sort by, `id` included.
pub const ORDER_FIELDS_MAX: usize = 8;
/// What an item's sort values take together: they travel in cursors, in hex, in a target of 8 KiB.
pub const PLACE_BYTES_MAX: usize = 1024;
/// Positions in all lists of a query's index, 4 bytes each. A query that needs more has fewer parameters indexed.
pub const INDEX_POSITIONS_MAX: usize = 4 << 20;
/// Combinations of parameter values that `compile` tries with one item. A query that needs more has fewer parameters indexed.
pub const INDEX_COMBINATIONS_MAX: usize = 1_024;
/// Items of one collection: a worker keeps a bit for each.
pub const ITEMS_MAX: usize = 1 << 20;
/// Content queries of one site.
pub const QUERIES_MAX: usize = 1_024;
/// Queries that the nodes of one page embed by parts of its path; their index is a u16 in a part.
pub const EMBEDDED_MAX: usize = 256;

/// Routes of one site: their table's indices and the archive's 32-bit offsets hold far more, memory does not.
pub const ROUTES_MAX: usize = 1_000_000;
/// Experiments of one site; their index is a u16 in a rule.
pub const EXPERIMENTS_MAX: usize = 4_096;
/// A snapshot's payload: its offsets are signed 32-bit.
pub const SNAPSHOT_BYTES_MAX: u64 = 1 << 30;
/// Sealed copies of snapshots in memory, old and new together, unless the operator says otherwise.
pub const SNAPSHOTS_MEMORY_BYTES: u64 = 4 << 30;
/// Names in `snapshots/` that are remembered, about 200 bytes each. Past it names that are known stay, and
/// new ones are refused by a warning.
pub const SNAPSHOT_NAMES_MAX: usize = 100_000;
/// Sites whose last versions are remembered, those that are served no more included. Past it the latter are
/// forgotten, and `since` is unknown when they come back.
pub const SITES_REMEMBERED_MAX: usize = 1_000;
/// Complaints about `snapshots/` that one scan logs line by line; the rest is a count.
pub const COMPLAINTS_LOGGED_MAX: usize = 20;
/// Workers of one process: more than any machine that one process serves well from.
pub const WORKERS_MAX: usize = 256;
/// Microseconds that a worker polls before it parks, at most (`--spin-us`). To be woken costs some 30: who is further away than
/// this has waited for something else, and would not notice what is gained.
pub const SPIN_US_MAX: u64 = 1_000;
/// Spins in a row in which nothing came, after which a worker parks at once: who stays away that often is not near. Fewer would
/// let one pause of a busy client end it.
pub const SPINS_IN_VAIN_MAX: u32 = 8;
/// One in so many of what comes after that is followed by a spin again: a client that is near has it back within milliseconds,
/// others cost the worker a sixty-fourth of its CPU at most.
pub const TRIED_AFTER_VAIN_SPINS: u32 = 64;

/// Operators that hold conditions (`$and $or $nor $not $elemMatch $size`) may stand this deep in
/// each other. Nobody reads a deeper rule; strict parsing refuses it. It bounds the recursion of
/// parsing, compiling and evaluating.
pub const CONDITION_NESTING_MAX: usize = 16;

/// Audiences of one site. It fixes the size of what a request remembers about them (two bits
/// each); a site with more is refused when it is compiled.
pub const AUDIENCES_MAX: usize = 1024;

/// An audience may name an audience that names another, this many in a row, itself counted.
/// Longer chains, and loops, are refused when a site is compiled. It bounds recursion.
pub const AUDIENCE_CHAIN_MAX: usize = 8;

/// Steps of a program that may stand in each other while it is evaluated, audiences included: a
/// nesting operator takes at most four (`$elemMatch`: field, its operators, the element, its
/// members), around every innermost test stand four more, and a rule stands before the longest
/// chain of audiences. A compiled program never meets the bound; a corrupt one is given up there.
pub const EVALUATION_DEPTH_MAX: usize = 4 * (CONDITION_NESTING_MAX + 1) * (AUDIENCE_CHAIN_MAX + 1);

/// Bytes of one compiled condition, groups included (they stand in the program): a group of some
/// 40,000 IDs. A larger one is refused, for each look at it costs a request its whole length.
pub const PROGRAM_BYTES_MAX: usize = 1 << 20;

/// Times of one event or page that a visitor's profile keeps. `$count` with `within` can count no
/// further, so strict parsing refuses what this many times cannot decide.
pub const TIMES_KEPT: u64 = 16;

/// Bytes of a regular expression as written. A longer one is a mistake or an attack.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// Bytes of the automaton from which a regular expression's table is made; it bounds the time of
/// making it. An expression that needs more is refused.
pub const PATTERN_NFA_BYTES_MAX: usize = 256 << 10;

/// Bytes of a regular expression's table, and again of what is needed while it is made. Ordinary
/// ones take a few kilobytes, `\p{L}+` takes 300. An expression that needs more is refused.
pub const PATTERN_DFA_BYTES_MAX: usize = 512 << 10;

/// Regular expressions of one site, equal ones counted once. With the bound above it bounds what
/// a site's patterns can hold; a site with more is refused.
pub const PATTERNS_MAX: usize = 256;

/// Arrays and objects of a value that may stand in each other when it is turned back into JSON:
/// what `serde_json` reads. Deeper contents, which only a corrupt buffer has, are left out.
pub const VALUE_NESTING_MAX: usize = 128;

/// Characters of the author's text that a fault repeats; enough to recognise it by.
pub const FAULT_TEXT_CHARS_MAX: usize = 60;

/// Bytes of one authored file. The largest body that a route may render is 1 MiB; eight of it leaves room for variants, and a
/// file that is larger was exported by mistake.
pub const FILE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of one file in `content/`, which an application exports: 100,000 items of 600 bytes.
pub const CONTENT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Authored files of one site. Twice the 100,000 routes that a site is built for; all of them are held in memory while compiling.
pub const FILES_MAX: usize = 200_000;

/// Levels of arrays and objects in one authored file: what `serde_json` reads (it refuses the 128th), so that no text of an
/// author's can exhaust the stack.
pub const FILE_NESTING_MAX: usize = 127;

/// Mistakes that one report shows. Nobody mends more in one sitting, and a file of the wrong kind can hold a million.
pub const MISTAKES_SHOWN_MAX: usize = 100;

/// Characters of a source line that a mistake shows, so that a file written on one line stays readable.
pub const EXCERPT_CHARS_MAX: usize = 120;

/// Bytes of a settings file. Every key with its help takes under 8 KiB; a larger file was named by mistake, and is refused.
pub const SETTINGS_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a User-Agent that are looked at; what comes after is as if it had not been sent.
/// Browsers send 80 to 250 and the longest of 2,100 kept crawlers 285, so that only padding is lost, while no head of 16 KiB
/// becomes 16 KiB of searching.
pub const USER_AGENT_BYTES_MAX: usize = 512;

/// User-Agents that a worker remembers; a further one takes the place of another. A power of two.
/// Browsers freeze their agents, so that some hundreds make up nearly all of a site's traffic. 0.5 MiB a worker.
pub const AGENTS_REMEMBERED: usize = 1024;

/// One event as it was sent: the largest of common libraries, which cut at the same; past it 413, in a batch that event's only.
pub const EVENT_BYTES_MAX: usize = 32 * 1024;
/// Events of one batch: five times what any library sends at once; past it 413.
pub const EVENTS_MAX: usize = 2_500;
/// Arrays and objects of an event's body that may stand in each other, the body itself counted; past it 400. It bounds every
/// recursion over an event.
pub const EVENT_NESTING_MAX: usize = 32;
/// A message ID: a UUID is 36, libraries put a word before it; past it 400.
pub const MESSAGE_ID_BYTES_MAX: usize = 128;
/// A user ID: the longest address of mail is 254; past it 400.
pub const USER_ID_BYTES_MAX: usize = 256;
/// The name of an event, in characters: a name, not a sentence; past it 400.
pub const EVENT_NAME_CHARS_MAX: usize = 200;
/// What a page, a screen or whatever else has a name is called: the longest titles of pages are a few hundred; past it 400.
pub const NAME_BYTES_MAX: usize = 1024;
/// The page of an event that is no route: the rest is cut off.
pub const PAGE_BYTES_MAX: usize = 1024;
/// Members of each object of a batch's context: real ones have under 30, and each is looked for in every event; past it 400.
pub const CONTEXT_MEMBERS_MAX: usize = 256;
/// What the context of a batch takes, put under each of its events: eight bodies; past it 413, and half the batch has half of
/// it.
pub const CONTEXTS_BYTES_MAX: usize = 8 * BODY_BYTES_MAX;
/// Members of an object up to which each is compared with each to find doubled ones; those of more are sorted.
pub const MEMBERS_COMPARED_MAX: usize = 16;

/// A text column of a record. Ids take 128, event names 200, a canonical `variants` 2 KiB, a path cut at 1 KiB
/// three times that when escaped; a longer one is refused, so a page's name may have as much as this. Under 0x5000, so
/// that no length reads like a magic.
pub const TEXT_BYTES_MAX: usize = 4 * 1024;
/// A record's JSON: an event of 32 KiB with its batch's context, 512 KiB, under it, and room; a longer one is refused.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// The records of one request: 2500 events, or 512 KiB of body with a context repeated; past it the record is refused.
pub const REQUEST_BYTES_MAX: usize = 4 << 20;
/// The writer stops draining the queue once a batch has this much, so that its first request does not wait for a
/// flood behind it.
pub const BATCH_BYTES_FULL: usize = 4 << 20;
/// A batch: almost full, one request more, and its header. A longer one is damage.
pub const BATCH_BYTES_MAX: usize = BATCH_BYTES_FULL + REQUEST_BYTES_MAX + 64;
/// Records of one batch: the smallest ones that fit. More is damage.
pub const BATCH_RECORDS_MAX: usize = BATCH_BYTES_MAX / 72;

/// Requests between workers and writer, unless a test says otherwise: 200,000 a second for 80 ms, longer than a
/// sync takes; past it 503 at once.
pub const QUEUE_REQUESTS_MAX: usize = 16 * 1024;
/// What the queued requests may hold together: a term of the memory sum; past it 503 at once.
pub const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Requests of one worker that are queued or whose completion it has not taken; its completions stand in a ring of
/// this size. More than its connections of which each waits for one; past it 503 at once.
pub const OUTSTANDING_MAX: usize = 16 * 1024;

/// A segment is sealed at this size unless the operator says otherwise: scanned in a fifth of a second after a
/// crash, rewritten as quickly when a visitor is erased, its footer written in a few ms, and 10 GB are 160 files.
pub const SEGMENT_BYTES: u64 = 64 << 20;
/// Zeros that stand behind the batches of a segment at most, for the next ones to go over; more of them are damage. They cost the
/// batch that they are laid with about as much as its sync does anyway; with more that one would stand out, with fewer there
/// would be more of its kind.
pub const RESERVED_BYTES_MAX: u64 = 256 * 1024;
/// Records at which a segment is sealed whatever its size: their keys are held in memory until then, 32 bytes each.
pub const SEGMENT_RECORDS_MAX: u64 = 1 << 18;
/// Distance of two entries of a segment's index: what a reader skips at most before the seq that it wants.
pub const INDEX_BYTES: u64 = 64 * 1024;
/// Bits of a segment's filter while it is filled: 8 for each of two ids of every record. Sealing folds it to what
/// is needed.
pub const FILTER_BITS: usize = 1 << 22;
/// A footer: keys, filter, an index entry per batch at the most. A longer one is damage.
pub const FOOTER_BYTES_MAX: u64 = 64 << 20;
/// Rows of one row group of an exported Parquet file, and bytes of their texts: it is built in memory, some three times its
/// size, and a reader wants groups large enough to skip by.
#[cfg(feature = "parquet")]
pub const ROW_GROUP_ROWS_MAX: usize = 64 * 1024;
/// See [`ROW_GROUP_ROWS_MAX`].
#[cfg(feature = "parquet")]
pub const ROW_GROUP_BYTES_MAX: usize = 16 << 20;
/// Places of a text that one search of a folder shows; the rest is a count.
pub const PLACES_SHOWN_MAX: usize = 100;
/// What a reader takes from a file at once.
pub const READ_BYTES: usize = 256 * 1024;

/// With `--ack written`, what may be written and not synced: past half of it the writer syncs at once, and a batch
/// fits the other half. It stays in memory, to be written anew after a failed sync.
pub const UNSYNCED_BYTES_MAX: usize = 16 << 20;
/// With `--ack written`, when the sync begins after the first batch that needs it: half of the 100 ms that are
/// promised.
pub const SYNC_AFTER_MS: u64 = 50;
/// A writer at rest names the durable seq in the file after this time, so that readers beside it are not behind for
/// long.
pub const MARK_AFTER_MS: u64 = 100;
/// The first pause before a disk that failed is tried again, and the longest: half of the second within which
/// service resumes.
pub const RETRY_MS_MIN: u64 = 10;
/// See [`RETRY_MS_MIN`].
pub const RETRY_MS_MAX: u64 = 500;
/// Pause between two looks at what retention lets go.
pub const RETENTION_EVERY_MS: u64 = 60_000;
/// Segments younger than this stay, whatever `--retain-bytes` says: the window of duplicates. Milliseconds.
pub const RETAIN_MS_MIN: i64 = DUPLICATE_WINDOW_MS;

/// How long an id counts as seen. Milliseconds.
pub const DUPLICATE_WINDOW_MS: i64 = 24 * 60 * 60 * 1000;
/// Ids that count as seen: 310 MB (24 bytes of ring and 7 of table an id), reserved at once and lent by the kernel as
/// it is touched. Past it the oldest goes, and a counter says so.
pub const DUPLICATES_MAX: usize = 10_000_000;

/// What is known of visitors, unless the operator says otherwise: two and a half million typical ones.
pub const PROFILES_MEMORY_BYTES: u64 = 1 << 30;
/// A profile as it is kept: a typical one takes 200, and 10 million have 4 GiB. Past it whichever of its names, paths and traits is
/// least recent goes, until it fits. What is left then (ids, touches, visits) takes less.
pub const PROFILE_BYTES_MAX: usize = 16 * 1024;
/// Names of events of one profile: sites have some dozens. Past it the least recent goes.
pub const PROFILE_NAMES_MAX: usize = 64;
/// Pages of one profile: what a rule asks for is seldom far back. Past it the least recent goes.
pub const PROFILE_PATHS_MAX: usize = 64;
/// A page's path as a profile keeps it; of a longer one it keeps the hash, and no wildcard finds it.
pub const PROFILE_PATH_BYTES_MAX: usize = 256;
/// Traits of one profile, those that were unset included. Past it the one whose last write is oldest goes.
pub const TRAITS_MAX: usize = 64;
/// A trait's value as `condition` writes it: a text of 1,000 letters. A larger one stays in the record; the profile keeps what it
/// had, and it is counted.
pub const TRAIT_BYTES_MAX: usize = 1024;
/// A trait's name; one that is longer is treated like a value that is too large.
pub const TRAIT_NAME_BYTES_MAX: usize = 256;
/// Each text of a touch; the rest is cut off.
pub const TOUCH_TEXT_BYTES_MAX: usize = 256;
/// Anonymous ids of one user: devices and browsers of some years, and nobody is 64 strangers by mistake. Past it the one tied
/// longest ago goes, and begins anew if it comes back.
pub const USER_ANON_IDS_MAX: usize = 64;
/// Visits of a profile whose beginning and end are kept, so that what comes late finds its visit; earlier ones are a count.
pub const VISITS_KEPT: usize = 16;
/// A visit ends after more than this without anything, in milliseconds: what all analytics agree on.
pub const VISIT_SILENCE_MS: i64 = 30 * 60 * 1000;
/// An entry of the table of visitors with its head: a profile has 16 KiB, and its ids stand beside it. A larger one is a mistake of
/// whoever folds.
pub const RECORD_BYTES_MAX: usize = 32 * 1024;
/// Bytes that the table of visitors has replaced since it last looked at its readers, after which it looks again and frees what
/// nobody sees: a look takes a microsecond, freeing this much a tenth of a millisecond. What is not freed yet is twice this much,
/// and what is replaced while one request is answered.
pub const RETIRED_BYTES: usize = 256 << 10;
/// What is held for a copy of the table of visitors because it changed before it was copied, with what an entry costs beside its
/// value. Past it the copy is given up: a second at 200,000 events a second of different visitors.
pub const COPY_HELD_BYTES_MAX: usize = 64 << 20;
/// The last seq that is read or given: 200,000 records a second reach it after 700,000 years. What names a higher one is damage,
/// so that no file can bring a seq to overflow; a log that has reached it is refused.
pub const SEQ_MAX: u64 = 1 << 62;
/// Ids of one visitor that one erasure takes: a user's 64 anonymous ids sixteen times over; more are refused, as none are. Each
/// record of a segment that may hold the visitor is compared with all of them.
pub const ERASED_IDS_MAX: usize = 1_024;
/// What an erasure writes at once.
pub const REWRITE_BYTES: usize = 1 << 20;

/// Bytes of a visitor's records after which an answer of the operator's address ends, and says where it goes on.
pub const EXPORT_BYTES_FULL: usize = 2 << 20;

/// Bytes of log after which the table of visitors is kept in a file, unless the operator says otherwise: folding as much takes a
/// restart a second or two. A quarter of the last file where that is more, so that keeping costs a fraction of what is recorded.
pub const CHECKPOINT_LOG_BYTES: u64 = 256 << 20;
/// Checkpoints that are kept: where the newest is damaged there is the one before, and the log from there on.
pub const CHECKPOINT_GENERATIONS: usize = 2;
/// A block of a checkpoint, with a checksum of its own: three of the largest profiles, hundreds of typical ones. A longer one is
/// damage.
pub const CHECKPOINT_BLOCK_BYTES: usize = 64 * 1024;
/// What the checkpointer holds to sort it, at least: 60,000 typical profiles, written and synced at once.
pub const CHECKPOINT_RUN_BYTES: usize = 16 << 20;
/// The parts into which a checkpoint is sorted, about, where they are larger than that: a reader holds a block of each, 16 MiB.
pub const CHECKPOINT_RUNS: u64 = 256;
/// Sorted parts of a checkpoint that a reader takes: four times what is written. More is damage.
pub const CHECKPOINT_RUNS_MAX: usize = 1024;
/// Entries travel from the writer to the checkpointer in buffers of about this size, and so many: 2 MiB. Where the disk is slower
/// the copy waits, and the writer does not.
pub const CHECKPOINT_CHUNK_BYTES: usize = 256 * 1024;
/// See [`CHECKPOINT_CHUNK_BYTES`].
pub const CHECKPOINT_CHUNKS: usize = 8;
/// Entries that the writer copies between two batches, and two more for each record that it folded since: some 300 ns each, so that
/// an event that comes meanwhile waits under a millisecond, and a copy ends however much is recorded.
pub const CHECKPOINT_SLICE: usize = 1024;
/// How long after a checkpoint that failed, or was given up, the next is begun. Milliseconds.
pub const CHECKPOINT_RETRY_MS: u64 = 10_000;
/// How long a copy waits for the disk before it asks again. Milliseconds.
pub const CHECKPOINT_WAIT_MS: u64 = 5;
/// How soon after a checkpoint another is made only because retention waits for it. Milliseconds.
pub const CHECKPOINT_RETENTION_MS: u64 = 10 * 60 * 1000;
/// What a stop takes for a last checkpoint at most: eight of its ten seconds, and no more than are left of them. The checkpointer works
/// at the lowest priority, also then. Past it the next start reads the log. Milliseconds.
pub const CHECKPOINT_STOP_MS: u64 = 8_000;

/// Findings that one report holds; more are a count.
pub const FINDINGS_MAX: usize = 1_000;

// The longest canonical string, which needs no escapes, fits a target beside the longest route with half of its
// bytes escaped, and leaves 1 KiB for the other parameters.
const _: () = assert!(CANONICAL_BYTES_MAX + 2 * ROUTE_BYTES_MAX + 1024 <= TARGET_BYTES_MAX);
// A cursor in hex fits a target, and leaves half of it for parameters.
const _: () = assert!(2 * PLACE_BYTES_MAX + 16 <= TARGET_BYTES_MAX / 2);
// A target fits a head.
const _: () = assert!(TARGET_BYTES_MAX < HEAD_BYTES_MAX);
// A choice is one byte, 255 stands for "not there".
const _: () = assert!(VARIANTS_MAX < u8::MAX as usize);
const _: () = assert!(ZONES_MAX < u8::MAX as usize);
// A batch of the most events fits a body, if they are small.
const _: () = assert!(EVENTS_MAX * 100 < BODY_BYTES_MAX);
const _: () = assert!(TEXT_BYTES_MAX < 0x5000);
// The first bytes of these lengths cannot read like a magic: their last byte is zero.
const _: () = assert!(BATCH_BYTES_MAX < 1 << 24 && PAYLOAD_BYTES_MAX < 1 << 24);
const _: () = assert!(72 + 9 * TEXT_BYTES_MAX + PAYLOAD_BYTES_MAX + 8 <= REQUEST_BYTES_MAX);
// A batch fits beside what is not synced yet, but for its header.
const _: () = assert!(UNSYNCED_BYTES_MAX / 2 + BATCH_BYTES_MAX <= UNSYNCED_BYTES_MAX + 64);
const _: () = assert!(SYNC_AFTER_MS < 100 && RETRY_MS_MAX < 1_000);
// Ids, touches, visits and counts fit a profile without any name, path or trait.
const _: () = assert!(
    SITE_ID_BYTES_MAX
        + USER_ID_BYTES_MAX
        + USER_ANON_IDS_MAX * (ANON_ID_BYTES_MAX + 2)
        + 2 * 7 * (TOUCH_TEXT_BYTES_MAX + 2)
        + VISITS_KEPT * 20
        + 100
        <= PROFILE_BYTES_MAX
);
