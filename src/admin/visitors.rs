//! One visitor's data: `GET /visitors?site&anonId|userId` returns the profile, `GET /visitors/export?...` the
//! records, `GET /visitors/explain?...&seq` the reasons for a page in the past, and `DELETE /visitors?...` erases all
//! from disk.
//!
//! The site need not be published: its recorded data is available anyway. A site that neither the catalog nor
//! the log knows is 404, so that a typo cannot look like a completed erasure. An unknown visitor is a new
//! visitor. Export and erasure cover the records that the entries of ownership attribute to the visitor. An
//! export skips damaged places of the log and reports them: `X-Damaged` counts those skipped for this part. It does
//! not read segments whose filter lacks the visitor.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::audit::{Client, VisitorAudit, audited_erasure, audited_export};
use super::erasure_answer::{erasure_json, failed_erasure};
use super::hidden_traits::hidden_traits;
use super::past_decision::{self, ServedSnapshots};
use super::slow_requests::{JobResult, SlowRequests};
use super::visitor_query::{NamedVisitor, VisitorQuery};
use crate::api::{Handler, Outcome, Poll};
use crate::audit::{AuditAction, AuditLog};
use crate::events::export;
use crate::http::params::Param;
use crate::http::request::{Method, Request};
use crate::insights::engine::{JobError, JobOutput};
use crate::limits::EXPORT_PAGE_BYTES_TARGET;
use crate::log::{ErasureSummary, LogItem, ReadableLog};
use crate::metrics::JobCounters;
use crate::problem::{self, Problem};
use crate::record::IdKind;
use crate::site::catalog::catalog::Catalog;
use crate::site::catalog::files::CurrentFiles;
use crate::visitors::erasure::{ClusterErasure, ClusterErasureError, ErasedInCluster, Eraser};
use crate::visitors::live::ProfileReaders;
use crate::visitors::lookup::ProfileReader;
use crate::visitors::ownership::{OwnershipRule, OwnershipSource};
use crate::visitors::refold::{Past, Refolder};

pub(super) const PATH: &str = "/visitors";
pub(super) const EXPORT_PATH: &str = "/visitors/export";
pub(super) const EXPLAIN_PATH: &str = "/visitors/explain";
const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

/// The handler of the visitor endpoints.
pub(crate) struct VisitorHandler {
    lookup: ProfileReader,
    profiles: ProfileReaders,
    /// The snapshot files as of the last scan.
    files: CurrentFiles,
    /// Erases visitors on all nodes. `None` if the server is alone.
    cluster: Option<Arc<dyn ClusterErasure>>,
    eraser: Eraser,
    log: ReadableLog,
    counts: JobCounters,
    audit: AuditLog,
    /// Buffer for parameters with escapes.
    decoded: Vec<u8>,
}

/// The result of an action: a response body, or the slot of the request that waits for a job.
enum ActionResult {
    Json(Json),
    Pending(usize),
}

/// The action that a request asks for.
enum Action {
    Show,
    Erase,
    Export,
    Explain,
}

impl Action {
    fn of<'a>(request: &Request<'_>) -> Result<Self, Problem<'a>> {
        match (request.path, request.method) {
            (PATH, Method::Get | Method::Head) => Ok(Self::Show),
            (PATH, Method::Delete) => Ok(Self::Erase),
            (EXPORT_PATH, Method::Get | Method::Head) => Ok(Self::Export),
            (EXPLAIN_PATH, Method::Get | Method::Head) => Ok(Self::Explain),
            (path, _) => {
                let allow = if path == PATH { "GET, HEAD, DELETE" } else { "GET, HEAD" };
                Err(Problem::method_not_allowed(request.method.subject(), allow))
            }
        }
    }
}

impl Action {
    /// Returns the action of the line in the audit log.
    fn in_audit(&self) -> AuditAction {
        match self {
            Self::Show | Self::Explain => AuditAction::View,
            Self::Erase => AuditAction::Erase,
            Self::Export => AuditAction::Export,
        }
    }
}

impl VisitorHandler {
    /// Creates the handler. `job_counters` counts damage.
    pub(crate) fn new(
        profiles: ProfileReaders,
        eraser: Eraser,
        log: ReadableLog,
        job_counters: JobCounters,
        audit: AuditLog,
    ) -> Self {
        Self {
            lookup: profiles.reader(),
            profiles,
            files: CurrentFiles::default(),
            cluster: None,
            eraser,
            log,
            counts: job_counters,
            audit,
            decoded: Vec::new(),
        }
    }

    /// Explains pages of the past with the snapshots of these files.
    #[must_use]
    pub(super) fn with_files(self, files: CurrentFiles) -> Self {
        Self { files, ..self }
    }

    /// Erases visitors on all nodes of a cluster, if the server is one of them.
    #[must_use]
    pub(crate) fn with_cluster(self, cluster: Option<Arc<dyn ClusterErasure>>) -> Self {
        Self { cluster, ..self }
    }

    /// Returns the reader of the profiles.
    pub(super) fn profiles(&mut self) -> &mut ProfileReader {
        &mut self.lookup
    }

