//! Insights: column files, the numbers of each question, and the endpoints.

// Column files: golden bytes, damage, bounds, and every column against the records.
mod files;
// Every number, compared with a naive count over all records.
mod oracle;
// The visitor of an event, for the naive counts.
mod visitor_rule;
// Visits, and the events of a server in them.
mod visits;
// Lists of values: their rows and bytes.
mod lists;
// Channels: groups of the sources of visits.
mod channels;
// Zones: shown variants, and the events that followed.
mod zones;
// Journeys: funnels, retention, visits and paths.
mod chains;
mod journey_limits;
mod journeys;
mod paths;
mod retention;
// Answers that are compared with another range.
mod compared;
// The list of visitors, and the search for a visitor.
mod visitor_list;
mod visitor_list_served;
// Counts over sealed segments that are kept for the next answer, against a naive count.
mod kept;
// Hours, days, weeks and months in time zones.
mod alarms;
mod calendar;
// Experiments: exposed visitors, and the sums of their metrics.
mod experiments;
// Experiments against a naive count over all records.
mod experiment_oracle;
// Goals of a site: conversions, their credit and amounts, and columns that lack them.
mod goals;
// Breakdowns by properties of events.
mod properties;
// The tests of properties that goals have.
mod property_tests;
// Experiments: phases, weights, the split among the arms, and published metrics.
mod split;
// Experiments: caps of values, the sentence that decides, and unknown values of filters.
mod cuped;
mod decisions;
// Experiments: the limits of arms, memory and time.
mod experiment_limits;
// Experiments: the endpoints of a server, and the command.
mod experiments_served;
// The answers over the log of one node of a cluster.
mod stream_mark;
// Parameters that are refused.
mod parameters;
// Questions that name a segment of the site.
mod segment_filters;
// The endpoints of a server, and the command.
mod served;
// Questions that wait: their order, equal ones, and clients that go.
mod waiting;
// Column files on a disk that fails, is full, or changes meanwhile.
mod failing;
// A real disk whose calls a test can watch, delay and let fail.
mod disk;
// Erasures, and columns that are damaged or missing.
mod erased;
// Processes that are killed while column files are built and while visitors are erased, and erasures under load.
mod killed;

use std::sync::Arc;

use parallax::testing::insights::{ColumnBuilder, Columns, SitesGoals, VisitorKey};
use parallax::testing::record::{
    Code, Device, FoldInputBuilder, Record, RecordContext, RecordKind, UserAgentInfo,
};
use parallax::testing::site::goals::SiteGoals;

const KEY: VisitorKey = VisitorKey([7; 16]);

/// A record that owns its texts.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    kind: RecordKind,
    bot: bool,
    time_ms: i64,
    site: &'static str,
    anon_id: Option<&'static str>,
    user_id: Option<&'static str>,
    event: Option<&'static str>,
    path: Option<&'static str>,
    variants: Option<&'static str>,
    experiments: Option<&'static str>,
    /// Source, campaign and referrer of the touch.
    touch: [Option<&'static str>; 3],
    /// Medium, term and content of the touch.
    details: [Option<&'static str>; 3],
    country: Option<&'static str>,
    device: Device,
    payload: String,
}

impl Event {
    /// Returns a page event of the visitor `v` on `/`.
    fn page(time_ms: i64) -> Self {
        Self {
            kind: RecordKind::Page,
            bot: false,
            time_ms,
            site: "acme",
            anon_id: Some("v"),
            user_id: None,
            event: None,
            path: Some("/"),
            variants: None,
            experiments: None,
            touch: [None; 3],
            details: [None; 3],
            country: None,
            device: Device::Unknown,
            payload: "{}".to_owned(),
        }
    }

    /// Passes the record of the event to `take`.
    fn with_record<T>(&self, take: impl FnOnce(&Record<'_>) -> T) -> T {
        let mut fold_input = FoldInputBuilder::default();
        let [source, campaign, referrer] = self.touch;
        let [medium, term, content] = self.details;
        if self.touch.iter().chain(&self.details).any(Option::is_some) {
            fold_input.add_touch([source, medium, campaign, term, content, referrer]);
        }
        let country = self.country.and_then(|country| Code::new(country.as_bytes()));
        let agent = UserAgentInfo { device: self.device, ..UserAgentInfo::default() };
        take(&Record {
            bot: self.bot,
            received_ms: self.time_ms + 5,
            timestamp_ms: self.time_ms,
            site: Some(self.site),
            anon_id: self.anon_id,
            user_id: self.user_id,
            event: self.event,
            path: self.path,
            variants: self.variants,
            experiments: self.experiments,
            context: RecordContext::new(agent, country, None),
            payload: &self.payload,
            fold_input: fold_input.finish(),
            ..Record::new(self.kind)
        })
    }
}

/// Returns the columns of the events, in files of these lengths.
fn columns(events: &[Event], lengths: &[usize]) -> Vec<Columns> {
    columns_with_goals(&SiteGoals::default(), events, lengths)
}

/// Returns the columns of the events with the goals of the site `acme`, in files of these lengths.
fn columns_with_goals(goals: &SiteGoals, events: &[Event], lengths: &[usize]) -> Vec<Columns> {
    let mut of_sites = SitesGoals::default();
    if !goals.all().is_empty() {
        of_sites.add("acme", goals.clone());
    }
    let goals = Arc::new(of_sites);
    let (mut files, mut rest, mut seq) = (Vec::new(), events, 1);
    for length in lengths.iter().copied().chain([usize::MAX]) {
        let (of_file, after) = rest.split_at(length.min(rest.len()));
        let mut builder = ColumnBuilder::new(seq, KEY).with_goals(Arc::clone(&goals));
        of_file.iter().for_each(|event| event.with_record(|record| builder.add(record)));
        seq += of_file.len() as u64;
        files.push(Columns::from_bytes(builder.to_bytes(seq - 1)).expect("an intact file"));
        rest = after;
    }
    files
}
