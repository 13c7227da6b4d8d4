//! `POST /v1/page`, `/v1/track` and their other names: from a body to the log, and from the log's word to a receipt.
//!
//! In two steps, since the disk comes between them: [`begin`] decodes, judges and queues, and answers at once what needs no
//! disk; [`finish`] answers what came back. While a request waits its events' fates are kept, and what its answer takes from it.

use super::context;
use super::handler::{Decoded, Desk, Room, Settings};
use super::problem::write_problem;
use super::receipt::{Asked, Kept, Reply};
use super::{Answered, Progress, rate_limit};
use crate::clock;
use crate::http::authorization;
use crate::http::body;
use crate::http::cors::Cors;
use crate::http::forwarded;
use crate::http::params::{Param, Params};
use crate::http::request::{Arrival, Request, Waited};
use crate::ids::RequestIds;
use crate::metrics::Recorded;
use crate::problem::{self, Problem};
use crate::resolve::path::RoutePath;
use crate::resolve::user_agent::{AgentTable, Agents};
use crate::site::catalog::catalog::Catalog;
use crate::site::snapshot::format::ArchivedSite;
use crate::visitors::events::decode::{self, Bots, Judge, Outside, Policy, Sent};
use crate::visitors::events::document::Reader;
use crate::visitors::events::endpoint::Endpoint;
use crate::visitors::events::ip::IpPolicy;
use crate::visitors::events::receipt::{self, Durable, Fates, Reason, Refused, Stored};
use crate::visitors::events::refusal::Refusal;
use crate::visitors::log::{self, Completion, Outcome, Port, Record, Verdict};

/// A thread's way to the log: its buffers, and what waits for the disk.
pub struct Recorder {
    port: Port,
    reader: Reader,
    judge: Judge,
    /// What the body names: a tracking ID and a site.
    names: [String; 2],
    /// By token.
    waiting: Vec<Option<Waiting>>,
    free: Vec<usize>,
    /// What the log's word is turned into.
    answers: Vec<receipt::Answer>,
    /// Buffers that came back.
    spare: Vec<Spare>,
    recorded: Recorded,
}

/// The buffers of a request.
#[derive(Default)]
struct Spare {
    records: log::Request,
    fates: Fates,
}

/// A request whose records are with the writer.
struct Waiting {
    fates: Fates,
    kept: Kept,
    /// What it holds with its records, wherever they are.
    bytes: usize,
    completion: Option<Completion>,
    /// Its connection is gone.
    forgotten: bool,
}

/// Buffers that are kept for the next requests, as many as connections that wait for one sync; more are freed.
const SPARE_MAX: usize = 1_024;
/// A larger buffer is freed, not kept: a batch's.
const SPARE_BYTES_MAX: usize = 4 * 1024;

impl Recorder {
    /// Records through `port`; tells `recorded` what does not come so far.
    pub fn new(port: Port, recorded: Recorded) -> Self {
        Self {
            port,
            reader: Reader::new(),
            judge: Judge::default(),
            names: Default::default(),
            waiting: Vec::new(),
            free: Vec::new(),
            answers: Vec::new(),
            spare: Vec::new(),
            recorded,
        }
    }

    /// Has the writer take what was sent since this was called last.
    pub(super) fn hand_over(&self) {
        self.port.call_writer();
    }

    /// The token of a request that came back, if one did.
    pub(super) fn take_completion(&mut self) -> Option<usize> {
        let completion = self.port.take()?;
        let token = completion.request.token as usize;
        let waiting = self.waiting.get_mut(token)?.as_mut()?;
        if waiting.forgotten {
            let fates = self.release(token).map(|waiting| waiting.fates);
            self.keep(completion.request, fates.unwrap_or_default());
        } else {
            waiting.completion = Some(completion);
        }
        Some(token)
    }

    /// Whether it came back.
    pub(super) fn is_complete(&self, token: usize) -> bool {
        let waiting = self.waiting.get(token).and_then(Option::as_ref);
        waiting.is_some_and(|waiting| waiting.completion.is_some())
    }

    /// What it holds until it is finished, about.
    pub(super) fn waiting_bytes(&self, token: usize) -> usize {
        self.waiting.get(token).and_then(Option::as_ref).map_or(0, |waiting| waiting.bytes)
    }

