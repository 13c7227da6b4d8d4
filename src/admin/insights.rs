//! `GET /insights/overview`, `/insights/top`, `/insights/live`, `/insights/zones`, `/insights/funnel`,
//! `/insights/retention`, `/insights/paths`, `/insights/engagement`, `/insights/experiments`, `/insights/experiment` and
//! `/insights/holdout`: answers as JSON, or as CSV with `Accept: text/csv`. Also passes
//! `/insights/audiences`, `/insights/publications` and `/visitors/records` to their thread, and begins the job of `/insights/changes`.
//!
//! The thread `insights` answers. An unchanged answer is 304 at once, because its ETag depends on the question and on
//! the last acknowledged seq alone.

use super::answer_error::{reject, reject_request};
use super::audiences::{self, AudienceCount, SizeCache};
use super::audit::{self, Client, VisitorAudit};
use super::changes::{self, ChangesReceiver, ChangesRequest, ComparedContent, Received, SnapshotRules};
use super::hidden_traits::hidden_traits;
use super::past_decision::ServedSnapshots;
use super::publications::{self, ChangesCache, PublicationList};
use super::query::{RequestError, check_is_read, parse_pairs, single_site};
use super::records::{self, RecordsRequest};
use super::representation::Representation;
use super::slow_requests::SlowRequests;
use super::visitor_header;
use super::visitor_list;
use super::visitors::write_job_output;
use crate::api::{Handler, Outcome, Poll};
use crate::audit::{AuditAction, AuditLog};
use crate::clock;
use crate::http::etag::Etag;
use crate::http::request::{Method, Request};
use crate::ids;
use crate::insights::engine::{AnswerError, Output, SiteQuestion};
use crate::insights::{
    Answer, AskedQuery, JourneySubject, KnownSite, Query, QuestionError, SiteFacts, Subject, Topic,
};
use crate::limits::SITE_ID_BYTES_MAX;
use crate::log::ReadableLog;
use crate::problem::{self, Problem};
use crate::site::catalog::catalog::Catalog;
use crate::site::catalog::files::CurrentFiles;
use crate::visitors::live::ProfileReaders;
use crate::visitors::ownership::OwnershipSource;

const PREFIX: &str = "/insights/";
/// The parameter of an overview that adds a list. It may repeat.
const LIST: &str = "of";
/// Most rows of such a list, so that the answer with all lists has at most some megabytes.
const LIST_ROWS_MAX: usize = 100;

/// The handler of the endpoints of Insights.
pub(crate) struct InsightsHandler {
    /// False if Insights is switched off. Then no question is asked.
    is_on: bool,
    log: ReadableLog,
    source: OwnershipSource,
    profiles: ProfileReaders,
    sizes: SizeCache,
    changes: ChangesReceiver,
    publications: ChangesCache,
    /// The snapshot files as of the last scan.
    files: CurrentFiles,
    audit: AuditLog,
    /// A number of this process, so that an ETag of an earlier one matches nothing.
    salt: u64,
}

/// The result of reading a request.
enum FirstStep {
    /// The request waits in this slot.
    Waiting(usize),
    Unchanged(Etag),
    /// The answer is known at once.
    Text(String),
    /// A part of a snapshot has arrived.
    Received(String),
}

impl InsightsHandler {
    pub(crate) fn new(
        is_on: bool,
        log: ReadableLog,
        source: OwnershipSource,
        profiles: ProfileReaders,
        rules: SnapshotRules,
    ) -> Self {
        Self {
            is_on,
            log,
            source,
            profiles,
            sizes: SizeCache::default(),
            changes: ChangesReceiver::new(rules),
            publications: ChangesCache::default(),
            files: CurrentFiles::default(),
            audit: AuditLog::off(),
            salt: ids::random_u64(),
        }
    }

    /// Compares these snapshot files too, also those of publications.
    #[must_use]
    pub(super) fn with_files(self, files: CurrentFiles) -> Self {
        Self { files, ..self }
    }

    /// Notes searches for visitors, and looks at their records, in this log.
    #[must_use]
    pub(crate) fn with_audit(self, audit: AuditLog) -> Self {
        Self { audit, ..self }
    }

    /// Returns whether the path is one of the endpoints.
    pub(super) fn matches_path(path: &str) -> bool {
        path.starts_with(PREFIX) || path == records::PATH
    }

    /// Frees the memory of a snapshot of which no further part arrives.
    pub(super) fn tick(&mut self) {
        self.changes.tick(clock::instant());
    }