    /// Returns the audit log.
    pub(super) fn audit(&self) -> &AuditLog {
        &self.audit
    }

    /// Returns whether the path is one of the visitor endpoints.
    pub(super) fn matches_path(path: &str) -> bool {
        matches!(path, PATH | EXPORT_PATH | EXPLAIN_PATH)
    }

    /// Answers a request, or starts a job for it.
    pub(super) fn handle(
        &mut self,
        requests: &mut SlowRequests,
        handler: &mut Handler,
        request: &Request<'_>,
        client: &Client,
        out: &mut Vec<u8>,
    ) -> Poll {
        match self.run_action(requests, request, client, handler.catalog()) {
            Ok(ActionResult::Json(output)) => {
                handler.write_text(request, 200, JSON, &output.to_string(), out)
            }
            Ok(ActionResult::Pending(slot)) => return Poll::Pending(slot),
            Err(problem) => return Poll::Ready(handler.reject(request, &problem, out)),
        }
        Poll::Ready(Outcome::default())
    }

    fn run_action<'a>(
        &'a mut self,
        requests: &mut SlowRequests,
        request: &Request<'a>,
        client: &Client,
        catalog: &Catalog,
    ) -> Result<ActionResult, Problem<'a>> {
        let Self { lookup, profiles, files, eraser, log, counts, audit, decoded, cluster } = self;
        let action = Action::of(request)?;
        let query = VisitorQuery::parse(request.query, decoded)?;
        query.check_site(catalog, &eraser.source)?;
        let visitor = query.named_visitor();
        let hidden_traits = hidden_traits(&client.caller, query.site, catalog);
        let audit = VisitorAudit::new(audit, client, action.in_audit(), visitor.id());
        match action {
            Action::Show => {
                audit.record_look("profile")?;
                // The seq is read first, so the profile is of that seq or a later one. In a cluster this holds for the position
                // in the stream, too.
                let seq = log.end().seq;
                let position = cluster.as_deref().map(ClusterErasure::position);
                let mut body = query.profile_json(lookup, catalog, seq);
                if let Some(position) = position {
                    body["position"] = json!(position.to_string());
                }
                hidden_traits.remove_from(&mut body);
                Ok(ActionResult::Json(body))
            }
            Action::Erase => {
                let eraser = eraser.clone();
                let known_ids = query.profile_ids(lookup);
                let has_profile = query.find_profile(&lookup.pin()).is_some();
                let cluster = cluster.clone();
                let erase = move || match cluster {
                    Some(cluster) => erase_in_cluster(&*cluster, &visitor, known_ids, has_profile),
                    None if has_profile => erase_visitor(&eraser, &visitor, known_ids),
                    None => erase_if_known(&eraser, &visitor, known_ids),
                };
                requests.start_job(move || audited_erasure(&audit, erase)).map(ActionResult::Pending)
            }
            Action::Export => {
                let source = eraser.source.clone();
                let since = query.since;
                let last_seq = log.end().seq;
                let counts = counts.clone();
                let export = move || {
                    let output = export_visitor(&source, &visitor, since, last_seq)?;
                    counts.record_damage(output.damaged_places);
                    Ok(output)
                };
                requests.start_job(move || audited_export(&audit, export)).map(ActionResult::Pending)
            }
            Action::Explain => {
                let seq = parse_seq(request.query)?;
                audit.record_look("explain")?;
                let snapshots = ServedSnapshots::of(catalog.by_site_id(query.site), files.load());
                let mut refolder = refolder(eraser, profiles);
                let explain = move || {
                    let mut answer = explain_past(&mut refolder, &snapshots, &visitor, seq)?;
                    hidden_traits.remove_from(&mut answer);
                    Ok(json_output(&answer))
                };
                requests.start_job(explain).map(ActionResult::Pending)
            }
        }
    }
}

fn refolder(eraser: &Eraser, profiles: &ProfileReaders) -> Refolder {
    let Eraser { source, log, .. } = eraser;
    Refolder { source: source.clone(), log: log.clone(), profiles: profiles.reader() }
}

/// Writes the response of a job.
pub(super) fn write_job_output(
    handler: &mut Handler,
    request: &Request<'_>,
    output: &JobOutput,
    out: &mut Vec<u8>,
) {
    let next_since = output.next_since.map(|seq| ("X-Next-Since: ", seq));
    let damaged = (output.damaged_places > 0).then_some(("X-Damaged: ", output.damaged_places));
    let fields: Vec<_> = next_since.into_iter().chain(damaged).collect();
    handler.write_list_page(request, output.content_type, &fields, &output.text, out);
}

