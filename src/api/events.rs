//! `POST /v1/page`, `/v1/track` and the other event endpoints: from a body to the log, and from the log to a receipt.
//!
//! The disk is between the two steps. [`EventHandler::submit`] decodes and validates the events and queues their
//! records. It responds at once if nothing has to be written. [`EventHandler::complete`] responds when the log has
//! written the records. The [`EventSink`] keeps the pending requests between the two steps.

use super::class::Audience;
use super::context;
use super::endpoint::{Endpoint, Outcome, Poll};
use super::event_environment::RequestEnvironment;
use super::event_sink::{EventSink, PendingRequest, PooledBuffers};
use super::problem::write_problem;
use super::rate_limit;
use super::receipt::{EventResponse, ResponseParams};
use super::scratch::{DecodeBuffers, ResponseBuffers, Scratch, Settings, VisitorScratch};
use super::user_verifier::{UserIdPlace, keys_of};
use super::visitor_token::{EventVisitors, TokenAnswer};
use crate::acknowledgement::Ack;
use crate::clock;
use crate::events::context::country;
use crate::events::endpoint::EventEndpoint;
use crate::events::ip::IpPolicy;
use crate::events::receipt::{EventResults, RejectedRequest, StoreOutcome};
use crate::events::refusal::Refusal;
use crate::events::request::{BotPolicy, Policy, RequestFacts};
use crate::events::submission::Submission;
use crate::events::visitor::is_placeholder;
use crate::http::authorization;
use crate::http::body;
use crate::http::cors::Cors;
use crate::http::date::DateLine;
use crate::http::forwarded;
use crate::http::headers::{Field, Headers};
use crate::http::params::{Param, Params};
use crate::http::request::{BufferedRequest, Request, RequestMeta};
use crate::identity_keys::UserRule;
use crate::log::{self, Completion, SendError};
use crate::node_gate::EventRefusal;
use crate::problem::{self, Problem};
use crate::record::{Record, primary_language};
use crate::site::catalog::catalog::{Catalog, PublishedSite};
use crate::site::snapshot::format::ArchivedSite;

/// The reason why no event of a request is recorded.
enum SubmitError<'a> {
    /// A fault of the request.
    Problem(Problem<'a>),
    /// A fault in the body.
    Event(Refusal),
}

impl<'a> From<Problem<'a>> for SubmitError<'a> {
    fn from(problem: Problem<'a>) -> Self {
        Self::Problem(problem)
    }
}

impl From<Refusal> for SubmitError<'_> {
    fn from(refusal: Refusal) -> Self {
        Self::Event(refusal)
    }
}

/// The validated events of a request.
struct ValidatedEvents {
    results: EventResults,
    records: log::Request,
    is_dry_run: bool,
    visitors: EventVisitors,
}

/// A request to an event endpoint.
#[derive(Clone, Copy)]
pub(super) struct EventRequest<'r> {
    pub(super) request: &'r Request<'r>,
    pub(super) meta: &'r RequestMeta,
    pub(super) endpoint: EventEndpoint,
}

/// The parts of a handler that the event endpoints need.
pub(super) struct EventHandler<'h> {
    pub(super) settings: &'h Settings,
    pub(super) date: &'h DateLine,
    pub(super) catalog: &'h Catalog,
    pub(super) scratch: &'h mut Scratch,
}