    /// Nobody will ask for it any more.
    pub(super) fn forget(&mut self, token: usize) {
        let Some(waiting) = self.waiting.get_mut(token).and_then(Option::as_mut) else { return };
        waiting.forgotten = true;
        if waiting.completion.is_some() {
            self.release(token);
        }
    }

    fn release(&mut self, token: usize) -> Option<Waiting> {
        self.free.push(token);
        self.waiting[token].take()
    }

    fn keep(&mut self, mut records: log::Request, fates: Fates) {
        if self.spare.len() < SPARE_MAX && records.capacity() + fates.bytes() <= SPARE_BYTES_MAX {
            records.clear();
            self.spare.push(Spare { records, fates });
        }
    }

    fn tell(&self, fates: &Fates) {
        for (index, reason) in [Reason::Preview, Reason::NoConsent, Reason::Bot].into_iter().enumerate() {
            match fates.dropped(reason) {
                0 => {}
                dropped => self.recorded.dropped(index, dropped),
            }
        }
        fates.refusals().for_each(|refusal| self.recorded.rejected(refusal.kind));
    }

    /// Queues the records, under a token.
    fn send(&mut self, mut records: log::Request, fates: Fates, kept: Kept) -> Result<usize, log::Refusal> {
        let token = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() - 1
        });
        records.token = token as u64;
        let bytes = records.capacity() + fates.bytes() + kept.bytes();
        self.waiting[token] = Some(Waiting { fates, kept, bytes, completion: None, forgotten: false });
        self.port.send(records).map(|()| token).map_err(|(records, refusal)| {
            let fates = self.release(token).map(|waiting| waiting.fates);
            self.keep(records, fates.unwrap_or_default());
            refusal
        })
    }
}

/// Why nothing of a request is recorded.
enum Failure<'a> {
    Problem(Problem<'a>),
    /// Of the body.
    Event(Refusal),
}

impl<'a> From<Problem<'a>> for Failure<'a> {
    fn from(problem: Problem<'a>) -> Self {
        Self::Problem(problem)
    }
}

impl From<Refusal> for Failure<'_> {
    fn from(refusal: Refusal) -> Self {
        Self::Event(refusal)
    }
}

/// What the events of a request came to.
struct Judged {
    fates: Fates,
    records: log::Request,
    dry: bool,
}

/// Decodes and queues a request's events, or answers it.
pub(super) fn begin(
    desk: &mut Desk,
    request: &Request<'_>,
    arrival: &Arrival,
    endpoint: Endpoint,
    out: &mut Vec<u8>,
) -> Progress {
    let asked = Asked::of(request);
    let answered = asked.manner.endpoint;
    let Desk { settings, date, view, decoded, room, recorder, .. } = desk;
    let Some(recorder) = recorder else {
        let problem = Problem::new(problem::UNKNOWN_ENDPOINT, "an address that records events", request.path);
        write_problem(out, &problem, Cors::Nobody, request, date, room);
        return Progress::refused(None, problem.kind);
    };
    let mut cors = untold_cors(request);
    // Before anything is decoded: what refusing costs is taken from those who are not refused.
    if let Some(refusal) = recorder.port.refusal() {
        let problem = unavailable(refusal);
        write_problem(out, &problem, cors, request, date, room);
        return Progress::refused(answered, problem.kind);
    }
    let judged =
        judge(settings, view.load(), decoded, room, recorder, &mut cors, (request, arrival, endpoint));
    let reply = Reply { asked, date, cors, arrival };
    let Judged { fates, records, dry } = match judged {
        Ok(judged) => judged,
        Err(Failure::Problem(problem)) => {
            write_problem(out, &problem, cors, request, date, room);
            return Progress::refused(answered, problem.kind);
        }
        Err(Failure::Event(refusal)) => {
            let refused = Refused::Event(&refusal);
            return Progress::refused(answered, reply.refuse(&refused, room, out));
        }
    };
    recorder.tell(&fates);
    if let Some(refused) = fates.problem() {
        return Progress::refused(answered, reply.refuse(&refused, room, out));
    }
    if dry || fates.recorded() == 0 {
        let stored = if dry { Stored::Nothing } else { Stored::Answered(&[], Durable::Disk) };
        reply.receipt(&fates, stored, room, out);
        recorder.keep(records, fates);
        return Progress::Answered(Answered { endpoint: answered, refused: None });
    }
    match recorder.send(records, fates, asked.keep()) {
        Ok(token) => Progress::Waits(token),
        Err(refusal) => {
            let problem = unavailable(refusal);
            write_problem(out, &problem, cors, request, date, room);
            Progress::refused(answered, problem.kind)
        }
    }
}

