//! `parallax import`: makes a new data directory from exports and other data directories.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::progress::Progress;
use super::site_directory::counted;
use super::{CliError, log_read_error, print_line};
use crate::clock::{Clock, SystemClock};
use crate::config::{ByteSize, size_parser};
use crate::import::{self, ImportError, ImportObserver, ImportOptions, ImportSummary, Refused};
use crate::limits::SEGMENT_BYTES_DEFAULT;
use crate::storage::disk::{Disk, RealDisk};

/// Refused lines that are printed. The list beside the new directory has all of them.
const REFUSED_SHOWN_MAX: u64 = 20;
/// Default of `--sort-memory`, in bytes. With less memory an import writes more runs, and merges more than
/// [`crate::import`] reads at once in several passes.
const SORT_BYTES_DEFAULT: u64 = 64 << 20;

pub(super) const EXAMPLES: &str = "\
Merge two data directories, whose servers have ended, into a new one, with the erasures of both:
  parallax import -o merged/ --merge data-1/ --merge data-2/

Move the events of one site to a directory of its own:
  parallax export data/ -o events.ndjson
  parallax import events.ndjson -o shop-data/ --site shop

Begin with the events of two years, of which the server will keep one:
  parallax import 2024.ndjson 2025.ndjson -o data/ --retain-days 365
  parallax serve --data data/ --retain-days 365

The records of all inputs are in the order of their receipt. Of records with the same message ID
the first one stays. A line needs `receivedAt` or `sentAt`, `site`, `type` and `payload`. A column
that it lacks is derived from the payload. A refused line stops nothing: the others are imported,
NEWDIR.refused lists it with the reason, and the exit code is 1.

A killed import continues when the same command is run again. Its state is in NEWDIR.importing.

Exit codes: 0 success; 1 lines or records were refused, a data directory is damaged, or an input
cannot be imported; 3 a file cannot be read or written.";

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// Exports as NDJSON, which `parallax export` wrote.
    #[arg(value_name = "FILE", required_unless_present = "merge")]
    files: Vec<PathBuf>,
    /// The directory to create, the --data of a server. It is empty or does not exist. It appears when it is complete.
    #[arg(short, long, value_name = "NEWDIR")]
    output: PathBuf,
    /// A data directory whose records are imported too, as they are, with its erasures. No server may use it. With one such
    /// directory, the new one has the same file `secret`.
    #[arg(long, value_name = "DIR")]
    merge: Vec<PathBuf>,
    /// Import only the records of this site. Can be given several times [default: all sites].
    #[arg(long, value_name = "ID")]
    site: Vec<String>,
    /// Refuse records that are older than this number of days, which a server with the same setting would delete
    /// [default: unlimited].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    retain_days: Option<u32>,
    /// The events of crawlers in the exports of this site have changed profiles: its site.json has "bots": "keep". Those of other
    /// sites change no profile. An export does not say it. Can be given several times.
    #[arg(long, value_name = "ID")]
    keep_bots: Vec<String>,
    /// Memory for sorting, in bytes or with a unit. With less memory the import writes more temporary files.
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(SORT_BYTES_DEFAULT), value_parser = size_parser(4096..=1 << 40))]
    sort_memory: ByteSize,
    /// Size at which a segment of the new log ends, in bytes or with a unit.
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(SEGMENT_BYTES_DEFAULT), value_parser = size_parser(65_536..=1 << 40))]
    segment_bytes: ByteSize,
}

pub(super) fn import(args: ImportArgs) -> Result<(), CliError> {
    let ImportArgs { files, output, merge, site, retain_days, keep_bots, sort_memory, segment_bytes } = args;
    let options = ImportOptions {
        files,
        directories: merge,
        target: output,
        sites: site,
        retain_days,
        keep_bots,
        sort_bytes: sort_memory.0,
        segment_bytes: segment_bytes.0,
    };
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let mut observer = Terminal { progress: Progress::on_terminal(), refused: 0 };
    let imported = import::import(&disk, &options, SystemClock::new().now_ms(), &mut observer);
    drop(observer);
    let summary = imported.map_err(|error| to_cli_error(error, &options))?;
    print_summary(&options, &summary)
}

fn to_cli_error(error: ImportError, options: &ImportOptions) -> CliError {
    let text = error.to_string();
    match error {
        ImportError::Log(error) => log_read_error(error),
        ImportError::Empty { refused, .. } if refused > 0 => CliError::Input(format!(
            "{text}; {}.refused lists {} with the reasons",
            options.target.components().as_path().display(),
            counted(refused as usize, "refused line")
        )),
        ImportError::NotEmpty { .. }
        | ImportError::NotReplaceable { .. }
        | ImportError::Input { .. }
        | ImportError::Other { .. }
        | ImportError::Empty { .. } => CliError::Input(text),
        ImportError::Busy { .. }
        | ImportError::NoSpace { .. }
        | ImportError::Unfinished(_)
        | ImportError::Io { .. } => CliError::System(text),
    }
}

fn print_summary(options: &ImportOptions, summary: &ImportSummary) -> Result<(), CliError> {
    let target = options.target.display();
    let ImportSummary { log_id, records, tombstones, duplicates, other_sites, .. } = summary;
    let count = |number: u64, noun| counted(number as usize, noun);
    print_line(&format!(
        "{target}: imported {} and {}; left out {} and {} of other sites; the new log has the ID {log_id}",
        count(*records, "record"),
        count(*tombstones, "tombstone"),
        count(*duplicates, "duplicate"),
        count(*other_sites, "record")
    ))?;
    if let Some(erased) = summary.erased {
        print_line(&format!(
            "{target}: carried out the erasures; erased {}, and IDs in {} of other visitors",
            count(erased.records, "record"),
            erased.redacted
        ))?;
    }
    let refused = summary.refused_file.as_ref().map(|file| {
        format!("{} lists {} with the reasons", file.display(), count(summary.refused, "refused line"))
    });
    let damage = summary.has_damage.then(|| "a data directory is damaged".to_owned());
    let faults: Vec<String> = refused.into_iter().chain(damage).collect();
    if faults.is_empty() {
        return Ok(());
    }
    Err(CliError::Input(format!("{}; the other records were imported", faults.join(", and "))))
}

/// The observer that prints to standard error.
struct Terminal {
    progress: Progress,
    /// The number of refused lines of this run.
    refused: u64,
}

impl ImportObserver for Terminal {
    fn begin(&mut self, phase: &'static str, step_count: u64) {
        self.progress.start(phase, step_count);
    }

    fn set_done(&mut self, done_count: u64) {
        self.progress.set_done(done_count);
    }

    fn on_refused(&mut self, refused: &Refused<'_>) {
        self.refused += 1;
        let Refused { file, line, seq, reason } = refused;
        let place = line.or(*seq).unwrap_or_default();
        // The file may come from somebody else, and its text must not command the terminal.
        let reason: String =
            reason.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect();
        match self.refused {
            ..=REFUSED_SHOWN_MAX => self.progress.print_line(&format!("parallax: {file}:{place}: {reason}")),
            n if n == REFUSED_SHOWN_MAX + 1 => {
                self.progress.print_line("parallax: further refused lines are only in the list")
            }
            _ => {}
        }
    }

    fn on_damage(&mut self, damage: String) {
        self.progress.print_line(&format!("parallax: {damage}"));
    }
}
