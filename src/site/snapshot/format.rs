//! The snapshot file: everything that one site published. THE SPEC; there is no other.
//!
//! **Purpose.** `compile` writes the file once. A server copies, seals, maps, verifies and serves it. Removing it from
//! the directory unpublishes the site. It is a build product: for another format version the server asks to compile the site again.
//!
//! **Bounds.** The archive has at most 2^30 bytes (its offsets are signed 32-bit numbers). The piece data has at most
//! 2^40 bytes. The limit in practice is the memory of the server (`--snapshots-memory`). All numbers are little-endian,
//! on every machine.
//!
//! ```text
//! +--------+---------+--------+----------------+--------------+------------+----------+-----------+
//! | magic  | format  | header | payload length | site version | piece data | reserved | hash (32) |
//! | (8)    | v. (4)  | l. (4) | (8)            | (8)          | length (8) | (8)      |           |
//! +--------+---------+--------+----------------+--------------+------------+----------+-----------+
//! 0        8         12       16               24             32           40         48          80
//!
//! +- - - - - - - +- - - - - +
//! |  piece data  |  archive |
//! +- - - - - - - +- - - - - +
//! 80
//!
//! OFFSET  SIZE  FIELD           MEANING
//! 0       8     magic           FF 50 52 4C 58 53 4E 50 ("\xFFPRLXSNP")
//! 8       4     format version  [`FORMAT_VERSION`]
//! 12      4     header length   80; the payload begins here: piece data, then archive
//! 16      8     payload length  bytes after the header; the file ends there
//! 24      8     site version    as published, at most 2^53
//! 32      8     piece data len. a multiple of 16, at most the payload length
//! 40      8     reserved        0
//! 48      32    hash            BLAKE3 of bytes 0..48 and of the payload, in this order
//! 80      n     piece data      the texts of all pieces, then their deflated forms, then up to 15 bytes of 0
//! 80 + n  m     archive         an rkyv 0.8 archive of [`Site`], its root at the end
//! ```
//!
//! The piece data is not part of the archive, because it is most of a large site, and the offsets of an archive end at
//! 2^31. A [`Piece`] refers to it with 64-bit offsets. Texts that requests compare are boxed: rkyv
//! stores a short `String` in place, and each access searches for its end.
//!
//! **Checks on reading**, in this order:
//!
//! 1. The magic.
//! 2. The file has at least 80 bytes.
//! 3. The format version.
//! 4. The header length.
//! 5. The payload length against the file's: a shorter file is incomplete, a longer one is damaged. Then that of the piece data.
//! 6. The hash.
//! 7. The structure of the archive: every offset is inside, every text is UTF-8.
//! 8. The references between its parts: every index is in range, every piece is within the piece data, every zone has
//!    exactly one place, every branch of the pattern tree has exactly one parent, every route is as deep in the tree as
//!    its path has segments, every list is sorted, every seed hash is that of its seed, every condition is a valid program
//!    (`condition::verify`).
//!
//! **Writing**: under a temporary name (a dot file), sync, rename, sync of the directory. A crash leaves the
//! old file or the new one, and perhaps a dot file, which nobody reads.
//!
//! **The smallest file in hex** is `tests/golden/smallest.snapshot.hex`, a golden test. The same source and
//! version give the same bytes: maps are sorted, and the file contains no time and no trace of the machine.

pub(crate) use super::experiment_format::{
    ArchivedExperiment, ArchivedGuardrail, ArchivedMetrics, ArchivedNamespace, ArchivedNamespaceShare,
    ArchivedRange, ArchivedSiteHoldout, Standing,
};
pub use super::experiment_format::{
    CoverageStep, Experiment, Goals, Guardrail, Metrics, Namespace, NamespaceShare, Range, SiteHoldout,
    phase_hash,
};
use super::pattern_format::SitePatterns;
use super::segment_format::{Segment, TraitNames};
pub(crate) use super::zone_format::{
    ArchivedCondition, ArchivedRule, ArchivedVariant, ArchivedZone, ArchivedZonePlace,
};
pub use super::zone_format::{Condition, Rule, Variant, Zone, ZonePlace};
use crate::condition::program::Program;
use rkyv::{Archive, Serialize};

