//! One visitor's data: `GET /visitors?site&anonId|userId` returns the profile, `GET /visitors/export?...` the
//! records, and `DELETE /visitors?...` erases both from disk.
//!
//! The site need not be published: its recorded data is available anyway. An unknown visitor is a new
//! visitor. Export and erasure include all IDs that are linked to the requested one. An export skips damaged
//! places of the log: `X-Damaged` counts those skipped for this part, and the server logs a line.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::jobs::{JobError, JobOutput, JobResult, JobRunner};
use crate::api::{Handler, Outcome, Poll};
use crate::clock;
use crate::http::params::{Param, Params};
use crate::http::request::{Method, Request};
use crate::limits::{EXPORT_PAGE_BYTES_TARGET, USER_ID_BYTES_MAX};
use crate::metrics::JobCounters;
use crate::problem::{self, Problem};
use crate::resolve::visitor_context::profile_json;
use crate::storage::disk::RealDisk;
use crate::visitors::checkpoint::CheckpointMetrics;
use crate::visitors::events::export;
use crate::visitors::events::visitor::{is_anon_id, is_placeholder};
use crate::visitors::log::bloom::IdKind;
use crate::visitors::log::{Damage, EraseError, LogError, LogItem, LogReader, Queue, Record, VisitorIds};
use crate::visitors::lookup::{self, ProfileReader};
use crate::visitors::profile::profile::Profile;

const PATH: &str = "/visitors";
const EXPORT_PATH: &str = "/visitors/export";
const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

/// Time limit for a checkpoint without the erased visitor: enough for 4 GiB at 100 MB/s and a second try.
/// After it, the client gets 503 and has to retry.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(100);
/// Poll interval while an erasure waits for that checkpoint.
const CHECKPOINT_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The handler of the visitor endpoints.
pub struct VisitorHandler {
    lookup: ProfileReader,
    log: Queue,
    /// The directory of the log.
    log_directory: PathBuf,
    checkpoints: Arc<CheckpointMetrics>,
    jobs: JobRunner,
    counts: JobCounters,
    /// Buffer for parameters with escapes.
    decoded: Vec<u8>,
}

/// The visitor that a request names.
#[derive(Debug, Clone, Copy)]
struct VisitorQuery<'a> {
    site: &'a str,
    id_kind: IdKind,
    id: &'a str,
    /// Export only records after this seq.
    since: u64,
}

/// The result of an action: a response body, or the token of a background job.
enum ActionResult {
    Json(Json),
    Pending(usize),
}

/// The action that a request asks for.
enum Action {
    Show,
    Erase,
    Export,
}

impl Action {
    fn of<'a>(request: &Request<'_>) -> Result<Self, Problem<'a>> {
        match (request.path, request.method) {
            (PATH, Method::Get | Method::Head) => Ok(Self::Show),
            (PATH, Method::Delete) => Ok(Self::Erase),
            (EXPORT_PATH, Method::Get) => Ok(Self::Export),
            (path, _) => {
                let allow = if path == PATH { "GET, HEAD, DELETE" } else { "GET" };
                Err(Problem::method_not_allowed(request.method.subject(), allow))
            }
        }
    }
}

impl VisitorHandler {
    /// Creates the handler. `dir` is the directory of the log, `wakeup` wakes the thread when a job is done,
    /// and `counts` counts panics and damage.
    pub fn new(
        lookup: ProfileReader,
        log: Queue,
        log_directory: PathBuf,
        checkpoints: Arc<CheckpointMetrics>,
        wakeup: UnixStream,
        counts: JobCounters,
    ) -> Self {
        let jobs = JobRunner::new(wakeup, counts.clone());
        Self { lookup, log, log_directory, checkpoints, jobs, counts, decoded: Vec::new() }
    }

    /// Returns whether the path is one of the visitor endpoints.
    pub(super) fn matches_path(path: &str) -> bool {
        matches!(path, PATH | EXPORT_PATH)
    }

    /// Answers a request, or starts a job for it.
    pub(super) fn handle(&mut self, handler: &mut Handler, request: &Request<'_>, out: &mut Vec<u8>) -> Poll {
        match self.run_action(request) {
            Ok(ActionResult::Json(output)) => {
                handler.write_text(request, 200, JSON, &output.to_string(), out)
            }
            Ok(ActionResult::Pending(token)) => return Poll::Pending(token),
            Err(problem) => return Poll::Ready(handler.reject(request, &problem, out)),
        }
        Poll::Ready(Outcome::default())
    }

