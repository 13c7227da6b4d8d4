//! What is known of one visitor: `GET /visitors?site&anonId|userId`, its records: `GET /visitors/export?...`, and
//! `DELETE /visitors?...`, after which nothing of it is found on disk.
//!
//! The site need not be published: what was recorded for it is there all the same. Who is not known is a new visitor. Export and
//! erasure take in all ids that are tied to the one that was asked for. An export leaves out what is damaged in the log, and says
//! so: `X-Damaged` counts the places that were passed over for this part, and the log has a line.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::jobs::{Answer, Failure, Jobs, Told};
use crate::api::{Answered, Desk, Progress};
use crate::clock;
use crate::http::params::{Param, Params};
use crate::http::request::{Method, Request};
use crate::limits::EXPORT_BYTES_FULL;
use crate::metrics::JobCounts;
use crate::problem::{self, Problem};
use crate::resolve::visitor_context::past_json;
use crate::storage::disk::RealDisk;
use crate::visitors::checkpoint::Figures;
use crate::visitors::events::export;
use crate::visitors::log::bloom::Whose;
use crate::visitors::log::{EraseError, Finding, Item, LogError, Queue, Reader, Record, Visitor};
use crate::visitors::lookup::{self, Lookup};
use crate::visitors::profile::profile::Profile;

const PATH: &str = "/visitors";
const EXPORT_PATH: &str = "/visitors/export";
const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

/// How long a checkpoint may take that has nothing of an erased visitor any more: 4 GiB at 100 MB a second, and a second try.
const CHECKPOINT_WAIT: Duration = Duration::from_secs(100);
/// Between two looks at it.
const CHECKPOINT_LOOK: Duration = Duration::from_millis(10);

/// Where the log and what it says of visitors are asked.
pub struct Visitors {
    lookup: Lookup,
    log: Queue,
    /// The log's.
    folder: PathBuf,
    checkpoints: Arc<Figures>,
    jobs: Jobs,
    counts: JobCounts,
    /// Parameters with escapes.
    decoded: Vec<u8>,
}

/// Whom a request asks for.
#[derive(Debug, Clone, Copy)]
struct Asked<'a> {
    site: &'a str,
    whose: Whose,
    id: &'a str,
    /// The records behind this seq.
    since: u64,
}

/// What a request comes to.
enum Done {
    Json(Json),
    Waits(usize),
}

/// What is asked for.
enum Act {
    Tell,
    Erase,
    Export,
}

impl Act {
    fn of<'a>(request: &Request<'_>) -> Result<Self, Problem<'a>> {
        match (request.path, request.method) {
            (PATH, Method::Get | Method::Head) => Ok(Self::Tell),
            (PATH, Method::Delete) => Ok(Self::Erase),
            (EXPORT_PATH, Method::Get) => Ok(Self::Export),
            (path, _) => {
                let allow = if path == PATH { "GET, HEAD, DELETE" } else { "GET" };
                Err(Problem { allow, ..Problem::missing(problem::METHOD_NOT_ALLOWED, allow) })
            }
        }
    }
}

impl Visitors {
    /// Asks through `lookup` and `log`, whose files lie in `folder`; what takes longer is told of by `bell` and
    /// counted in `counts`.
    pub fn new(
        lookup: Lookup,
        log: Queue,
        folder: PathBuf,
        checkpoints: Arc<Figures>,
        bell: UnixStream,
        counts: JobCounts,
    ) -> Self {
        let jobs = Jobs::new(bell, counts.clone());
        Self { lookup, log, folder, checkpoints, jobs, counts, decoded: Vec::new() }
    }

    /// Whether a request of this path is answered here.
    pub(super) fn has(path: &str) -> bool {
        matches!(path, PATH | EXPORT_PATH)
    }

    /// Answers a request for the visitors.
    pub(super) fn answer(&mut self, desk: &mut Desk, request: &Request<'_>, out: &mut Vec<u8>) -> Progress {
        match self.done(request) {
            Ok(Done::Json(told)) => desk.plain(request, 200, JSON, &told.to_string(), out),
            Ok(Done::Waits(token)) => return Progress::Waits(token),
            Err(problem) => return Progress::Answered(desk.refuse_request(request, &problem, out)),
        }
        Progress::Answered(Answered::default())
    }

