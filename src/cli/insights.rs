//! `parallax insights`: answers questions about the events of a data directory, also beside a running server.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::{CliError, check_has_log, log_read_error, output_error, print_line};
use crate::config::{ByteSize, SNAPSHOTS_DIRECTORY_DEFAULT};
use crate::insights::{
    Answer, AskedQuery, COMPARE_PARAM, ColumnStore, CountedLog, EXPERIMENT_PARAM_NAMES,
    EXPERIMENTS_PARAM_NAMES, JourneySubject, KnownSite, Limits, ListSource, LogColumns, PARAM_NAMES, Query,
    SEGMENT_PARAM, ScanError, SegmentFiles, SiteFacts, SitesGoals, Subject, Topic, VISITORS_PARAM_NAMES,
    ZONES_PARAM_NAMES, answer_over, answer_visitors, load_or_draw_key,
};
use crate::limits::INSIGHTS_MEMORY_BYTES_DEFAULT;
use crate::log::{self, LogError, LogReader};
use crate::site::catalog::catalog::{Catalog, CurrentCatalog};
use crate::site::catalog::directory::SnapshotDirectory;
use crate::site::catalog::phases::Phases;
use crate::site::catalog::phases_file::{self, PHASES_FILE};
use crate::site::snapshot::format::ArchivedSite;
use crate::site::snapshot::open::SnapshotBudget;
use crate::storage::damage::KnownDamage;
use crate::storage::disk::{Disk, RealDisk};
use crate::{clock, storage};

pub(super) const EXAMPLES: &str = "\
Visitors, visits, page views and events of the last 30 days, then of one week by hour:
  parallax insights data overview site=acme
  parallax insights data overview site=acme from=2026-01-05 to=2026-01-12 by=hour

The pages with the most views by visitors from Germany, as CSV:
  parallax insights data top site=acme of=page country=DE limit=100 --format csv

All experiments, then the result of one:
  parallax insights data experiments site=acme
  parallax insights data experiment site=acme key=cta-colour

The variants that the zones of the front page showed:
  parallax insights data zones site=acme page=/

The visitors that went from the front page to an order, then those that return each week:
  parallax insights data funnel site=acme step=page:/ step=Order window=7d
  parallax insights data retention site=acme from=2026-01-05

The 20 visitors that reached the goal lead last:
  parallax insights data visitors site=acme goal=lead

The last 30 minutes, as JSON:
  parallax insights data live site=acme --format json

The sources of one week, compared with those of another one:
  parallax insights data top site=acme of=source from=2026-01-12 to=2026-01-19 compare=2026-01-05..2026-01-12

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
    /// The directory of the snapshots, for the time zone, the hosts and the experiments of the site. A site
    /// without a snapshot there is counted in UTC [default: snapshots].
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
    /// The variants that the zones of a page showed, and the events that followed. The parameter 'page' is the path.
    Zones,
    /// The visitors that reached the steps of a funnel one after the other. The parameter 'step' names a step.
    Funnel,
    /// The visitors that returned in the days or weeks after their first event.
    Retention,
    /// The pages and events after a page, or before it. The parameter 'page' is the path.
    Paths,
    /// The bounce rate, the duration and the pages of visits.
    Engagement,
    /// The visitors with an event in the range, newest activity first. With the parameter 'goal', those that reached the goal.
    Visitors,
    /// All experiments, with their visitors since the last change of their arms.
    Experiments,
    /// The visitors of each arm of an experiment, their split, and the comparison of the arms in each metric.
    Experiment,
    /// The visitors of the site's holdout and all others, compared like the arms of an experiment.
    Holdout,
}

impl QuestionName {
    fn topic(self) -> Topic {
        match self {
            Self::Overview => Topic::Views(Subject::Overview),
            Self::Top => Topic::Views(Subject::Top),
            Self::Live => Topic::Views(Subject::Live),
            Self::Experiments => Topic::Experiments,
            Self::Experiment => Topic::Experiment,
            Self::Holdout => Topic::Holdout,
            Self::Zones => Topic::Zones,
            Self::Funnel => Topic::Journey(JourneySubject::Funnel),
            Self::Retention => Topic::Journey(JourneySubject::Retention),
            Self::Paths => Topic::Journey(JourneySubject::Paths),
            Self::Engagement => Topic::Journey(JourneySubject::Engagement),
            Self::Visitors => Topic::Visitors,
        }
    }
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
    let catalog = read_catalog(args.snapshots.as_deref())?;
    let published = catalog.by_site_id(site).map(|published| published.site());
    let mut store = open_store(args, &catalog)?;
    let facts = find_site(&store, site, published)?;
    let phases = read_phases(&args.directory)?;
    let known = KnownSite { id: site, published, phases: &phases };
    let now_ms = clock::now_ms();
    let asked = AskedQuery::parse(args.question.topic(), pairs.into_iter(), &facts.zone, now_ms, known)
        .map_err(|error| CliError::Usage(error.to_string()))?;
    let asked = if args.format == Format::Json { asked } else { asked.for_table() };
    if asked.query.needs_goals() {
        let refreshed = store.refresh_with_goals(store.last_seq(), Some((site, &facts.goals)), &|| false);
        refreshed.map_err(|error| CliError::System(error.to_string()))?;
    }
    let limits = Limits { memory_bytes: args.insights_memory.0, is_over: &|| false };
    let log = CountedLog::alone(store.last_seq());
    let columns = store.columns();
    let disk = Arc::new(RealDisk) as Arc<dyn Disk>;
    let damage = KnownDamage::default();
    let segments = SegmentFiles { disk: &disk, directory: &args.directory, damage: &damage };
    let answer = asked.answer(|query| match query {
        Query::Visitors(question) => {
            let columns = LogColumns { sealed: &columns, tail: None };
            answer_visitors(ListSource { columns, log, segments }, question, &facts, &limits)
        }
        query => answer_over(&columns, log, query, &facts, now_ms, &limits),
    });
    let answer = answer.map_err(scan_error)?;
    let text = render(&answer, args.format);
    match &args.output {
        None => print_line(text.trim_end()),
        Some(path) => {
            storage::write_atomic(path, text.as_bytes()).map_err(|error| output_error(path, &error))
        }
    }
}

