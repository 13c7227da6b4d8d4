//! `parallax export`: writes recorded events as NDJSON or Parquet to a file or a pipe.
//!
//! Reads a log directory, also while a server writes to it, and exports the durable records after a given
//! seq. Erased records are skipped. The memory in use is one batch and, for Parquet, one row group.

use std::fmt::{self, Display, Formatter};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::output_file::{Interruption, OutputFile};
use super::progress::Progress;
use super::{CliError, check_has_log, log_read_error, output_error, print_line};
use crate::events::export::write_line;
#[cfg(feature = "parquet")]
use crate::events::parquet::Table;
use crate::log::position::{self, LogPosition, PositionError, RecordChain};
use crate::log::{self, LogError, LogId, LogItem, LogReader, SeqRange};
use crate::record::{Record, RecordKind};
use crate::storage::disk::{Disk, RealDisk};
use crate::visitors::verify::newest_checkpoint_seq;

pub(super) const EXAMPLES: &str = "\
One JSON object per line, to a pipe:
  parallax export data | jq -r 'select(.type == \"track\") | .event' | sort | uniq -c

To a file, which appears when it is complete; later only newer records, with the position that the first
export printed:
  parallax export data -o events-1.ndjson
  parallax export data --since 4b1c6f0a8e2d4c7f9a3b5d7e1f2a4c6e:10442:000028ca1f0d3b5c7e9a2468 -o events-2.ndjson

A position proves that the log still has the records before it. A seq alone, as in --since 10442, proves nothing.

As columns, for DuckDB and similar tools:
  parallax export data --format parquet -o events.parquet
  duckdb -c \"SELECT type, count(*) FROM 'events.parquet' GROUP BY type\"

Exit codes: 0 success; 1 damage in the log, records that a checkpoint has and the log lacks, no log in the directory, or a position that it does not have; 3 a file cannot be read or written.";

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
    /// Export only records after this position, at which an earlier export ended, or after this seq. It is an error if
    /// the log has other records before the position or has deleted them. 0 is the beginning of the log.
    #[arg(long, value_name = "LOGID:SEQ:HASH|SEQ", default_value = "0")]
    since: Since,
    /// The file to write. It appears under its name when it is complete [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The place in the log at which an export begins.
#[derive(Debug, Clone, Copy)]
enum Since {
    /// The end of an earlier export.
    Position(LogPosition),
    /// A seq that the user states.
    Seq(u64),
}

impl Since {
    fn seq(self) -> u64 {
        match self {
            Self::Position(position) => position.seq(),
            Self::Seq(seq) => seq,
        }
    }

    /// Returns the chain of the records before the export. It verifies a position.
    fn find_chain(
        self,
        disk: &Arc<dyn Disk>,
        directory: &Path,
        range: &SeqRange,
    ) -> Result<RecordChain, CliError> {
        let found = match self {
            Self::Position(position) => position::verify(disk, directory, range, &position),
            Self::Seq(seq) => position::chain_after(disk, directory, range, seq),
        };
        found.map_err(|error| match error {
            PositionError::Log(error) => log_read_error(error),
            reason => CliError::Input(format!(
                "cannot export from --since {self}: {reason}; export again from the beginning (--since 0)"
            )),
        })
    }
}

impl Display for Since {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Position(position) => position.fmt(f),
            Self::Seq(seq) => seq.fmt(f),
        }
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains(':') {
            let position = LogPosition::parse(text).map(Self::Position);
            return position.ok_or_else(|| {
                "a position is LOGID:SEQ:HASH, as an export printed it: 32 hex digits, a number and 24 hex digits".to_owned()
            });
        }
        let seq = text.parse().map_err(|error| format!("a seq is a number, such as 10442: {error}"))?;
        Ok(Self::Seq(seq))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One JSON object per line.
    Ndjson,
    /// Apache Parquet with the same columns: seq as a number, times in microseconds, payload as JSON text.
    Parquet,
}