    /// Answers a request, or passes its question to the thread `insights`.
    pub(super) fn handle(
        &mut self,
        requests: &mut SlowRequests,
        handler: &mut Handler,
        request: &Request<'_>,
        client: &Client,
        out: &mut Vec<u8>,
    ) -> Poll {
        let mut decoded = Vec::new();
        let outcome = match self.ask(requests, request, client, &mut decoded, handler.catalog()) {
            Ok(FirstStep::Waiting(slot)) => return Poll::Pending(slot),
            Ok(FirstStep::Unchanged(etag)) => {
                handler.write_validated(request, &etag, "", out, || "");
                Outcome::default()
            }
            Ok(FirstStep::Text(text)) => {
                write_text(handler, request, &text, out);
                Outcome::default()
            }
            Ok(FirstStep::Received(text)) => {
                handler.write_text(request, 200, "application/json", &text, out);
                Outcome::default()
            }
            Err(error) => reject_request(handler, request, error, out),
        };
        Poll::Ready(outcome)
    }

    /// `param_buffer` is a buffer.
    fn ask<'a>(
        &mut self,
        requests: &mut SlowRequests,
        request: &Request<'a>,
        client: &Client,
        param_buffer: &'a mut Vec<u8>,
        catalog: &Catalog,
    ) -> Result<FirstStep, RequestError<'a>> {
        if request.path == records::PATH {
            return self.ask_for_records(requests, request, client, param_buffer, catalog);
        }
        if request.path == audiences::PATH {
            return self.ask_for_audiences(requests, request, catalog);
        }
        if request.path == changes::PATH {
            return self.ask_for_changes(requests, request, catalog);
        }
        if request.path == publications::PATH {
            return self.ask_for_publications(requests, request, catalog);
        }
        let topic = topic_of(request)?;
        check_is_read(request)?;
        if !self.is_on {
            let sentence = "Insights is switched off by --insights-memory 0.";
            return Err(Problem::new(problem::UNKNOWN_ENDPOINT, sentence).into());
        }
        let pairs = parse_pairs(request.query)?;
        let site = self.find_site(&pairs, catalog)?;
        let now_ms = clock::now_ms();
        let published = catalog.by_site_id(&site.site).map(|published| published.site());
        let known = KnownSite { id: &site.site, published, phases: catalog.phases() };
        let parse = |topic, pairs: &[(&str, &str)]| {
            AskedQuery::parse(topic, pairs.iter().copied(), &site.zone, now_ms, known)
                .map_err(RequestError::Question)
        };
        let representation = Representation::of(request);
        let search = if topic == Topic::Visitors { visitor_header::searched_trait(request)? } else { None };
        if topic == Topic::Visitors {
            let detail = if search.is_some() { "search" } else { "list" };
            audit::record(&self.audit, &client.entry(AuditAction::Find, &site.site).detail(detail))?;
        }
        let questions = match search {
            Some(search) => {
                let hidden = hidden_traits(&client.caller, &site.site, catalog);
                let query = visitor_list::search_query(search, &hidden, &pairs, known, &site.zone, now_ms)?;
                vec![query]
            }
            None => questions_of(topic, &pairs, representation, parse)?,
        };
        let questions: Vec<_> =
            questions.into_iter().map(|question| self.key(question, &site, now_ms)).collect();
        let keys: String = questions.iter().map(|(key, _)| &**key).collect();
        let etag_input = format!("{} {representation:?} {keys}", self.salt);
        let seq = self.last_seq();
        let etag = etag_of(&etag_input, seq);
        if topic != Topic::Visitors && etag.is_matched_by(&request.headers) {
            return Ok(FirstStep::Unchanged(etag));
        }
        Ok(FirstStep::Waiting(requests.ask(questions, etag_input, seq)?))
    }

    /// Returns a question after a text with everything that changes its answer, beside the seq.
    fn key(&self, query: AskedQuery, site: &SiteFacts, now_ms: i64) -> (String, SiteQuestion) {
        let comparison = site.zone.comparison(query.query.range(), now_ms);
        let mark = self.log.end().mark;
        let metrics = self.log.queue().metrics();
        let deleted = metrics.deleted_segments();
        let generation = metrics.generation().now();
        let key = format!("{site:?} {mark:?} {deleted} {generation} {} {comparison:?} ", query.key());
        (key, SiteQuestion { query, site: site.clone(), now_ms })
    }

    /// Returns the seq of the last acknowledged event.
    pub(super) fn last_seq(&self) -> u64 {
        self.log.end().seq
    }

    fn ask_for_records<'a>(
        &self,
        requests: &mut SlowRequests,
        request: &Request<'a>,
        client: &Client,
        param_buffer: &'a mut Vec<u8>,
        catalog: &Catalog,
    ) -> Result<FirstStep, RequestError<'a>> {
        let mut request = RecordsRequest::parse(request, param_buffer)?;
        request.hidden_traits = hidden_traits(&client.caller, &request.site, catalog);
        self.check_site(&request.site, catalog)?;
        VisitorAudit::new(&self.audit, client, AuditAction::View, request.visitor_id())
            .record_look("records")?;
        let reader = request.reader(self.source.clone(), self.log.clone());
        Ok(FirstStep::Waiting(requests.run_steps(move || Some(reader.read()))?))
    }

    fn ask_for_audiences<'a>(
        &self,
        requests: &mut SlowRequests,
        request: &Request<'a>,
        catalog: &Catalog,
    ) -> Result<FirstStep, RequestError<'a>> {
        check_is_read(request)?;
        let pairs = parse_pairs(request.query)?;
        let site = single_site(&pairs)?;
        let representation = Representation::of(request);
        let Some(published) = catalog.by_site_id(site) else {
            self.check_site(site, catalog)?;
            return Ok(FirstStep::Text(audiences::write_unpublished(representation)));
        };
        let profiles = self.profiles.reader();
        let mut count =
            AudienceCount::new(published.snapshot(), profiles, self.sizes.clone(), representation);
        Ok(FirstStep::Waiting(requests.run_steps(move || count.step())?))
    }

    fn ask_for_publications<'a>(
        &self,
        requests: &mut SlowRequests,
        request: &Request<'a>,
        catalog: &Catalog,
    ) -> Result<FirstStep, RequestError<'a>> {
        check_is_read(request)?;
        let pairs = parse_pairs(request.query)?;
        let site = self.find_site(&pairs, catalog)?;
        let snapshots = ServedSnapshots::of(catalog.by_site_id(&site.site), self.files.load());
        let cache = self.publications.clone();
        let list = PublicationList::new(&pairs, site, snapshots, cache, Representation::of(request));
        let mut list = list.map_err(RequestError::Question)?;
        Ok(FirstStep::Waiting(requests.run_steps(move || list.step())?))
    }

    fn ask_for_changes<'a>(
        &mut self,
        requests: &mut SlowRequests,
        request: &Request<'a>,
        catalog: &Catalog,
    ) -> Result<FirstStep, RequestError<'a>> {
        if request.method != Method::Post {
            return Err(Problem::method_not_allowed(request.method.subject(), "POST").into());
        }
        let pairs = parse_pairs(request.query)?;
        let site = single_site(&pairs)?;
        self.check_site(site, catalog)?;
        let changes = ChangesRequest::parse(site, &pairs).map_err(RequestError::Question)?;
        let content = match changes.find_listed(request.body, &self.files.load())? {
            Some(snapshot) => ComparedContent::Listed(snapshot),
            None => {
                let received = self.changes.receive(&changes, request.body, clock::instant());
                match received.map_err(RequestError::Job)? {
                    Received::Part(text) => return Ok(FirstStep::Received(text)),
                    Received::Complete(file) => ComparedContent::Sent(file),
                }
            }
        };
        let job = self.changes.job(content, &changes, catalog, self.profiles.reader());
        Ok(FirstStep::Waiting(requests.start_job(move || job.run())?))
    }

    /// Checks that a published site or the log has the site ID.
    fn check_site<'a>(&self, site: &str, catalog: &Catalog) -> Result<(), Problem<'a>> {
        let is_logged = || site.len() <= SITE_ID_BYTES_MAX && self.source.known.knows_site(site);
        match catalog.by_site_id(site).is_some() || is_logged() {
            true => Ok(()),
            false => {
                let sentence = "Neither a published site nor the log has this site ID.";
                Err(Problem::new(problem::SITE_NOT_FOUND, sentence).at("site"))
            }
        }
    }

    fn find_site<'a>(
        &self,
        pairs: &[(String, String)],
        catalog: &Catalog,
    ) -> Result<SiteFacts, RequestError<'a>> {
        let site = single_site(pairs)?;
        if let Some(published) = catalog.by_site_id(site) {
            return Ok(SiteFacts::of(published.site()));
        }
        self.check_site(site, catalog)?;
        Ok(SiteFacts::unpublished(site))
    }
}

