//! `parallax insights`: answers questions about the events of a data directory, also beside a running server.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::{CliError, log_read_error, print_line};
use crate::config::{ByteSize, SNAPSHOTS_DIRECTORY_DEFAULT};
use crate::insights::{
    Answer, ColumnStore, EXPERIMENT_PARAM_NAMES, Limits, PARAM_NAMES, Query, SiteFacts, StoreError, Subject,
    load_or_draw_key,
};
use crate::limits::INSIGHTS_MEMORY_BYTES_DEFAULT;
use crate::site::catalog::catalog::CurrentCatalog;
use crate::site::catalog::directory::SnapshotDirectory;
use crate::site::snapshot::open::SnapshotBudget;
use crate::storage::disk::{Disk, RealDisk};
use crate::visitors::log::{self, LogError, LogReader};
use crate::{clock, storage};

pub(super) const EXAMPLES: &str = "\
Visitors, visits, page views and events of the last 30 days, then of one week by hour:
  parallax insights data overview site=acme
  parallax insights data overview site=acme from=2026-01-05 to=2026-01-12 by=hour

The pages with the most views by visitors from Germany, as CSV:
  parallax insights data top site=acme of=page country=DE limit=100 --format csv

The last 30 minutes, as JSON:
  parallax insights data live site=acme --format json

Exit codes: 0 success; 1 no log in the directory or an unknown site; 2 bad parameters; 3 a file cannot be read or written.";

#[derive(Debug, Args)]
pub(super) struct InsightsArgs {
    /// The directory of the log (serve --data).
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The question.
    #[arg(value_enum)]
    question: QuestionName,
    /// Parameters of the question, such as site=acme, from=2026-01-05 or by=hour. site is required.
    #[arg(value_name = "NAME=VALUE")]
    params: Vec<String>,
    /// The directory of the snapshots, for the time zone and the hosts of the site. A site without a snapshot there
    /// is counted in UTC [default: snapshots].
    #[arg(long, value_name = "DIR")]
    snapshots: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Memory for the events of a question, in bytes or with a unit, above 0. Beyond it the visitors are counted in
    /// several passes.
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(INSIGHTS_MEMORY_BYTES_DEFAULT), value_parser = parse_memory)]
    insights_memory: ByteSize,
    /// The file to write. It appears under its name when it is complete [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum QuestionName {
    /// Visitors, visits, page views and events by hour, day, week or month, compared with the period before.
    Overview,
    /// The most frequent pages, referrers, sources and so on. The parameter 'of' names the list.
    Top,
    /// The last 30 minutes, minute by minute.
    Live,
    /// The visitors of each arm of an experiment, and the sums of its metrics.
    Experiment,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Columns for people.
    Table,
    /// The answer as JSON, with the query that gives the same numbers over an export.
    Json,
    /// Comma-separated values.
    Csv,
}

fn parse_memory(text: &str) -> Result<ByteSize, String> {
    let size = ByteSize::parse(text)?;
    (size.0 > 0).then_some(size).ok_or_else(|| "expected a size above 0".to_owned())
}

pub(super) fn insights(args: &InsightsArgs) -> Result<(), CliError> {
    let pairs = parse_pairs(args.question, &args.params)?;
    let site = pairs.iter().find(|(name, _)| *name == "site").map(|(_, value)| *value);
    let site =
        site.ok_or_else(|| CliError::Usage("the parameter site is missing, such as site=acme".to_owned()))?;
    let (mut store, facts) = open_store(args, site)?;
    let now_ms = clock::now_ms();
    let subject = match args.question {
        QuestionName::Overview => Some(Subject::Overview),
        QuestionName::Top => Some(Subject::Top),
        QuestionName::Live => Some(Subject::Live),
        QuestionName::Experiment => None,
    };
    let query = Query::parse(subject, pairs.into_iter(), &facts.zone, now_ms)
        .map_err(|error| CliError::Usage(error.to_string()))?;
    let limits = Limits { memory_bytes: args.insights_memory.0, is_over: &|| false };
    let answer = store.answer(&query, &facts, now_ms, &limits).map_err(store_error)?;
    let text = render(&answer, args.format);
    match &args.output {
        None => print_line(text.trim_end()),
        Some(path) => storage::write_atomic(path, text.as_bytes()).map_err(|error| {
            CliError::System(format!("cannot write {}: {error}; choose another file with -o", path.display()))
        }),
    }
}

