//! The line ends of request heads. httparse accepts a bare LF as a line end. A proxy in front of us may not (RFC 9112
//! section 2.2), so we reject it.

/// Returns whether all lines of a complete head end with CR LF. `method` and `field_names` are the texts in `head`
/// that httparse returned: it accepts no LF in a line, and only empty lines before the request line. So the
/// bytes before each line and at the end decide.
pub(super) fn are_crlf<'a>(
    head: &[u8],
    method: &str,
    mut field_names: impl Iterator<Item = &'a str>,
) -> bool {
    let before = |text: &str| &head[..text.as_ptr().addr() - head.as_ptr().addr()];
    head.ends_with(b"\r\n\r\n")
        && field_names.all(|name| before(name).ends_with(b"\r\n"))
        && before(method).chunks(2).all(|line| line == b"\r\n")
}

/// Returns whether a head that is incomplete or invalid has a bare LF.
pub(super) fn has_bare_lf(head: &[u8]) -> bool {
    let pairs = head.iter().zip(head.iter().skip(1));
    // `fold` has no early return, so that the compiler can vectorize the loop.
    let is_bare =
        pairs.fold(false, |is_bare, (before, byte)| is_bare | (*byte == b'\n') & (*before != b'\r'));
    is_bare || head.first() == Some(&b'\n')
}
