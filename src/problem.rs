//! A refusal as the client sees it (RFC 9457): the one table of codes, and what one refusal says.
//!
//! A `Problem` borrows what came from the request and allocates nothing; `api` writes it out.

/// The row of a code in the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// Stable; the last part of the type's URI.
    pub code: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// One sentence for people, the same for every occurrence.
    pub title: &'static str,
}

macro_rules! kinds {
    ($($name:ident $code:literal $status:literal $title:literal)*) => {
        $(#[doc = $title] pub const $name: &Kind = &Kind { code: $code, status: $status, title: $title };)*
        /// Every code that this server answers.
        pub const ALL: &[&Kind] = &[$($name),*];
    };
}

kinds! {
    MALFORMED_REQUEST "malformed_request" 400 "The request is not well-formed HTTP"
    INVALID_QUERY "invalid_query" 400 "The query string is not UTF-8"
    REPEATED_PARAM "repeated_param" 400 "A query parameter is given twice"
    MISSING_SITE "missing_site" 400 "A site is required"
    INVALID_TRACKING_ID "invalid_tracking_id" 400 "The tracking ID is not valid"
    SITE_MISMATCH "site_mismatch" 400 "Tracking ID and site differ"
    MISSING_ROUTE "missing_route" 400 "Route is required"
    INVALID_ROUTE "invalid_route" 400 "The route is not valid"
    INVALID_VARIANTS "invalid_variants" 400 "The variants are not valid"
    UNKNOWN_VARIANT "unknown_variant" 400 "The route has no such variant"
    INVALID_ANON_ID "invalid_anon_id" 400 "The anon ID is not valid"
    PLACEHOLDER_ID "placeholder_id" 400 "The id is a placeholder"
    MISSING_VISITOR "missing_visitor" 400 "A visitor is required"
    INVALID_EVENT "invalid_event" 400 "The event is not valid"
    AMBIGUOUS_EVENT "ambiguous_event" 400 "The event could be of two types"
    INVALID_TYPE "invalid_type" 400 "The type is not valid here"
    INVALID_TIMESTAMP "invalid_timestamp" 400 "The time is not valid"
    INVALID_PARAM "invalid_param" 400 "A parameter is not valid"
    MALFORMED_JSON "malformed_json" 400 "The body is not a JSON object"
    INVALID_CURSOR "invalid_cursor" 400 "The cursor is not valid"
    INVALID_LIMIT "invalid_limit" 400 "The limit is not valid"
    UNAUTHORIZED "unauthorized" 401 "The operator's token is required"
    ORIGIN_NOT_ALLOWED "origin_not_allowed" 403 "The origin is not allowed"
    HOST_NOT_ALLOWED "host_not_allowed" 403 "The host is not allowed"
    EXPLAIN_NOT_ALLOWED "explain_not_allowed" 403 "Explaining is not allowed here"
    UNKNOWN_ENDPOINT "unknown_endpoint" 404 "There is no such endpoint"
    SITE_NOT_FOUND "site_not_found" 404 "The site is not published here"
    ROUTE_NOT_FOUND "route_not_found" 404 "The route is not published"
    QUERY_NOT_FOUND "query_not_found" 404 "The query is not published"
    METHOD_NOT_ALLOWED "method_not_allowed" 405 "The endpoint does not have this method"
    TIMEOUT "timeout" 408 "The request took too long to come"
    EVENT_TOO_LARGE "event_too_large" 413 "The event is too large"
    BATCH_TOO_LARGE "batch_too_large" 413 "The batch is too large"
    BODY_TOO_LARGE "body_too_large" 413 "The body is too large"
    TARGET_TOO_LONG "target_too_long" 414 "The request target is too long"
    UNSUPPORTED_TYPE "unsupported_type" 415 "The body's type is not supported"
    UNSUPPORTED_ENCODING "unsupported_encoding" 415 "The body's encoding is not supported"
    EXPECTATION_FAILED "expectation_failed" 417 "The expectation is not supported"
    QUERY_TOO_EXPENSIVE "query_too_expensive" 422 "The query would take too long"
    RATE_LIMITED "rate_limited" 429 "There were too many requests"
    HEAD_TOO_LARGE "head_too_large" 431 "The request head is too large"
    INTERNAL "internal" 500 "The server is at fault"
    UNKNOWN_METHOD "unknown_method" 501 "The method is not known"
    UNKNOWN_TRANSFER_CODING "unknown_transfer_coding" 501 "The transfer coding is not known"
    QUEUE_FULL "queue_full" 503 "Too many events are waiting for the disk"
    DISK_UNAVAILABLE "disk_unavailable" 503 "The disk does not take events"
    STARTING "starting" 503 "The server is starting"
    DRAINING "draining" 503 "The server is stopping"
    OVERLOADED "overloaded" 503 "The server has no room for more at the moment"
    UNSUPPORTED_VERSION "unsupported_version" 505 "The version of HTTP is not supported"
}

/// One refusal: what was expected, and what came.
#[derive(Debug, Clone, Copy)]
pub struct Problem<'a> {
    /// Its row in the table.
    pub kind: &'static Kind,
    /// The parameter or the body's member at fault, if it is one.
    pub at: Option<Place<'a>>,
    /// A noun phrase: "a page path that begins with '/'".
    pub expected: &'a str,
    /// The caller's own words, or a quantity; nothing where nothing came.
    pub came: Came<'a>,
    /// The methods of a 405's `Allow`.
    pub allow: &'static str,
    /// Seconds after which it is worth another try, of a 429 or 503.
    pub retry_s: u32,
}

/// What came instead.
#[derive(Debug, Clone, Copy)]
pub enum Came<'a> {
    /// Nothing, or nothing that can be repeated.
    Nothing,
    /// The caller's own words.
    Words(&'a str),
    /// So many.
    Count(usize),
}

/// Where the fault stands: `name` among the request's parameters, or in a group of them.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// `params`; None at the top.
    pub group: Option<&'static str>,
    /// The caller's name for it.
    pub name: &'a str,
    /// It is of the query string, whatever else came in a body.
    pub in_query: bool,
}

impl<'a> Problem<'a> {
    /// A refusal of something that is missing.
    pub const fn missing(kind: &'static Kind, expected: &'a str) -> Self {
        Self { kind, at: None, expected, came: Came::Nothing, allow: "", retry_s: 1 }
    }

    /// A refusal of `came`.
    pub const fn new(kind: &'static Kind, expected: &'a str, came: &'a str) -> Self {
        Self { came: Came::Words(came), ..Self::missing(kind, expected) }
    }

    /// Names the parameter at fault.
    pub const fn at(self, name: &'a str) -> Self {
        Self { at: Some(Place { group: None, name, in_query: false }), ..self }
    }

    /// The parameter at fault stands in the query string of a request that has a body beside.
    pub fn in_query(self) -> Self {
        Self { at: self.at.map(|at| Place { in_query: true, ..at }), ..self }
    }

    /// Names the parameter of a group at fault.
    pub const fn within(self, group: &'static str, name: &'a str) -> Self {
        Self { at: Some(Place { group: Some(group), name, in_query: false }), ..self }
    }
}