/// The first bytes of a snapshot file. UTF-8 never contains 0xFF, so no text file is mistaken for a snapshot.
pub(crate) const MAGIC: [u8; 8] = *b"\xFFPRLXSNP";
/// The format version that this release writes.
pub(crate) const FORMAT_VERSION: u32 = 14;
/// Length of the header. The payload follows it.
pub const HEADER_BYTES: usize = 80;
/// Offset of the hash, which covers all other bytes.
pub(crate) const HASH_OFFSET: usize = 48;
/// Alignment of the archive in the file, in bytes. No archived type needs more.
pub const ARCHIVE_ALIGNMENT: usize = 16;
/// Highest site version: the highest integer that a JSON number represents exactly.
pub(crate) const VERSION_MAX: u64 = 1 << 53;

/// The header without magic and format version, which are checked before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes after the header.
    pub payload_length: u64,
    /// Bytes of the piece data, which the archive follows.
    pub piece_data_length: u64,
    /// The site's version.
    pub version: u64,
    /// Hash of all other bytes in the file.
    pub hash: [u8; 32],
}

impl Header {
    /// Returns the header of a payload that begins with `piece_data_bytes` bytes of piece data.
    pub fn for_payload(payload: &[u8], piece_data_bytes: usize, version: u64) -> Self {
        let mut header = Self {
            payload_length: payload.len() as u64,
            piece_data_length: piece_data_bytes as u64,
            version,
            hash: [0; 32],
        };
        header.hash = header.compute_hash(payload);
        header
    }

    /// Computes the hash of this header and `payload`.
    pub fn compute_hash(&self, payload: &[u8]) -> [u8; 32] {
        crate::checksum::digest(&[&self.to_bytes()[..HASH_OFFSET], payload])
    }

    /// Encodes the header as the first bytes of the file.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.payload_length.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.version.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.piece_data_length.to_le_bytes());
        bytes[HASH_OFFSET..].copy_from_slice(&self.hash);
        bytes
    }
}

