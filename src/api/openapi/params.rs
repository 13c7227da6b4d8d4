//! Inputs of requests: parameters, body members and header fields.
//!
//! [`describe`] has an arm for every `Param`, so that every parameter has a description.

use serde_json::{Map, Value, json};

use super::schemas::{NAME, optional};
use crate::api::Endpoint;
use crate::http::params::Param;
use crate::limits::{
    ANON_ID_BYTES_MAX, KEY_BYTES_MAX, PAIRS_MAX, QUERY_LIMIT_MAX, ROUTE_BYTES_MAX, ROUTES_LISTED_MAX,
    SITE_ID_BYTES_MAX,
};
use crate::site::snapshot::format::VERSION_MAX;

/// The parameters that name the site. One of them is required, so the document has them as one parameter.
const SITE_PARAMS: [Param; 2] = [Param::TrackingId, Param::Site];

/// The required parameters of endpoints.
const REQUIRED: [Param; 2] = [Param::Route, Param::Query];

/// Returns the description and the schema of a parameter at an endpoint. The schema is for values that are
/// not empty.
fn describe(param: Param, endpoint: Endpoint) -> (&'static str, Value) {
    match param {
        Param::TrackingId => (
            "The site's tracking ID.",
            json!({ "type": "string", "pattern": format!("^track_[A-Za-z0-9_-]{{1,{SITE_ID_BYTES_MAX}}}$") }),
        ),
        Param::Site => (
            "The site ID, if `trackingId` is omitted. If both are given, they must name the same site.",
            name(),
        ),
        Param::Query => ("The ID of a content query that the site publishes.", name()),
        Param::Route => (
            "The path of a page, such as `location.pathname`. The server percent-decodes each segment once more. It removes \
             query, fragment and a trailing `/`. A path with `//` is refused. At most 2048 bytes.",
            json!({ "type": "string", "pattern": "^/([^/?#]+(/[^/?#]+)*/?)?([?#][\\s\\S]*)?$", "maxLength": ROUTE_BYTES_MAX }),
        ),
        Param::AnonId => (
            "The visitor's anonymous ID, in visible ASCII. Default: the header `X-Anon-Id`, else the site's cookie. \
             Placeholders such as `null` or `anonymous` count as absent.",
            json!({ "type": "string", "pattern": format!("^[!-~]{{1,{ANON_ID_BYTES_MAX}}}$") }),
        ),
        Param::Variants => (
            "The variants to show, as `zone:key` pairs separated by `,`, each zone at most once. Empty shows the baseline. If \
             this is given, no rules run, no visitor is looked up, and the response is public.",
            json!({ "type": "string", "format": "variants", "pattern": variants() }),
        ),
        Param::Strict => ("`1` refuses a zone or key that the route does not have.", switch()),
        Param::Explain => ("`1` adds the reasons of the decision, if the server allows it.", switch()),
        Param::Url => {
            ("The page's own URL as the visitor sees it. Default: the header `Referer`.", any_text())
        }
        Param::Referrer => ("The URL of the page that led the visitor here.", any_text()),
        Param::UserAgent => (
            "The visitor's user agent, if a server sends the request. Default: the header `User-Agent`.",
            any_text(),
        ),
        Param::Locale => ("The visitor's language. Default: the first of `Accept-Language`.", any_text()),
        Param::Country => {
            ("The visitor's country, as two letters. Any other value counts as unknown.", any_text())
        }
        Param::UserId => ("A user ID, for the admin address.", any_text()),
        Param::Prefix => ("Lists only paths with this prefix.", any_text()),
        Param::Since => (
            "A version of the site. The response lists the differences from it, in either direction. If the server no longer \
             knows that version, it lists everything.",
            json!({ "type": "integer", "minimum": 0, "maximum": VERSION_MAX }),
        ),
        Param::Limit => limit(endpoint),
        Param::Cursor => (
            "The `nextCursor` of the previous page. The other parameters must be the same.",
            json!({ "type": "string", "format": "cursor" }),
        ),
        Param::Include => include(endpoint),
        Param::DryRun => ("`1` validates the events and stores nothing.", switch()),
    }
}

