//! Refusals: from the table of codes to responses by status.

use serde_json::{Map, Value, json};

use super::headers;
use crate::problem::{self, Kind};

/// What any request can be refused for, before its endpoint is looked at.
pub(super) const OF_ANY: &[&Kind] = &[
    problem::MALFORMED_REQUEST,
    problem::TIMEOUT,
    problem::BODY_TOO_LARGE,
    problem::TARGET_TOO_LONG,
    problem::EXPECTATION_FAILED,
    problem::RATE_LIMITED,
    problem::HEAD_TOO_LARGE,
    problem::UNKNOWN_TRANSFER_CODING,
    problem::OVERLOADED,
    problem::UNSUPPORTED_VERSION,
];

/// What a query string can be refused for, and the site that is named in it.
pub(super) const OF_SITE: &[&Kind] = &[
    problem::INVALID_QUERY,
    problem::REPEATED_PARAM,
    problem::MISSING_SITE,
    problem::INVALID_TRACKING_ID,
    problem::SITE_MISMATCH,
    problem::SITE_NOT_FOUND,
];

/// The same of a body.
pub(super) const OF_BODY: &[&Kind] = &[
    problem::MALFORMED_JSON,
    problem::MISSING_SITE,
    problem::INVALID_TRACKING_ID,
    problem::SITE_MISMATCH,
    problem::SITE_NOT_FOUND,
    problem::UNSUPPORTED_TYPE,
    problem::UNSUPPORTED_ENCODING,
];

/// What a route of a site can be refused for, and what is asked of its visitor.
pub(super) const OF_ROUTE: &[&Kind] = &[
    problem::MISSING_ROUTE,
    problem::INVALID_ROUTE,
    problem::INVALID_ANON_ID,
    problem::INVALID_PARAM,
    problem::EXPLAIN_NOT_ALLOWED,
    problem::ROUTE_NOT_FOUND,
];

/// What events can be refused for, and those who send them.
pub(super) const OF_EVENTS: &[&Kind] = &[
    problem::MALFORMED_JSON,
    problem::INVALID_EVENT,
    problem::AMBIGUOUS_EVENT,
    problem::INVALID_TYPE,
    problem::MISSING_VISITOR,
    problem::INVALID_ANON_ID,
    problem::PLACEHOLDER_ID,
    problem::INVALID_TIMESTAMP,
    problem::INVALID_VARIANTS,
    problem::INVALID_PARAM,
    problem::ORIGIN_NOT_ALLOWED,
    problem::EVENT_TOO_LARGE,
    problem::BATCH_TOO_LARGE,
    problem::UNSUPPORTED_TYPE,
    problem::UNSUPPORTED_ENCODING,
    problem::QUEUE_FULL,
    problem::DISK_UNAVAILABLE,
    problem::DRAINING,
];

/// Codes of the operator's address alone.
const OPERATORS: &[&Kind] =
    &[problem::UNAUTHORIZED, problem::HOST_NOT_ALLOWED, problem::INTERNAL, problem::STARTING];

/// The codes of the public addresses, in the table's order.
pub(super) fn codes() -> impl Iterator<Item = &'static Kind> {
    problem::ALL.iter().copied().filter(|kind| !OPERATORS.contains(kind))
}

/// The responses to requests that are refused for one of `kinds`, or for what any request can be; of HEAD without content.
pub(super) fn refusals(kinds: &[&[&'static Kind]], head_only: bool) -> Map<String, Value> {
    let mut kinds: Vec<_> = kinds.iter().copied().chain([OF_ANY]).flatten().copied().collect();
    kinds.sort_by_key(|kind| kind.status);
    let by_status = kinds.chunk_by(|a, b| a.status == b.status).map(|kinds| {
        let status = kinds[0].status;
        let response = match is_shared(kinds) {
            true => json!({ "$ref": format!("#/components/responses/{}", key(status, head_only)) }),
            false => refusal(kinds, head_only),
        };
        (status.to_string(), response)
    });
    by_status.collect()
}

/// Whether every operation has this response.
fn is_shared(kinds: &[&'static Kind]) -> bool {
    kinds.iter().all(|kind| OF_ANY.contains(kind)) && kinds[0].status != 400
}

fn key(status: u16, head_only: bool) -> String {
    format!("{status}{}", if head_only { "-head" } else { "" })
}

/// The components that `refusals` refers to.
pub(super) fn shared() -> Value {
    let shared = OF_ANY.iter().filter(|kind| is_shared(&[kind]));
    let both = shared.flat_map(|kind| [false, true].map(|head_only| (kind, head_only)));
    let written = both.map(|(kind, head_only)| (key(kind.status, head_only), refusal(&[kind], head_only)));
    Value::Object(written.collect())
}

fn refusal(kinds: &[&'static Kind], head_only: bool) -> Value {
    let codes: Vec<_> = kinds.iter().map(|kind| kind.code).collect();
    let titles: Vec<_> = kinds.iter().map(|kind| format!("`{}`: {}", kind.code, kind.title)).collect();
    let always: &[&str] = match kinds[0].status {
        429 | 503 => &["Cache-Control", "Retry-After"],
        _ => &["Cache-Control"],
    };
    let mut response = json!({
        "description": titles.join(". "),
        "headers": headers::of(always, &[]),
    });
    if !head_only {
        response["content"] = json!({ "application/problem+json": { "schema": { "allOf": [
            { "$ref": "#/components/schemas/Problem" },
            { "properties": { "status": { "const": kinds[0].status }, "code": { "enum": codes } } },
        ] } } });
    }
    response
}
