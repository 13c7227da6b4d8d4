//! The header field `Parallax-Scope` of the answers of a node of a cluster. CSV and NDJSON have no member for the scope.

use super::head_lines;
use crate::metrics::status_class;
use crate::scope::Scope;

/// Inserts the field into the response that begins at `start_offset`. A problem covers no events, and gets none. Nor does a
/// response of a server that is alone.
pub(super) fn insert(out: &mut Vec<u8>, start_offset: usize, scope: Scope) {
    let Some(value) = scope.field_value() else { return };
    if has_answer(&out[start_offset..]) {
        head_lines::insert(out, start_offset, format!("Parallax-Scope: {value}\r\n").as_bytes());
    }
}

/// Returns whether a response is 200, or 304 to a client that has the answer.
fn has_answer(response: &[u8]) -> bool {
    matches!(status_class(response), 1 | 2)
}
