//! `GET /insights/overview`, `/insights/top`, `/insights/live`, `/insights/zones`, `/insights/experiments` and
//! `/insights/experiment`: answers as JSON, or as CSV with `Accept: text/csv`. Also passes `/insights/audiences` and
//! `/visitors/records` to their thread.
//!
//! The thread `insights` answers. An unchanged answer is 304 at once, because its ETag depends on the question and on
//! the last acknowledged seq alone.

use super::audiences::{self, AudienceCount, SizeCache};
use super::questions::{QuestionQueue, Replied};
use super::records::{self, RecordsRequest};
use super::representation::Representation;
use crate::api::{Handler, Outcome, Poll};
use crate::clock;
use crate::config::Ack;
use crate::http::etag::Etag;
use crate::http::request::{Method, Request};
use crate::ids;
use crate::insights::engine::{AnswerError, InsightsClient, QuestionRequest, Task};
use crate::insights::{Answer, KnownSite, Query, QuestionError, SiteFacts, Subject, Topic};
use crate::limits::SITE_ID_BYTES_MAX;
use crate::percent;
use crate::problem::{self, Problem};
use crate::site::catalog::catalog::Catalog;
use crate::visitors::live::ProfileReaders;
use crate::visitors::log::Queue;
use crate::visitors::ownership::OwnershipSource;

const PREFIX: &str = "/insights/";
/// The first token of a question. The tokens below belong to jobs.
const FIRST_TOKEN: usize = 1;
/// The parameter of an overview that adds a list. It may repeat.
const LIST: &str = "of";
/// Most rows of such a list, so that the answer with all lists has at most some megabytes.
const LIST_ROWS_MAX: usize = 100;

/// The handler of the endpoints of Insights.
pub struct InsightsHandler {
    queue: QuestionQueue,
    /// False if Insights is switched off. Then only errands run.
    is_on: bool,
    log: Queue,
    ack: Ack,
    source: OwnershipSource,
    profiles: ProfileReaders,
    sizes: SizeCache,
    /// A number of this process, so that an ETag of an earlier one matches nothing.
    salt: u64,
}

/// The rule for the caching of a response.
pub(super) enum Caching {
    NoStore,
    /// With an ETag. The text is the beginning of its input, before the seq.
    Validated(String),
    /// With an ETag of the text.
    OfText,
}

/// The result of reading a request.
enum Begun {
    Waiting(usize),
    Unchanged(Etag),
    /// The answer is known at once.
    Text(String),
}

impl InsightsHandler {
    pub(crate) fn new(
        client: InsightsClient,
        is_on: bool,
        log: Queue,
        ack: Ack,
        source: OwnershipSource,
        profiles: ProfileReaders,
    ) -> Self {
        let (queue, sizes, salt) = (QuestionQueue::new(client), SizeCache::default(), ids::random_u64());
        Self { queue, is_on, log, ack, source, profiles, sizes, salt }
    }

    /// Returns whether the path is one of the endpoints.
    pub(super) fn matches_path(path: &str) -> bool {
        path.starts_with(PREFIX) || path == records::PATH
    }

    /// Answers a request, or passes its question to the thread `insights`.
    pub(super) fn handle(&mut self, handler: &mut Handler, request: &Request<'_>, out: &mut Vec<u8>) -> Poll {
        let mut decoded = Vec::new();
        let refused = match self.ask(request, &mut decoded, handler.catalog()) {
            Ok(Begun::Waiting(token)) => return Poll::Pending(token),
            Ok(Begun::Unchanged(etag)) => {
                handler.write_validated(request, &etag, "", out, || "");
                return Poll::Ready(Outcome::default());
            }
            Ok(Begun::Text(text)) => {
                write_text(handler, request, &text, out);
                return Poll::Ready(Outcome::default());
            }
            Err(refused) => refused,
        };
        match refused {
            Refused::Problem(problem) => Poll::Ready(handler.reject(request, &problem, out)),
            Refused::Question(error) => Poll::Ready(handler.reject(request, &error.problem(), out)),
        }
    }