fn parse_pairs(question_name: QuestionName, params: &[String]) -> Result<Vec<(&str, &str)>, CliError> {
    let known: &[&str] = match question_name.topic() {
        Topic::Journey(subject) => subject.param_names(),
        Topic::Experiment => &EXPERIMENT_PARAM_NAMES,
        // All but `key`.
        Topic::Holdout => &EXPERIMENT_PARAM_NAMES[1..],
        Topic::Experiments => &EXPERIMENTS_PARAM_NAMES,
        Topic::Zones => &ZONES_PARAM_NAMES,
        Topic::Visitors => &VISITORS_PARAM_NAMES,
        Topic::Views(_) => &PARAM_NAMES,
    };
    params.iter().map(|param| parse_pair(param, known)).collect()
}

fn parse_pair<'p>(param: &'p str, names: &[&str]) -> Result<(&'p str, &'p str), CliError> {
    let wrong = || format!("{param:?} is no parameter; write NAME=VALUE, such as from=2026-01-05");
    let (name, value) = param.split_once('=').ok_or_else(|| CliError::Usage(wrong()))?;
    if !["site", SEGMENT_PARAM, COMPARE_PARAM].contains(&name) && !names.contains(&name) {
        let names = names.join(", ");
        let expected = format!("the parameters are site, {SEGMENT_PARAM}, {COMPARE_PARAM}, {names}");
        return Err(CliError::Usage(format!("{name:?} is no parameter; {expected}")));
    }
    Ok((name, value))
}

/// Reads the columns of the log.
fn open_store(args: &InsightsArgs, catalog: &Catalog) -> Result<ColumnStore, CliError> {
    let directory = &args.directory;
    let disk = Arc::new(RealDisk) as Arc<dyn Disk>;
    let failed = |source| log_read_error(LogError::Io { path: directory.clone(), source });
    check_has_log(directory)?;
    let last = log::seq_range(Arc::clone(&disk), directory).map_err(log_read_error)?.last;
    let reader = LogReader::open_to_end(&disk, directory, 0, last).map_err(log_read_error)?;
    let last_seq = reader.last_seq();
    let (key, _) = load_or_draw_key(&*disk, directory).map_err(failed)?;
    let mut store = ColumnStore::new(disk, directory, key, args.insights_memory.0);
    store.set_goals(Arc::new(SitesGoals::of(catalog)));
    store.refresh(last_seq, &|| false).map_err(|error| CliError::System(error.to_string()))?;
    Ok(store)
}

/// Finds the facts of the site.
fn find_site(
    store: &ColumnStore,
    site: &str,
    published_site: Option<&ArchivedSite>,
) -> Result<SiteFacts, CliError> {
    if published_site.is_none() && !store.knows_site(site).map_err(|error| scan_error(error.into()))? {
        return Err(CliError::Input(format!("neither a snapshot nor the log has the site {site:?}")));
    }
    Ok(published_site.map_or_else(|| SiteFacts::unpublished(site), SiteFacts::of))
}

/// Reads the published sites. A missing default directory has none.
fn read_catalog(snapshots_directory: Option<&Path>) -> Result<Arc<Catalog>, CliError> {
    let directory = snapshots_directory.unwrap_or(Path::new(SNAPSHOTS_DIRECTORY_DEFAULT));
    let current = CurrentCatalog::default();
    if snapshots_directory.is_some() || directory.exists() {
        let scanned =
            SnapshotDirectory::new(SnapshotBudget::new(u64::MAX)).scan(directory, &HashSet::new(), &current);
        scanned.map_err(|error| CliError::System(format!("cannot read {}: {error}", directory.display())))?;
    }
    Ok(current.load())
}

/// Reads the phases that the server has kept in the data directory.
fn read_phases(directory: &Path) -> Result<Phases, CliError> {
    let path = directory.join(PHASES_FILE.name);
    let phases = phases_file::read(&path);
    let failed =
        |error| CliError::System(format!("{}: {error}; `parallax check` verifies it", path.display()));
    Ok(phases.map_err(failed)?.unwrap_or_default())
}

fn scan_error(error: ScanError) -> CliError {
    match error {
        ScanError::Refused(refused) => CliError::Usage(refused.to_string()),
        error => CliError::System(error.to_string()),
    }
}

fn render(answer: &Answer, format: Format) -> String {
    match format {
        Format::Table => answer.to_table(),
        Format::Json => format!("{:#}", answer.document),
        Format::Csv => answer.to_csv(),
    }
}