/// Writes the response of a request whose results have arrived. `etag_prefix` is the beginning of the input of its ETag, before
/// the seq.
pub(super) fn write_results(
    handler: &mut Handler,
    request: &Request<'_>,
    etag_prefix: &str,
    results: Result<Vec<Output>, AnswerError>,
    out: &mut Vec<u8>,
) -> Outcome {
    let outputs = match results {
        Ok(outputs) => outputs,
        Err(error) => return reject(handler, request, &error, out),
    };
    let representation = Representation::of(request);
    match &outputs[..] {
        [Output::ValidatedText(text)] => write_text(handler, request, text, out),
        [Output::UnstoredText(text)] => {
            handler.write_varying(request, representation.media_type(), text, out);
        }
        [Output::Job(output)] => write_job_output(handler, request, output, out),
        outputs => write_answers(handler, request, etag_prefix, outputs, out),
    }
    Outcome::default()
}

/// Writes the answers to questions. The ETag has the lowest seq of all answers, so that it matches only if the answers have the
/// same events.
fn write_answers(
    handler: &mut Handler,
    request: &Request<'_>,
    etag_prefix: &str,
    outputs: &[Output],
    out: &mut Vec<u8>,
) {
    let answers = outputs.iter().filter_map(|output| match output {
        Output::Answer(answer) => Some(&**answer),
        _ => None,
    });
    let answers: Vec<&Answer> = answers.collect();
    let [first, lists @ ..] = &answers[..] else { return };
    let seq = lists.iter().map(|list| list.seq).fold(first.seq, u64::min);
    let representation = Representation::of(request);
    let text = answer_text(first, lists, representation);
    let etag = etag_of(etag_prefix, seq);
    handler.write_validated(request, &etag, representation.media_type(), out, || &text);
}

