//! `GET /insights/overview`, `/insights/top`, `/insights/live`, `/insights/experiments` and `/insights/experiment`: answers
//! as JSON, or as CSV with `Accept: text/csv`.
//!
//! The thread `insights` answers. An unchanged answer is 304 at once, because its ETag depends on the question and on
//! the last acknowledged seq alone.

use crate::api::{Handler, Outcome, Poll};
use crate::clock;
use crate::config::Ack;
use crate::http::etag::Etag;
use crate::http::negotiate;
use crate::http::request::{Method, Request};
use crate::ids;
use crate::insights::engine::{AnswerError, InsightsClient, QUESTIONS_WAITING_MAX, Reply};
use crate::insights::{Answer, KnownSite, Query, SiteFacts, Subject, Topic};
use crate::limits::SITE_ID_BYTES_MAX;
use crate::percent;
use crate::problem::{self, Problem};
use crate::site::catalog::catalog::Catalog;
use crate::visitors::log::Queue;
use crate::visitors::ties::known::KnownTies;

const PREFIX: &str = "/insights/";
const JSON: &str = "application/json";
const CSV: &str = "text/csv; charset=utf-8";
/// The first token of a question. The tokens below belong to jobs.
const FIRST_TOKEN: usize = 1;
/// Questions of which the handler keeps the state: those that wait, and the one that is answered.
const SLOTS: usize = QUESTIONS_WAITING_MAX + 1;

/// The handler of the endpoints of Insights.
pub struct InsightsHandler {
    /// `None` if Insights is switched off.
    client: Option<InsightsClient>,
    log: Queue,
    ack: Ack,
    known: KnownTies,
    slots: [Slot; SLOTS],
    /// A number of this process, so that an ETag of an earlier one matches nothing.
    salt: u64,
}

/// The state of a question.
#[derive(Default)]
enum Slot {
    #[default]
    Free,
    Waiting {
        /// The beginning of the input of the ETag.
        etag_input: String,
    },
    /// The client is gone.
    Abandoned,
    Done {
        etag_input: String,
        answered: Result<Answer, AnswerError>,
    },
}

/// The result of reading a request.
enum Asked {
    Waiting(usize),
    Unchanged(Etag),
}

impl InsightsHandler {
    pub(crate) fn new(client: Option<InsightsClient>, log: Queue, ack: Ack, known: KnownTies) -> Self {
        Self { client, log, ack, known, slots: Default::default(), salt: ids::random_u64() }
    }

    /// Returns whether the path is one of the endpoints.
    pub(super) fn matches_path(path: &str) -> bool {
        path.starts_with(PREFIX)
    }

    /// Answers a request, or passes its question to the thread `insights`.
    pub(super) fn handle(&mut self, handler: &mut Handler, request: &Request<'_>, out: &mut Vec<u8>) -> Poll {
        let refused = match self.ask(request, handler.catalog()) {
            Ok(Asked::Waiting(token)) => return Poll::Pending(token),
            Ok(Asked::Unchanged(etag)) => {
                handler.write_validated(request, &etag, "", out, || "");
                return Poll::Ready(Outcome::default());
            }
            Err(refused) => refused,
        };
        match refused {
            Refused::Problem(problem) => Poll::Ready(handler.reject(request, &problem, out)),
            Refused::Question(error) => Poll::Ready(handler.reject(request, &error.problem(), out)),
        }
    }

