//! `parallax export`: what was recorded, as lines or as columns, to a file or a pipe.
//!
//! In comes a folder of the log, read beside a running server or not; out go the durable records behind a seq, but for what
//! was erased. Nothing is held but a batch and, of Parquet, a row group.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::progress::Progress;
use super::{Failure, say, unreadable};
use crate::storage::Replacement;
use crate::storage::disk::RealDisk;
use crate::visitors::events::export::line;
#[cfg(feature = "parquet")]
use crate::visitors::events::parquet::Table;
use crate::visitors::log::{self, Item, Kind, LogError, Reader, Record};

pub(super) const EXAMPLES: &str = "\
One JSON object a line, to a pipe:
  parallax export data | jq -r 'select(.type == \"track\") | .event' | sort | uniq -c

To a file, which is there once it is whole; later only what has come since, by the last seq that was exported:
  parallax export data -o events-1.ndjson
  parallax export data --since 10442 -o events-2.ndjson

As columns, for DuckDB and the like:
  parallax export data --format parquet -o events.parquet
  duckdb -c \"SELECT type, count(*) FROM 'events.parquet' GROUP BY type\"

Exit codes: 0 all was exported; 1 some records are damaged, or the folder holds no log; 3 it cannot be read or written.";

/// Bytes that are collected for one write.
const WRITE_BYTES: usize = 64 * 1024;

#[derive(Debug, Args)]
pub(super) struct Export {
    /// The folder of the log, the one that serve --data names.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// How records are written.
    #[arg(long, value_enum, default_value_t = Format::Ndjson)]
    format: Format,
    /// Only what came behind this seq: the last one of an earlier export.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    since: u64,
    /// Where the records go; by a temporary name and a rename [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One JSON object a line.
    Ndjson,
    /// The same columns in Apache Parquet: seq a number, times in microseconds, payload as JSON text.
    Parquet,
}

/// Why an export ended before its end.
enum Broken {
    Reading(LogError),
    Writing(io::Error),
}

impl From<LogError> for Broken {
    fn from(error: LogError) -> Self {
        Self::Reading(error)
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Writing(error)
    }
}

/// What was exported.
#[derive(Debug, Default)]
struct Tally {
    records: u64,
    last_seq: Option<u64>,
    findings: u64,
}

pub(super) fn export(typed: &Export) -> Result<(), Failure> {
    let mut reader = open(typed)?;
    let tally = match &typed.output {
        Some(path) => to_file(typed, path, &mut reader)?,
        None => to_standard_output(typed, &mut reader)?,
    };
    match tally.findings {
        0 => Ok(()),
        n => Err(Failure::Input(format!(
            "the log is damaged in {n} places; the {} records beside them were exported",
            tally.records
        ))),
    }
}

fn open(typed: &Export) -> Result<Reader, Failure> {
    if typed.format == Format::Parquet && !cfg!(feature = "parquet") {
        let text = "this program was built without Parquet: build it by `cargo build --release --features parquet`, \
                    or take --format ndjson, which DuckDB and the like read as well";
        return Err(Failure::CommandLine(text.to_owned()));
    }
    if typed.format == Format::Parquet && typed.output.is_none() && io::stdout().is_terminal() {
        let text = "Parquet is nothing to read on a terminal; name a file by -o, or a pipe";
        return Err(Failure::CommandLine(text.to_owned()));
    }
    let folder = &typed.folder;
    let failed = |source| unreadable(LogError::Io { path: folder.clone(), source });
    if !log::holds_log(&RealDisk, folder).map_err(failed)? {
        return Err(Failure::Input(format!(
            "{} holds no log: there is no segment in it; expected the folder that serve --data names",
            folder.display()
        )));
    }
    Reader::open(Arc::new(RealDisk), folder, typed.since).map_err(unreadable)
}

fn to_standard_output(typed: &Export, reader: &mut Reader) -> Result<Tally, Failure> {
    match copy(typed, reader, io::stdout(), &Progress::hidden()) {
        Ok((tally, _)) => Ok(tally),
        // Who reads on in a pipe has read enough.
        Err(Broken::Writing(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(Tally::default()),
        Err(Broken::Writing(error)) => Err(Failure::Machine(format!("standard output: {error}"))),
        Err(Broken::Reading(error)) => Err(unreadable(error)),
    }
}

fn to_file(typed: &Export, path: &Path, reader: &mut Reader) -> Result<Tally, Failure> {
    let progress = Progress::on_terminal();
    let written = Replacement::begin(path).map_err(Broken::from).and_then(|file| {
        let (tally, file) = copy(typed, reader, file, &progress)?;
        file.commit()?;
        Ok(tally)
    });
    drop(progress);
    let tally = written.map_err(|broken| match broken {
        Broken::Reading(error) => unreadable(error),
        Broken::Writing(error) => Failure::Machine(format!(
            "{} cannot be written: {error}; name another place by -o",
            path.display()
        )),
    })?;
    let last = match tally.last_seq {
        Some(seq) => format!("up to seq {seq}; what comes later: --since {seq}"),
        None => format!("nothing has come since seq {}", typed.since),
    };
    say(&format!("{}: {} records, {last}", path.display(), tally.records))?;
    Ok(tally)
}

/// Writes all records to `out`, and hands it back.
fn copy<W: Write + Send>(
    typed: &Export,
    reader: &mut Reader,
    out: W,
    progress: &Progress,
) -> Result<(Tally, W), Broken> {
    let mut sink = Sink::new(typed.format, out)?;
    let mut tally = Tally::default();
    progress.begin("exporting", reader.last_seq().saturating_sub(typed.since));
    while let Some(item) = reader.read_next()? {
        let records = match item {
            Item::Records(records) => records,
            Item::Finding(finding) => {
                tally.findings += 1;
                progress.say(&format!("parallax: {}/{finding}", typed.folder.display()));
                continue;
            }
        };
        for (seq, record) in records.iter() {
            if !matches!(record.kind, Kind::Void | Kind::Tombstone) {
                sink.add(seq, &record)?;
                tally.records += 1;
                tally.last_seq = Some(seq);
            }
        }
        progress.step(records.seqs().end.saturating_sub(typed.since + 1));
    }
    Ok((tally, sink.finish()?))
}

/// Where records go, in their form.
enum Sink<W: Write + Send> {
    Lines {
        out: BufWriter<W>,
        line: Vec<u8>,
    },
    #[cfg(feature = "parquet")]
    Table(Box<Table<W>>),
}

impl<W: Write + Send> Sink<W> {
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
                line(text, seq, record);
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
