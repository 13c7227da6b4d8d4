//! Header fields that every response of the admin address has beside those of the public address. With them no page of
//! another origin can read, embed or frame it, and the console runs no script but its own files.

use super::head_lines;

/// Complete header lines. With `trusted-types 'none'`, a script that assigns HTML text throws. Strangers
/// choose paths and event names, so these must only become text nodes.
const LINES: &[u8] = b"Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; \
img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
require-trusted-types-for 'script'; trusted-types 'none'\r\n\
Referrer-Policy: no-referrer\r\n\
Cross-Origin-Opener-Policy: same-origin\r\n\
Cross-Origin-Resource-Policy: same-origin\r\n\
X-Frame-Options: DENY\r\n";

/// Inserts the lines into the response that begins at `start_offset`.
pub(super) fn insert(out: &mut Vec<u8>, start_offset: usize) {
    head_lines::insert(out, start_offset, LINES);
}