    /// `decoded` is a buffer.
    fn ask<'a>(
        &mut self,
        request: &Request<'a>,
        decoded: &'a mut Vec<u8>,
        catalog: &Catalog,
    ) -> Result<Begun, Refused<'a>> {
        if request.path == records::PATH {
            return self.ask_for_records(request, decoded, catalog);
        }
        if &request.path[PREFIX.len()..] == audiences::NAME {
            return self.ask_for_audiences(request, catalog);
        }
        let topic = topic_of(request)?;
        check_method(request)?;
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
            Query::parse(topic, pairs.iter().copied(), &site.zone, now_ms, known).map_err(Refused::Question)
        };
        let representation = Representation::of(request);
        let questions = questions_of(topic, &pairs, representation, parse)?;
        let questions: Vec<_> =
            questions.into_iter().map(|question| self.key(question, &site, now_ms)).collect();
        let keys: String = questions.iter().map(|(key, _)| &**key).collect();
        let etag_input = format!("{} {representation:?} {keys}", self.salt);
        let seq = self.last_seq();
        let etag = etag_of(&etag_input, seq);
        if etag.is_matched_by(&request.headers) {
            return Ok(Begun::Unchanged(etag));
        }
        let slot = self.queue.ask(questions, Caching::Validated(etag_input), seq)?;
        Ok(Begun::Waiting(slot + FIRST_TOKEN))
    }

    /// Returns a question after a text with everything that changes its answer, beside the seq.
    fn key(&self, question: Query, site: &SiteFacts, now_ms: i64) -> (String, Box<QuestionRequest>) {
        let comparison = site.zone.comparison(question.range(), now_ms);
        let metrics = self.log.metrics();
        let (deleted, generation) = (metrics.deleted_segments(), metrics.generation().now());
        let key = format!("{site:?} {deleted} {generation} {question:?} {comparison:?} ");
        let (site, asked_at) = (site.clone(), clock::instant());
        let asked = QuestionRequest { question, site, now_ms, asked_at, abandonment: Default::default() };
        (key, Box::new(asked))
    }

    /// Returns the seq of the last acknowledged event.
    fn last_seq(&self) -> u64 {
        let metrics = self.log.metrics();
        match self.ack {
            Ack::Disk => metrics.durable_seq(),
            Ack::Written => metrics.last_seq(),
        }
    }

    fn ask_for_records<'a>(
        &mut self,
        request: &Request<'a>,
        decoded: &'a mut Vec<u8>,
        catalog: &Catalog,
    ) -> Result<Begun, Refused<'a>> {
        let asked = RecordsRequest::parse(request, decoded)?;
        self.check_site(&asked.site, catalog)?;
        let errand = asked.errand(self.source.clone(), self.log.clone(), self.ack);
        self.run(Box::new(errand), Caching::NoStore)
    }

    fn ask_for_audiences<'a>(
        &mut self,
        request: &Request<'a>,
        catalog: &Catalog,
    ) -> Result<Begun, Refused<'a>> {
        check_method(request)?;
        let pairs = parse_pairs(request.query)?;
        let site = single_site(&pairs)?;
        let representation = Representation::of(request);
        let Some(published) = catalog.by_site_id(site) else {
            self.check_site(site, catalog)?;
            return Ok(Begun::Text(audiences::write_unpublished(representation)));
        };
        let (profiles, sizes) = (self.profiles.reader(), self.sizes.clone());
        let count = AudienceCount::new(published.snapshot(), profiles, sizes, representation);
        self.run(Box::new(count), Caching::OfText)
    }

    fn run<'a>(&mut self, errand: Box<dyn Task>, caching: Caching) -> Result<Begun, Refused<'a>> {
        let slot = self.queue.run(errand, caching)?;
        Ok(Begun::Waiting(slot + FIRST_TOKEN))
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

    fn find_site<'a>(&self, pairs: &[(String, String)], catalog: &Catalog) -> Result<SiteFacts, Refused<'a>> {
        let site = single_site(pairs)?;
        if let Some(published) = catalog.by_site_id(site) {
            return Ok(SiteFacts::of(published.site()));
        }
        self.check_site(site, catalog)?;
        Ok(SiteFacts::unpublished(site))
    }

    /// Returns whether the token is one of a question.
    pub(super) fn has_token(token: usize) -> bool {
        token >= FIRST_TOKEN
    }

    /// Takes the replies that have arrived. Returns the token of a request that is ready.
    pub(super) fn take_completion(&mut self) -> Option<usize> {
        let seq = self.last_seq();
        self.queue.take_ready(seq).map(|slot| slot + FIRST_TOKEN)
    }

    pub(super) fn is_ready(&self, token: usize) -> bool {
        self.queue.is_ready(token - FIRST_TOKEN)
    }

    /// Forgets the client of a question.
    pub(super) fn cancel(&mut self, token: usize) {
        self.queue.abandon(token - FIRST_TOKEN);
    }

    /// Writes the response of a question that is answered.
    pub(super) fn finish(
        &mut self,
        handler: &mut Handler,
        token: usize,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let Some((caching, replies)) = self.queue.take(token - FIRST_TOKEN) else {
            return Outcome::default();
        };
        let representation = Representation::of(request);
        let (text, seq) = match replies {
            Ok(replies) => text_of(&replies, representation),
            Err(error) => return reject(handler, request, &error, out),
        };
        match caching {
            Caching::NoStore => handler.write_varying(request, representation.media_type(), &text, out),
            Caching::OfText => write_text(handler, request, &text, out),
            Caching::Validated(input) => {
                let etag = etag_of(&input, seq);
                handler.write_validated(request, &etag, representation.media_type(), out, || &text);
            }
        }
        Outcome::default()
    }
}