impl EventHandler<'_> {
    /// Validates and queues the events of a request, or appends a response.
    pub(super) fn submit(
        self,
        sink: Option<&mut EventSink>,
        buffers: &mut DecodeBuffers,
        event_request: EventRequest<'_>,
        out: &mut Vec<u8>,
    ) -> Poll {
        let EventRequest { request, meta, endpoint } = event_request;
        let endpoint = Endpoint::Events(endpoint);
        let Self { settings, date, catalog, scratch } = self;
        let Some(sink) = sink else {
            let sentence = "{} is not an endpoint of this address, which records no events.";
            let problem = Problem::with_value(problem::UNKNOWN_ENDPOINT, sentence, request.path);
            let audience = Audience::Private(Cors::before_site_known(request.headers.get(Field::Origin)));
            write_problem(out, &problem, audience.into(), request, date, scratch);
            return Poll::rejected(None, problem.kind);
        };
        let mut cors = Cors::before_site_known(request.headers.get(Field::Origin));
        // This check is before the decoding, so that rejected requests cost little while the log is overloaded.
        let refusal = scratch.visitor.node_gate.as_ref().and_then(|gate| gate.refusal()).map(refusal_problem);
        if let Some(problem) = refusal.or_else(|| sink.log.precheck().map(unavailable_problem)) {
            write_problem(out, &problem, Audience::Private(cors).into(), request, date, scratch);
            return Poll::rejected(Some(endpoint), problem.kind);
        }
        let validated = validate(settings, catalog, buffers, scratch, sink, &mut cors, event_request);
        let response = EventResponse { params: ResponseParams::of(request, endpoint), date, cors, meta };
        let ValidatedEvents { results, records, is_dry_run, visitors } = match validated {
            Ok(validated) => validated,
            Err(SubmitError::Problem(problem)) => {
                write_problem(out, &problem, Audience::Private(cors).into(), request, date, scratch);
                return Poll::rejected(Some(endpoint), problem.kind);
            }
            Err(SubmitError::Event(refusal)) => {
                let rejected = RejectedRequest::Event(&refusal);
                return Poll::rejected(Some(endpoint), response.write_problem(&rejected, scratch, out));
            }
        };
        sink.count(&results);
        if results.unverified_users_count() > 0 {
            let count = results.unverified_users_count();
            settings.user_verifier.record_unverified(UserIdPlace::Event, count);
        }
        if let Some(rejected) = results.problem() {
            return Poll::rejected(Some(endpoint), response.write_problem(&rejected, scratch, out));
        }
        if is_dry_run || results.recorded_count() == 0 {
            let stored =
                if is_dry_run { StoreOutcome::DryRun } else { StoreOutcome::Stored(&[], Ack::Disk, None) };
            response.write_receipt(&results, stored, &visitors.without_token(), scratch, out);
            sink.recycle(records, results);
            return Poll::Ready(Outcome { endpoint: Some(endpoint), problem: None });
        }
        match sink.send(records, results, response.params.with_visitors(visitors)) {
            Ok(token) => Poll::Pending(token),
            Err(error) => {
                let problem = unavailable_problem(error);
                write_problem(out, &problem, Audience::Private(cors).into(), request, date, scratch);
                Poll::rejected(Some(endpoint), problem.kind)
            }
        }
    }

    /// Appends the response to a request whose completion was taken.
    pub(super) fn complete(
        self,
        sink: &mut EventSink,
        token: usize,
        buffered_request: &BufferedRequest<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let Self { settings, date, catalog, scratch } = self;
        let Some(PendingRequest { results, params, completion: Some(completion), .. }) = sink.release(token)
        else {
            return Outcome::default();
        };
        let visitors = &params.visitors;
        let params = params.borrow(buffered_request.close);
        let endpoint = Some(params.options.endpoint);
        let cors = cors_for_site(params.origin, catalog, &completion);
        let Some(ack) = completion.outcome.ack() else {
            let problem = unavailable_problem(SendError::DiskUnavailable);
            if let Some(request) = buffered_request.request() {
                write_problem(out, &problem, Audience::Private(cors).into(), &request, date, scratch);
            }
            sink.recycle(completion.request, results);
            return Outcome { endpoint, problem: Some(problem.kind) };
        };
        let token = seal_past(visitors, &completion, settings, catalog, scratch);
        let response = EventResponse { params, date, cors, meta };
        let stored = StoreOutcome::Stored(completion.request.results(), ack, completion.visible);
        response.write_receipt(&results, stored, &token, scratch, out);
        sink.recycle(completion.request, results);
        Outcome { endpoint, problem: None }
    }
}

/// Returns the token of the visitor of recorded events, if the request asks for it and the profile has the events.
fn seal_past(
    visitors: &EventVisitors,
    completion: &Completion,
    settings: &Settings,
    catalog: &Catalog,
    scratch: &mut Scratch,
) -> TokenAnswer {
    let EventVisitors::One(id_kind, id) = visitors else { return visitors.without_token() };
    let published = completion.request.site().and_then(|site| catalog.by_site_id(site));
    let Some(published) = published.filter(|_| completion.visible != Some(false)) else {
        return TokenAnswer::Nothing;
    };
    let Some(profiles) = &mut scratch.visitor.profiles else { return TokenAnswer::Nothing };
    let pinned = profiles.pin();
    let key = pinned.key(&published.site().site, *id_kind, id);
    settings.token_sealer.seal(published, *id_kind, id, pinned.profile(key))
}