    fn done<'a>(&'a mut self, request: &Request<'a>) -> Result<Done, Problem<'a>> {
        let Self { lookup, log, folder, checkpoints, jobs, counts, decoded } = self;
        let act = Act::of(request)?;
        let asked = Asked::read(request.query, decoded)?;
        match act {
            Act::Tell => Ok(Done::Json(told(lookup, log, &asked))),
            Act::Erase => {
                let (visitor, log, checkpoints) =
                    (asked.visitor(lookup), log.clone(), Arc::clone(checkpoints));
                jobs.start(move || erase(&log, visitor, &checkpoints)).map(Done::Waits)
            }
            Act::Export => {
                let visitor = asked.visitor(lookup);
                let (folder, since, durable) = (folder.clone(), asked.since, log.figures().durable_seq());
                let counts = counts.clone();
                let export = move || {
                    let reader = Reader::open(Arc::new(RealDisk), &folder, since);
                    let (told, first) = exported(reader.map(|reader| reader.up_to(durable)), &visitor)?;
                    if let Some(first) = first {
                        say_damaged(&folder, told.damaged, &first);
                        counts.damaged(told.damaged);
                    }
                    Ok(told)
                };
                jobs.start(export).map(Done::Waits)
            }
        }
    }

    pub(super) fn jobs(&mut self) -> &mut Jobs {
        &mut self.jobs
    }

    pub(super) fn is_complete(&self) -> bool {
        self.jobs.is_complete()
    }

    /// Answers a request whose job is done.
    pub(super) fn finish(&mut self, desk: &mut Desk, request: &Request<'_>, out: &mut Vec<u8>) -> Answered {
        match self.jobs.finish() {
            Some(Ok(Answer { kind, text, next_since, damaged })) => {
                let next_since = next_since.map(|seq| ("X-Next-Since: ", seq));
                let damaged = (damaged > 0).then_some(("X-Damaged: ", damaged));
                let fields: Vec<_> = next_since.into_iter().chain(damaged).collect();
                desk.part(request, kind, &fields, &text, out);
                Answered::default()
            }
            Some(Err(Failure { kind, expected })) => {
                desk.refuse_request(request, &Problem::missing(kind, &expected), out)
            }
            None => Answered::default(),
        }
    }
}

/// The seq is read first: the profile is of that seq or a later one.
fn told(lookup: &mut Lookup, log: &Queue, asked: &Asked<'_>) -> Json {
    let seq = log.figures().last_seq();
    let visitors = lookup.pin();
    let profile = asked.profile(&visitors);
    let aliases: Vec<&str> = profile.iter().flat_map(Profile::anon_ids).collect();
    let document = past_json(profile, clock::now_ms());
    json!({ "site": asked.site, "known": profile.is_some(), "aliases": aliases, "seq": seq.to_string(), "profile": document })
}

/// The records of a visitor, as `export` prints them, as many as make an answer; and the first thing that is wrong there.
fn exported(
    reader: Result<Reader, LogError>,
    visitor: &Visitor,
) -> Result<(Answer, Option<Finding>), Failure> {
    let failed = |error: LogError| Failure { kind: problem::DISK_UNAVAILABLE, expected: error.to_string() };
    let mut reader = reader.map_err(failed)?;
    let (mut lines, mut next_since) = (Vec::new(), None);
    let (mut damaged, mut first) = (0, None);
    'all: while let Some(item) = reader.read_next().map_err(failed)? {
        let records = match item {
            Item::Records(records) => records,
            Item::Finding(finding) => {
                damaged += 1;
                first.get_or_insert(finding);
                continue;
            }
        };
        for (seq, record) in records.iter().filter(|(_, record)| is_of(visitor, record)) {
            if lines.len() >= EXPORT_BYTES_FULL {
                next_since = Some(seq - 1);
                break 'all;
            }
            export::line(&mut lines, seq, &record);
        }
    }
    let text = String::from_utf8(lines).unwrap_or_default();
    Ok((Answer { kind: NDJSON, text, next_since, damaged }, first))
}

