//! `GET /v1/problems/<code>`: the description of a problem code, to which the member `type` of a problem refers.

use std::sync::LazyLock;

use super::static_document::{CACHE_AS_ROUTES, StaticDocument};
use crate::http::date::DateLine;
use crate::http::request::Request;
use crate::ids::RequestIdGenerator;
use crate::problem::{self, Problem, ProblemKind, UNKNOWN_ENDPOINT};

/// The part of the path before the code.
pub(super) const PATH_PREFIX: &str = "/v1/problems/";

/// The codes and their pages, in the order of the table.
static PAGES: LazyLock<Vec<(&str, StaticDocument)>> =
    LazyLock::new(|| problem::ALL.iter().map(|kind| (kind.code, page(kind))).collect());

fn page(kind: &ProblemKind) -> StaticDocument {
    let ProblemKind { code, status, title, description } = kind;
    let text = format!("{code} (HTTP status {status})\n\n{title}.\n\n{description}\n");
    StaticDocument::new("text/plain; charset=utf-8", text.into_bytes())
}

/// Makes the pages at startup, so that no request has to.
pub(super) fn prepare() {
    LazyLock::force(&PAGES);
}

/// Appends a response with the description of the code in the path, or 304 if the client has it.
///
/// # Errors
/// `unknown_endpoint`, if no problem has the code.
pub(super) fn handle<'a>(
    request: &Request<'a>,
    date: &DateLine,
    id_generator: &mut RequestIdGenerator,
    out: &mut Vec<u8>,
) -> Result<(), Problem<'a>> {
    let code = request.path.strip_prefix(PATH_PREFIX).unwrap_or_default();
    let (_, page) = PAGES.iter().find(|(known, _)| *known == code).ok_or_else(|| {
        let sentence = "No problem has the code {}; /v1/openapi.json lists all codes.";
        Problem::with_value(UNKNOWN_ENDPOINT, sentence, code)
    })?;
    page.write(request, CACHE_AS_ROUTES, date, id_generator, out).map(drop)
}
