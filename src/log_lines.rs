//! The log lines of the server. The thread that logs formats a line and puts it into a bounded queue; a thread of its own
//! writes the queue to standard error.
//!
//! The program that reads standard error may stall. Then only that thread waits. When the queue is full, lines are dropped
//! and counted. A part of the queue is reserved for other lines than those of the access log.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::borrow::Cow;
use std::io::{self, Write};
use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

use crate::limits::log_lines::{LOG_LINE_OVERHEAD_BYTES, LOG_LINES_BYTES_MAX, LOG_LINES_RESERVED_BYTES};
use crate::threads;

/// Bytes that are written with one system call, unless one line is longer. A busy access log then needs few calls.
const CHUNK_BYTES: usize = 64 << 10;
/// Time that the end of the process waits for the queue to be written.
const FLUSH_TIME: Duration = Duration::from_millis(500);
/// The target of the lines of the access log.
pub(crate) const ACCESS: &str = "access";

/// The queue to standard error, once the server logs.
static STANDARD_ERROR: OnceLock<LogLines> = OnceLock::new();

enum Message {
    Line(Vec<u8>),
    /// Answered when all lines before it are written.
    Flush(Sender<()>),
}

#[derive(Default)]
struct Counts {
    queued_bytes: AtomicUsize,
    dropped: AtomicU64,
}

/// A bounded queue of lines. A clone is a handle to the same queue.
#[derive(Clone)]
pub struct LogLines {
    sender: Sender<Message>,
    counts: Arc<Counts>,
}

impl LogLines {
    /// Starts the thread that writes the lines to `sink`.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn start(sink: impl Write + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = unbounded();
        let counts = Arc::new(Counts::default());
        let of_thread = Arc::clone(&counts);
        threads::spawn("log-lines", move || write_lines(&receiver, &of_thread, sink))?;
        Ok(Self { sender, counts })
    }

    /// Puts a line into the queue, or drops it if the queue is full. Never waits.
    pub fn push(&self, line: &[u8], is_of_access_log: bool) {
        let bytes_max = LOG_LINES_BYTES_MAX - if is_of_access_log { LOG_LINES_RESERVED_BYTES } else { 0 };
        let cost = line.len() + LOG_LINE_OVERHEAD_BYTES;
        let with_line = |queued: usize| queued.checked_add(cost).filter(|bytes| *bytes <= bytes_max);
        let queued = self.counts.queued_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with_line);
        if queued.is_err() || self.sender.send(Message::Line(line.to_vec())).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of lines that were dropped or could not be written.
    pub fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }

    /// Waits until all lines so far are written, for at most [`FLUSH_TIME`], because the reader may have stalled.
    fn flush(&self) {
        let (written, wait) = bounded(1);
        if self.sender.send(Message::Flush(written)).is_ok() {
            let _ = wait.recv_timeout(FLUSH_TIME);
        }
    }
}

/// Writes the lines until no handle is left.
fn write_lines(receiver: &Receiver<Message>, counts: &Counts, mut sink: impl Write) {
    let mut chunk = Vec::new();
    while let Ok(first) = receiver.recv() {
        let mut lines = 0;
        let mut next = Some(first);
        let mut flush = None;
        while let Some(message) = next {
            match message {
                Message::Line(line) => {
                    chunk.extend_from_slice(&line);
                    lines += 1;
                }
                Message::Flush(written) => flush = Some(written),
            }
            let is_full = flush.is_some() || chunk.len() >= CHUNK_BYTES;
            next = if is_full { None } else { receiver.try_recv().ok() };
        }
        if sink.write_all(&chunk).is_err() {
            counts.dropped.fetch_add(lines as u64, Ordering::Relaxed);
        }
        counts.queued_bytes.fetch_sub(chunk.len() + lines * LOG_LINE_OVERHEAD_BYTES, Ordering::Relaxed);
        chunk.clear();
        if let Some(written) = flush {
            let _ = written.send(());
        }
    }
}

/// A writer of one line, which `tracing` writes at once.
pub struct LineWriter<'l> {
    lines: &'l LogLines,
    is_of_access_log: bool,
}

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.lines.push(&one_line(line), self.is_of_access_log);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a line in which a text from outside, such as the name of a file, ends no line. The formatter escapes ESC and the
/// other control characters that a terminal obeys, and colors with ESC on a terminal. It does not escape line ends.
fn one_line(line: &[u8]) -> Cow<'_, [u8]> {
    let is_escaped = |byte: &u8| byte.is_ascii_control() && *byte != b'\x1b';
    let (text, end) = line.split_at(line.len() - usize::from(line.ends_with(b"\n")));
    if !text.iter().any(is_escaped) {
        return Cow::Borrowed(line);
    }
    let mut escaped = Vec::with_capacity(2 * line.len());
    for byte in text {
        match is_escaped(byte) {
            true => escaped.extend(byte.escape_ascii()),
            false => escaped.push(*byte),
        }
    }
    escaped.extend_from_slice(end);
    Cow::Owned(escaped)
}

impl<'l> MakeWriter<'l> for LogLines {
    type Writer = LineWriter<'l>;

    fn make_writer(&'l self) -> Self::Writer {
        LineWriter { lines: self, is_of_access_log: false }
    }

    fn make_writer_for(&'l self, metadata: &Metadata<'_>) -> Self::Writer {
        LineWriter { lines: self, is_of_access_log: metadata.target() == ACCESS }
    }
}

/// Returns the queue to standard error, and starts it at the first call. From then on a panic is a log line, too.
///
/// # Errors
/// The system starts no thread.
pub(crate) fn to_standard_error() -> io::Result<LogLines> {
    if let Some(lines) = STANDARD_ERROR.get() {
        return Ok(lines.clone());
    }
    let lines = LogLines::start(io::stderr())?;
    panic::set_hook(Box::new(log_panic));
    Ok(STANDARD_ERROR.get_or_init(|| lines).clone())
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let thread = thread.name().unwrap_or_default();
    let place = panic.location().map(tracing::field::display);
    let cause = panic.payload_as_str().unwrap_or_default();
    let backtrace = Backtrace::capture();
    let backtrace =
        (backtrace.status() == BacktraceStatus::Captured).then(|| tracing::field::display(backtrace));
    tracing::error!(thread, place, cause, backtrace, "a thread panicked");
}

/// Returns the number of lines that the log lacks.
pub(crate) fn dropped() -> u64 {
    STANDARD_ERROR.get().map_or(0, LogLines::dropped)
}

/// Writes the last text of the process to standard error, after the lines of the log.
pub(crate) fn finish(text: Option<&str>) {
    if let Some(lines) = STANDARD_ERROR.get() {
        text.into_iter().for_each(|text| lines.push(format!("{text}\n").as_bytes(), false));
        lines.flush();
    } else if let Some(text) = text {
        // Ignore the error: if standard error is closed, nobody can read the message.
        let _ = writeln!(io::stderr(), "{text}");
    }
}
