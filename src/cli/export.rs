//! `parallax export`: writes recorded events as NDJSON or Parquet to a file or a pipe.
//!
//! Reads a log directory, also while a server writes to it, and exports the durable records after a given
//! seq. Erased records are skipped. The memory in use is one batch and, for Parquet, one row group.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::progress::Progress;
use super::{CliError, log_read_error, print_line};
use crate::storage::AtomicFile;
use crate::storage::disk::RealDisk;
use crate::visitors::events::export::write_line;
#[cfg(feature = "parquet")]
use crate::visitors::events::parquet::Table;
use crate::visitors::log::{self, LogError, LogItem, LogReader, Record, RecordKind};

pub(super) const EXAMPLES: &str = "\
One JSON object per line, to a pipe:
  parallax export data | jq -r 'select(.type == \"track\") | .event' | sort | uniq -c

To a file, which appears when it is complete; later only newer records, with the last exported seq:
  parallax export data -o events-1.ndjson
  parallax export data --since 10442 -o events-2.ndjson

As columns, for DuckDB and similar tools:
  parallax export data --format parquet -o events.parquet
  duckdb -c \"SELECT type, count(*) FROM 'events.parquet' GROUP BY type\"

Exit codes: 0 success; 1 damage in the log, or no log in the directory; 3 a file cannot be read or written.";

/// Size of the output buffer, in bytes.
const WRITE_BYTES: usize = 64 * 1024;

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The directory of the log (serve --data).
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Ndjson)]
    format: Format,
    /// Export only records after this seq, the last one of an earlier export.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    since: u64,
    /// The file to write. It appears under its name when it is complete [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One JSON object per line.
    Ndjson,
    /// Apache Parquet with the same columns: seq as a number, times in microseconds, payload as JSON text.
    Parquet,
}

/// An error that ends an export early: of the log or of the output.
enum ExportError {
    Read(LogError),
    Write(io::Error),
}

impl From<LogError> for ExportError {
    fn from(error: LogError) -> Self {
        Self::Read(error)
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// The result of an export.
#[derive(Debug, Default)]
struct ExportSummary {
    records: u64,
    last_seq: Option<u64>,
    damaged_places: u64,
}

pub(super) fn export(args: &ExportArgs) -> Result<(), CliError> {
    let mut reader = open_log(args)?;
    let summary = match &args.output {
        Some(path) => export_to_file(args, path, &mut reader)?,
        None => export_to_stdout(args, &mut reader)?,
    };
    match summary.damaged_places {
        0 => Ok(()),
        n => Err(CliError::Input(format!(
            "the log is damaged in {n} places; the other {} records were exported",
            summary.records
        ))),
    }
}

fn open_log(args: &ExportArgs) -> Result<LogReader, CliError> {
    if args.format == Format::Parquet && !cfg!(feature = "parquet") {
        let text = "this program was built without Parquet. Build it with `cargo build --release --features parquet`, \
                    or use --format ndjson, which DuckDB and similar tools can also read";
        return Err(CliError::Usage(text.to_owned()));
    }
    if args.format == Format::Parquet && args.output.is_none() && io::stdout().is_terminal() {
        let text = "standard output is a terminal and Parquet is a binary format. Choose a file with -o, or use a pipe";
        return Err(CliError::Usage(text.to_owned()));
    }
    let directory = &args.directory;
    let failed = |source| log_read_error(LogError::Io { path: directory.clone(), source });
    if !log::contains_log(&RealDisk, directory).map_err(failed)? {
        return Err(CliError::Input(format!(
            "{} contains no segment of a log. Use the directory of serve --data",
            directory.display()
        )));
    }
    LogReader::open(Arc::new(RealDisk), directory, args.since).map_err(log_read_error)
}

fn export_to_stdout(args: &ExportArgs, reader: &mut LogReader) -> Result<ExportSummary, CliError> {
    match export_records(args, reader, io::stdout(), &Progress::hidden()) {
        Ok((summary, _)) => Ok(summary),
        // The reader of the pipe closed it: it has read enough.
        Err(ExportError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => {
            Ok(ExportSummary::default())
        }
        Err(ExportError::Write(error)) => {
            Err(CliError::System(format!("cannot write to standard output: {error}")))
        }
        Err(ExportError::Read(error)) => Err(log_read_error(error)),
    }
}

fn export_to_file(args: &ExportArgs, path: &Path, reader: &mut LogReader) -> Result<ExportSummary, CliError> {
    let progress = Progress::on_terminal();
    let written = AtomicFile::create(path).map_err(ExportError::from).and_then(|file| {
        let (summary, file) = export_records(args, reader, file, &progress)?;
        file.commit()?;
        Ok(summary)
    });
    drop(progress);
    let summary = written.map_err(|broken| match broken {
        ExportError::Read(error) => log_read_error(error),
        ExportError::Write(error) => {
            CliError::System(format!("cannot write {}: {error}; choose another file with -o", path.display()))
        }
    })?;
    let last = match summary.last_seq {
        Some(seq) => format!("up to seq {seq}; continue with --since {seq}"),
        None => format!("none after seq {}", args.since),
    };
    print_line(&format!("{}: {} records, {last}", path.display(), summary.records))?;
    Ok(summary)
}

/// Writes all records to `out`. Returns the summary and `out`.
fn export_records<W: Write + Send>(
    args: &ExportArgs,
    reader: &mut LogReader,
    out: W,
    progress: &Progress,
) -> Result<(ExportSummary, W), ExportError> {
    let mut sink = RecordSink::new(args.format, out)?;
    let mut summary = ExportSummary::default();
    progress.start("exporting", reader.last_seq().saturating_sub(args.since));
    while let Some(item) = reader.read_next()? {
        let records = match item {
            LogItem::Records(records) => records,
            LogItem::Damage(damage) => {
                summary.damaged_places += 1;
                progress.print_line(&format!("parallax: {}/{damage}", args.directory.display()));
                continue;
            }
        };
        for (seq, record) in records.iter() {
            if !matches!(record.kind, RecordKind::Void | RecordKind::Tombstone) {
                sink.add(seq, &record)?;
                summary.records += 1;
                summary.last_seq = Some(seq);
            }
        }
        progress.set_done(records.seqs().end.saturating_sub(args.since + 1));
    }
    Ok((summary, sink.finish()?))
}

/// A writer of records in one of the output formats.
enum RecordSink<W: Write + Send> {
    Lines {
        out: BufWriter<W>,
        line: Vec<u8>,
    },
    #[cfg(feature = "parquet")]
    Table(Box<Table<W>>),
}

impl<W: Write + Send> RecordSink<W> {
    fn new(format: Format, out: W) -> io::Result<Self> {
        match format {
            #[cfg(feature = "parquet")]
            Format::Parquet => Ok(Self::Table(Box::new(Table::new(out)?))),
            _ => Ok(Self::Lines { out: BufWriter::with_capacity(WRITE_BYTES, out), line: Vec::new() }),
        }
    }

    fn add(&mut self, seq: u64, record: &Record<'_>) -> io::Result<()> {
        match self {
            Self::Lines { out, line: text } => {
                text.clear();
                write_line(text, seq, record);
                out.write_all(text)
            }
            #[cfg(feature = "parquet")]
            Self::Table(table) => table.add(seq, record),
        }
    }

    fn finish(self) -> io::Result<W> {
        match self {
            Self::Lines { mut out, .. } => {
                out.flush()?;
                out.into_inner().map_err(io::IntoInnerError::into_error)
            }
            #[cfg(feature = "parquet")]
            Self::Table(table) => table.finish(),
        }
    }
}