/// Returns the records of a visitor after `after_seq` in the format of `export`, up to the size limit of a response.
fn export_visitor(
    source: &OwnershipSource,
    visitor: &NamedVisitor,
    after_seq: u64,
    last_seq: u64,
) -> JobResult {
    let reader = source.reader(after_seq).map_err(unreadable)?;
    let ownership = source.open().map_err(unreadable)?;
    let visitor = ownership.visitor(visitor.id()).map_err(unreadable)?;
    let mut reader = reader.with_durable_seq(last_seq).with_filter(visitor.segment_filter());
    let mut rule = OwnershipRule::new(&ownership, vec![visitor]);
    let mut lines = Vec::new();
    let mut next_since = None;
    let mut damaged_places = 0;
    'all: while let Some(item) = reader.read_next().map_err(unreadable)? {
        let records = match item {
            LogItem::Records(records) => records,
            LogItem::Damage(_) => {
                damaged_places += 1;
                continue;
            }
        };
        for (seq, record) in records.iter() {
            if !rule.exports(seq, &record).map_err(unreadable)? {
                continue;
            }
            if lines.len() >= EXPORT_PAGE_BYTES_TARGET {
                next_since = Some(seq - 1);
                break 'all;
            }
            export::write_line(&mut lines, seq, &record);
        }
    }
    let text = String::from_utf8(lines).unwrap_or_default();
    Ok(JobOutput { content_type: NDJSON, text, next_since, damaged_places })
}

/// Explains the page of a record.
fn explain_past(
    refolder: &mut Refolder,
    snapshots: &ServedSnapshots,
    visitor: &NamedVisitor,
    seq: u64,
) -> Result<Json, JobError> {
    let past = refolder.before(visitor.id(), seq).map_err(unreadable)?;
    let answer = match &past {
        Past::Lost(cut) => past_decision::explain_lost(seq, cut),
        Past::Found(record, cuts) if past_decision::has_decision(record) => {
            past_decision::explain_record(record, cuts.clone(), snapshots, seq)
        }
        Past::Found(..) | Past::Unknown => {
            let detail = format!("The visitor has no page event and no exposure with the seq {seq}.");
            return Err(JobError { kind: problem::INVALID_PARAM, detail });
        }
    };
    Ok(answer)
}

/// Reads the parameter `seq`. Only this endpoint has it.
fn parse_seq<'a>(query: &'a str) -> Result<u64, Problem<'a>> {
    let mut texts = query.split('&').filter_map(|pair| pair.strip_prefix("seq="));
    let text = texts.next().unwrap_or_default();
    if texts.next().is_some() {
        let sentence = "The parameter 'seq' is given twice; give it once.";
        return Err(Problem::new(problem::REPEATED_PARAM, sentence).at("seq"));
    }
    let wrong = Problem::invalid_value(problem::INVALID_PARAM, "the seq of a record", text).at("seq");
    text.parse().ok().filter(|seq| *seq > 0).ok_or(wrong)
}

fn unreadable(error: impl std::fmt::Display) -> JobError {
    JobError { kind: problem::DISK_UNAVAILABLE, detail: error.to_string() }
}

/// Erases a visitor. Returns after nothing of the visitor is left on disk.
fn erase_visitor(eraser: &Eraser, visitor: &NamedVisitor, known_ids: Vec<(IdKind, String)>) -> JobResult {
    let summary = eraser.erase(visitor.id(), known_ids);
    let summary = summary.map_err(|error| failed_erasure(&error))?;
    Ok(json_output(&erasure_json(&summary)))
}

/// Erases a visitor without a profile, unless nothing of the ID is known. A mistyped ID would look erased otherwise.
fn erase_if_known(eraser: &Eraser, visitor: &NamedVisitor, known_ids: Vec<(IdKind, String)>) -> JobResult {
    if eraser.knows(visitor.id()).map_err(|error| failed_erasure(&error))? {
        return erase_visitor(eraser, visitor, known_ids);
    }
    let NamedVisitor { site, id_kind, id } = visitor;
    let name = if *id_kind == IdKind::Anon { Param::AnonId.name() } else { Param::UserId.name() };
    let detail =
        format!("Site '{site}' has no record, profile or tie of {name} '{id}', and no erasure has named it.");
    Err(JobError { kind: problem::VISITOR_NOT_FOUND, detail })
}

/// Erases a visitor on all nodes. Returns after nothing of the visitor is left on the disk of this node.
/// `pending` has the names of the other nodes that have not confirmed it within 10 s.
fn erase_in_cluster(
    cluster: &dyn ClusterErasure,
    visitor: &NamedVisitor,
    known_ids: Vec<(IdKind, String)>,
    has_profile: bool,
) -> JobResult {
    let failed = |error| match error {
        ClusterErasureError::Erasure(error) => failed_erasure(&error),
        error => JobError {
            kind: problem::NODES_UNREACHABLE,
            detail: format!("The visitor is not erased on all nodes: {error}."),
        },
    };
    let erased = match cluster.erase(visitor.id(), known_ids) {
        // A retry: the visitor is erased, and a node that is away has not confirmed it.
        Err(ClusterErasureError::Unreachable(_) | ClusterErasureError::Alone(_))
            if !has_profile && let Some(pending) = cluster.pending(visitor.id()) =>
        {
            ErasedInCluster { summary: ErasureSummary::default(), pending }
        }
        result => result.map_err(failed)?,
    };
    let mut output = erasure_json(&erased.summary);
    output["pending"] = json!(erased.pending);
    Ok(json_output(&output))
}

pub(super) fn json_output(document: &Json) -> JobOutput {
    JobOutput { content_type: JSON, text: document.to_string(), next_since: None, damaged_places: 0 }
}