fn parse_pairs(question: QuestionName, params: &[String]) -> Result<Vec<(&str, &str)>, CliError> {
    let known: &[&str] = match question {
        QuestionName::Experiment => &EXPERIMENT_PARAM_NAMES,
        QuestionName::Overview | QuestionName::Top | QuestionName::Live => &PARAM_NAMES,
    };
    params.iter().map(|param| parse_pair(param, known)).collect()
}

fn parse_pair<'p>(param: &'p str, known: &[&str]) -> Result<(&'p str, &'p str), CliError> {
    let wrong = || format!("{param:?} is no parameter; write NAME=VALUE, such as from=2026-01-05");
    let (name, value) = param.split_once('=').ok_or_else(|| CliError::Usage(wrong()))?;
    if name != "site" && !known.contains(&name) {
        let names = known.join(", ");
        return Err(CliError::Usage(format!("{name:?} is no parameter; the parameters are site, {names}")));
    }
    Ok((name, value))
}

/// Reads the columns of the log, and finds the facts of the site.
fn open_store(args: &InsightsArgs, site: &str) -> Result<(ColumnStore, SiteFacts), CliError> {
    let (directory, disk) = (&args.directory, Arc::new(RealDisk) as Arc<dyn Disk>);
    let failed = |source| log_read_error(LogError::Io { path: directory.clone(), source });
    if !log::contains_log(&*disk, directory).map_err(failed)? {
        return Err(CliError::Input(format!(
            "{} contains no segment of a log. Use the directory of serve --data",
            directory.display()
        )));
    }
    let last_seq = LogReader::open(Arc::clone(&disk), directory, 0).map_err(log_read_error)?.last_seq();
    let (key, _) = load_or_draw_key(&*disk, directory).map_err(failed)?;
    let mut store = ColumnStore::new(disk, directory, key, args.insights_memory.0);
    store.refresh(last_seq, &|| false).map_err(store_error)?;
    let published = published_site(args.snapshots.as_deref(), site)?;
    if published.is_none() && !store.knows_site(site).map_err(store_error)? {
        return Err(CliError::Input(format!("neither a snapshot nor the log has the site {site:?}")));
    }
    Ok((store, published.unwrap_or_else(|| SiteFacts::unpublished(site))))
}

/// Returns the facts of a published site. A missing default directory has no sites.
fn published_site(snapshots: Option<&Path>, site: &str) -> Result<Option<SiteFacts>, CliError> {
    let directory = snapshots.unwrap_or(Path::new(SNAPSHOTS_DIRECTORY_DEFAULT));
    if snapshots.is_none() && !directory.exists() {
        return Ok(None);
    }
    let current = CurrentCatalog::default();
    let scanned =
        SnapshotDirectory::new(SnapshotBudget::new(u64::MAX)).scan(directory, &HashSet::new(), &current);
    scanned.map_err(|error| CliError::System(format!("cannot read {}: {error}", directory.display())))?;
    Ok(current.load().by_site_id(site).map(|published| SiteFacts::of(published.site())))
}

fn store_error(error: StoreError) -> CliError {
    CliError::System(error.to_string())
}

fn render(answer: &Answer, format: Format) -> String {
    match format {
        Format::Table => answer.to_table(),
        Format::Json => format!("{:#}", answer.document),
        Format::Csv => answer.to_csv(),
    }
}