/// Writes a response with an ETag of its text.
fn write_text(handler: &mut Handler, request: &Request<'_>, text: &str, out: &mut Vec<u8>) {
    let etag = Etag::of(text.as_bytes());
    handler.write_validated(request, &etag, Representation::of(request).media_type(), out, || text);
}

/// Returns the text of a response, and the seq of its ETag. That is the lowest seq of all answers, so that the ETag matches
/// only if the answers have the same events.
fn text_of(replies: &[Replied], representation: Representation) -> (String, u64) {
    let answers: Vec<&Answer> = replies.iter().filter_map(Replied::answer).collect();
    match (&answers[..], replies) {
        ([first, lists @ ..], _) => {
            let seq = answers.iter().map(|answer| answer.seq).min().unwrap_or_default();
            (answer_text(first, lists, representation), seq)
        }
        ([], [Replied::Text(text), ..]) => (text.clone(), 0),
        ([], _) => (String::new(), 0),
    }
}

fn answer_text(first: &Answer, lists: &[&Answer], representation: Representation) -> String {
    match representation {
        Representation::Csv => first.to_csv(),
        Representation::Json if lists.is_empty() => first.document.to_string(),
        Representation::Json => {
            let mut document = first.document.clone();
            document["lists"] = lists.iter().map(|list| &list.document).cloned().collect();
            document.to_string()
        }
    }
}

/// Returns the question of a request, and after an overview those of its lists.
fn questions_of<'a>(
    topic: Topic,
    pairs: &[(String, String)],
    representation: Representation,
    parse: impl Fn(Topic, &[(&str, &str)]) -> Result<Query, Refused<'a>>,
) -> Result<Vec<Query>, Refused<'a>> {
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
            return Err(Refused::Question(QuestionError::repeated(LIST)));
        }
        let question = parse(Topic::Views(Subject::Top), &[&pairs[..], &[*list]].concat())?;
        if let Query::Views(list) = &question
            && list.limit > LIST_ROWS_MAX
        {
            let expected = "a number from 1 to 100 beside 'of'";
            return Err(Refused::Question(QuestionError::invalid(
                "limit",
                expected,
                &list.limit.to_string(),
            )));
        }
        questions.push(question);
    }
    // A table has the series alone.
    questions.truncate(if representation == Representation::Csv { 1 } else { questions.len() });
    Ok(questions)
}

