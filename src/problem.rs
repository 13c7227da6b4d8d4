//! The problems of the HTTP interface (RFC 9457): the table of all codes, and one problem of one request.
//!
//! A `Problem` borrows from the request and allocates nothing. `http::problem_document` writes it.

/// A row of the table of problems.
#[derive(Debug, PartialEq, Eq)]
pub struct ProblemKind {
    /// The stable code. It is also the last part of the type URI.
    pub code: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// A sentence for people, the same for every occurrence.
    pub title: &'static str,
}

macro_rules! kinds {
    ($($name:ident $code:literal $status:literal $title:literal)*) => {
        $(#[doc = $title]
        #[allow(unreachable_pub, reason = "the tests use only some of them")]
        pub const $name: &ProblemKind = &ProblemKind { code: $code, status: $status, title: $title };)*
        /// All problems that this server sends.
        pub const ALL: &[&ProblemKind] = &[$($name),*];
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
    PLACEHOLDER_ID "placeholder_id" 400 "The ID is a placeholder"
    MISSING_VISITOR "missing_visitor" 400 "A visitor is required"
    INVALID_EVENT "invalid_event" 400 "The event is not valid"
    AMBIGUOUS_EVENT "ambiguous_event" 400 "The type of the event is ambiguous"
    INVALID_TYPE "invalid_type" 400 "The type is not valid here"
    INVALID_TIMESTAMP "invalid_timestamp" 400 "The time is not valid"
    INVALID_PARAM "invalid_param" 400 "A parameter is not valid"
    MALFORMED_JSON "malformed_json" 400 "The body is not a valid JSON object"
    INVALID_CURSOR "invalid_cursor" 400 "The cursor is not valid"
    INVALID_LIMIT "invalid_limit" 400 "The limit is not valid"
    UNAUTHORIZED "unauthorized" 401 "The admin token is required"
    ORIGIN_NOT_ALLOWED "origin_not_allowed" 403 "The origin is not allowed"
    HOST_NOT_ALLOWED "host_not_allowed" 403 "The host is not allowed"
    EXPLAIN_NOT_ALLOWED "explain_not_allowed" 403 "Explanations are not allowed here"
    UNKNOWN_ENDPOINT "unknown_endpoint" 404 "Unknown endpoint"
    SITE_NOT_FOUND "site_not_found" 404 "The site is not published here"
    ROUTE_NOT_FOUND "route_not_found" 404 "The route is not published"
    QUERY_NOT_FOUND "query_not_found" 404 "The query is not published"
    METHOD_NOT_ALLOWED "method_not_allowed" 405 "The method is not supported here"
    TIMEOUT "timeout" 408 "The request was not received in time"
    EVENT_TOO_LARGE "event_too_large" 413 "The event is too large"
    BATCH_TOO_LARGE "batch_too_large" 413 "The batch is too large"
    BODY_TOO_LARGE "body_too_large" 413 "The body is too large"
    TARGET_TOO_LONG "target_too_long" 414 "The request target is too long"
    UNSUPPORTED_TYPE "unsupported_type" 415 "The content type is not supported"
    UNSUPPORTED_ENCODING "unsupported_encoding" 415 "The content encoding is not supported"
    EXPECTATION_FAILED "expectation_failed" 417 "The expectation is not supported"
    QUERY_TOO_EXPENSIVE "query_too_expensive" 422 "The query is too expensive"
    RATE_LIMITED "rate_limited" 429 "Too many requests"
    HEAD_TOO_LARGE "head_too_large" 431 "The request head is too large"
    INTERNAL "internal" 500 "Internal server error"
    UNKNOWN_METHOD "unknown_method" 501 "The method is unknown"
    UNKNOWN_TRANSFER_CODING "unknown_transfer_coding" 501 "The transfer coding is unknown"
    QUEUE_FULL "queue_full" 503 "Too many events are waiting for the disk"
    DISK_UNAVAILABLE "disk_unavailable" 503 "Events cannot be written to disk"
    STARTING "starting" 503 "The server is starting"
    DRAINING "draining" 503 "The server is stopping"
    OVERLOADED "overloaded" 503 "The server is overloaded"
    UNSUPPORTED_VERSION "unsupported_version" 505 "The HTTP version is not supported"
}

/// One problem of one request.
#[derive(Debug, Clone, Copy)]
pub struct Problem<'a> {
    /// The row in the table.
    pub kind: &'static ProblemKind,
    /// The parameter or the member of the body at fault.
    pub location: Option<Location<'a>>,
    /// The text of the member `detail`.
    pub detail: Detail<'a>,
    /// The actual value, for `detail`.
    pub actual: Actual<'a>,
    /// The value of `Allow` in a 405.
    pub allow: &'static str,
    /// The value of `Retry-After` in a 429 or 503, in seconds.
    pub retry_s: u32,
}

