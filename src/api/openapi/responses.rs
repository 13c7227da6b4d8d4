//! Problem responses by status, from the table of codes.

use serde_json::{Map, Value, json};

use super::headers;
use crate::problem::{self, ProblemKind};

/// Problems of any request, before its endpoint is looked up.
pub(super) const ANY_REQUEST_PROBLEMS: &[&ProblemKind] = &[
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

/// Problems of a query string and of the site that it names.
pub(super) const SITE_PROBLEMS: &[&ProblemKind] = &[
    problem::INVALID_QUERY,
    problem::REPEATED_PARAM,
    problem::MISSING_SITE,
    problem::INVALID_TRACKING_ID,
    problem::SITE_MISMATCH,
    problem::SITE_NOT_FOUND,
];

/// Problems of a body and of the site that it names.
pub(super) const BODY_PROBLEMS: &[&ProblemKind] = &[
    problem::MALFORMED_JSON,
    problem::MISSING_SITE,
    problem::INVALID_TRACKING_ID,
    problem::SITE_MISMATCH,
    problem::SITE_NOT_FOUND,
    problem::UNSUPPORTED_TYPE,
    problem::UNSUPPORTED_ENCODING,
];

/// Problems of a route and of the parameters for its visitor.
pub(super) const ROUTE_PROBLEMS: &[&ProblemKind] = &[
    problem::MISSING_ROUTE,
    problem::INVALID_ROUTE,
    problem::INVALID_ANON_ID,
    problem::INVALID_PARAM,
    problem::EXPLAIN_NOT_ALLOWED,
    problem::ROUTE_NOT_FOUND,
];

/// Problems of events and of their visitors.
pub(super) const EVENT_PROBLEMS: &[&ProblemKind] = &[
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

/// Codes that only the admin address uses.
const ADMIN_PROBLEMS: &[&ProblemKind] =
    &[problem::UNAUTHORIZED, problem::HOST_NOT_ALLOWED, problem::INTERNAL, problem::STARTING];

/// Returns the codes of the public addresses, in the table's order.
pub(super) fn public_problems() -> impl Iterator<Item = &'static ProblemKind> {
    problem::ALL.iter().copied().filter(|kind| !ADMIN_PROBLEMS.contains(kind))
}

/// Returns responses by status for `kinds` and for the problems of any request. Those of HEAD have no
/// content.
pub(super) fn problem_responses(kinds: &[&[&'static ProblemKind]], head_only: bool) -> Map<String, Value> {
    let mut kinds: Vec<_> = kinds.iter().copied().chain([ANY_REQUEST_PROBLEMS]).flatten().copied().collect();
    kinds.sort_by_key(|kind| kind.status);
    let by_status = kinds.chunk_by(|a, b| a.status == b.status).map(|kinds| {
        let status = kinds[0].status;
        let response = match is_shared(kinds) {
            true => json!({ "$ref": format!("#/components/responses/{}", key(status, head_only)) }),
            false => problem_response(kinds, head_only),
        };
        (status.to_string(), response)
    });
    by_status.collect()
}

/// Returns whether every operation has this response.
fn is_shared(kinds: &[&'static ProblemKind]) -> bool {
    kinds.iter().all(|kind| ANY_REQUEST_PROBLEMS.contains(kind)) && kinds[0].status != 400
}

fn key(status: u16, head_only: bool) -> String {
    format!("{status}{}", if head_only { "-head" } else { "" })
}

/// Returns the response components to which [`problem_responses`] refers.
pub(super) fn shared() -> Value {
    let shared = ANY_REQUEST_PROBLEMS.iter().filter(|kind| is_shared(&[kind]));
    let both = shared.flat_map(|kind| [false, true].map(|head_only| (kind, head_only)));
    let written =
        both.map(|(kind, head_only)| (key(kind.status, head_only), problem_response(&[kind], head_only)));
    Value::Object(written.collect())
}

fn problem_response(kinds: &[&'static ProblemKind], head_only: bool) -> Value {
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
