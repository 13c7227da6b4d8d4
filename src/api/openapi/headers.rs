//! Header fields of responses.
//!
//! A field that a response always has is the component of its name. A field that it has only under some
//! condition is the component `<name>-sometimes`.

use serde_json::{Map, Value, json};

/// The condition under which responses have a field.
#[derive(PartialEq)]
enum Presence {
    Always,
    Sometimes,
    /// Some responses always have it, others sometimes.
    AlwaysAndSometimes,
}

/// Presence, name, description and value pattern of each field.
const FIELDS: &[(Presence, &str, &str, &str)] = &[
    (Presence::Always, "Date", "The time of the response.", "GMT$"),
    (
        Presence::Always,
        "Cache-Control",
        "The caches that may store the response, and for how long.",
        "^(public, |private, )?(no-store|s-maxage|max-age)",
    ),
    (
        Presence::Always,
        "X-Request-Id",
        "The caller's own ID on private responses and problems, else a generated one.",
        "^[!-~]{1,128}$",
    ),
    (
        Presence::AlwaysAndSometimes,
        "ETag",
        "A strong validator. Explanations have no ETag.",
        "^\"[0-9a-f]{32}\"$",
    ),
    (Presence::Always, "X-Version", "The version of the site's publication.", "^[0-9]+$"),
    (
        Presence::Sometimes,
        "X-Variants",
        "The selected variants in canonical form. Redirects have no such field.",
        "^[A-Za-z0-9_:,-]*$",
    ),
    (
        Presence::Sometimes,
        "Content-Location",
        "The canonical URL, if `variants` contains a zone or key that the route does not have.",
        "^/v1/resolve[?]",
    ),
    (
        Presence::AlwaysAndSometimes,
        "Cache-Tag",
        "Tags for purging a public response from caches, separated by commas.",
        "^[!-~]+$",
    ),
    (Presence::AlwaysAndSometimes, "Surrogate-Key", "The same tags, separated by spaces.", "^[ -~]+$"),
    (
        Presence::Sometimes,
        "Server-Timing",
        "Processing time of a private response, in milliseconds, if the request has `X-Debug-Timing: 1`.",
        "^total;dur=[0-9.]+$",
    ),
    (
        Presence::Sometimes,
        "X-Dropped",
        "The reason why a single valid event was not recorded.",
        "^(preview|bot|no_consent)$",
    ),
    (Presence::Sometimes, "Vary", "Request fields on which the response depends.", "^[ -~]+$"),
    (Presence::Sometimes, "Content-Encoding", "The coding of a compressed body.", "^gzip$"),
    (
        Presence::AlwaysAndSometimes,
        "Access-Control-Allow-Origin",
        "`*`, or the origin that the site allows.",
        "^[!-~]+$",
    ),
    (
        Presence::Sometimes,
        "Access-Control-Allow-Credentials",
        "Present if `Access-Control-Allow-Origin` is an origin.",
        "^true$",
    ),
    (
        Presence::AlwaysAndSometimes,
        "Access-Control-Expose-Headers",
        "Response fields that a script may read.",
        "^[ -~]+$",
    ),
    (Presence::Sometimes, "Access-Control-Allow-Methods", "Preflight: the allowed methods.", "^[ -~]+$"),
    (
        Presence::Sometimes,
        "Access-Control-Allow-Headers",
        "Preflight: the allowed fields among the requested ones.",
        "^[ -~]+$",
    ),
    (
        Presence::Sometimes,
        "Access-Control-Max-Age",
        "Preflight: lifetime of the result, in seconds.",
        "^[0-9]+$",
    ),
    (Presence::Always, "Retry-After", "Seconds to wait before the next attempt.", "^[0-9]+$"),
    (Presence::Sometimes, "Allow", "The methods that the endpoint supports.", "^[A-Z]+(, [A-Z]+)*$"),
];

/// Returns the components that the references name.
pub(super) fn all() -> Value {
    let mut all = Map::new();
    for (have, name, sentence, pattern) in FIELDS {
        let field = |required: bool| json!({ "description": sentence, "required": required, "schema": { "type": "string", "pattern": pattern } });
        if *have != Presence::Sometimes {
            all.insert((*name).to_owned(), field(true));
        }
        if *have != Presence::Always {
            all.insert(format!("{name}-sometimes"), field(false));
        }
    }
    Value::Object(all)
}

/// Returns the fields of a response: those of all responses, `always`, then the optional ones, including
/// CORS.
pub(super) fn of(always: &[&str], sometimes: &[&str]) -> Value {
    let mut fields = Map::new();
    for name in ["Date", "X-Request-Id"].iter().chain(always) {
        fields.insert((*name).to_owned(), reference(name));
    }
    for name in sometimes.iter().chain(&CORS) {
        if !fields.contains_key(*name) {
            fields.insert((*name).to_owned(), reference(&format!("{name}-sometimes")));
        }
    }
    Value::Object(fields)
}

const CORS: [&str; 4] = [
    "Access-Control-Allow-Origin",
    "Access-Control-Allow-Credentials",
    "Access-Control-Expose-Headers",
    "Vary",
];

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/headers/{name}") })
}