/// The CORS of an answer to events whose site is not known yet.
pub(super) fn untold_cors<'a>(request: &Request<'a>) -> Cors<'a> {
    Cors::events(request.fields.origin, std::iter::empty()).unwrap_or(Cors::Nobody)
}

/// Answers a request that came back.
pub(super) fn finish(
    desk: &mut Desk,
    token: usize,
    waited: &Waited<'_>,
    arrival: &Arrival,
    out: &mut Vec<u8>,
) -> Answered {
    let Desk { date, view, room, recorder, .. } = desk;
    let waiting = recorder.as_mut().and_then(|recorder| recorder.release(token));
    let Some((recorder, Waiting { fates, kept, completion: Some(completion), .. })) =
        recorder.as_mut().zip(waiting)
    else {
        return Answered::default();
    };
    let asked = kept.asked(waited.close);
    let endpoint = asked.manner.endpoint;
    let cors = told_cors(asked.origin, view.load(), &completion);
    let durable = match completion.outcome {
        Outcome::Durable => Durable::Disk,
        Outcome::Written => Durable::Written,
        Outcome::DiskUnavailable => {
            let problem = unavailable(log::Refusal::DiskUnavailable);
            if let Some(request) = waited.request() {
                write_problem(out, &problem, cors, &request, date, room);
            }
            recorder.keep(completion.request, fates);
            return Answered { endpoint, refused: Some(problem.kind) };
        }
    };
    recorder.answers.clear();
    recorder.answers.extend(completion.request.verdicts().iter().map(|verdict| match verdict {
        Verdict::Accepted(seq) => receipt::Answer::Accepted(*seq),
        Verdict::Duplicate => receipt::Answer::Duplicate,
    }));
    let reply = Reply { asked, date, cors, arrival };
    reply.receipt(&fates, Stored::Answered(&recorder.answers, durable), room, out);
    recorder.keep(completion.request, fates);
    Answered { endpoint, refused: None }
}

/// The CORS of an answer to a request whose events were taken: as of the site that they were recorded for, where it is still
/// published.
fn told_cors<'a>(origin: Option<&'a [u8]>, catalog: &Catalog, completion: &Completion) -> Cors<'a> {
    // Who names no origin is no page, whatever the site says: it need not be found.
    if origin.is_none() {
        return Cors::Nobody;
    }
    let site = completion.request.site().and_then(|site| catalog.by_site(site));
    let origins = site.map_or(&[][..], |site| &site.site().origins);
    let origins = origins.iter().map(|origin| origin.as_str());
    Cors::events(origin, origins).unwrap_or(Cors::Nobody)
}

fn unavailable<'a>(refusal: log::Refusal) -> Problem<'a> {
    match refusal {
        log::Refusal::QueueFull => {
            Problem::missing(problem::QUEUE_FULL, "another try in a moment, with the same message IDs")
        }
        log::Refusal::DiskUnavailable => {
            let expected = "another try, with the same message IDs: the disk takes nothing at the moment";
            Problem::missing(problem::DISK_UNAVAILABLE, expected)
        }
        log::Refusal::Stopped => {
            Problem::missing(problem::DRAINING, "another try, with the same message IDs: the server stops")
        }
    }
}

