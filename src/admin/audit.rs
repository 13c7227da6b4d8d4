//! The lines of the audit log about requests.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use super::current_access::AccessChange;
use super::slow_requests::JobResult;
use crate::access::{self, Caller};
use crate::audit::{Actor, ActorKind, AuditAction, AuditEntry, AuditError, AuditLog, AuditOutcome, Subject};
use crate::http::params::{Param, Params};
use crate::http::request::Request;
use crate::insights::engine::JobError;
use crate::problem::{self, Problem};
use crate::record::{IdKind, VisitorId};
use crate::site::catalog::catalog::Catalog;

/// The client of a request: its rights, and its address.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub caller: Caller,
    /// The address as the trusted proxies name it.
    pub from: IpAddr,
}

impl Client {
    /// Returns a line about this client.
    pub(super) fn entry(&self, action: AuditAction, site: &str) -> AuditEntry {
        let entry = AuditEntry::new(action, actor_of(&self.caller.actor), AuditOutcome::Done);
        entry.from(Some(self.from)).site(site)
    }
}

fn actor_of(client: &access::Actor) -> Actor {
    let name = &client.name;
    let actor = Actor::new(match client.kind {
        access::ActorKind::Token => ActorKind::Token,
        access::ActorKind::User => ActorKind::User,
        access::ActorKind::Link => ActorKind::Link,
        access::ActorKind::Operator => ActorKind::Operator,
        access::ActorKind::Loopback => ActorKind::Loopback,
    });
    if name.is_empty() { actor } else { actor.with_name(name) }
}

/// Lines about refused requests in one window, of clients that are known and of others. Anybody can send such requests, and the disk
/// must not fill with lines.
const REFUSED_LINES_MAX: u32 = 10;
/// Length of a window. A longer flood gets a line with the number of the requests that have none, at its end.
const REFUSED_WINDOW: Duration = Duration::from_secs(1);

/// A refused request.
pub(super) struct Refusal<'a> {
    /// `None` for a client without valid credentials.
    pub actor: Option<&'a access::Actor>,
    pub from: IpAddr,
    /// The published site that the request names.
    pub site: Option<&'a str>,
    /// The code of the problem, and the endpoint.
    pub text: String,
}

/// The lines about refused requests. Strangers have a window of their own: a flood of theirs hides no line about a known client.
#[derive(Debug, Default)]
pub(super) struct RefusalRecorder {
    of_strangers: RefusalWindow,
    of_known: RefusalWindow,
}

impl RefusalRecorder {
    /// Queues the line about a refused request.
    pub(super) fn record(&mut self, log: &AuditLog, refusal: &Refusal<'_>, now: Instant) {
        let window = if refusal.actor.is_some() { &mut self.of_known } else { &mut self.of_strangers };
        window.record(log, refusal, now);
    }

    /// Queues the lines about the refused requests without a line, for each window that is over.
    pub(super) fn end_windows(&mut self, log: &AuditLog, now: Instant) {
        self.of_known.end(log, now);
        self.of_strangers.end(log, now);
    }
}

#[derive(Debug, Default)]
struct RefusalWindow {
    began: Option<Instant>,
    /// The refused requests of the window.
    count: u32,
}

impl RefusalWindow {
    fn record(&mut self, log: &AuditLog, refusal: &Refusal<'_>, now: Instant) {
        self.end(log, now);
        self.began.get_or_insert(now);
        self.count = self.count.saturating_add(1);
        if self.count > REFUSED_LINES_MAX {
            return;
        }
        let actor = refusal.actor.map_or_else(|| Actor::new(ActorKind::None), actor_of);
        let entry = AuditEntry::new(AuditAction::Refuse, actor, AuditOutcome::Refused);
        let entry = refusal.site.map_or(entry.clone(), |site| entry.site(site));
        record_later(log, &entry.from(Some(refusal.from)).detail(&refusal.text));
    }

    fn end(&mut self, log: &AuditLog, now: Instant) {
        if self.began.is_none_or(|began| now.saturating_duration_since(began) < REFUSED_WINDOW) {
            return;
        }
        self.began = None;
        let omitted = std::mem::take(&mut self.count).saturating_sub(REFUSED_LINES_MAX);
        if omitted > 0 {
            let entry =
                AuditEntry::new(AuditAction::Refuse, Actor::new(ActorKind::None), AuditOutcome::Refused);
            record_later(log, &entry.detail(&format!("omitted={omitted}")));
        }
    }
}

/// Queues the lines about a new reading of the access file.
pub(super) fn record_access_change(log: &AuditLog, change: &AccessChange) {
    let outcome = if change.is_used { AuditOutcome::Done } else { AuditOutcome::Failed };
    for detail in &change.details {
        let entry = AuditEntry::new(AuditAction::Access, Actor::new(ActorKind::Server), outcome);
        record_later(log, &entry.detail(detail));
    }
}

/// Queues a line about something that has happened already. If the queue is full, the metric of failures counts the line.
fn record_later(log: &AuditLog, entry: &AuditEntry) {
    let _ = log.record_later(entry);
}

/// The audit log, and the line of one request about a visitor.
#[derive(Debug, Clone)]
pub(super) struct VisitorAudit {
    log: AuditLog,
    entry: AuditEntry,
}

