//! A writer of JSON text: strings (RFC 8259 section 7), numbers, and text without white space.

/// Appends `text` as a JSON string, in quotes.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    write_escaped(out, text);
    out.push(b'"');
}

/// Appends `text` escaped, without quotes. Bytes that need no escape are copied in runs.
pub(crate) fn write_escaped(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|b| needs_escape(*b)) {
        out.extend_from_slice(&rest[..at]);
        write_escape(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Appends a number in decimal.
pub(crate) fn write_number(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Writes the comma before an element, unless it is the first.
pub(crate) fn write_comma(out: &mut Vec<u8>, index: usize) {
    if index > 0 {
        out.push(b',');
    }
}

fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn write_escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            let digit = |d: u8| b"0123456789abcdef"[usize::from(d)];
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Appends `text`, which must be valid JSON, without the white space between its tokens.
pub(crate) fn write_minified(out: &mut Vec<u8>, text: &str) {
    let mut in_string = false;
    let mut after_backslash = false;
    for byte in text.bytes() {
        let white = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        if in_string || !white {
            out.push(byte);
        }
        if after_backslash {
            after_backslash = false;
        } else if byte == b'"' {
            in_string = !in_string;
        } else {
            after_backslash = in_string && byte == b'\\';
        }
    }
}