/// Returns the CORS of a response to accepted events: that of their site, if it is still published.
fn cors_for_site<'a>(origin: Option<&'a [u8]>, catalog: &Catalog, completion: &Completion) -> Cors<'a> {
    // A request without an origin is not from a page of another site, so the site need not be looked up.
    if origin.is_none() {
        return Cors::Nobody;
    }
    let site = completion.request.site().and_then(|site| catalog.by_site_id(site));
    let origins = site.map_or(&[][..], |site| &site.site().origins);
    let origins = origins.iter().map(|origin| origin.as_str());
    Cors::for_events(origin, origins).unwrap_or(Cors::Nobody)
}

fn unavailable_problem<'a>(error: SendError) -> Problem<'a> {
    match error {
        SendError::QueueFull => {
            let sentence = "The event queue is full; retry later with the same message IDs.";
            Problem::new(problem::QUEUE_FULL, sentence)
        }
        SendError::DiskUnavailable => {
            let sentence = "The disk is full or failing; retry later with the same message IDs.";
            Problem::new(problem::DISK_UNAVAILABLE, sentence)
        }
        SendError::Stopped => {
            Problem::new(problem::DRAINING, "The server is stopping; retry with the same message IDs.")
        }
    }
}

fn refusal_problem<'a>(refusal: EventRefusal) -> Problem<'a> {
    match refusal {
        EventRefusal::NotJoined => {
            let sentence = "This node has not joined its cluster yet; retry with the same message IDs.";
            Problem::new(problem::NOT_JOINED, sentence)
        }
        EventRefusal::NameInUse => {
            let sentence = "Another node has the name of this one; retry with the same message IDs.";
            Problem::new(problem::NAME_IN_USE, sentence)
        }
    }
}

/// Decodes the body and validates its events.
fn validate<'a, 'r: 'a>(
    settings: &'a Settings,
    catalog: &'a Catalog,
    buffers: &'a mut DecodeBuffers,
    scratch: &mut Scratch,
    sink: &'a mut EventSink,
    cors: &mut Cors<'r>,
    EventRequest { request, meta, endpoint }: EventRequest<'r>,
) -> Result<ValidatedEvents, SubmitError<'a>> {
    let DecodeBuffers { params, body: inflated, group: user, .. } = buffers;
    let text = body::decode_text(request, inflated)?;
    let EventSink { parser, validator, site_names, pool, counters, .. } = sink;
    let document = parser.parse(text)?;
    if document.surrogates_replaced() > 0 {
        counters.record_replaced_surrogates(document.surrogates_replaced());
    }
    let params = Params::parse(request.query, params).map_err(Problem::in_query)?;
    let submission = Submission::parse(&document, endpoint)?;
    let user =
        request.headers.get(Field::Authorization).and_then(|value| authorization::basic_user(value, user));
    let published = find_site(catalog, &params, user, &submission, site_names)?;
    rate_limit::check_site(settings, &published.site().site, request, meta)?;
    let origins = published.site().origins.iter().map(|origin| origin.as_str());
    *cors = Cors::for_events(request.headers.get(Field::Origin), origins).ok_or_else(|| {
        Problem::new(problem::ORIGIN_NOT_ALLOWED, "The origin is not listed in 'origins' of the site.")
    })?;
    let Scratch { visitor, path, response: ResponseBuffers { ids, .. }, .. } = scratch;
    let VisitorScratch { user_agent_parser, user_agent_cache, cookie, .. } = visitor;
    let is_dry_run = params.flag(Param::DryRun).map_err(Problem::in_query)?;
    let headers = &request.headers;
    let mut visitors = requested_visitors(&params, headers, published.site()).map_err(Problem::in_query)?;
    let utf8 = |value| std::str::from_utf8(value).ok();
    let keys = published.site().verifies_users.then(|| settings.user_verifier.keys());
    let context = RequestFacts {
        site: &published.site().site,
        tracking_id: &published.site().tracking_id,
        policy: event_policy(published.site()),
        received_ms: settings.events_at_ms.unwrap_or_else(clock::now_ms),
        is_preview: published.site().preview.is_some() || headers.get(Field::Preview) == Some(b"1"),
        gpc: headers.get(Field::SecGpc) == Some(b"1"),
        referer: headers.get(Field::Referer).and_then(utf8),
        user_agent: context::visitor_user_agent(headers).and_then(utf8),
        language: headers.get(Field::Language).and_then(utf8).and_then(primary_language),
        country: headers.get(Field::Country).and_then(utf8).and_then(country),
        anon_id: anon_id(&params, request, published.site(), cookie).map_err(Problem::in_query)?,
        user_rule: keys.as_ref().map_or(UserRule::Any, |keys| UserRule::Signed {
            keys: keys_of(keys, published.site()),
            header_hash: headers.get(Field::UserHash),
        }),
        peer: forwarded::client_address(meta.peer, &request.headers.forwarded(), &settings.trusted_proxies)
            .unwrap_or(meta.peer),
    };
    submission.check_site(&context)?;
    let site = published.site();
    let mut environment = RequestEnvironment { user_agent_parser, user_agent_cache, path, ids, site };
    let PooledBuffers { mut records, results } = pool.pop().unwrap_or_default();
    let mut is_too_long = false;
    let results =
        validator.validate(&submission, &context, &mut environment, results, |record: &Record<'_>| {
            visitors.add(record);
            is_too_long |= records.push(record).is_err();
        });
    if is_too_long {
        let sentence = "The records of the batch, each with the context of the batch, exceed 9437184 bytes.";
        return Err(Problem::new(problem::BATCH_TOO_LARGE, sentence).into());
    }
    Ok(ValidatedEvents { results, records, is_dry_run, visitors })
}

