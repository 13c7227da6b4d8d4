//! What requests carry: parameters, members of a body, header fields.
//!
//! [`says`] has an arm for every `Param`, so that none can be read without being described.

use serde_json::{Map, Value, json};

use super::schemas::{NAME, optional};
use crate::api::Endpoint;
use crate::http::params::Param;
use crate::limits::{
    ANON_ID_BYTES_MAX, KEY_BYTES_MAX, PAIRS_MAX, QUERY_LIMIT_MAX, ROUTE_BYTES_MAX, ROUTES_LISTED_MAX,
    SITE_ID_BYTES_MAX,
};
use crate::site::snapshot::format::VERSION_MAX;

/// The parameters that name the site, together one parameter of the document: one of them has to be there.
const NAMING: [Param; 2] = [Param::TrackingId, Param::Site];

/// The parameters without which an endpoint does not answer.
const REQUIRED: [Param; 2] = [Param::Route, Param::Query];

/// What a parameter says at an endpoint: a sentence, and its values where it is not empty.
fn says(param: Param, endpoint: Endpoint) -> (&'static str, Value) {
    match param {
        Param::TrackingId => (
            "The site's public id.",
            json!({ "type": "string", "pattern": format!("^track_[A-Za-z0-9_-]{{1,{SITE_ID_BYTES_MAX}}}$") }),
        ),
        Param::Site => (
            "The site's own id, where `trackingId` is omitted; beside it, it has to be the same site's.",
            name(),
        ),
        Param::Query => ("The name of a content query that the site publishes.", name()),
        Param::Route => (
            "The path of a page, such as `location.pathname`. It is decoded once more, segment by segment; query, fragment \
             and a closing `/` are cut off; `//` is refused. At most 2048 bytes.",
            json!({ "type": "string", "pattern": "^/([^/?#]+(/[^/?#]+)*/?)?([?#][\\s\\S]*)?$", "maxLength": ROUTE_BYTES_MAX }),
        ),
        Param::AnonId => (
            "The visitor's anonymous id: visible ASCII. Else the header `X-Anon-Id`, else the site's cookie. Placeholders \
             such as `null` or `anonymous` count as none.",
            json!({ "type": "string", "pattern": format!("^[!-~]{{1,{ANON_ID_BYTES_MAX}}}$") }),
        ),
        Param::Variants => (
            "Which variants to show, as `zone:key` joined by `,`, each zone at most once; empty for the baseline. Where it \
             is given, nothing is decided and no visitor is looked up, and the answer is public.",
            json!({ "type": "string", "format": "variants", "pattern": variants() }),
        ),
        Param::Strict => ("`1` refuses a zone or key that the route does not have.", switch()),
        Param::Explain => ("`1` tells why, where the server allows it.", switch()),
        Param::Url => ("The page's own URL as the visitor sees it. Else the header `Referer`.", any_text()),
        Param::Referrer => ("Where the visitor came from.", any_text()),
        Param::UserAgent => {
            ("The visitor's agent, where a server asks. Else the header `User-Agent`.", any_text())
        }
        Param::Locale => ("The visitor's language. Else the first of `Accept-Language`.", any_text()),
        Param::Country => {
            ("The visitor's country: two letters; anything else counts as unknown.", any_text())
        }
        Param::UserId => ("The id of a user; the operator asks by it.", any_text()),
        Param::Prefix => ("Lists only paths that begin so.", any_text()),
        Param::Since => (
            "A version of the site: lists what differs from it in either direction; everything, where the server does not \
             know that version any more.",
            json!({ "type": "integer", "minimum": 0, "maximum": VERSION_MAX }),
        ),
        Param::Limit => limit(endpoint),
        Param::Cursor => (
            "The `nextCursor` of the page before, with the same other parameters.",
            json!({ "type": "string", "format": "cursor" }),
        ),
        Param::Include => include(endpoint),
        Param::DryRun => ("`1` judges the events and stores nothing.", switch()),
    }
}