impl VisitorAudit {
    /// Prepares the line of a request.
    pub(super) fn new(
        log: &AuditLog,
        client: &Client,
        action: AuditAction,
        visitor_id: VisitorId<'_>,
    ) -> Self {
        let entry = client.entry(action, visitor_id.site);
        let with_subject = |subject: Subject| entry.clone().subject(subject);
        let entry = log.subject(visitor_id).map(with_subject).unwrap_or(entry);
        Self { log: log.clone(), entry }
    }

    /// Queues the line about a look at the visitor. `endpoint` tells the kind of look.
    ///
    /// # Errors
    /// `audit_unavailable`: the caller must show nothing.
    pub(super) fn record_look(&self, endpoint: &str) -> Result<(), Problem<'static>> {
        record(&self.log, &self.entry.clone().detail(endpoint))
    }

    /// Writes the line with this outcome, and returns when it is durable.
    ///
    /// # Errors
    /// `audit_unavailable`. `consequence` is the sentence about the request.
    pub(super) fn record_durably(
        &self,
        outcome: AuditOutcome,
        detail: &str,
        consequence: &str,
    ) -> Result<(), JobError> {
        record_durably(&self.log, &self.entry.clone().outcome(outcome).detail(detail), consequence)
    }
}

/// Writes a line, and returns when it is durable.
///
/// # Errors
/// `audit_unavailable`. `consequence` is the sentence about the request.
pub(super) fn record_durably(log: &AuditLog, entry: &AuditEntry, consequence: &str) -> Result<(), JobError> {
    log.record_durably(entry).map_err(|error| JobError {
        kind: problem::AUDIT_UNAVAILABLE,
        detail: format!("{consequence}: {error}; retry later."),
    })
}

/// Queues a line before the request gets its answer.
///
/// # Errors
/// `audit_unavailable`: the caller must show nothing.
pub(super) fn record(log: &AuditLog, entry: &AuditEntry) -> Result<(), Problem<'static>> {
    log.record(entry).map_err(unavailable)
}

/// Queues the line about an explained decision, whose answer has the profile of a visitor.
///
/// # Errors
/// `audit_unavailable`: the caller must show nothing.
pub(super) fn record_explanation(
    log: &AuditLog,
    client: &Client,
    request: &Request<'_>,
    catalog: &Catalog,
) -> Result<(), Problem<'static>> {
    let mut decoded = Vec::new();
    // The endpoint refuses a query that cannot be parsed.
    let Ok(params) = Params::parse(request.query, &mut decoded) else { return Ok(()) };
    if params.get(Param::Explain).is_none() && params.get(Param::Visitor).is_none() {
        return Ok(());
    }
    let anon = params.get(Param::AnonId).map(|id| (IdKind::Anon, id));
    let visitor = anon.or_else(|| params.get(Param::UserId).map(|id| (IdKind::User, id)));
    let by_tracking_id = || catalog.by_tracking_id(params.get(Param::TrackingId)?);
    let published = params.get(Param::Site).and_then(|site| catalog.by_site_id(site)).or_else(by_tracking_id);
    let Some(((id_kind, id), published)) = visitor.zip(published) else { return Ok(()) };
    let visitor_id = VisitorId { site: &published.site().site, id_kind, id };
    VisitorAudit::new(log, client, AuditAction::View, visitor_id).record_look("decision")
}

fn unavailable(error: AuditError) -> Problem<'static> {
    let sentence = match error {
        AuditError::Full => {
            "Nothing is shown, because too many lines of the audit log wait for the disk; retry later."
        }
        AuditError::Failed | AuditError::Timeout => {
            "Nothing is shown, because the audit log cannot be written; repair the disk or free space, then retry."
        }
    };
    Problem::new(problem::AUDIT_UNAVAILABLE, sentence)
}

/// Runs an export, and returns its output after the line about it is durable.
pub(super) fn audited_export(audit: &VisitorAudit, export: impl FnOnce() -> JobResult) -> JobResult {
    let result = export();
    let (outcome, detail) = match &result {
        Ok(output) => (AuditOutcome::Done, format!("records={}", output.text.lines().count())),
        Err(error) => (AuditOutcome::Failed, error.kind.code.to_owned()),
    };
    audit.record_durably(outcome, &detail, "The export is not delivered")?;
    result
}

/// Runs an erasure after the line about its start is durable, and returns its output after the line about its end is durable.
pub(super) fn audited_erasure(audit: &VisitorAudit, erase: impl FnOnce() -> JobResult) -> JobResult {
    audit.record_durably(AuditOutcome::Started, "", "Nothing is erased")?;
    let result = erase();
    let (outcome, detail, consequence) = match &result {
        Ok(output) => (
            AuditOutcome::Done,
            erasure_detail(&output.text),
            "The visitor is erased, but the audit log lacks the line about it",
        ),
        Err(error) => (
            AuditOutcome::Failed,
            error.kind.code.to_owned(),
            "The erasure failed, and the audit log lacks the line about it",
        ),
    };
    audit.record_durably(outcome, &detail, consequence)?;
    result
}

/// Returns the numbers in the answer to an erasure.
fn erasure_detail(answer: &str) -> String {
    let answer: Json = serde_json::from_str(answer).unwrap_or_default();
    let pending = answer["pending"].as_array().map_or(0, Vec::len);
    let erased = &answer["erased"];
    format!(
        "seq={} records={} redacted={} segments={} pending_nodes={pending}",
        answer["seq"].as_str().unwrap_or_default(),
        erased["records"],
        erased["redacted"],
        erased["segments"]
    )
}
