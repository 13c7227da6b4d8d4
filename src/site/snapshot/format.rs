//! The snapshot file: everything that one site published. THE SPEC; it stands nowhere else.
//!
//! **Purpose.** `compile` writes it once; a server copies, seals, maps, checks and serves it;
//! removing it from the folder unpublishes it. It is a build product: a server reads its own format
//! version and the one before, and asks for a new `compile` otherwise.
//!
//! **Bounds.** Payload at most 2^30 bytes (offsets in it are signed 32-bit). All numbers are
//! little-endian, on every machine.
//!
//! ```text
//! +--------+---------+--------+----------------+--------------+-----------+ - - - - - +
//! | magic  | format  | header | payload length | site version | hash (32) |  payload  |
//! | (8)    | v. (4)  | l. (4) | (8)            | (8)          |           |           |
//! +--------+---------+--------+----------------+--------------+-----------+ - - - - - +
//! 0        8         12       16               24             32          64
//!
//! OFFSET  SIZE  FIELD           MEANING
//! 0       8     magic           FF 50 52 4C 58 53 4E 50 ("\xFFPRLXSNP")
//! 8       4     format version  1
//! 12      4     header length   64; the payload begins here, at a multiple of 16
//! 16      8     payload length  bytes behind the header; the file ends there
//! 24      8     site version    as published, at most 2^53
//! 32      32    hash            BLAKE3 of bytes 0..32 and of the payload, in this order
//! 64      n     payload         an rkyv 0.8 archive of [`Site`], its root at the end
//! ```
//!
//! **Checks on reading**, in this order: magic; at least 64 bytes; format version; header length;
//! payload length against the file's (shorter: "not whole", perhaps still being copied; longer: damage); hash; the archive's
//! structure (every offset inside, every text UTF-8); the references between its parts (every index in
//! range, every zone standing in exactly one place, every branch of the patterns' tree reached from exactly
//! one, every route as deep in it as its path has segments, every list of a query sorted). Only then is anything served
//! from it.
//!
//! **Writing**: under a temporary name (a dot file), sync, rename, sync of the folder. A crash leaves
//! the old file or the new one, and perhaps a dot file, which nobody looks at.
//!
//! **The smallest file in hex** is `tests/golden/smallest.snapshot.hex`, a golden test. The same
//! source and version give the same bytes: maps are sorted, nothing in it tells time or machine.

use rkyv::{Archive, Serialize};

/// The file's first bytes. 0xFF stands in no UTF-8 text, so no text file is taken for one.
pub const MAGIC: [u8; 8] = *b"\xFFPRLXSNP";
/// The format that this release writes.
pub const FORMAT_VERSION: u32 = 1;
/// Bytes before the payload.
pub const HEADER_BYTES: usize = 64;
/// Where the hash stands; it covers everything else.
pub const HASH_AT: usize = 32;
/// The greatest site version: what a JSON number holds exactly.
pub const VERSION_MAX: u64 = 1 << 53;

/// The header, but for magic and format version, which it is known to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes behind the header.
    pub payload_length: u64,
    /// The site's version.
    pub version: u64,
    /// Over everything else in the file.
    pub hash: [u8; 32],
}

impl Header {
    /// The header of a payload.
    pub fn of(payload: &[u8], version: u64) -> Self {
        let mut header = Self { payload_length: payload.len() as u64, version, hash: [0; 32] };
        header.hash = header.hash_with(payload);
        header
    }

    /// What the hash must be over this header and `payload`.
    pub fn hash_with(&self, payload: &[u8]) -> [u8; 32] {
        crate::checksum::digest(&[&self.to_bytes()[..HASH_AT], payload])
    }

    /// The first bytes of the file.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.payload_length.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.version.to_le_bytes());
        bytes[HASH_AT..].copy_from_slice(&self.hash);
        bytes
    }
}

