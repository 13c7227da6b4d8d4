//! Inserts header lines into a response that a handler has written.

/// Inserts complete header lines after the status line of the response that begins at `start_offset`. A pending response has no
/// bytes yet.
pub(super) fn insert(out: &mut Vec<u8>, start_offset: usize, lines: &[u8]) {
    let Some(status_end) = out[start_offset..].windows(2).position(|bytes| bytes == b"\r\n") else { return };
    let at = start_offset + status_end + b"\r\n".len();
    out.splice(at..at, lines.iter().copied());
}