/// A published site.
#[derive(Debug, Archive, Serialize)]
pub struct Site {
    /// The site ID: `[A-Za-z0-9_-]{1,64}`.
    pub site: Box<str>,
    /// `track_` and the same characters.
    pub tracking_id: String,
    /// Display name.
    pub name: String,
    /// The name of the preview, if the site is one. Its events are dropped, and its cache times are 0.
    pub preview: Option<String>,
    /// Same as in the header, so that the archive is complete without it.
    pub version: u64,
    /// Origins whose pages may read private responses: exact, or with one `*`.
    pub origins: Vec<String>,
    /// The hosts of the site without a leading `www.`, sorted. `*.acme.example` is a domain with all subdomains.
    pub hosts: Vec<String>,
    /// The hosts whose referrers are not external, in the form of `hosts`. At most `IGNORED_REFERRERS_MAX`.
    pub ignored_referrers: Vec<String>,
    /// True if referrers on the hosts of [`crate::providers`] are not external either.
    pub ignores_providers: bool,
    /// Name of the cookie that contains the anon ID.
    pub cookie: String,
    /// True if a user ID counts only with its hash.
    pub verifies_users: bool,
    /// Policy for crawlers' events: 0 drop, 1 flag, 2 flag and fold into profiles.
    pub bots: u8,
    /// True if `Sec-GPC: 1` drops events and personalization.
    pub honor_gpc: bool,
    /// Policy for IP addresses of events: 0 store none, 1 store them without their last part, 2 store them.
    pub ip: u8,
    /// The categories of a consent manager under which the site measures.
    pub measure_categories: Vec<String>,
    /// `Cache-Control` of resolves whose forced variants all exist.
    pub cache_resolve: String,
    /// `Cache-Control` of routes and combinations.
    pub cache_routes: String,
    /// `Cache-Control` of queries.
    pub cache_query: String,
    /// The body of `/v1/site`.
    pub settings: String,
    /// The newest `updatedAt`, as authored.
    pub updated_at: Option<String>,
    /// The IANA name of the site's time zone.
    pub time_zone: String,
    /// The site's offsets from UTC, sorted by their first second. The first one also applies before it.
    pub clock_offsets: Vec<ClockOffset>,
    pub patterns: SitePatterns,
    /// Audiences, sorted by key. Rules and programs refer to them by index.
    pub audiences: Vec<Audience>,
    /// Experiments, sorted by key. Rules refer to them by index.
    pub experiments: Vec<Experiment>,
    /// Namespaces of experiments, sorted by name. Experiments refer to them by index.
    pub namespaces: Vec<Namespace>,
    /// The visitors that see no experiment. `None` if there are none.
    pub holdout: Option<SiteHoldout>,
    pub goals: Goals,
    /// The segments for questions, sorted by key.
    pub segments: Vec<Segment>,
    /// The traits that the admin address shows to more or fewer people.
    pub traits: TraitNames,
    /// True if any rule reads the page's URL, directly or through a campaign.
    pub sees_url: bool,
    /// The file of `/v1/rules`. `None` if the site does not allow local decisions.
    pub rules: Option<Vec<u8>>,
    /// The places of all texts of all bodies, in the order in which they were written.
    pub pieces: Vec<Piece>,
    /// Sorted by key.
    pub queries: Vec<Query>,
    /// In the order of their authored paths.
    pub pages: Vec<Page>,
    /// Sorted by path.
    pub routes: Vec<Route>,
    /// Index of the literal paths of routes. See [`super::hash_index`].
    pub literals: Vec<u32>,
    /// The pattern tree. The first branch is the root.
    pub tree: Vec<Branch>,
}

/// An offset from UTC: from this second on, local time is UTC plus `offset_s`.
#[derive(Debug, Clone, Copy, Archive, Serialize)]
pub struct ClockOffset {
    /// Seconds since 1970.
    pub from_s: i64,
    /// Seconds east of UTC.
    pub offset_s: i32,
}

/// An audience.
#[derive(Debug, Archive, Serialize)]
pub struct Audience {
    /// The key that rules refer to.
    pub key: String,
    /// Display name. Empty if there is none.
    pub name: String,
    /// The visitors that belong to it.
    pub condition: Condition,
}

/// A page path, literal or a pattern.
#[derive(Debug, Archive, Serialize)]
pub struct Route {
    /// As authored (`/pricing`, `/docs/*`), or generated from a pattern by its `each` (`/blog/stoves`).
    pub path: Box<str>,
    /// Identifies the content: everything that can appear in its responses, and its rules.
    pub content: [u8; 16],
    /// True if the path is a pattern.
    pub is_pattern: bool,
    /// JSON of its entry in `/v1/routes`, without the last brace.
    pub listing: String,
    /// The layout or the redirect of the route.
    pub target: RouteTarget,
}

/// The target of a route.
#[derive(Debug, Archive, Serialize)]
pub enum RouteTarget {
    /// A layout: index of the page.
    Page(u32),
    /// A redirect to another path.
    Redirect(Redirect),
}

