//! Every bound of the server, with its reason and what happens when it is reached.
//!
//! Bytes unless the name says otherwise. Relations between bounds are asserted at the end.

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
/// What a waiting connection reads into. Nearly every head fits; a larger one moves to a pooled buffer.
pub const READ_BUFFER_BYTES: usize = 4 * 1024;
/// Bytes of a body a second, at least, once its time of grace is over: who sends slower holds a buffer for nothing.
pub const BODY_RATE_BYTES_MIN: u64 = 1024;
/// Looks at a worker's connections in the shortest time that one of them has, so that each ends at most a tenth late.
pub const SWEEPS_PER_TIMEOUT: u32 = 10;
/// Answers of pipelined requests are sent together up to here, so that a client that pipelines
/// without reading costs one such buffer and one body.
pub const FLUSH_BYTES: usize = 256 * 1024;
/// Output buffers that a worker keeps for its next answers; more are freed.
pub const POOLED_BUFFERS_MAX: usize = 32;
/// A larger output buffer is freed, not kept: the largest body, its head, and what stood before it.
pub const POOLED_BUFFER_BYTES_MAX: usize = FLUSH_BYTES + BODY_RENDERED_BYTES_MAX + HEAD_BYTES_MAX;
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

/// Parameters of one content query: their values stand in a fixed array.
pub const QUERY_PARAMS_MAX: usize = 16;
/// Items of one page of a content query; past it 400.
pub const QUERY_LIMIT_MAX: usize = 100;
/// Items of a page where neither the caller nor the query says how many.
pub const QUERY_LIMIT_DEFAULT: usize = 20;
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

/// Bytes of a User-Agent that are looked at; what comes after is as if it had not been sent.
/// Browsers send 80 to 250 and the longest of 2,100 kept crawlers 285, so that only padding is lost, while no head of 16 KiB
/// becomes 16 KiB of searching.
pub const USER_AGENT_BYTES_MAX: usize = 512;

/// User-Agents that a worker remembers; a further one takes the place of another. A power of two.
/// Browsers freeze their agents, so that some hundreds make up nearly all of a site's traffic. 0.5 MiB a worker.
pub const AGENTS_REMEMBERED: usize = 1024;

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