/// Reads the body and gives its events their fates.
fn judge<'a, 'r: 'a>(
    settings: &'a Settings,
    catalog: &'a Catalog,
    decoded: &'a mut Decoded,
    room: &mut Room,
    recorder: &'a mut Recorder,
    cors: &mut Cors<'r>,
    (request, arrival, endpoint): (&'r Request<'r>, &'r Arrival, Endpoint),
) -> Result<Judged, Failure<'a>> {
    let Decoded { params, body: inflated, group: user, .. } = decoded;
    let text = body::text(request, inflated)?;
    let params = Params::read(request.query, params).map_err(Problem::in_query)?;
    let Recorder { reader, judge, names, spare, recorded, .. } = recorder;
    let document = reader.read(text)?;
    if document.surrogates_mended() > 0 {
        recorded.surrogates(document.surrogates_mended());
    }
    let sent = Sent::of(&document, endpoint)?;
    let user = request.fields.authorization.and_then(|given| authorization::basic_user(given, user));
    // Those of the body are copied, since a refusal that repeats them outlives it.
    let [own_id, own_site] = names;
    let own_id = sent.address.tracking_id.map(|id| copied(id, own_id));
    let own_site = sent.address.site.map(|site| copied(site, own_site));
    let (given_id, site) = (params.get(Param::TrackingId), params.get(Param::Site));
    // Where the site is named, a user that is no tracking ID is somebody else's: a browser sends it for a proxy's password.
    let is_named = [given_id, own_id, site, own_site].iter().any(Option::is_some);
    let user = user.filter(|user| !is_named || context::is_tracking_id(user));
    let tracking_id = given_id.or(user).or(own_id);
    let of_query = |problem: Problem<'a>| match problem.at {
        Some(at) if at.name == Param::TrackingId.name() && tracking_id == own_id => problem,
        Some(at) if at.name == Param::Site.name() && site.is_none() => problem,
        _ => problem.in_query(),
    };
    let published = context::published(catalog, tracking_id, site.or(own_site)).map_err(of_query)?;
    rate_limit::site(settings, &published.site().site, request, arrival)?;
    let origins = published.site().origins.iter().map(|origin| origin.as_str());
    *cors = Cors::events(request.fields.origin, origins).ok_or_else(|| {
        Problem::missing(problem::ORIGIN_NOT_ALLOWED, "an origin that the site's 'origins' name")
    })?;
    let dry = params.switch(Param::DryRun).map_err(Problem::in_query)?;
    let call = decode::Call {
        site: &published.site().site,
        tracking_id: &published.site().tracking_id,
        policy: policy(published.site()),
        received_ms: clock::now_ms(),
        preview: request.fields.preview == Some(b"1"),
        gpc: request.fields.gpc == Some(b"1"),
        referer: request.fields.referer.and_then(|value| std::str::from_utf8(value).ok()),
        user_agent: context::own_agent(&request.fields),
        anon_id: context::anon_id(&params, request, published.site()).map_err(Problem::in_query)?,
        peer: forwarded::client(arrival.peer, &request.fields.forwarded, &settings.trusted_proxies)
            .unwrap_or(arrival.peer),
    };
    sent.check_site(&call)?;
    let Room { agents, agent_table, path, ids, .. } = room;
    let mut outside = Judging { agents, agent_table, path, ids };
    let Spare { mut records, fates } = spare.pop().unwrap_or_default();
    let mut too_long = false;
    let fates = judge.judge(&sent, &call, &mut outside, fates, |record: &Record<'_>| {
        too_long |= records.push(record).is_err();
    });
    if too_long {
        let expected = "a batch whose records take at most 4194304 bytes, each with the batch's context";
        return Err(Problem::missing(problem::BATCH_TOO_LARGE, expected).into());
    }
    Ok(Judged { fates, records, dry })
}

fn copied<'a>(text: &str, into: &'a mut String) -> &'a str {
    into.clear();
    into.push_str(text);
    into
}

fn policy(site: &ArchivedSite) -> Policy {
    Policy {
        bots: [Bots::Drop, Bots::Flag, Bots::Keep][usize::from(site.bots.min(2))],
        honor_gpc: site.honor_gpc,
        ip: [IpPolicy::None, IpPolicy::Truncated, IpPolicy::Full][usize::from(site.ip.min(2))],
    }
}

/// What decoding asks for.
struct Judging<'a> {
    agents: &'a Agents,
    agent_table: &'a mut AgentTable,
    path: &'a mut RoutePath,
    ids: &'a mut RequestIds,
}

impl Outside for Judging<'_> {
    fn is_crawler(&mut self, user_agent: &str) -> bool {
        self.agent_table.facts(self.agents, user_agent).crawler
    }

    fn page_path(&mut self, value: &str) -> Option<&str> {
        self.path.read(value).ok().map(|()| self.path.text())
    }

    fn mint(&mut self) -> [u8; 16] {
        self.ids.mint()
    }
}
