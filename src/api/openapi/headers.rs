//! Header fields of responses.
//!
//! A field that an answer always has is the component of its name; one that it has under some condition is the component
//! `<name>-sometimes`.

use serde_json::{Map, Value, json};

/// Whether the answers that name a field always have it.
#[derive(PartialEq)]
enum Have {
    Always,
    Sometimes,
    /// Some always, others sometimes.
    Both,
}

/// Name, what it says, and its values.
const FIELDS: &[(Have, &str, &str, &str)] = &[
    (Have::Always, "Date", "When the answer was made.", "GMT$"),
    (
        Have::Always,
        "Cache-Control",
        "Who may keep the answer, and how long.",
        "^(public, |private, )?(no-store|s-maxage|max-age)",
    ),
    (
        Have::Always,
        "X-Request-Id",
        "The caller's own id on private answers and problems, else a minted one.",
        "^[!-~]{1,128}$",
    ),
    (Have::Both, "ETag", "A strong validator. Explanations have none.", "^\"[0-9a-f]{32}\"$"),
    (Have::Always, "X-Version", "The version of the site's publication.", "^[0-9]+$"),
    (
        Have::Sometimes,
        "X-Variants",
        "The canonical `variants` that the body shows. Redirects have none.",
        "^[A-Za-z0-9_:,-]*$",
    ),
    (
        Have::Sometimes,
        "Content-Location",
        "The canonical URL, where `variants` names what the route does not have.",
        "^/v1/resolve[?]",
    ),
    (Have::Both, "Cache-Tag", "What to purge a public answer by, joined by commas.", "^[!-~]+$"),
    (Have::Both, "Surrogate-Key", "The same joined by spaces.", "^[ -~]+$"),
    (
        Have::Sometimes,
        "Server-Timing",
        "How long a private answer took, where `X-Debug-Timing: 1` asked.",
        "^total;dur=[0-9.]+$",
    ),
    (
        Have::Sometimes,
        "X-Dropped",
        "Why a single event was not recorded on purpose.",
        "^(preview|bot|no_consent)$",
    ),
    (Have::Sometimes, "Vary", "What else of the request the answer depends on.", "^[ -~]+$"),
    (Have::Sometimes, "Content-Encoding", "The coding of the body, where it has one.", "^gzip$"),
    (Have::Both, "Access-Control-Allow-Origin", "`*`, or the origin that the site allows.", "^[!-~]+$"),
    (Have::Sometimes, "Access-Control-Allow-Credentials", "Beside an origin that is named.", "^true$"),
    (Have::Both, "Access-Control-Expose-Headers", "The fields that a page may read.", "^[ -~]+$"),
    (Have::Sometimes, "Access-Control-Allow-Methods", "Of a preflight.", "^[ -~]+$"),
    (
        Have::Sometimes,
        "Access-Control-Allow-Headers",
        "Of a preflight: those it asked for that may be sent.",
        "^[ -~]+$",
    ),
    (Have::Sometimes, "Access-Control-Max-Age", "Of a preflight, in seconds.", "^[0-9]+$"),
    (Have::Always, "Retry-After", "Seconds after which it is worth another try.", "^[0-9]+$"),
    (Have::Sometimes, "Allow", "The methods of the endpoint.", "^[A-Z]+(, [A-Z]+)*$"),
];

/// The components that the references name.
pub(super) fn all() -> Value {
    let mut all = Map::new();
    for (have, name, sentence, pattern) in FIELDS {
        let field = |required: bool| json!({ "description": sentence, "required": required, "schema": { "type": "string", "pattern": pattern } });
        if *have != Have::Sometimes {
            all.insert((*name).to_owned(), field(true));
        }
        if *have != Have::Always {
            all.insert(format!("{name}-sometimes"), field(false));
        }
    }
    Value::Object(all)
}

/// The fields of a response: what each answer has, then `always`, then what it may have, CORS included.
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
