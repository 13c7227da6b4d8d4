//! Limits of the log lines that wait for the reader of standard error.

/// Bytes of the queue: about 20,000 lines of the access log, which a reader that pauses for a moment can still get.
pub const LOG_LINES_BYTES_MAX: usize = 4 << 20;
/// Bytes of the queue that no line of the access log may take: about 5,000 other lines.
pub const LOG_LINES_RESERVED_BYTES: usize = 1 << 20;
/// Memory of a line in the queue beside its text.
pub const LOG_LINE_OVERHEAD_BYTES: usize = 64;