/// Writes a response with an ETag of its text.
fn write_text(handler: &mut Handler, request: &Request<'_>, text: &str, out: &mut Vec<u8>) {
    let etag = Etag::of(text.as_bytes());
    handler.write_validated(request, &etag, Representation::of(request).media_type(), out, || text);
}

fn answer_text(first_answer: &Answer, list_answers: &[&Answer], representation: Representation) -> String {
    match representation {
        Representation::Csv => first_answer.to_csv(),
        Representation::Json if list_answers.is_empty() => first_answer.document.to_string(),
        Representation::Json => {
            let mut document = first_answer.document.clone();
            document["lists"] = list_answers.iter().map(|list| &list.document).cloned().collect();
            document.to_string()
        }
    }
}

/// Returns the question of a request, and after an overview those of its lists.
fn questions_of<'a>(
    topic: Topic,
    pairs: &[(String, String)],
    representation: Representation,
    parse: impl Fn(Topic, &[(&str, &str)]) -> Result<AskedQuery, RequestError<'a>>,
) -> Result<Vec<AskedQuery>, RequestError<'a>> {
    let mut pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
    let mut lists: Vec<(&str, &str)> = Vec::new();
    if topic == Topic::Views(Subject::Overview) {
        let is_list = |(name, value): &(&str, &str)| *name == LIST && !value.is_empty();
        lists = pairs.extract_if(.., |pair| is_list(pair)).collect();
    }
    let mut questions = vec![parse(topic, &pairs)?];
    // The steps of the series change no list.
    pairs.retain(|(name, _)| *name != "by");
    for (number, list) in lists.iter().enumerate() {
        if lists[..number].contains(list) {
            return Err(RequestError::Question(QuestionError::repeated(LIST)));
        }
        let question = parse(Topic::Views(Subject::Top), &[&pairs[..], &[*list]].concat())?;
        if let Query::Views(list) = &question.query
            && list.limit > LIST_ROWS_MAX
        {
            let expected = "a number from 1 to 100 beside 'of'";
            return Err(RequestError::Question(QuestionError::invalid(
                "limit",
                expected,
                &list.limit.to_string(),
            )));
        }
        questions.push(question);
    }
    if representation == Representation::Csv {
        // A table has the series alone.
        questions.truncate(1);
        questions = questions.into_iter().map(AskedQuery::for_table).collect();
    }
    Ok(questions)
}

fn topic_of<'a>(request: &Request<'a>) -> Result<Topic, Problem<'a>> {
    let topic = match &request.path[PREFIX.len()..] {
        "overview" => Topic::Views(Subject::Overview),
        "top" => Topic::Views(Subject::Top),
        "live" => Topic::Views(Subject::Live),
        "experiment" => Topic::Experiment,
        "experiments" => Topic::Experiments,
        "holdout" => Topic::Holdout,
        "zones" => Topic::Zones,
        "funnel" => Topic::Journey(JourneySubject::Funnel),
        "retention" => Topic::Journey(JourneySubject::Retention),
        "paths" => Topic::Journey(JourneySubject::Paths),
        "engagement" => Topic::Journey(JourneySubject::Engagement),
        "visitors" => Topic::Visitors,
        _ => {
            let sentence = "{} is not an endpoint of Insights, which are overview, top, live, zones, funnel, retention, paths, engagement, visitors, audiences, changes, publications, experiments, experiment and holdout.";
            return Err(Problem::with_value(problem::UNKNOWN_ENDPOINT, sentence, request.path));
        }
    };
    Ok(topic)
}

fn etag_of(etag_prefix: &str, seq: u64) -> Etag {
    Etag::of(format!("{etag_prefix}{seq}").as_bytes())
}
