//! The lines of an export.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use super::environment::ImportEnvironment;
use super::error::ImportError;
use super::inputs::Input;
use super::read::RecordSink;
use super::refused::Refused;
use crate::events::import::{ExportLine, ImportRules, LineDecoder, LineError};
use crate::record::Record;

/// The longest line, in bytes, that an export can have: the payload, and ten texts with escapes. A longer one is refused.
const LINE_BYTES_MAX: usize = 2 << 20;
/// Read buffer, in bytes.
const READ_BYTES: usize = 256 * 1024;

/// The result of a line.
enum LineOutcome {
    Added,
    /// The record is of a site that is not imported, or the line is empty.
    Skipped,
    Refused(String),
}

/// Reads the lines of an export from the place that the progress states.
///
/// # Errors
/// The file cannot be read or has changed, or the disk fails.
pub(super) fn read(input: &Input, sink: &mut RecordSink<'_>) -> Result<(), ImportError> {
    let failed = |error: io::Error| Input::refuse(&input.path, error.to_string());
    let mut file = BufReader::with_capacity(READ_BYTES, File::open(&input.path).map_err(failed)?);
    let mut position = sink.progress.read.position;
    file.seek(SeekFrom::Start(position)).map_err(failed)?;
    let mut decoder = Decoder::new();
    let name = input.path.to_string_lossy();
    loop {
        let bytes = decoder.read_line(&mut file).map_err(failed)?;
        if bytes == 0 {
            break;
        }
        position += bytes;
        sink.progress.read.lines += 1;
        let line = sink.progress.read.lines;
        if let LineOutcome::Refused(reason) = decoder.add(line, sink) {
            sink.refuse(&Refused { file: &name, line: Some(line), seq: None, reason })?;
        }
        sink.advance_to(position, position)?;
    }
    // A file that grew or was truncated meanwhile is not the one that the progress names.
    match position == input.stamp.bytes {
        true => Ok(()),
        false => Err(Input::refuse(&input.path, "it has changed during the import; import a copy of it")),
    }
}

/// A decoder of lines. Reuses its buffers.
struct Decoder {
    environment: ImportEnvironment,
    decoder: LineDecoder,
    line: Vec<u8>,
    is_too_long: bool,
    record: Vec<u8>,
}

impl Decoder {
    fn new() -> Self {
        Self {
            environment: ImportEnvironment::new(),
            decoder: LineDecoder::default(),
            line: Vec::new(),
            is_too_long: false,
            record: Vec::new(),
        }
    }

    /// Reads the next line, at most [`LINE_BYTES_MAX`] of it. Returns its length in bytes, with the end of the line. 0 at the end.
    fn read_line(&mut self, file: &mut BufReader<File>) -> io::Result<u64> {
        self.line.clear();
        let mut bytes =
            file.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut self.line)? as u64;
        self.is_too_long = bytes > LINE_BYTES_MAX as u64 && !self.line.ends_with(b"\n");
        let mut has_end = !self.is_too_long;
        while !has_end {
            let buffer = file.fill_buf()?;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let length = end.map_or(buffer.len(), |end| end + 1);
            has_end = end.is_some() || length == 0;
            file.consume(length);
            bytes += length as u64;
        }
        Ok(bytes)
    }

    /// Adds the record of the line that was read.
    fn add(&mut self, line_number: u64, sink: &mut RecordSink<'_>) -> LineOutcome {
        if self.is_too_long {
            let reason = format!("the line is longer than {LINE_BYTES_MAX} bytes");
            return LineOutcome::Refused(reason);
        }
        let Ok(text) = std::str::from_utf8(&self.line) else {
            return LineOutcome::Refused("the line is not UTF-8".to_owned());
        };
        let text = text.trim_ascii();
        if text.is_empty() {
            return LineOutcome::Skipped;
        }
        let Self { environment, decoder, record, .. } = self;
        let mut add = || -> Result<LineOutcome, LineError> {
            let line = ExportLine::parse(text)?;
            if !sink.has_site(line.site()?) {
                sink.progress.read.other_sites += 1;
                return Ok(LineOutcome::Skipped);
            }
            let received_ms = line.received_ms()?;
            if let Some(reason) = sink.refused_time(received_ms) {
                return Ok(LineOutcome::Refused(reason));
            }
            if sink.is_future(received_ms) {
                let reason = "the member `receivedAt` is invalid: the time is more than a day in the future";
                return Ok(LineOutcome::Refused(reason.to_owned()));
            }
            record.clear();
            let rules = ImportRules { keeps_bots: sink.keeps_bots(line.site()?) };
            decoder.encode(&line, text, rules, environment, record)?;
            if let Some((decoded, _)) = Record::decode(record) {
                sink.add(line_number, line.seq()?, &decoded, record);
            }
            Ok(LineOutcome::Added)
        };
        add().unwrap_or_else(|error| LineOutcome::Refused(error.to_string()))
    }
}