/// An error that ends an export early: of the log or of the output.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error(transparent)]
    Read(#[from] LogError),
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// The log of an export.
struct ExportSource {
    reader: LogReader,
    /// `None` if no segment states it.
    log_id: Option<LogId>,
    /// The chain of the records that were read.
    chain: RecordChain,
    /// The first seqs of the segments.
    segment_starts: Vec<u64>,
}

/// The result of an export.
#[derive(Debug, Default)]
struct ExportSummary {
    records: u64,
    last_seq: Option<u64>,
    damaged_places: u64,
}

pub(super) fn export(args: &ExportArgs) -> Result<(), CliError> {
    let mut source = open_log(args)?;
    let summary = match &args.output {
        Some(path) => export_to_file(args, path, &mut source)?,
        None => export_to_stdout(args, &mut source)?,
    };
    match summary.damaged_places {
        0 => Ok(()),
        n => Err(CliError::Input(format!(
            "the log is damaged in {n} places; the other {} records were exported",
            summary.records
        ))),
    }
}

/// Opens the log of an export at its beginning.
fn open_log(args: &ExportArgs) -> Result<ExportSource, CliError> {
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
    check_has_log(directory)?;
    // The lines of an export have no place for the scope. The warning names it.
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    // Read the checkpoints before the log: a running server writes the log first. So records up to this seq that the log does
    // not have are damage.
    let checkpointed_seq = newest_checkpoint_seq(&disk, directory).map_err(log_read_error)?;
    let log = log::seq_range(Arc::clone(&disk), directory).map_err(log_read_error)?;
    let chain = args.since.find_chain(&disk, directory, &log)?;
    let reader =
        LogReader::open_to_end(&disk, directory, args.since.seq(), log.last).map_err(log_read_error)?;
    let reader = reader.with_durable_seq(checkpointed_seq);
    let missing = log.last.saturating_sub(reader.last_seq());
    if missing > 0 {
        // Ignore the error: if standard error is closed, nobody can read the warning.
        let _ = writeln!(
            io::stderr(),
            "warning: the last {missing} records are not on disk yet and are left out; export again later"
        );
    }
    let segment_starts = reader.segment_starts();
    Ok(ExportSource { reader, log_id: log.log_id, chain, segment_starts })
}

fn export_to_stdout(args: &ExportArgs, source: &mut ExportSource) -> Result<ExportSummary, CliError> {
    match export_records(args, source, io::stdout(), &Progress::hidden()) {
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

fn export_to_file(
    args: &ExportArgs,
    path: &Path,
    source: &mut ExportSource,
) -> Result<ExportSummary, CliError> {
    let progress = Progress::on_terminal();
    let interruption = Interruption::default();
    let written = OutputFile::create(path, &interruption).map_err(ExportError::from).and_then(|file| {
        let (summary, file) = export_records(args, source, file, &progress)?;
        file.commit()?;
        Ok(summary)
    });
    drop(progress);
    if written.is_err() {
        interruption.end_process_if_received();
    }
    let summary = written.map_err(|broken| match broken {
        ExportError::Read(error) => log_read_error(error),
        ExportError::Write(error) => output_error(path, &error),
    })?;
    let last = match summary.last_seq {
        Some(seq) => format!("up to seq {seq}"),
        None => format!("none after seq {}", args.since.seq()),
    };
    let position = source.log_id.and_then(|log_id| source.chain.position(log_id));
    let next = position.map_or(Since::Seq(source.chain.last_seq()), Since::Position);
    let path = path.display();
    let records = summary.records;
    print_line(&format!("{path}: {records} records, {last}; continue with --since {next}"))?;
    Ok(summary)
}

/// Writes all records to `out`. Returns the summary and `out`.
fn export_records<W: Write + Send>(
    args: &ExportArgs,
    source: &mut ExportSource,
    out: W,
    progress: &Progress,
) -> Result<(ExportSummary, W), ExportError> {
    let mut sink = RecordSink::new(args.format, out)?;
    let mut summary = ExportSummary::default();
    let ExportSource { reader, chain, segment_starts, .. } = source;
    progress.start("exporting", reader.last_seq().saturating_sub(args.since.seq()));
    while let Some(item) = reader.read_next()? {
        let records = match item {
            LogItem::Records(records) => records,
            LogItem::Damage(damage) => {
                summary.damaged_places += 1;
                progress.print_line(&format!("parallax: {}/{damage}", args.directory.display()));
                continue;
            }
        };
        chain.add(&records, segment_starts);
        for (seq, record) in records.iter() {
            if !matches!(record.kind, RecordKind::Void | RecordKind::Tombstone) {
                sink.add(seq, &record)?;
                summary.records += 1;
                summary.last_seq = Some(seq);
            }
        }
        progress.set_done(records.seqs().end.saturating_sub(args.since.seq() + 1));
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