fn limit(endpoint: Endpoint) -> (&'static str, Value) {
    match endpoint {
        Endpoint::Query => (
            "Maximum number of items per page. Default: the query's own.",
            json!({ "type": "integer", "minimum": 1, "maximum": QUERY_LIMIT_MAX }),
        ),
        _ => (
            "Maximum number of paths per page. A page also ends at 1 MiB. Default: 10000, or 1000 with `include=variants`.",
            json!({ "type": "integer", "minimum": 1, "maximum": ROUTES_LISTED_MAX }),
        ),
    }
}

fn include(endpoint: Endpoint) -> (&'static str, Value) {
    let (sentence, word) = match endpoint {
        Endpoint::Variants => (
            "`combinations` returns all combinations of the route instead of a decision. The response is public.",
            "combinations",
        ),
        _ => ("`variants` adds to each route the combinations of its variants.", "variants"),
    };
    (sentence, json!({ "type": "string", "enum": [word, ""] }))
}

fn name() -> Value {
    json!({ "type": "string", "pattern": NAME })
}

fn any_text() -> Value {
    json!({ "type": "string" })
}

fn switch() -> Value {
    json!({ "type": "string", "enum": ["1", "0", ""], "default": "0" })
}

fn variants() -> String {
    let pair = format!("[A-Za-z0-9_-]{{1,{KEY_BYTES_MAX}}}:[A-Za-z0-9_-]{{1,{KEY_BYTES_MAX}}}");
    format!("^({pair}(,{pair}){{0,{}}})?$", PAIRS_MAX - 1)
}

/// Returns a value for which the demo site has a response.
fn example(param: Param) -> Option<&'static str> {
    Some(match param {
        Param::TrackingId => "track_demo",
        Param::Route => "/",
        Param::AnonId => "visitor-2",
        Param::Variants => "hero:deutsch",
        Param::Locale => "de",
        Param::Prefix => "/magazine",
        Param::Query => "latest-articles",
        _ => return None,
    })
}

/// Returns the query parameters of an operation: that of the site unless `params` has it, then one for each
/// of `params`.
pub(super) fn in_query(endpoint: Endpoint, params: &[Param]) -> Vec<Value> {
    // If the body may name the site instead, `params` has each of the two as a parameter of its own.
    let site = (!params.contains(&Param::Site)).then(|| SITE.to_owned());
    let keys = params.iter().map(|param| key(*param, endpoint));
    site.into_iter().chain(keys).map(|key| reference(&key)).collect()
}

/// Returns the name of the component that describes a parameter of an endpoint.
fn key(param: Param, endpoint: Endpoint) -> String {
    match param {
        Param::Limit | Param::Include => format!("{}-{}", param.name(), endpoint.name()),
        _ => param.name().to_owned(),
    }
}

/// Returns the components that the references name: those of `read`, and header fields.
pub(super) fn all(read: impl Iterator<Item = (Endpoint, Param)>) -> Value {
    let mut all = Map::new();
    let lenient = |param| {
        let mut schema = describe(param, Endpoint::Resolve).1;
        allow_empty(&mut schema);
        schema
    };
    let mut site_schema = site_object(lenient);
    // The exploded object also matches the other query parameters, each once.
    site_schema["additionalProperties"] = json!({ "type": "string" });
    let site = json!({
        "name": SITE, "in": "query", "required": true, "style": "form", "explode": true,
        "description": "The site: `trackingId`, or `site` if that is omitted. Each is a separate query parameter.",
        "schema": site_schema, "example": { "trackingId": example(Param::TrackingId) },
    });
    all.insert(SITE.to_owned(), site);
    for (endpoint, param) in read {
        all.insert(key(param, endpoint), query_param(param, endpoint));
    }
    all.insert(QUERY_PARAMS.to_owned(), query_params());
    all.extend(fields());
    Value::Object(all)
}