/// A site as published.
#[derive(Debug, Archive, Serialize)]
pub struct Site {
    /// `[A-Za-z0-9_-]{1,64}`
    pub site: String,
    /// `track_` and the same.
    pub tracking_id: String,
    /// For people.
    pub name: String,
    /// As in the header, so that the archive alone tells it.
    pub version: u64,
    /// Origins whose pages may read private answers; exact, or with one `*`.
    pub origins: Vec<String>,
    /// The cookie that holds the anon ID.
    pub cookie: String,
    /// What becomes of crawlers' events: 0 dropped, 1 flagged, 2 kept as anybody's.
    pub bots: u8,
    /// Whether events with `Sec-GPC: 1` are dropped.
    pub honor_gpc: bool,
    /// What is stored of an event's IP address: 0 nothing, 1 less its last part, 2 all.
    pub ip: u8,
    /// `Cache-Control` of known forced resolves.
    pub cache_resolve: String,
    /// `Cache-Control` of routes and combinations.
    pub cache_routes: String,
    /// `Cache-Control` of queries.
    pub cache_query: String,
    /// The newest `updatedAt`, as authored.
    pub updated_at: Option<String>,
    /// The site's offset from UTC, by the second at which it begins; sorted; the first holds before, too.
    pub clock: Vec<ClockOffset>,
    /// Regular expressions that programs name by index.
    pub patterns: Vec<String>,
    /// Audiences that rules and programs name by index; sorted by key.
    pub audiences: Vec<Audience>,
    /// Experiments that rules name by index; sorted by key.
    pub experiments: Vec<Experiment>,
    /// Whether a rule can see the page's URL, directly or as a campaign.
    pub sees_url: bool,
    /// All texts of all bodies, in the order in which they were written.
    pub pieces: Vec<Piece>,
    /// Sorted by key.
    pub queries: Vec<Query>,
    /// In the order of their authored paths.
    pub pages: Vec<Page>,
    /// Sorted by path.
    pub routes: Vec<Route>,
    /// Literal paths of routes, as [`super::hash_index`] has them.
    pub literals: Vec<u32>,
    /// The patterns' tree; the root is the first.
    pub tree: Vec<Branch>,
}

/// From this second on, local time is UTC plus `offset_s`.
#[derive(Debug, Archive, Serialize)]
pub struct ClockOffset {
    /// Seconds since 1970.
    pub from_s: i64,
    /// Seconds east of UTC.
    pub offset_s: i32,
}

/// An audience.
#[derive(Debug, Archive, Serialize)]
pub struct Audience {
    /// As rules name it.
    pub key: String,
    /// For people; empty where none was given.
    pub name: String,
    /// Its condition.
    pub program: Vec<u8>,
}

/// An experiment, the same in every zone that it stands in.
#[derive(Debug, Archive, Serialize)]
pub struct Experiment {
    /// As rules name it.
    pub key: String,
    /// What is hashed with the anon ID: the seed, else the key.
    pub seed: String,
    /// Each arm's range of [0, 1).
    pub ranges: Vec<Range>,
    /// The namespace and its part of [0, 1).
    pub namespace: Option<Namespace>,
    /// The part of all visitors who are held out, 0 for none.
    pub holdout: f64,
}

/// Half open.
#[derive(Debug, Clone, Copy, Archive, Serialize)]
pub struct Range {
    /// First value inside.
    pub from: f64,
    /// First value behind.
    pub to: f64,
}

/// A part of the visitors that experiments share without overlapping.
#[derive(Debug, Archive, Serialize)]
pub struct Namespace {
    /// Hashed with the anon ID.
    pub name: String,
    /// The part of [0, 1).
    pub range: Range,
}

/// A page path, literal or pattern.
#[derive(Debug, Archive, Serialize)]
pub struct Route {
    /// As authored, `/pricing`, `/docs/*`; or made of a pattern by its `each`: `/blog/stoves`.
    pub path: String,
    /// Names the content: everything that can appear in its answers, and its rules.
    pub content: [u8; 16],
    /// Whether the path stands for others.
    pub pattern: bool,
    /// JSON of its entry in `/v1/routes`, without the last brace.
    pub listing: String,
    /// What it shows.
    pub shows: Shows,
}

/// What a route shows.
#[derive(Debug, Archive, Serialize)]
pub enum Shows {
    /// A layout: the page of this index.
    Page(u32),
    /// Another path.
    Redirect(Redirect),
}