    fn run_action<'a>(&'a mut self, request: &Request<'a>) -> Result<ActionResult, Problem<'a>> {
        let Self { lookup, log, log_directory: dir, checkpoints, jobs, counts, decoded } = self;
        let act = Action::of(request)?;
        let asked = VisitorQuery::parse(request.query, decoded)?;
        match act {
            Action::Show => Ok(ActionResult::Json(visitor_json(lookup, log, &asked))),
            Action::Erase => {
                let (visitor, log, checkpoints) =
                    (asked.all_ids(lookup), log.clone(), Arc::clone(checkpoints));
                jobs.start(move || erase_visitor(&log, visitor, &checkpoints)).map(ActionResult::Pending)
            }
            Action::Export => {
                let visitor = asked.all_ids(lookup);
                let (dir, since, durable) = (dir.clone(), asked.since, log.metrics().durable_seq());
                let counts = counts.clone();
                let export = move || {
                    let reader = LogReader::open(Arc::new(RealDisk), &dir, since);
                    let (output, first) =
                        export_visitor(reader.map(|reader| reader.with_durable_seq(durable)), &visitor)?;
                    if let Some(first) = first {
                        log_damage(&dir, output.damaged_places, &first);
                        counts.record_damage(output.damaged_places);
                    }
                    Ok(output)
                };
                jobs.start(export).map(ActionResult::Pending)
            }
        }
    }

    pub(super) fn jobs(&mut self) -> &mut JobRunner {
        &mut self.jobs
    }

    pub(super) fn is_complete(&self) -> bool {
        self.jobs.is_complete()
    }

    /// Answers the request whose job is done.
    pub(super) fn finish(
        &mut self,
        handler: &mut Handler,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Outcome {
        match self.jobs.take_result() {
            Some(Ok(JobOutput { content_type: kind, text, next_since, damaged_places: damaged })) => {
                let next_since = next_since.map(|seq| ("X-Next-Since: ", seq));
                let damaged = (damaged > 0).then_some(("X-Damaged: ", damaged));
                let fields: Vec<_> = next_since.into_iter().chain(damaged).collect();
                handler.write_list_page(request, kind, &fields, &text, out);
                Outcome::default()
            }
            Some(Err(JobError { kind, detail })) => {
                handler.reject(request, &Problem::new(kind, &detail), out)
            }
            None => Outcome::default(),
        }
    }
}

/// Returns the profile of a visitor. The seq is read first, so the profile is of that seq or a later one.
fn visitor_json(lookup: &mut ProfileReader, log: &Queue, asked: &VisitorQuery<'_>) -> Json {
    let seq = log.metrics().last_seq();
    let visitors = lookup.pin();
    let profile = asked.find_profile(&visitors);
    let aliases: Vec<&str> = profile.iter().flat_map(Profile::anon_ids).collect();
    let document = profile_json(profile, clock::now_ms());
    json!({ "site": asked.site, "known": profile.is_some(), "aliases": aliases, "seq": seq.to_string(), "profile": document })
}

/// Returns the records of a visitor in the format of `export`, up to the size limit of a response, and the
/// first damage found.
fn export_visitor(
    reader: Result<LogReader, LogError>,
    visitor: &VisitorIds,
) -> Result<(JobOutput, Option<Damage>), JobError> {
    let failed = |error: LogError| JobError { kind: problem::DISK_UNAVAILABLE, detail: error.to_string() };
    let mut reader = reader.map_err(failed)?;
    let (mut lines, mut next_since) = (Vec::new(), None);
    let (mut damaged, mut first) = (0, None);
    'all: while let Some(item) = reader.read_next().map_err(failed)? {
        let records = match item {
            LogItem::Records(records) => records,
            LogItem::Damage(damage) => {
                damaged += 1;
                first.get_or_insert(damage);
                continue;
            }
        };
        for (seq, record) in records.iter().filter(|(_, record)| belongs_to(visitor, record)) {
            if lines.len() >= EXPORT_PAGE_BYTES_TARGET {
                next_since = Some(seq - 1);
                break 'all;
            }
            export::write_line(&mut lines, seq, &record);
        }
    }
    let text = String::from_utf8(lines).unwrap_or_default();
    Ok((JobOutput { content_type: NDJSON, text, next_since, damaged_places: damaged }, first))
}

/// Logs the first damage only. `parallax check` lists the rest.
fn log_damage(dir: &Path, places: u64, first: &Damage) {
    let directory = dir.display();
    tracing::error!(places, %first, "an export skipped damaged places of the log; run `parallax check {directory}`");
}

fn belongs_to(visitor: &VisitorIds, record: &Record<'_>) -> bool {
    let ids = [(IdKind::Anon, record.anon_id), (IdKind::User, record.user_id)];
    let is_named = |(whose, id): (IdKind, Option<&str>)| {
        visitor.ids.iter().any(|(of, known)| *of == whose && Some(known.as_str()) == id)
    };
    record.site == Some(visitor.site.as_str()) && ids.into_iter().any(is_named)
}

