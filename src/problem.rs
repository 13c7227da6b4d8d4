//! The problems of the HTTP interface (RFC 9457): the table of all codes, and one problem of one request.
//!
//! A `Problem` borrows from the request and allocates nothing. `http::problem_document` writes it.

/// A row of the table of problems.
#[derive(Debug, PartialEq, Eq)]
pub struct ProblemKind {
    /// The stable code. It is also the last part of the type reference.
    pub code: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// A sentence for people, the same for every occurrence.
    pub title: &'static str,
    /// The cause and the remedy, for `GET /v1/problems/<code>`.
    pub description: &'static str,
}

macro_rules! kinds {
    ($($name:ident $code:literal $status:literal $title:literal $description:literal)*) => {
        $(#[doc = $title]
        #[allow(unreachable_pub, reason = "the tests use only some of them")]
        pub const $name: &ProblemKind = &ProblemKind {
            code: $code, status: $status, title: $title, description: $description,
        };)*
        /// All problems that this server sends.
        pub const ALL: &[&ProblemKind] = &[$($name),*];
    };
}

kinds! {
    MALFORMED_REQUEST "malformed_request" 400 "The request is not well-formed HTTP"
        "The request line, a header field, or the framing of the body breaks the rules of HTTP/1.1 (RFC \
         9112). The server closes the connection."
    INVALID_QUERY "invalid_query" 400 "The query string is not UTF-8"
        "The query string must be form-urlencoded UTF-8. Percent-encode the bytes of each value."
    REPEATED_PARAM "repeated_param" 400 "A query parameter is given twice"
        "Give each query parameter once."
    MISSING_SITE "missing_site" 400 "A site is required"
        "Name the site with 'trackingId', or with 'site'."
    INVALID_TRACKING_ID "invalid_tracking_id" 400 "The tracking ID is not valid"
        "A tracking ID is 'track_' and 1 to 64 letters, digits, '_' or '-'."
    SITE_MISMATCH "site_mismatch" 400 "Tracking ID and site differ"
        "The request names two different sites. Give only one of 'trackingId' and 'site', and the same \
         site in query string and body."
    MISSING_ROUTE "missing_route" 400 "Route is required"
        "Give the path of the page as the query parameter 'route', such as '/pricing'."
    INVALID_ROUTE "invalid_route" 400 "The route is not valid"
        "A route begins with '/', has no '//', and has at most 2048 bytes."
    INVALID_VARIANTS "invalid_variants" 400 "The variants are not valid"
        "The variants are pairs 'zone:key', separated by ',', at most 64, and each zone at most once."
    UNKNOWN_VARIANT "unknown_variant" 400 "The route has no such variant"
        "With 'strict=1', every zone and key of 'variants' must exist in the route."
    INVALID_ANON_ID "invalid_anon_id" 400 "The anon ID is not valid"
        "An anon ID is 1 to 128 bytes of visible ASCII."
    PLACEHOLDER_ID "placeholder_id" 400 "The ID is a placeholder"
        "The ID is a value such as 'null' or 'anonymous', which programs send if they have no ID. It \
         would merge unrelated visitors. Omit it, or send the ID of one visitor."
    MISSING_VISITOR "missing_visitor" 400 "A visitor is required"
        "An event needs 'anonId' or 'userId'. A request to the visitor endpoints of the admin address \
         needs exactly one of them."
    INVALID_EVENT "invalid_event" 400 "The event is not valid"
        "A member of the event is missing or has a wrong value. 'pointer' names the member. Do not send \
         the event again unchanged."
    AMBIGUOUS_EVENT "ambiguous_event" 400 "The type of the event is ambiguous"
        "The event has two of 'event', 'traits' and a profile operation. Add 'type'."
    INVALID_TYPE "invalid_type" 400 "The type is not valid here"
        "The endpoint does not accept a single event of this 'type'. Use the endpoint of the type, or a \
         batch."
    INVALID_TIMESTAMP "invalid_timestamp" 400 "The time is not valid"
        "A time is ISO 8601 text, or a number of seconds or milliseconds since 1970, and not before the \
         year 2000."
    INVALID_PARAM "invalid_param" 400 "A parameter is not valid"
        "A parameter is missing or has a wrong value. 'param' or 'pointer' names it."
    MALFORMED_JSON "malformed_json" 400 "The body is not a valid JSON object"
        "The body must be one JSON object in UTF-8."
    INVALID_SNAPSHOT "invalid_snapshot" 400 "The snapshot is not valid"
        "The server would not serve the snapshot that the body has or the request names. 'detail' has the reason."
    INVALID_CURSOR "invalid_cursor" 400 "The cursor is not valid"
        "A cursor is the 'nextCursor' of an earlier response to the same request. Begin again without a \
         cursor."
    INVALID_LIMIT "invalid_limit" 400 "The limit is not valid"
        "The limit is a whole number within the bounds of the endpoint."
    UNAUTHORIZED "unauthorized" 401 "A token is required"
        "The admin address needs 'Authorization: Bearer' with its token, or with one of the access file that has not \
         expired. Without a configured token it answers only reads from this machine."
    ACCESS_DENIED "access_denied" 403 "The person has no access"
        "The proxy in front of the admin address has signed in a person whom the access file does not list, neither by \
         name nor by group. Ask the operator to add an entry."
    ORIGIN_NOT_ALLOWED "origin_not_allowed" 403 "The origin is not allowed"
        "The site does not list the origin of this page in its 'origins', or a web page called the admin \
         address."
    UNVERIFIED_USER "unverified_user" 403 "The user ID is not verified"
        "The site counts a user ID only with its hash: the HMAC-SHA-256 of the ID with a key that the site's own \
         server and this server know, in hex, in 'context.userHash' of an event or in the header X-User-Hash. An \
         event with an anonymous ID is recorded for that ID alone. An event without one is rejected: do not send it \
         again unchanged."
    HOST_NOT_ALLOWED "host_not_allowed" 403 "The host is not allowed"
        "Without a token, the admin address answers only requests whose Host is an IP address or \
         localhost."
    EXPLAIN_NOT_ALLOWED "explain_not_allowed" 403 "Explanations are not allowed here"
        "Explanations show visitor profiles. Ask the admin address, or start the server with --explain."
    NOW_NOT_ALLOWED "now_not_allowed" 403 "A time cannot be previewed here"
        "The parameter 'now' decides as at another time. Ask the admin address, compile a preview site, or \
         use 'parallax dev'."
    UNKNOWN_ENDPOINT "unknown_endpoint" 404 "Unknown endpoint"
        "The address has no such endpoint. /v1/openapi.json describes the public endpoints."
    RULES_NOT_PUBLISHED "rules_not_published" 404 "The site publishes no rules"
        "Set 'localDecisions' to true in site.json, and publish the site. A preview site publishes no rules."
    SITE_NOT_FOUND "site_not_found" 404 "The site is not published here"
        "No site with this ID is published on this server. Check the ID, and publish the site. Do not \
         send events for it again unchanged."
    VISITOR_NOT_FOUND "visitor_not_found" 404 "Nothing of the visitor is known"
        "No record, profile or tie has this ID, and no erasure has named it. Check the ID: in a query string and in the \
         header X-Visitor, a '+' is a blank. Write '%2B'."
    ROUTE_NOT_FOUND "route_not_found" 404 "The route is not published"
        "The site does not publish a page at this path. /v1/routes lists the published paths."
    QUERY_NOT_FOUND "query_not_found" 404 "The query is not published"
        "The site does not publish a content query with this ID."
    METHOD_NOT_ALLOWED "method_not_allowed" 405 "The method is not supported here"
        "The endpoint does not support the method. 'Allow' lists the supported methods."
    TIMEOUT "timeout" 408 "The request was not received in time"
        "The server did not receive the complete request in time. Send it again with the same message \
         IDs."
    PRECONDITION_FAILED "precondition_failed" 412 "The precondition is false"
        "'If-Match' has no ETag of the present response. Omit 'If-Match', or request the present response \
         first."
    EVENT_TOO_LARGE "event_too_large" 413 "The event is too large"
        "An event may have at most 32 KiB. Make it smaller."
    BATCH_TOO_LARGE "batch_too_large" 413 "The batch is too large"
        "A batch may have at most 2500 events. Send it in two halves."
    BODY_TOO_LARGE "body_too_large" 413 "The body is too large"
        "A body may have at most 512 KiB after decompression. Send a batch in two halves."
    TARGET_TOO_LONG "target_too_long" 414 "The request target is too long"
        "The request target, path and query, may have at most 8 KiB."
    UNSUPPORTED_TYPE "unsupported_type" 415 "The content type is not supported"
        "The content type of the body must be application/json, text/plain or absent."
    UNSUPPORTED_ENCODING "unsupported_encoding" 415 "The content encoding is not supported"
        "The content encoding of the body must be gzip or absent."
    EXPECTATION_FAILED "expectation_failed" 417 "The expectation is not supported"
        "The only supported expectation is '100-continue'."
    QUERY_TOO_EXPENSIVE "query_too_expensive" 422 "The query is too expensive"
        "Answering would take too much work. Narrow the query with more parameters."
    RATE_LIMITED "rate_limited" 429 "Too many requests"
        "The client or the site sends too many requests. Wait for 'Retry-After' seconds, then send the \
         request again with the same message IDs."
    HEAD_TOO_LARGE "head_too_large" 431 "The request head is too large"
        "The request line and header fields may have at most 16 KiB, and at most 64 fields. Large cookies \
         are the usual cause."
    INTERNAL "internal" 500 "Internal server error"
        "The server has a fault. Its log has the cause. Send the request again later."
    UNKNOWN_METHOD "unknown_method" 501 "The method is unknown"
        "The server does not know the method."
    UNKNOWN_TRANSFER_CODING "unknown_transfer_coding" 501 "The transfer coding is unknown"
        "The only supported transfer coding of a body is 'chunked'."
    QUEUE_FULL "queue_full" 503 "Too many events are waiting for the disk"
        "More events arrive than the disk can take. Wait for 'Retry-After' seconds, then send the events \
         again with the same message IDs."
    NOT_JOINED "not_joined" 503 "This node has not joined its cluster"
        "The server is a node of a cluster, and has never read its stream. So nobody else would get the events. Send them \
         again later or to another node, with the same message IDs. /readyz of the admin address shows the reason."
    JOINING "joining" 503 "This node lacks events of the visitor"
        "The server is a node of a cluster that reads the events of the others. With 'Prefer: handling=strict' it does not \
         answer with the default variants. Ask another node."
    NAME_IN_USE "name_in_use" 503 "Another node has the name of this one"
        "Another machine or process is the member of the cluster with the name of this node. Send the events to that one, \
         with the same message IDs."
    DISK_UNAVAILABLE "disk_unavailable" 503 "Events cannot be written to disk"
        "The server cannot write to its disk. Pages are still served. Send the events again later with \
         the same message IDs."
    AUDIT_UNAVAILABLE "audit_unavailable" 503 "The audit log cannot be written"
        "Each look at a visitor, export and erasure needs a line in the audit log, and the server cannot write one now. \
         Nothing was shown. Free space or repair the disk, then send the request again."
    STARTING "starting" 503 "The server is starting"
        "The server reads its data. /readyz of the admin address shows the progress."
    DRAINING "draining" 503 "The server is stopping"
        "The server is shutting down. Send the request again, with the same message IDs."
    OVERLOADED "overloaded" 503 "The server is overloaded"
        "The server has no memory or connection left for this request. Wait for 'Retry-After' seconds, \
         then send it again."
    COLUMNS_BUILDING "columns_building" 503 "The server still prepares its log for this question"
        "The server builds the columns of the log that the question needs, for example after goals of the site have changed. \
         Wait for 'Retry-After' seconds, then ask again. 'detail' has the progress."
    NODES_UNREACHABLE "nodes_unreachable" 503 "A node of the cluster is away"
        "A visitor is erased on all nodes, so all of them must be reachable. 'detail' names the others. Wait for \
         'Retry-After' seconds, then send the request again."
    UNSUPPORTED_VERSION "unsupported_version" 505 "The HTTP version is not supported"
        "The server supports HTTP/1.1 and HTTP/1.0."
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
    /// True if it is in the query string although the request has a body.
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
    pub const fn method_not_allowed(method: &'a str, allowed_methods: &'static str) -> Self {
        let problem = Self::new(METHOD_NOT_ALLOWED, "{} is not supported here; use {allow}.");
        Self { allow: allowed_methods, actual: Actual::Name(method), ..problem }
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
    pub const fn within(self, group_name: &'static str, name: &'a str) -> Self {
        Self { location: Some(Location { group: Some(group_name), name, in_query: false }), ..self }
    }
}