/// The text of `detail`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail<'a> {
    /// A complete sentence. If there is an actual value, it replaces `{}`, and the allowed methods replace `{allow}`.
    Sentence(&'a str),
    /// A noun phrase for the expected value, such as "a page path that begins with '/'".
    Expected(&'a str),
    /// A noun phrase for the value of a required parameter that is missing.
    MissingParam(&'a str),
}

/// The actual value, in place of an expected one.
#[derive(Debug, Clone, Copy)]
pub enum Actual<'a> {
    /// There is no value, or none that can be repeated.
    Missing,
    /// Text of the request. It is written in quotes, at most 100 characters of it.
    Text(&'a str),
    /// A name of ours, such as a method. It is written without quotes.
    Name(&'a str),
    /// A quantity.
    Count(usize),
}

/// The location of a fault: a parameter of the request, or a member of its body.
#[derive(Debug, Clone, Copy)]
pub struct Location<'a> {
    /// The group of the parameter, such as `params`; `None` at the top level.
    pub group: Option<&'static str>,
    /// The name, as the client wrote it.
    pub name: &'a str,
    /// Whether it is in the query string although the request has a body.
    pub in_query: bool,
}

impl<'a> Problem<'a> {
    /// Creates a problem that a sentence without a value describes.
    pub const fn new(kind: &'static ProblemKind, sentence: &'a str) -> Self {
        let detail = Detail::Sentence(sentence);
        Self { kind, location: None, detail, actual: Actual::Missing, allow: "", retry_s: 1 }
    }

    /// Creates a problem with a sentence in which `actual` replaces `{}`.
    pub const fn with_value(kind: &'static ProblemKind, sentence: &'a str, actual: &'a str) -> Self {
        Self { actual: Actual::Text(actual), ..Self::new(kind, sentence) }
    }

    /// Creates a problem of an invalid value: "Expected {expected}, got '{actual}'."
    pub const fn invalid_value(kind: &'static ProblemKind, expected: &'a str, actual: &'a str) -> Self {
        Self { actual: Actual::Text(actual), ..Self::missing_value(kind, expected) }
    }

    /// Creates a problem of a value that is missing or cannot be repeated: "Expected {expected}."
    pub const fn missing_value(kind: &'static ProblemKind, expected: &'a str) -> Self {
        Self { detail: Detail::Expected(expected), ..Self::new(kind, "") }
    }

    /// Creates a 405. `method` is the subject of its sentence.
    pub const fn method_not_allowed(method: &'a str, allow: &'static str) -> Self {
        let problem = Self::new(METHOD_NOT_ALLOWED, "{} is not supported here; use {allow}.");
        Self { allow, actual: Actual::Name(method), ..problem }
    }

    /// Creates a problem of a required parameter that is missing: "The parameter is missing; expected {expected}."
    pub const fn missing_param(kind: &'static ProblemKind, expected: &'a str) -> Self {
        Self { detail: Detail::MissingParam(expected), ..Self::new(kind, "") }
    }

    /// Names the parameter at fault.
    pub const fn at(self, name: &'a str) -> Self {
        Self { location: Some(Location { group: None, name, in_query: false }), ..self }
    }

    /// States that the parameter at fault is in the query string of a request that has a body.
    pub fn in_query(self) -> Self {
        Self { location: self.location.map(|at| Location { in_query: true, ..at }), ..self }
    }

    /// Names the parameter at fault in a group of parameters.
    pub const fn within(self, group: &'static str, name: &'a str) -> Self {
        Self { location: Some(Location { group: Some(group), name, in_query: false }), ..self }
    }
}