/// Another path or URL to go to.
#[derive(Debug, Archive, Serialize)]
pub struct Redirect {
    /// Path or URL.
    pub to: String,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// A layout as pieces of finished JSON with holes for personalized zones.
#[derive(Debug, Archive, Serialize)]
pub struct Page {
    /// The path as authored: `/pricing`, `/blog/:slug`.
    pub path: String,
    /// The page outside its personalized zones.
    pub parts: Vec<Part>,
    /// The personalized zones, sorted by name.
    pub zones: Vec<Zone>,
    /// The queries whose items depend on the path.
    pub embedded: Vec<Embedded>,
    /// The piece that lists its combinations: a JSON array, then `,"truncated":false}`.
    pub combinations: u32,
    /// Bytes of the array in that piece.
    pub combinations_array_bytes: u32,
    /// Whether the array is cut.
    pub combinations_truncated: bool,
}

/// A text that is part of bodies, in both codings.
#[derive(Debug, Archive, Serialize)]
pub struct Piece {
    /// UTF-8.
    pub text: Vec<u8>,
    /// The same as raw deflate blocks that end at a byte's end and refer to nothing before them.
    pub deflate: Vec<u8>,
    /// CRC-32 of `text`.
    pub crc: u32,
    /// `checksum::crc_shift` of its length.
    pub shift: u32,
}

/// The next thing in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Archive, Serialize)]
pub enum Part {
    /// A piece, by index.
    Piece(u32),
    /// What is chosen for a zone, by index.
    Zone(u8),
    /// What an embedded query finds, by index: its items, `],"nextCursor":` and the cursor or null.
    Query(u16),
}

/// A content query in a node, its parameters given by the author.
#[derive(Debug, Archive, Serialize)]
pub struct Embedded {
    /// Index of the site's queries.
    pub query: u32,
    /// For each of the query's parameters.
    pub given: Vec<Given>,
}

/// What an embedded query gives for a parameter.
#[derive(Debug, Archive, Serialize)]
pub enum Given {
    /// Nothing: the parameter's default counts.
    Nothing,
    /// A value, as `condition::encode` has it.
    Value(Vec<u8>),
    /// The part of the path that this parameter of the route names.
    Route(String),
}

/// A content query, its items and its answers as far as they are known ahead.
#[derive(Debug, Archive, Serialize)]
pub struct Query {
    /// As callers name it.
    pub key: String,
    /// Names the content: everything that its answers can hold.
    pub content: [u8; 16],
    /// For people.
    pub collection: String,
    /// Sorted by name.
    pub params: Vec<Param>,
    /// The parameters' names, for the refusal of another.
    pub declares: String,
    /// Items of a page, unless the caller says otherwise.
    pub limit: u32,
    /// The fields it sorts by, as authored; a cursor is bound to them.
    pub order: String,
    /// The items that some parameters find, in order.
    pub items: Vec<Item>,
    /// What is known ahead.
    pub index: Index,
    /// What has to be looked for.
    pub scan: Option<Scan>,
}

/// A parameter as declared. Values are as `condition::encode` has them.
#[derive(Debug, Archive, Serialize)]
pub struct Param {
    /// As callers name it.
    pub name: String,
    /// The type of its values.
    pub kind: ParamKind,
    /// Whether it may be left out, although there is no default.
    pub optional: bool,
    /// Its value where it is left out.
    pub default: Option<Vec<u8>>,
    /// The only values; empty where there are others.
    pub values: Vec<Vec<u8>>,
    /// Least and greatest number.
    pub minimum: Option<f64>,
    /// See `minimum`.
    pub maximum: Option<f64>,
    /// What it takes, for a refusal: "a number from 0".
    pub says: String,
}

/// The type of a parameter's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Archive, Serialize)]
pub enum ParamKind {
    /// A string.
    Text,
    /// A number.
    Number,
    /// true or false.
    Boolean,
}

/// An item as a query answers it.
#[derive(Debug, Archive, Serialize)]
pub struct Item {
    /// Where it stands in the query's order: bytes that compare as its sort values do (`super::super::query::order`). No other item of the
    /// query has the same.
    pub place: Vec<u8>,
    /// The piece that is its JSON.
    pub piece: u32,
    /// The fields that the scan's program looks at, by number: for each an u32 that says where its value stands in here, 0
    /// where there is none; then the values, as `condition::encode` has them. Empty without a scan.
    pub facts: Vec<u8>,
}

/// The items for every combination of values of the parameters that are indexed.
///
/// A parameter's value has a number: 0 where it is not given, 1 where it is none of `values`, else 2 and its place among them.
/// A combination's key is these numbers in the order of `params`, as digits, the first the most significant; a parameter's
/// base is the number of its values and two.
#[derive(Debug, Archive, Serialize)]
pub struct Index {
    /// The parameters that are indexed.
    pub params: Vec<Indexed>,
    /// The combinations that find something, sorted.
    pub keys: Vec<u64>,
    /// For each of them positions in `items`, sorted.
    pub lists: Vec<Vec<u32>>,
}

/// A parameter of an index.
#[derive(Debug, Archive, Serialize)]
pub struct Indexed {
    /// Index of the query's parameters.
    pub param: u16,
    /// The values that differ in what they find.
    pub values: Vec<Vec<u8>>,
    /// Where each stands, as [`super::hash_index`] has it.
    pub slots: Vec<u32>,
}

/// What the index leaves open: the condition that is evaluated item by item.
#[derive(Debug, Archive, Serialize)]
pub struct Scan {
    /// The parameters (indices) of what the index leaves open; where none of them has a value, nothing is open. None where
    /// something is open whatever the values.
    pub params: Option<Vec<u16>>,
    /// A template over `facts`: all of the condition that has parameters.
    pub program: Vec<u8>,
    /// The same of what the index leaves open, for the items of a list.
    pub open: Vec<u8>,
    /// Fields by which fewer items have to be looked at.
    pub columns: Vec<Column>,
    /// The parameters that bound them.
    pub bounds: Vec<ColumnBound>,
}

/// A field in its own order.
#[derive(Debug, Archive, Serialize)]
pub struct Column {
    /// For people.
    pub path: String,
    /// The field's values as order-preserving bytes (`super::super::query::order`), sorted.
    pub keys: Vec<Vec<u8>>,
    /// The position of each in `items`.
    pub positions: Vec<u32>,
    /// Positions of items that every bound may let pass.
    pub always: Vec<u32>,
}

/// A parameter that bounds a column.
#[derive(Debug, Clone, Copy, Archive, Serialize)]
pub struct ColumnBound {
    /// Index of the columns.
    pub column: u16,
    /// Index of the query's parameters.
    pub param: u16,
    /// Whether the field is at or above it; else at or below.
    pub is_lower: bool,
}

/// A personalized zone.
#[derive(Debug, Archive, Serialize)]
pub struct Zone {
    /// Unique within its route.
    pub name: String,
    /// `default` first, then by key.
    pub variants: Vec<Variant>,
    /// Tried in order.
    pub rules: Vec<Rule>,
}

/// One content of a zone.
#[derive(Debug, Archive, Serialize)]
pub struct Variant {
    /// `default`, or as authored.
    pub key: String,
    /// `zone:key`; empty for `default`, which a canonical string leaves out.
    pub pair: String,
    /// `"zone":"key"`
    pub selected: String,
    /// Its content, and the zones within.
    pub parts: Vec<Part>,
}

/// Whether a rule matches, and what it chooses. Variants are indices of the zone's.
#[derive(Debug, Archive, Serialize)]
pub enum Rule {
    /// A condition holds.
    When {
        /// The condition.
        program: Vec<u8>,
        /// What is shown.
        variant: u8,
        /// Whether the author wrote an audience's key.
        audience: bool,
    },
    /// The visitor is in the experiment.
    Experiment {
        /// Index of the site's experiments.
        experiment: u16,
        /// What each arm shows.
        arms: Vec<u8>,
        /// A condition that must hold as well.
        when: Option<Vec<u8>>,
    },
}

/// A node of the patterns' tree, reached by the segments before it.
#[derive(Debug, Default, Archive, Serialize)]
pub struct Branch {
    /// Literal segments, sorted, and the branches behind them.
    pub literals: Vec<(String, u32)>,
    /// The branch behind a parameter.
    pub param: Option<u32>,
    /// The route whose path ends in `*` here.
    pub rest: Option<u32>,
    /// The route that ends here.
    pub route: Option<u32>,
}