/// Returns the parameter `site`.
fn single_site<'a>(pairs: &[(String, String)]) -> Result<&str, Problem<'a>> {
    let mut sites = pairs.iter().filter(|(name, value)| name == "site" && !value.is_empty());
    let missing = Problem::new(problem::MISSING_SITE, "The parameter 'site' is missing.");
    let (_, site) = sites.next().ok_or(missing)?;
    if sites.next().is_some() {
        let repeated =
            Problem::new(problem::REPEATED_PARAM, "The parameter 'site' is given twice; give it once.");
        return Err(repeated.at("site"));
    }
    Ok(site)
}

/// The reason why a request has no question.
pub(super) enum Refused<'a> {
    Problem(Problem<'a>),
    Question(QuestionError),
}

impl<'a> From<Problem<'a>> for Refused<'a> {
    fn from(problem: Problem<'a>) -> Self {
        Self::Problem(problem)
    }
}

fn topic_of<'a>(request: &Request<'a>) -> Result<Topic, Problem<'a>> {
    let topic = match &request.path[PREFIX.len()..] {
        "overview" => Topic::Views(Subject::Overview),
        "top" => Topic::Views(Subject::Top),
        "live" => Topic::Views(Subject::Live),
        "experiment" => Topic::Experiment,
        "experiments" => Topic::Experiments,
        "zones" => Topic::Zones,
        _ => {
            let sentence = "{} is not an endpoint of Insights, which are overview, top, live, zones, audiences, experiments and experiment.";
            return Err(Problem::with_value(problem::UNKNOWN_ENDPOINT, sentence, request.path));
        }
    };
    Ok(topic)
}

fn check_method<'a>(request: &Request<'a>) -> Result<(), Problem<'a>> {
    match request.method {
        Method::Get | Method::Head => Ok(()),
        _ => Err(Problem::method_not_allowed(request.method.subject(), "GET, HEAD")),
    }
}

/// Decodes the parameters of a query. They may repeat.
pub(super) fn parse_pairs<'a>(query: &str) -> Result<Vec<(String, String)>, Problem<'a>> {
    let decode = |text: &str| {
        let mut decoded = Vec::new();
        percent::decode_form(text.as_bytes(), &mut decoded);
        let wrong = Problem::new(problem::INVALID_QUERY, "The query string is not UTF-8.");
        String::from_utf8(decoded).map_err(|_| wrong)
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let split = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decode(name)?, decode(value)?))
    };
    pairs.map(split).collect()
}

fn etag_of(input: &str, seq: u64) -> Etag {
    Etag::of(format!("{input}{seq}").as_bytes())
}

fn reject(handler: &mut Handler, request: &Request<'_>, error: &AnswerError, out: &mut Vec<u8>) -> Outcome {
    match error {
        AnswerError::NotBegun => {
            let sentence = "The question waited 30 s for other questions; retry later.";
            handler.reject(request, &Problem::new(problem::OVERLOADED, sentence), out)
        }
        AnswerError::TooExpensive => {
            let sentence = "The question takes more than 10 s; ask for a shorter range.";
            handler.reject(request, &Problem::new(problem::QUERY_TOO_EXPENSIVE, sentence), out)
        }
        AnswerError::TooLarge => {
            let sentence = "The question takes more memory than --insights-memory; ask for a shorter range.";
            handler.reject(request, &Problem::new(problem::QUERY_TOO_EXPENSIVE, sentence), out)
        }
        AnswerError::Refused(error) => handler.reject(request, &error.problem(), out),
        AnswerError::Behind(files) => {
            let detail = format!(
                "The server still prepares {files} segments of its log for questions; retry in some seconds."
            );
            handler.reject(request, &Problem::new(problem::OVERLOADED, &detail), out)
        }
        AnswerError::Unreadable(cause) => {
            let detail = format!("The log cannot be read: {cause}.");
            handler.reject(request, &Problem::new(problem::DISK_UNAVAILABLE, &detail), out)
        }
        AnswerError::Panicked => {
            let sentence = "The question failed unexpectedly; the server log has the cause.";
            handler.reject(request, &Problem::new(problem::INTERNAL, sentence), out)
        }
    }
}