fn limit(endpoint: Endpoint) -> (&'static str, Value) {
    match endpoint {
        Endpoint::Query => (
            "How many items a page has at most. Default: the query's own.",
            json!({ "type": "integer", "minimum": 1, "maximum": QUERY_LIMIT_MAX }),
        ),
        _ => (
            "How many paths a page lists at most; a page ends at 1 MiB too. Default: 10000, or 1000 where variants are \
             included.",
            json!({ "type": "integer", "minimum": 1, "maximum": ROUTES_LISTED_MAX }),
        ),
    }
}

fn include(endpoint: Endpoint) -> (&'static str, Value) {
    let (sentence, word) = match endpoint {
        Endpoint::Variants => {
            ("All combinations of the route in place of a decision. The answer is public.", "combinations")
        }
        _ => ("With each route the combinations of its variants.", "variants"),
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

/// A value that the demo site answers.
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

/// The parameters of a query string: the site's unless `params` has it, then one for each of these.
pub(super) fn in_query(endpoint: Endpoint, params: &[Param]) -> Vec<Value> {
    // Where a body may name the site instead, each of the two is a parameter of its own.
    let site = (!params.contains(&Param::Site)).then(|| SITE.to_owned());
    let keys = params.iter().map(|param| key(*param, endpoint));
    site.into_iter().chain(keys).map(|key| reference(&key)).collect()
}

/// The name of the component that describes a parameter of an endpoint.
fn key(param: Param, endpoint: Endpoint) -> String {
    match param {
        Param::Limit | Param::Include => format!("{}-{}", param.name(), endpoint.name()),
        _ => param.name().to_owned(),
    }
}

/// The components that the references name: those of `read`, and header fields.
pub(super) fn all(read: impl Iterator<Item = (Endpoint, Param)>) -> Value {
    let mut all = Map::new();
    let lenient = |param| {
        let mut schema = says(param, Endpoint::Resolve).1;
        allow_empty(&mut schema);
        schema
    };
    let mut site_schema = naming(lenient);
    // Other parameters stand beside, each once.
    site_schema["additionalProperties"] = json!({ "type": "string" });
    let site = json!({
        "name": SITE, "in": "query", "required": true, "style": "form", "explode": true,
        "description": "The site: `trackingId`, or `site` where that is omitted. Each is a parameter of its own.",
        "schema": site_schema, "example": { "trackingId": example(Param::TrackingId) },
    });
    all.insert(SITE.to_owned(), site);
    for (endpoint, param) in read {
        all.insert(key(param, endpoint), in_query_as(param, endpoint));
    }
    all.insert(GROUP.to_owned(), group());
    all.extend(fields());
    Value::Object(all)
}

/// The object whose members name the site; exploded, so that its own name is not sent.
const SITE: &str = "siteId";
/// The object of a query's own parameters, likewise.
const GROUP: &str = "params";

fn reference(key: &str) -> Value {
    json!({ "$ref": format!("#/components/parameters/{key}") })
}

fn in_query_as(param: Param, endpoint: Endpoint) -> Value {
    let (sentence, mut schema) = says(param, endpoint);
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

/// An empty parameter counts as not given. A number cannot say so by its schema.
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

/// An object that has one of the members that name a site, each as `written`.
fn naming(written: impl Fn(Param) -> Value) -> Value {
    let properties: Map<_, _> = NAMING
        .iter()
        .map(|param| {
            let mut schema = written(*param);
            schema["description"] = says(*param, Endpoint::Resolve).0.into();
            (param.name().to_owned(), schema)
        })
        .collect();
    let either = NAMING.map(|param| {
        json!({ "required": [param.name()], "properties": { param.name(): says(param, Endpoint::Resolve).1 } })
    });
    json!({ "type": "object", "properties": properties, "oneOf": either })
}

/// The parameters of a content query, in a URL.
pub(super) fn in_group() -> Value {
    reference(GROUP)
}

fn group() -> Value {
    json!({
        "name": GROUP, "in": "query", "required": false, "style": "form", "explode": true,
        "description": "The query's own parameters, each a parameter of its own: `params.category=news`. Their values are \
            read by the types that the query declares; a parameter that it does not declare is refused.",
        "schema": { "type": "object", "patternProperties": { "^params\\.": { "type": "string" } },
            "additionalProperties": { "type": "string" } },
        "example": { "params.section": "workshop" },
    })
}

/// The body of a content query.
pub(super) fn body(params: &[Param]) -> Value {
    let endpoint = Endpoint::Query;
    let mut schema = naming(|param| optional(&says(param, endpoint).1));
    let properties = schema["properties"].as_object_mut().expect("it was made with properties");
    for param in params {
        let (sentence, values) = says(*param, endpoint);
        let mut values = if REQUIRED.contains(param) { values } else { optional(&values) };
        values["description"] = sentence.into();
        properties.insert(param.name().to_owned(), values);
    }
    let given =
        json!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } });
    let mut given = optional(&given);
    given["description"] =
        "The query's own parameters by name; types are exact. A parameter that it does not declare is refused.".into();
    properties.insert("params".to_owned(), given);
    schema["required"] = params.iter().filter(|p| REQUIRED.contains(p)).map(|p| p.name()).collect();
    json!({
        "required": true,
        "description": "JSON. `text/plain`, no type, and a form's type are taken too where the body is JSON; \
            `Content-Encoding: gzip` is understood. 512 KiB, inflated. Of doubled members the last counts; a number where an \
            id belongs is taken as its decimal text.",
        "content": { "application/json": {
            "schema": schema,
            "example": { "trackingId": example(Param::TrackingId), "query": example(Param::Query),
                "params": { "section": "workshop" }, "limit": 2 },
        } },
    })
}