    fn ask<'a>(&mut self, request: &Request<'a>, catalog: &Catalog) -> Result<Asked, Refused<'a>> {
        let topic = topic_of(request)?;
        let Some(client) = &self.client else {
            let sentence = "Insights is switched off by --insights-memory 0.";
            return Err(Problem::new(problem::UNKNOWN_ENDPOINT, sentence).into());
        };
        let pairs = parse_pairs(request.query)?;
        let site = self.find_site(&pairs, catalog)?;
        let now_ms = clock::now_ms();
        let named = pairs.iter().map(|(name, value)| (&**name, &**value));
        let published = catalog.by_site_id(&site.site).map(|published| published.site());
        let known = KnownSite { id: &site.site, published, phases: catalog.phases() };
        let question = Query::parse(topic, named, &site.zone, now_ms, known).map_err(Refused::Question)?;
        let metrics = self.log.metrics();
        // Everything beside the seq that changes an answer.
        let comparison = site.zone.comparison(question.range(), now_ms);
        let (deleted, generation) = (metrics.deleted_segments(), metrics.generation().now());
        let (version, csv) = (site.version, wants_csv(request));
        let etag_input = format!(
            "{} {} {version:?} {csv} {deleted} {generation} {question:?} {comparison:?} ",
            self.salt, site.site
        );
        let seq = match self.ack {
            Ack::Disk => metrics.durable_seq(),
            Ack::Written => metrics.last_seq(),
        };
        let etag = etag_of(&etag_input, seq);
        if etag.is_matched_by(&request.headers) {
            return Ok(Asked::Unchanged(etag));
        }
        let full =
            || Problem::new(problem::OVERLOADED, "Too many questions wait for an answer; retry later.");
        let slot = self.slots.iter().position(|slot| matches!(slot, Slot::Free)).ok_or_else(full)?;
        if !client.ask(slot, question, site, now_ms) {
            return Err(full().into());
        }
        self.slots[slot] = Slot::Waiting { etag_input };
        Ok(Asked::Waiting(slot + FIRST_TOKEN))
    }

    fn find_site<'a>(&self, pairs: &[(String, String)], catalog: &Catalog) -> Result<SiteFacts, Refused<'a>> {
        let mut sites = pairs.iter().filter(|(name, value)| name == "site" && !value.is_empty());
        let missing = Problem::new(problem::MISSING_SITE, "The parameter 'site' is missing.");
        let (_, site) = sites.next().ok_or(missing)?;
        if sites.next().is_some() {
            let repeated =
                Problem::new(problem::REPEATED_PARAM, "The parameter 'site' is given twice; give it once.");
            return Err(repeated.at("site").into());
        }
        if let Some(published) = catalog.by_site_id(site) {
            return Ok(SiteFacts::of(published.site()));
        }
        match site.len() <= SITE_ID_BYTES_MAX && self.known.knows_site(site) {
            true => Ok(SiteFacts::unpublished(site)),
            false => {
                let sentence = "Neither a published site nor the log has this site ID.";
                Err(Problem::new(problem::SITE_NOT_FOUND, sentence).at("site").into())
            }
        }
    }

    /// Returns whether the token is one of a question.
    pub(super) fn has_token(token: usize) -> bool {
        token >= FIRST_TOKEN
    }

    /// Takes the replies that have arrived. Returns the token of one.
    pub(super) fn take_completion(&mut self) -> Option<usize> {
        let client = self.client.as_ref()?;
        while let Some((slot, answered)) = client.next_reply() as Option<Reply> {
            match std::mem::take(&mut self.slots[slot]) {
                Slot::Waiting { etag_input } => {
                    self.slots[slot] = Slot::Done { etag_input, answered };
                    return Some(slot + FIRST_TOKEN);
                }
                Slot::Free | Slot::Abandoned | Slot::Done { .. } => {}
            }
        }
        None
    }

    pub(super) fn is_ready(&self, token: usize) -> bool {
        matches!(self.slots[token - FIRST_TOKEN], Slot::Done { .. })
    }

    /// Forgets the client of a question.
    pub(super) fn cancel(&mut self, token: usize) {
        let slot = &mut self.slots[token - FIRST_TOKEN];
        *slot = if matches!(slot, Slot::Waiting { .. }) { Slot::Abandoned } else { Slot::Free };
    }

    /// Writes the response of a question that is answered.
    pub(super) fn finish(
        &mut self,
        handler: &mut Handler,
        token: usize,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let Slot::Done { etag_input, answered } = std::mem::take(&mut self.slots[token - FIRST_TOKEN]) else {
            return Outcome::default();
        };
        match answered {
            Ok(answer) => {
                let etag = etag_of(&etag_input, answer.seq);
                let csv = wants_csv(request);
                let content_type = if csv { CSV } else { JSON };
                let text = if csv { answer.to_csv() } else { answer.document.to_string() };
                handler.write_validated(request, &etag, content_type, out, || &text);
                Outcome::default()
            }
            Err(error) => reject(handler, request, &error, out),
        }
    }
}

/// The reason why a request has no question.
enum Refused<'a> {
    Problem(Problem<'a>),
    Question(crate::insights::QuestionError),
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
        _ => {
            let sentence = "{} is not an endpoint of Insights, which are overview, top, live, experiments and experiment.";
            return Err(Problem::with_value(problem::UNKNOWN_ENDPOINT, sentence, request.path));
        }
    };
    match request.method {
        Method::Get | Method::Head => Ok(topic),
        _ => Err(Problem::method_not_allowed(request.method.subject(), "GET, HEAD")),
    }
}

/// Decodes the parameters of a query. They may repeat.
fn parse_pairs<'a>(query: &str) -> Result<Vec<(String, String)>, Problem<'a>> {
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

fn wants_csv(request: &Request<'_>) -> bool {
    negotiate::accepts_csv(request.headers.head)
}

fn etag_of(input: &str, seq: u64) -> Etag {
    Etag::of(format!("{input}{seq}").as_bytes())
}

fn reject(handler: &mut Handler, request: &Request<'_>, error: &AnswerError, out: &mut Vec<u8>) -> Outcome {
    match error {
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
            let detail = format!("{files} segments of the log have no columns yet; retry later.");
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