/// The object whose members name the site. It is exploded, so its own name is not sent.
const SITE: &str = "siteId";
/// The object of a content query's own parameters. It is exploded too.
const QUERY_PARAMS: &str = "params";

fn reference(key: &str) -> Value {
    json!({ "$ref": format!("#/components/parameters/{key}") })
}

fn query_param(param: Param, endpoint: Endpoint) -> Value {
    let (sentence, mut schema) = describe(param, endpoint);
    let is_required = REQUIRED.contains(&param);
    if !is_required {
        allow_empty(&mut schema);
    }
    let mut written = json!({
        "name": param.name(), "in": "query", "required": is_required, "description": sentence, "schema": schema,
    });
    if let Some(example) = example(param) {
        written["example"] = example.into();
    }
    written
}

/// Allows the empty value in a schema, because an empty parameter counts as absent. An integer schema becomes
/// an `anyOf`.
fn allow_empty(schema: &mut Value) {
    if let Some(Value::String(pattern)) = schema.get_mut("pattern")
        && !pattern.ends_with(")?$")
    {
        *pattern = format!("^({})?$", pattern.trim_start_matches('^').trim_end_matches('$'));
    }
    if schema["type"] == "integer" {
        *schema = json!({ "anyOf": [schema.take(), { "const": "" }] });
    }
}

/// Returns the schema of an object with one of the members that name a site, each with the schema `written`.
fn site_object(written: impl Fn(Param) -> Value) -> Value {
    let properties: Map<_, _> = SITE_PARAMS
        .iter()
        .map(|param| {
            let mut schema = written(*param);
            schema["description"] = describe(*param, Endpoint::Resolve).0.into();
            (param.name().to_owned(), schema)
        })
        .collect();
    let either = SITE_PARAMS.map(|param| {
        json!({ "required": [param.name()], "properties": { param.name(): describe(param, Endpoint::Resolve).1 } })
    });
    json!({ "type": "object", "properties": properties, "oneOf": either })
}

/// Returns the parameter for a content query's own parameters in a URL.
pub(super) fn query_params_reference() -> Value {
    reference(QUERY_PARAMS)
}

fn query_params() -> Value {
    json!({
        "name": QUERY_PARAMS, "in": "query", "required": false, "style": "form", "explode": true,
        "description": "The query's own parameters, each as a separate query parameter: `params.category=news`. A value must \
            have the type that the query declares. A parameter that it does not declare is refused.",
        "schema": { "type": "object", "patternProperties": { "^params\\.": { "type": "string" } },
            "additionalProperties": { "type": "string" } },
        "example": { "params.section": "workshop" },
    })
}

/// Returns the request body of a content query.
pub(super) fn body(params: &[Param]) -> Value {
    let endpoint = Endpoint::Query;
    let mut schema = site_object(|param| optional(&describe(param, endpoint).1));
    let properties = schema["properties"].as_object_mut().expect("it was made with properties");
    for param in params {
        let (sentence, values) = describe(*param, endpoint);
        let mut values = if REQUIRED.contains(param) { values } else { optional(&values) };
        values["description"] = sentence.into();
        properties.insert(param.name().to_owned(), values);
    }
    let given =
        json!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } });
    let mut given = optional(&given);
    given["description"] =
        "The query's own parameters by name. Values must have the declared JSON types. A parameter that the query does not \
         declare is refused.".into();
    properties.insert("params".to_owned(), given);
    schema["required"] = params.iter().filter(|p| REQUIRED.contains(p)).map(|p| p.name()).collect();
    json!({
        "required": true,
        "description": "JSON. The types `text/plain`, none, and that of a form are accepted too if the body is JSON. \
            `Content-Encoding: gzip` is supported. At most 512 KiB after decompression. The last of duplicate members counts. A \
            number in place of an ID is read as its decimal text.",
        "content": { "application/json": {
            "schema": schema,
            "example": { "trackingId": example(Param::TrackingId), "query": example(Param::Query),
                "params": { "section": "workshop" }, "limit": 2 },
        } },
    })
}