/// One line, however much is wrong: a command says all.
fn say_damaged(folder: &Path, places: u64, first: &Finding) {
    let folder = folder.display();
    tracing::error!(
        "an export passed over {places} damaged places of the log, the first: {first}; all: parallax check {folder}"
    );
}

fn is_of(visitor: &Visitor, record: &Record<'_>) -> bool {
    let ids = [(Whose::Anon, record.anon_id), (Whose::User, record.user_id)];
    let is_named = |(whose, id): (Whose, Option<&str>)| {
        visitor.ids.iter().any(|(of, known)| *of == whose && Some(known.as_str()) == id)
    };
    record.site == Some(visitor.site.as_str()) && ids.into_iter().any(is_named)
}

/// Out of the log first; then out of the checkpoints, which are made anew.
fn erase(log: &Queue, visitor: Visitor, checkpoints: &Figures) -> Told {
    let failed = |error: EraseError| {
        let kind = match error {
            EraseError::Busy => problem::OVERLOADED,
            EraseError::Stopped => problem::DRAINING,
            EraseError::Ids(_) | EraseError::Log(_) => problem::DISK_UNAVAILABLE,
        };
        Failure { kind, expected: format!("another try: {error}") }
    };
    let erased = log.erase(visitor).and_then(|erasure| erasure.finish()).map_err(failed)?;
    let begun = clock::instant();
    while !checkpoints.are_behind(erased.seq) {
        if clock::instant().duration_since(begun) > CHECKPOINT_WAIT {
            let expected = "another try: a file of what is known of visitors still has this one, since none could be made anew";
            return Err(Failure { kind: problem::DISK_UNAVAILABLE, expected: expected.to_owned() });
        }
        std::thread::sleep(CHECKPOINT_LOOK);
    }
    let told = json!({ "erased": { "records": erased.records, "segments": erased.segments }, "seq": erased.seq.to_string() });
    Ok(Answer { kind: JSON, text: told.to_string(), next_since: None, damaged: 0 })
}

impl<'a> Asked<'a> {
    fn read(query: &'a str, decoded: &'a mut Vec<u8>) -> Result<Self, Problem<'a>> {
        let params = Params::read(query, decoded)?;
        let site = params.get(Param::Site).ok_or(Problem::missing(problem::MISSING_SITE, "'site'"))?;
        let (whose, id) = match (params.get(Param::AnonId), params.get(Param::UserId)) {
            (Some(id), None) => (Whose::Anon, id),
            (None, Some(id)) => (Whose::User, id),
            _ => return Err(Problem::missing(problem::MISSING_VISITOR, "one of 'anonId' and 'userId'")),
        };
        let since = params.get(Param::Since).map_or(Ok(0), |since| {
            let wrong = Problem::new(problem::INVALID_PARAM, "the seq of a record", since);
            since.parse().map_err(|_| wrong.at(Param::Since.name()))
        })?;
        Ok(Self { site, whose, id, since })
    }

    fn profile<'v>(&self, visitors: &'v lookup::Visitors<'_>) -> Option<Profile<'v>> {
        match self.whose {
            Whose::Anon => visitors.anonymous(self.site, self.id),
            Whose::User => visitors.user(self.site, self.id),
        }
    }

    /// All ids that are tied to this one, and itself.
    fn visitor(&self, lookup: &mut Lookup) -> Visitor {
        let visitors = lookup.pin();
        let profile = self.profile(&visitors);
        let mut ids = vec![(self.whose, self.id.to_owned())];
        let user = profile.and_then(|profile| profile.user_id()).map(|id| (Whose::User, id));
        let anonymous = profile.iter().flat_map(Profile::anon_ids).map(|id| (Whose::Anon, id));
        let others = user.into_iter().chain(anonymous).filter(|other| *other != (self.whose, self.id));
        ids.extend(others.map(|(whose, id)| (whose, id.to_owned())));
        Visitor { site: self.site.to_owned(), ids }
    }
}
