//! Lines of the log: a text from outside, such as the name of a file, cannot write a second line.

use std::io::{self, Write};

/// A writer of log lines. The formatter writes each line with one call, and escapes ESC and the other control characters
/// that a terminal obeys. It does not escape line ends, so this does.
pub(super) struct LineWriter<W>(pub(super) W);

impl<W: Write> Write for LineWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // The formatter colors with ESC on a terminal.
        let is_escaped = |byte: &u8| byte.is_ascii_control() && *byte != b'\x1b';
        let (text, end) = line.split_at(line.len() - usize::from(line.ends_with(b"\n")));
        if !text.iter().any(is_escaped) {
            self.0.write_all(line)?;
            return Ok(line.len());
        }
        let mut escaped = Vec::with_capacity(2 * line.len());
        for byte in text {
            match is_escaped(byte) {
                true => escaped.extend(byte.escape_ascii()),
                false => escaped.push(*byte),
            }
        }
        escaped.extend_from_slice(end);
        self.0.write_all(&escaped)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