/// Returns whether the request asks for a token, and may have one.
fn requested_visitors<'a>(
    params: &Params<'a>,
    headers: &Headers<'_>,
    site: &ArchivedSite,
) -> Result<EventVisitors, Problem<'a>> {
    if !params.flag(Param::Visitor)? {
        return Ok(EventVisitors::NotRequested);
    }
    let has_gpc = headers.get(Field::SecGpc) == Some(b"1") && site.honor_gpc;
    let may_personalize = params.flag_or(Param::Personalize, true)? && !has_gpc;
    Ok(if may_personalize { EventVisitors::Nobody } else { EventVisitors::WithoutToken })
}

/// Returns the anonymous ID that the request states beside its body. A placeholder in a parameter is an error of
/// the page, which would lose its events silently.
fn anon_id<'v, 'a: 'v>(
    params: &Params<'a>,
    request: &Request<'a>,
    site: &ArchivedSite,
    cookie_buffer: &'v mut Vec<u8>,
) -> Result<Option<&'v str>, Problem<'a>> {
    match params.get(Param::AnonId).filter(|id| is_placeholder(id)) {
        Some(id) => {
            let sentence = "{} is a placeholder, not the ID of a visitor.";
            Err(Problem::with_value(problem::PLACEHOLDER_ID, sentence, id).at(Param::AnonId.name()))
        }
        None => context::anon_id(params, request, site, cookie_buffer),
    }
}

/// Finds the site that the query string, the credentials or the body names.
fn find_site<'a>(
    catalog: &'a Catalog,
    params: &Params<'a>,
    basic_user: Option<&'a str>,
    submission: &Submission<'_>,
    [tracking_id_buffer, site_buffer]: &'a mut [String; 2],
) -> Result<&'a PublishedSite, Problem<'a>> {
    // The names in the body are copied, because a problem that repeats them lives longer than the body.
    let body_tracking_id = submission.site_ref.tracking_id.map(|id| copy_into(id, tracking_id_buffer));
    let body_site = submission.site_ref.site.map(|site| copy_into(site, site_buffer));
    let query_id = params.get(Param::TrackingId);
    let site = params.get(Param::Site);
    let write_key = params.get(Param::WriteKey).filter(|_| query_id.is_none());
    // If `site` is given, ignore a Basic user that is not a tracking ID. It belongs to a proxy in front of us, and
    // browsers send it with every request.
    let is_named = site.or(body_site).is_some();
    let basic_user = basic_user.filter(|basic_user| !is_named || context::is_tracking_id(basic_user));
    let tracking_id = query_id.or(write_key).or(body_tracking_id).or(basic_user);
    context::find_site(catalog, tracking_id, site.or(body_site)).map_err(|problem| match problem.location {
        Some(at) if at.name == Param::TrackingId.name() && tracking_id == body_tracking_id => problem,
        Some(at) if at.name == Param::TrackingId.name() && write_key.is_some() => {
            problem.at(Param::WriteKey.name()).in_query()
        }
        Some(at) if at.name == Param::Site.name() && site.is_none() => problem,
        _ => problem.in_query(),
    })
}

fn copy_into<'a>(text: &str, buffer: &'a mut String) -> &'a str {
    buffer.clear();
    buffer.push_str(text);
    buffer
}

fn event_policy(site: &ArchivedSite) -> Policy {
    Policy {
        bots: [BotPolicy::Drop, BotPolicy::Flag, BotPolicy::Keep][usize::from(site.bots.min(2))],
        honor_gpc: site.honor_gpc,
        ip: [IpPolicy::None, IpPolicy::Truncated, IpPolicy::Full][usize::from(site.ip.min(2))],
    }
}
