//! `GET /v1/parallax.js`: the browser part of the SDK, for a `<script>` tag.
//!
//! The script is the file `sdk/parallax.js`. `npm run tag` in `sdk/` writes it, and the tests of the SDK
//! compare it with its source. A request names no site. Its parameter `h` names the bytes of the script: with
//! the hash of the present script the response never changes. With another hash, as in a page that is older
//! than the server, it is the response without `h`.

use std::sync::LazyLock;

use super::scratch::ResponseBuffers;
use super::static_document::StaticDocument;
use crate::checksum;
use crate::http::date::DateLine;
use crate::http::params::{Param, Params};
use crate::http::request::Request;
use crate::ids;
use crate::problem::Problem;

static SCRIPT: LazyLock<BrowserScript> =
    LazyLock::new(|| BrowserScript::new(include_bytes!("../../sdk/parallax.js")));

/// Header lines of the response to a request with the hash of the script. The bytes of this URL never change.
const IMMUTABLE: &[u8] = b"Cache-Control: public, max-age=31536000, immutable\r\n";

/// The script in both codings.
struct BrowserScript {
    document: StaticDocument,
    /// The first 16 hex digits of the script's SHA-256.
    hash: [u8; 16],
    /// Header lines of the response to a request without the hash. A new release reaches a page within 25
    /// hours: a browser may use its copy for one hour without a request, and for 24 more while it loads the
    /// present script.
    changing: Vec<u8>,
}

impl BrowserScript {
    fn new(script: &[u8]) -> Self {
        let hash = ids::hex_u64(checksum::sha256_prefix(script));
        let mut changing = b"Cache-Control: public, max-age=3600, stale-while-revalidate=86400\r\n".to_vec();
        changing.extend_from_slice(b"Content-Location: /v1/parallax.js?h=");
        changing.extend_from_slice(&hash);
        changing.extend_from_slice(b"\r\n");
        let document = StaticDocument::new("text/javascript; charset=utf-8", script.to_vec());
        Self { document, hash, changing }
    }
}

/// Compresses the script at startup, so that no request has to.
pub(super) fn prepare() {
    LazyLock::force(&SCRIPT);
}

/// Appends a response with the script, or 304 if the client has it.
///
/// # Errors
/// `precondition_failed`, if `If-Match` excludes the script.
pub(super) fn handle(
    request: &Request<'_>,
    params: &Params<'_>,
    date: &DateLine,
    buffers: &mut ResponseBuffers,
    out: &mut Vec<u8>,
) -> Result<(), Problem<'static>> {
    let script = &*SCRIPT;
    let is_present = params.get(Param::ContentHash).is_some_and(|hash| hash.as_bytes() == script.hash);
    let fields = if is_present { IMMUTABLE } else { &script.changing };
    script.document.write_shared(request, fields, date, &mut buffers.ids, &mut buffers.shared, out)
}
