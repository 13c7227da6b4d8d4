//! `GET /v1/openapi.json`: the OpenAPI 3.1 description of the public endpoints.
//!
//! The document is made once, when the first handler is created, from the tables that the code uses:
//! `Endpoint`, `Param`, the codes of `problem`, and the bounds of `limits`. A new endpoint is a new row of
//! [`operations`]. The same program always makes the same bytes. A request needs no site, and its
//! parameters are not read.

mod events;
mod headers;
mod operations;
mod params;
mod responses;
mod schemas;

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::static_document::StaticDocument;
use crate::http::date::DateLine;
use crate::http::request::Request;
use crate::ids::RequestIdGenerator;

/// The cache times are those of a site's list of routes.
const CACHE_CONTROL: &str =
    "public, max-age=0, s-maxage=60, stale-while-revalidate=600, stale-if-error=86400";

static DOCUMENT: LazyLock<StaticDocument> = LazyLock::new(|| {
    StaticDocument::new("application/json", CACHE_CONTROL, document().to_string().into_bytes())
});

/// Makes the document at startup, so that no request has to.
pub(super) fn prepare() {
    LazyLock::force(&DOCUMENT);
}

/// Appends a response with the document, or 304 if the client has it.
pub(super) fn handle(
    request: &Request<'_>,
    date: &DateLine,
    ids: &mut RequestIdGenerator,
    out: &mut Vec<u8>,
) {
    DOCUMENT.write(request, date, ids, out);
}

fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Parallax",
            "summary": env!("CARGO_PKG_DESCRIPTION"),
            "description": DESCRIPTION,
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE") },
        },
        "servers": [{ "url": "/", "description": "The server that sent this document" }],
        "tags": [
            { "name": "pages", "description": "Pages and their variants" },
            { "name": "content", "description": "Content queries" },
            { "name": "events", "description": "Recording of visitors' events" },
            { "name": "server", "description": "The server itself" },
        ],
        "security": [],
        "paths": operations::paths(),
        "components": {
            "schemas": schemas::all(),
            "responses": responses::shared(),
            "parameters": params::all(operations::query_params()),
            "headers": headers::all(),
            "securitySchemes": { operations::WRITE_KEY: { "type": "http", "scheme": "basic",
                "description": "The site's `trackingId` as the user name, without a password. Used if no parameter \
                    names the site." } },
        },
    })
}

const DESCRIPTION: &str = "A request names its site by `trackingId`, or by `site` if `trackingId` is omitted. Unknown query parameters and \
unknown body members are ignored. An empty parameter counts as absent (except `variants`), and so do `null` and `\"\"` in a body. \
The query string is form-urlencoded. A parameter of this document given twice is refused.\n\n\
A public response contains no data of a visitor and no data of the caller. It has the same bytes for everyone, and \
`Access-Control-Allow-Origin: *`. A private response echoes the `Origin` if the site allows it, with credentials, and the caller's \
`X-Request-Id`.\n\n\
A refusal is `application/problem+json` (RFC 9457) with a stable `code`. A path that is not described here gets 404 \
`unknown_endpoint`. An unsupported method gets 405 `method_not_allowed` with `Allow`, an unknown one 501 `unknown_method`. A \
preflight gets 204 on any path.";
