//! `GET /v1/openapi.json`: the OpenAPI 3.1 description of the public endpoints.
//!
//! The document is the file `openapi.json`, which is kept by hand. The tests compare it with the responses,
//! the problem codes, the parameters and the limits. A request needs no site, and its parameters are not
//! read.

use std::sync::LazyLock;

use super::scratch::ResponseBuffers;
use super::static_document::{CACHE_AS_ROUTES, StaticDocument};
use crate::http::date::DateLine;
use crate::http::request::Request;
use crate::problem::Problem;

static DOCUMENT: LazyLock<StaticDocument> =
    LazyLock::new(|| StaticDocument::new("application/json", include_bytes!("openapi.json").to_vec()));

/// Compresses the document at startup, so that no request has to.
pub(super) fn prepare() {
    LazyLock::force(&DOCUMENT);
}

/// Appends a response with the document, or 304 if the client has it.
///
/// # Errors
/// `precondition_failed`, if `If-Match` excludes the document.
pub(super) fn handle(
    request: &Request<'_>,
    date: &DateLine,
    buffers: &mut ResponseBuffers,
    out: &mut Vec<u8>,
) -> Result<(), Problem<'static>> {
    DOCUMENT.write_shared(request, CACHE_AS_ROUTES, date, &mut buffers.ids, &mut buffers.shared, out)
}