/// Request header fields that change a response: location, name and description.
const HEADERS: [(&str, &str, &str); 15] = [
    (
        "header",
        "If-None-Match",
        "The `ETag` of the client's copy. If it is still valid, the response is 304.",
    ),
    ("header", "Accept-Encoding", "With `gzip`, bodies above 1 KiB are compressed."),
    (
        "header",
        "Origin",
        "The origin of a browser's page. The CORS fields of private responses depend on it.",
    ),
    (
        "header",
        "X-Request-Id",
        "1 to 128 visible ASCII characters. Private responses and problems echo it. If absent, the server generates one.",
    ),
    ("header", "X-Debug-Timing", "`1` adds `Server-Timing` to private responses."),
    (
        "header",
        "X-Anon-Id",
        "The visitor's anonymous ID, if `anonId` is not given. A malformed value counts as absent.",
    ),
    (
        "cookie",
        "anon_id",
        "The visitor's anonymous ID, if neither is given. The site chooses the cookie's name.",
    ),
    ("header", "Accept-Language", "The visitor's language, if `locale` is not given."),
    (
        "header",
        "User-Agent",
        "The visitor's user agent, if `userAgent` is not given and the request comes from a browser or a crawler.",
    ),
    ("header", "Referer", "The page's own URL, if neither `url` nor the event has it."),
    ("header", "Sec-Fetch-Mode", "Sent by browsers. It shows that `User-Agent` is that of a visitor."),
    ("header", "Content-Encoding", "`gzip` if the body is compressed."),
    ("header", "Prefer", "With `return=minimal`, the response is 204 if no event was dropped or rejected."),
    ("header", "X-Preview", "`1` marks a preview: the events are dropped."),
    ("header", "Sec-GPC", "`1` drops the events if the site honors it."),
];

/// Header fields of operations with public responses, of a POST query, and of operations for a visitor.
pub(super) const PUBLIC_HEADERS: &[&str] = &["If-None-Match", "Accept-Encoding", "X-Request-Id"];
pub(super) const POST_HEADERS: &[&str] = &["Accept-Encoding", "Origin", "X-Request-Id", "X-Debug-Timing"];
pub(super) const VISITOR_HEADERS: &[&str] = &[
    "If-None-Match",
    "Accept-Encoding",
    "Origin",
    "X-Request-Id",
    "X-Debug-Timing",
    "X-Anon-Id",
    "anon_id",
    "Accept-Language",
    "User-Agent",
    "Referer",
    "Sec-Fetch-Mode",
];

/// Header fields of event endpoints: first those that a site's code sets, then those of the browser.
pub(super) const EVENT_HEADERS: &[&str] = &[
    "Content-Encoding",
    "Prefer",
    "X-Anon-Id",
    "anon_id",
    "X-Preview",
    "Sec-GPC",
    "X-Request-Id",
    "X-Debug-Timing",
    "Origin",
    "User-Agent",
    "Referer",
    "Sec-Fetch-Mode",
];

fn fields() -> impl Iterator<Item = (String, Value)> {
    HEADERS.iter().map(|(place, name, sentence)| {
        let parameter = json!({
            "name": name, "in": place, "required": false, "description": sentence, "schema": { "type": "string" },
        });
        ((*name).to_owned(), parameter)
    })
}

/// Returns references to header fields.
pub(super) fn header_params<'n>(names: &'n [&str]) -> impl Iterator<Item = Value> + 'n {
    names.iter().map(|name| reference(name))
}