/// Erases a visitor from the log, then waits for checkpoints that do not contain the visitor.
fn erase_visitor(log: &Queue, visitor: VisitorIds, checkpoints: &CheckpointMetrics) -> JobResult {
    let failed = |error: EraseError| {
        let kind = match error {
            EraseError::Busy => problem::OVERLOADED,
            EraseError::Stopped => problem::DRAINING,
            EraseError::Ids(_) | EraseError::Log(_) => problem::DISK_UNAVAILABLE,
        };
        JobError { kind, detail: format!("The erasure failed: {error}; retry it.") }
    };
    let erased = log.erase(visitor).and_then(|erasure| erasure.finish()).map_err(failed)?;
    let begun = clock::instant();
    while !checkpoints.covers(erased.seq) {
        if clock::instant().duration_since(begun) > CHECKPOINT_TIMEOUT {
            let sentence = "The visitor is erased from the log, but a checkpoint still has it, because no new one could be written; retry.";
            return Err(JobError { kind: problem::DISK_UNAVAILABLE, detail: sentence.to_owned() });
        }
        std::thread::sleep(CHECKPOINT_POLL_INTERVAL);
    }
    let output = json!({ "erased": { "records": erased.records, "segments": erased.segments }, "seq": erased.seq.to_string() });
    Ok(JobOutput { content_type: JSON, text: output.to_string(), next_since: None, damaged_places: 0 })
}

/// Checks that events can have the ID, so that a typing error cannot look like a completed erasure.
///
/// # Errors
/// `placeholder_id`, `invalid_anon_id`, `invalid_param`.
fn check_id(kind: IdKind, id: &str) -> Result<(), Problem<'_>> {
    let (param, is_valid, code, expected) = match kind {
        IdKind::Anon => {
            (Param::AnonId, is_anon_id(id), problem::INVALID_ANON_ID, "1 to 128 bytes of visible ASCII")
        }
        IdKind::User => {
            (Param::UserId, id.len() <= USER_ID_BYTES_MAX, problem::INVALID_PARAM, "1 to 256 bytes of text")
        }
    };
    if is_placeholder(id) {
        let sentence = "{} is a placeholder, and no event is recorded with it.";
        return Err(Problem::with_value(problem::PLACEHOLDER_ID, sentence, id).at(param.name()));
    }
    match is_valid {
        true => Ok(()),
        false => Err(Problem::invalid_value(code, expected, id).at(param.name())),
    }
}

impl<'a> VisitorQuery<'a> {
    fn parse(query: &'a str, decoded: &'a mut Vec<u8>) -> Result<Self, Problem<'a>> {
        let params = Params::parse(query, decoded)?;
        let site = params
            .get(Param::Site)
            .ok_or(Problem::new(problem::MISSING_SITE, "The parameter 'site' is missing."))?;
        let (whose, id) = match (params.get(Param::AnonId), params.get(Param::UserId)) {
            (Some(id), None) => (IdKind::Anon, id),
            (None, Some(id)) => (IdKind::User, id),
            _ => {
                return Err(Problem::new(
                    problem::MISSING_VISITOR,
                    "The request must have either 'anonId' or 'userId'.",
                ));
            }
        };
        check_id(whose, id)?;
        let since = params.get(Param::Since).map_or(Ok(0), |since| {
            let wrong = Problem::invalid_value(problem::INVALID_PARAM, "the seq of a record", since);
            since.parse().map_err(|_| wrong.at(Param::Since.name()))
        })?;
        Ok(Self { site, id_kind: whose, id, since })
    }

    fn find_profile<'v>(&self, visitors: &'v lookup::PinnedProfiles<'_>) -> Option<Profile<'v>> {
        match self.id_kind {
            IdKind::Anon => visitors.by_anon_id(self.site, self.id),
            IdKind::User => visitors.by_user_id(self.site, self.id),
        }
    }

    /// Returns the requested ID and all IDs that are linked to it.
    fn all_ids(&self, lookup: &mut ProfileReader) -> VisitorIds {
        let visitors = lookup.pin();
        let profile = self.find_profile(&visitors);
        let mut ids = vec![(self.id_kind, self.id.to_owned())];
        let user = profile.and_then(|profile| profile.user_id()).map(|id| (IdKind::User, id));
        let anonymous = profile.iter().flat_map(Profile::anon_ids).map(|id| (IdKind::Anon, id));
        let others = user.into_iter().chain(anonymous).filter(|other| *other != (self.id_kind, self.id));
        ids.extend(others.map(|(whose, id)| (whose, id.to_owned())));
        let owner = user.map_or((self.id_kind, self.id.to_owned()), |(kind, id)| (kind, id.to_owned()));
        VisitorIds { site: self.site.to_owned(), owner, ids }
    }
}