/// A redirect to a path or URL.
#[derive(Debug, Archive, Serialize)]
pub struct Redirect {
    /// Path or URL, as authored.
    pub to: String,
    /// `to`, split at its parameters.
    pub parts: Vec<TargetPart>,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// A part of a redirect's target.
#[derive(Debug, PartialEq, Eq, Archive, Serialize)]
pub enum TargetPart {
    /// Text as authored.
    Text(String),
    /// Index of the segment of the requested path that replaces a parameter.
    Segment(u16),
    /// Index of the first of the segments that replace `*`.
    Rest(u16),
}

/// A layout: pieces of finished JSON, with placeholders for personalized zones.
#[derive(Debug, Clone, Archive, Serialize)]
pub struct Page {
    /// The path as authored: `/pricing`, `/blog/:slug`.
    pub path: String,
    /// The page outside its personalized zones.
    pub parts: Vec<Part>,
    /// The personalized zones, sorted by name.
    pub zones: Vec<Zone>,
    /// The places of the zones, in the order of the layout. A zone that is in a variant follows the zone of
    /// that variant.
    pub zone_places: Vec<ZonePlace>,
    /// The embedded queries whose items depend on the path.
    pub embedded: Vec<QueryCall>,
    /// Index of the piece that lists the page's combinations: a JSON array, then `,"truncated":false}`.
    pub combinations: u32,
    /// Length of the array in that piece.
    pub combinations_array_bytes: u32,
    /// True if the array is truncated.
    pub combinations_truncated: bool,
}

/// A text that is part of bodies, as plain text and compressed. Its bytes are in the piece data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Archive, Serialize)]
pub struct Piece {
    /// Offset of the text in the piece data. It is UTF-8.
    pub text_offset: u64,
    /// Offset of the compressed text in the piece data: raw deflate blocks that end at a byte boundary and do not
    /// refer to earlier data.
    pub deflate_offset: u64,
    /// Length of the text.
    pub text_bytes: u32,
    /// Length of the compressed text.
    pub deflate_bytes: u32,
    /// CRC-32 of the text.
    pub crc: u32,
    /// `checksum::crc_shift` of the text's length.
    pub crc_shift: u32,
}

/// The next part of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Archive, Serialize)]
pub enum Part {
    /// Index of a piece.
    Piece(u32),
    /// Index of a zone, whose chosen variant follows.
    Zone(u8),
    /// Index of an embedded query, and of one of its parameters. The value from the path follows, as JSON.
    RouteValue(u16, u8),
    /// Index of an embedded query. Its items follow, then `],"total":`, the total, `,"nextCursor":`, the cursor.
    Query(u16),
}

/// A content query in a node, with parameter values from the author.
#[derive(Debug, Clone, Archive, Serialize)]
pub struct QueryCall {
    /// Index of the site's query.
    pub query: u32,
    /// One entry for each of the query's parameters.
    pub arguments: Vec<Argument>,
}

/// The value of one parameter of an embedded query.
#[derive(Debug, Clone, Archive, Serialize)]
pub enum Argument {
    /// No value: the parameter's default applies.
    Nothing,
    /// A value in the encoding of `condition::encode`.
    Value(Vec<u8>),
    /// The part of the path that the route's parameter of this name matches.
    Route(String),
}

/// A content query, its items, and its precomputed results.
#[derive(Debug, Archive, Serialize)]
pub struct Query {
    /// The key that callers use.
    pub key: String,
    /// Identifies the content: everything that its responses can contain.
    pub content: [u8; 16],
    /// Display name of the collection.
    pub collection: String,
    /// Sorted by name.
    pub params: Vec<Param>,
    /// The parameters' names, for the error about an undeclared parameter.
    pub param_names: String,
    /// Default number of items on a page.
    pub limit: u32,
    /// The sort fields as authored. Cursors are bound to them.
    pub order: String,
    /// The items that at least one set of parameter values finds, in the query's order.
    pub items: Vec<Item>,
    /// The precomputed part of the condition.
    pub index: Index,
    /// The part of the condition that is evaluated per request. `None` if the index covers all of it.
    pub scan: Option<Scan>,
}

/// A declared parameter. Its values are in the encoding of `condition::encode`.
#[derive(Debug, Archive, Serialize)]
pub struct Param {
    /// The name that callers use.
    pub name: String,
    /// Type of its values.
    pub kind: ParamKind,
    /// True if a request may omit it although it has no default.
    pub optional: bool,
    /// The value if a request omits it.
    pub default: Option<Vec<u8>>,
    /// The allowed values. Empty if any value is allowed.
    pub values: Vec<Vec<u8>>,
    /// Smallest allowed number.
    pub minimum: Option<f64>,
    /// Largest allowed number.
    pub maximum: Option<f64>,
    /// Description of the accepted values, for errors: "a number from 0".
    pub accepts: String,
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

/// An item of a query's results.
#[derive(Debug, Archive, Serialize)]
pub struct Item {
    /// Its sort key: bytes that compare like its sort values (`super::super::query::order`). No other item of
    /// the query has the same.
    pub sort_key: Vec<u8>,
    /// Index of the piece with its JSON.
    pub piece: u32,
    /// The fields that the scan's program reads. First a u32 for each field by number: the offset of its
    /// value in these bytes, or 0 if it has none. Then the values in the encoding of `condition::encode`.
    /// Empty without a scan.
    pub fields: Vec<u8>,
}

/// The items for every combination of values of the indexed parameters.
///
/// A parameter's value has a number: 0 if it is absent, 1 if it is none of `values`, otherwise 2 plus its index in
/// `values`. A combination's key consists of these numbers as digits, in the order of `params`, the most significant
/// first. The base of a parameter's digit is the number of its values plus two.
#[derive(Debug, Archive, Serialize)]
pub struct Index {
    /// The indexed parameters.
    pub params: Vec<IndexParam>,
    /// The keys of the combinations that find something, sorted.
    pub keys: Vec<u64>,
    /// For each key the positions in `items`, sorted.
    pub lists: Vec<Vec<u32>>,
}

/// An indexed parameter.
#[derive(Debug, Archive, Serialize)]
pub struct IndexParam {
    /// Index of the query's parameter.
    pub param: u16,
    /// The values that find different items.
    pub values: Vec<Vec<u8>>,
    /// Hash index of `values`. See [`super::hash_index`].
    pub slots: Vec<u32>,
}

/// The residual condition: the part that the index does not cover. It is evaluated item by item.
#[derive(Debug, Archive, Serialize)]
pub struct Scan {
    /// Indices of the parameters in the residual condition. If none of them has a value, no residual condition is
    /// left. `None` if one is left for all values.
    pub params: Option<Vec<u16>>,
    /// The whole condition on parameters, over an item's fields.
    pub program: Program,
    /// The residual condition only, for the items of a list of the index.
    pub residual: Program,
    /// Sorted fields that reduce the number of items to evaluate.
    pub columns: Vec<Column>,
    /// The parameters that bound the columns.
    pub bounds: Vec<ColumnBound>,
}

/// A column: the items sorted by one field.
#[derive(Debug, Archive, Serialize)]
pub struct Column {
    /// Display name of the field.
    pub path: String,
    /// The field's values as order-preserving bytes (`super::super::query::order`), sorted.
    pub keys: Vec<Vec<u8>>,
    /// For each key the item's position in `items`.
    pub positions: Vec<u32>,
    /// Positions of items that may satisfy any bound.
    pub always: Vec<u32>,
}

/// A parameter that bounds a column.
#[derive(Debug, Clone, Copy, Archive, Serialize)]
pub struct ColumnBound {
    /// Index of the column.
    pub column: u16,
    /// Index of the query's parameter.
    pub param: u16,
    /// True if the parameter is the lower bound of the field, else the upper bound. Both are inclusive.
    pub is_lower: bool,
}

/// A branch of the pattern tree. It represents the segments that lead to it.
#[derive(Debug, Default, Archive, Serialize)]
pub struct Branch {
    /// Literal segments, sorted, each with the branch that it leads to.
    pub literals: Vec<(String, u32)>,
    /// The branch that a parameter leads to.
    pub param: Option<u32>,
    /// The route whose path ends in `*` here.
    pub rest: Option<u32>,
    /// The route that ends here.
    pub route: Option<u32>,
}
