//! `GET /v1/openapi.json`: the public surface, described to programs (OpenAPI 3.1).
//!
//! Made once, when the first desk is, from the tables that the code answers by: `Endpoint`, `Param`, the codes of
//! `problem`, the bounds of `limits`. An endpoint that comes is a row of [`operations`]. The same program gives the same
//! bytes; they are sent as they are, without gzip. An answer needs no site and reads no parameter.

mod events;
mod headers;
mod operations;
mod params;
mod responses;
mod schemas;

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::response::{self, Etag};
use crate::http::cors::Cors;
use crate::http::date::DateLine;
use crate::http::request::{Method, Request};
use crate::http::response::Head;
use crate::ids::RequestIds;

/// It changes with the program alone; the times are those of a site's list of routes.
const CACHE_CONTROL: &[u8] =
    b"Cache-Control: public, max-age=0, s-maxage=60, stale-while-revalidate=600, stale-if-error=86400\r\n";

static DOCUMENT: LazyLock<Document> = LazyLock::new(|| {
    let text = document().to_string().into_bytes();
    Document { etag: Etag::of(&text), text }
});

struct Document {
    text: Vec<u8>,
    etag: Etag,
}

/// Makes the document, so that no request does.
pub(super) fn prepare() {
    LazyLock::force(&DOCUMENT);
}

/// Appends the document, or 304 where the client has it.
pub(super) fn answer(request: &Request<'_>, date: &DateLine, ids: &mut RequestIds, out: &mut Vec<u8>) {
    let Document { text, etag } = &*DOCUMENT;
    let unchanged = etag.is_known(&request.fields);
    let mut head = Head::begin(out, if unchanged { 304 } else { 200 }, date);
    head.lines(CACHE_CONTROL);
    response::request_id(&mut head, ids, None);
    head.field("ETag: ", etag.as_bytes());
    Cors::Anyone.write(&mut head);
    if unchanged {
        head.end_bodiless(request.close);
        return;
    }
    head.lines(b"Content-Type: application/json\r\n");
    let out = head.end(text.len(), request.close);
    if request.method != Method::Head {
        out.extend_from_slice(text);
    }
}

fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Parallax",
            "summary": env!("CARGO_PKG_DESCRIPTION"),
            "description": ABOUT,
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE") },
        },
        "servers": [{ "url": "/", "description": "The server that this document came from" }],
        "tags": [
            { "name": "pages", "description": "What a page shows" },
            { "name": "content", "description": "Content queries" },
            { "name": "events", "description": "What visitors do" },
            { "name": "server", "description": "The server itself" },
        ],
        "security": [],
        "paths": operations::paths(),
        "components": {
            "schemas": schemas::all(),
            "responses": responses::shared(),
            "parameters": params::all(operations::read()),
            "headers": headers::all(),
            "securitySchemes": { operations::WRITE_KEY: { "type": "http", "scheme": "basic",
                "description": "The site's `trackingId` as the user, no password; where no parameter names it." } },
        },
    })
}

const ABOUT: &str = "A site is named by `trackingId`, or by `site` where that is omitted. Unknown query parameters and unknown \
members of a body are ignored; a parameter that is empty counts as not given (`variants` excepted), and so do `null` and `\"\"` \
in a body. The query string is form-urlencoded; a parameter of this document given twice is refused.\n\n\
A public answer contains nothing of a visitor and nothing of the caller: it is the same bytes for everyone and has \
`Access-Control-Allow-Origin: *`. A private one echoes the `Origin` that the site allows, with credentials, and the caller's \
`X-Request-Id`.\n\n\
A refusal is `application/problem+json` (RFC 9457) whose `code` is stable. A path that is not described here is 404 \
`unknown_endpoint`, a method 405 `method_not_allowed` with `Allow`, or 501 `unknown_method`. A preflight is 204 on any path.";