/// Header fields of requests that change an answer, and what for.
const HEADERS: [(&str, &str, &str); 15] = [
    ("header", "If-None-Match", "The `ETag` of what the client has: 304 where it is still the same."),
    ("header", "Accept-Encoding", "`gzip` compresses bodies above 1 KiB."),
    ("header", "Origin", "A browser's page; it decides about CORS of private answers."),
    (
        "header",
        "X-Request-Id",
        "1 to 128 of visible ASCII, echoed by private answers and problems; else one is minted.",
    ),
    ("header", "X-Debug-Timing", "`1` asks private answers for `Server-Timing`."),
    (
        "header",
        "X-Anon-Id",
        "The visitor's anonymous id, where `anonId` is not given. What is malformed counts as none.",
    ),
    ("cookie", "anon_id", "The same where neither is given. The cookie's name is the site's to choose."),
    ("header", "Accept-Language", "The visitor's language, where `locale` is not given."),
    ("header", "User-Agent", "The visitor's agent, where `userAgent` is not given and this is a visitor's."),
    ("header", "Referer", "The page's own URL, where `url`, or an event itself, does not say it."),
    ("header", "Sec-Fetch-Mode", "Sent by browsers; says that `User-Agent` is a visitor's."),
    ("header", "Content-Encoding", "`gzip` where the body is compressed."),
    ("header", "Prefer", "`return=minimal` asks for 204 where nothing was dropped or rejected."),
    ("header", "X-Preview", "`1` drops the events: nobody's visit."),
    ("header", "Sec-GPC", "`1` drops the events where the site honours it."),
];

/// Which of them an operation has: whose answer is public, a POST, and where a visitor counts.
pub(super) const OF_PUBLIC: &[&str] = &["If-None-Match", "Accept-Encoding", "X-Request-Id"];
pub(super) const OF_POST: &[&str] = &["Accept-Encoding", "Origin", "X-Request-Id", "X-Debug-Timing"];
pub(super) const OF_VISITOR: &[&str] = &[
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

/// Of an event. The site's own words come first, the browser's behind.
pub(super) const OF_EVENT: &[&str] = &[
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

/// References to header fields.
pub(super) fn in_head<'n>(names: &'n [&str]) -> impl Iterator<Item = Value> + 'n {
    names.iter().map(|name| reference(name))
}
