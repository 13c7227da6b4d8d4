//! The header field `X-Request-Id`.

use super::response::ResponseHead;
use crate::ids::RequestIdGenerator;
use crate::limits::REQUEST_ID_BYTES_MAX;

/// Returns whether a client's request ID can be sent back.
pub(crate) fn is_request_id(id: &[u8]) -> bool {
    (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

/// Writes the client's request ID, or a new one.
pub(crate) fn write_request_id(
    head: &mut ResponseHead<'_>,
    id_generator: &mut RequestIdGenerator,
    client_id: Option<&[u8]>,
) {
    match client_id {
        Some(id) => head.field("X-Request-Id: ", id),
        None => {
            // One copy writes the whole line. The ID replaces the 16 digits.
            let mut line = *b"X-Request-Id: 0123456789abcdef\r\n";
            line[14..30].copy_from_slice(&id_generator.next_id());
            head.raw(&line);
        }
    }
}
