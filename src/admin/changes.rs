//! `POST /insights/changes`: the changes that a snapshot would make if it replaced the served version of its site, with the numbers of
//! enrolled IDs and of known visitors that they concern.
//!
//! The client names a file of the snapshots directory, or sends a snapshot. A snapshot can be larger than the body of a request. So a
//! client sends it in parts, one after another. The server has at most one incomplete file. It opens the complete one with the checks of
//! a published one, and serves it to nobody. A job opens it and counts.

use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::query::{RequestError, single_param};
use crate::clock;
use crate::events::time;
use crate::insights::QuestionError;
use crate::insights::engine::{JobError, JobOutput};
use crate::problem;
use crate::resolve::change_count::ChangeCount;
use crate::site::catalog::accepted::AcceptedTrackingIds;
use crate::site::catalog::catalog::Catalog;
use crate::site::catalog::files::{FileList, FileStatus};
use crate::site::comparison::compare;
use crate::site::snapshot::open::{Reservation, Snapshot, SnapshotBudget, SnapshotError};
use crate::site::snapshot::sealed::announced_bytes;
use crate::visitors::lookup::ProfileReader;

pub(super) const PATH: &str = "/insights/changes";
/// The offset in the file of the part that a request has.
const OFFSET: &str = "offset";
/// The name of the file of the snapshots directory that is compared. Such a request has no body.
const FILE: &str = "file";
/// The time at which the versions are compared.
const AT: &str = "at";

/// Time limit of a job, in seconds. The time depends on the number of entries of the table, and on the changed zones and their
/// rules. Beyond it the answer is 503.
pub(crate) const JOB_SECONDS_MAX: u64 = 60;
/// Time after the last part in which the next one must arrive. Then the server frees the memory of the incomplete file.
pub const PART_TIMEOUT: Duration = Duration::from_secs(60);

/// The rules by which the server accepts a snapshot.
#[derive(Clone)]
pub struct SnapshotRules {
    /// The memory for snapshots. Those that are compared count too.
    pub budget: SnapshotBudget,
    pub accepted: AcceptedTrackingIds,
}

/// The receiver of snapshots that are compared.
pub struct ChangesReceiver {
    rules: SnapshotRules,
    incomplete: Option<IncompleteFile>,
}

/// A file of which some parts have arrived.
struct IncompleteFile {
    site: String,
    bytes: Vec<u8>,
    /// Its size according to its header.
    file_bytes: usize,
    last_part_at: Instant,
    /// The reservation for `bytes`.
    _reservation: Reservation,
}

/// The parameters of a request.
pub struct ChangesRequest {
    site: String,
    offset: usize,
    /// The name of a listed file. `None` if the body is a part of a snapshot.
    file: Option<String>,
    now_ms: i64,
}

/// The state of a file after a part.
pub enum Received {
    /// The JSON text that says how much of the file has arrived.
    Part(String),
    Complete(CompleteFile),
}

/// A complete file.
pub struct CompleteFile(IncompleteFile);

/// A snapshot that is compared with the served one.
pub(super) enum ComparedContent {
    Sent(CompleteFile),
    /// The content of a file of the snapshots directory. The server has opened it with the checks of a published one.
    Listed(Arc<Snapshot>),
}

impl ChangesRequest {
    /// Parses the parameters. Without a time, the versions are compared now.
    ///
    /// # Errors
    /// A parameter is given twice or has a wrong value.
    pub fn parse(site: &str, pairs: &[(String, String)]) -> Result<Self, QuestionError> {
        let offset = single_param(pairs, OFFSET)?.unwrap_or("0");
        let expected = "the offset of the part in the file, in bytes";
        let offset = offset.parse().map_err(|_| QuestionError::invalid(OFFSET, expected, offset))?;
        let now_ms = match single_param(pairs, AT)? {
            Some(text) => time::parse_instant(text)
                .ok_or_else(|| QuestionError::invalid(AT, "a time such as 2026-12-24T18:00:00Z", text))?,
            None => clock::now_ms(),
        };
        let file = single_param(pairs, FILE)?.map(str::to_owned);
        Ok(Self { site: site.to_owned(), offset, file, now_ms })
    }

    /// Returns the snapshot in the listed file that the request names. `None` if the request names no file.
    ///
    /// # Errors
    /// The list does not have the file, the server could not open it, or the request also has a part of a snapshot.
    pub(super) fn find_listed(
        &self,
        part: &[u8],
        list: &FileList,
    ) -> Result<Option<Arc<Snapshot>>, RequestError<'static>> {
        let Some(name) = &self.file else { return Ok(None) };
        let wrong = |expected| RequestError::Question(QuestionError::invalid(FILE, expected, name));
        if !part.is_empty() || self.offset > 0 {
            return Err(wrong("no body and no 'offset' beside the name of a file"));
        }
        // A client may have no access to the site of another file.
        let of_site = |file: &&FileStatus| file.site.as_ref().is_none_or(|(site, _)| *site == self.site);
        let expected = "the name of a snapshot file of the site that GET /sites lists";
        let file = list.find(name).filter(of_site).ok_or_else(|| wrong(expected))?;
        let reason = || file.reason.as_deref().unwrap_or("the file cannot be read");
        file.snapshot.clone().map(Some).ok_or_else(|| RequestError::Job(not_served(reason())))
    }
}

impl ChangesReceiver {
    pub fn new(rules: SnapshotRules) -> Self {
        Self { rules, incomplete: None }
    }

    /// Frees the memory of a file whose next part has not arrived in time.
    pub fn tick(&mut self, now: Instant) {
        self.incomplete = self.incomplete.take().filter(|file| now - file.last_part_at <= PART_TIMEOUT);
    }

    /// Adds a part of the file. A part at offset 0 begins another file.
    ///
    /// # Errors
    /// The part begins no snapshot, it is not the next one, or there is no memory for the file.
    pub fn receive(
        &mut self,
        request: &ChangesRequest,
        part: &[u8],
        now: Instant,
    ) -> Result<Received, JobError> {
        let incomplete = self.incomplete.take();
        let mut file = if request.offset == 0 {
            // The budget may not have memory for both files.
            drop(incomplete);
            self.begin(&request.site, part, now)?
        } else {
            let is_next =
                |file: &IncompleteFile| file.site == request.site && file.bytes.len() == request.offset;
            match incomplete {
                Some(file) if is_next(&file) => file,
                other => {
                    self.incomplete = other;
                    return Err(lost_part());
                }
            }
        };
        if part.len() > file.file_bytes - file.bytes.len() {
            let error = SnapshotError::Damaged("the file is longer than its header says");
            return Err(refused(&error));
        }
        file.bytes.extend_from_slice(part);
        file.last_part_at = now;
        if file.bytes.len() == file.file_bytes {
            return Ok(Received::Complete(CompleteFile(file)));
        }
        let text = json!({ "received": file.bytes.len(), "bytes": file.file_bytes }).to_string();
        self.incomplete = Some(file);
        Ok(Received::Part(text))
    }

    fn begin(&self, site: &str, part: &[u8], now: Instant) -> Result<IncompleteFile, JobError> {
        let file_bytes = announced_bytes(part).map_err(|error| refused(&error))?;
        let reservation = self.rules.budget.reserve(file_bytes).map_err(|error| refused(&error))?;
        let site = site.to_owned();
        let file_bytes = file_bytes as usize;
        // The memory grows with the parts that arrive.
        Ok(IncompleteFile {
            site,
            bytes: Vec::new(),
            file_bytes,
            last_part_at: now,
            _reservation: reservation,
        })
    }

    /// Returns the job that compares a snapshot with the served version of its site.
    pub(super) fn job(
        &self,
        content: ComparedContent,
        request: &ChangesRequest,
        catalog: &Catalog,
        profiles: ProfileReader,
    ) -> ComparisonJob {
        let before = catalog.by_site_id(&request.site).map(|published| published.snapshot());
        let tracking_ids = catalog.sites().iter().filter(|other| *other.site().site != *request.site);
        let tracking_ids = tracking_ids.map(|other| other.site().tracking_id.as_str().to_owned());
        ComparisonJob {
            site: request.site.clone(),
            content,
            before,
            other_tracking_ids: tracking_ids.collect(),
            rules: self.rules.clone(),
            now_ms: request.now_ms,
            profiles,
        }
    }
}

impl ComparedContent {
    /// Opens the snapshot with the checks of a published one. Afterwards the memory of a sent file is that of the snapshot alone.
    ///
    /// # Errors
    /// The server would not serve the snapshot.
    fn open(self, rules: &SnapshotRules) -> Result<Arc<Snapshot>, JobError> {
        match self {
            Self::Sent(CompleteFile(file)) => {
                let snapshot = Snapshot::open_bytes(&file.bytes, &rules.budget);
                let snapshot = snapshot.and_then(|snapshot| rules.accepted.check(snapshot));
                snapshot.map(Arc::new).map_err(|error| refused(&error))
            }
            Self::Listed(snapshot) => Ok(snapshot),
        }
    }
}

/// A job that compares a snapshot with the served version of its site.
pub(super) struct ComparisonJob {
    /// The ID of the site in the request.
    site: String,
    content: ComparedContent,
    /// `None` if the site is not published.
    before: Option<Arc<Snapshot>>,
    /// The tracking IDs of the other published sites.
    other_tracking_ids: Vec<String>,
    rules: SnapshotRules,
    now_ms: i64,
    profiles: ProfileReader,
}

impl ComparisonJob {
    /// Compares the versions and counts.
    ///
    /// # Errors
    /// The server would not serve the snapshot, or the count takes too long.
    pub(super) fn run(self) -> Result<JobOutput, JobError> {
        let Self { site, content, before, other_tracking_ids, rules, now_ms, mut profiles } = self;
        let deadline = clock::instant() + Duration::from_secs(JOB_SECONDS_MAX);
        let after = content.open(&rules)?;
        check_site(&after, &site, &other_tracking_ids)?;
        let before = before.as_deref();
        let comparison = compare(before.map(Snapshot::site), after.site(), now_ms);
        let mut count = ChangeCount::new(before, &after, comparison);
        let mut is_late = false;
        let mut next_shard = Some(0);
        while let Some(first_shard) = next_shard {
            next_shard = profiles.read_slice(first_shard, &mut |pinned, shard_index| {
                is_late = clock::instant() > deadline;
                if is_late { None } else { count.add_shard(pinned, shard_index) }
            });
        }
        if is_late {
            let detail = format!(
                "The comparison takes more than {JOB_SECONDS_MAX} s; count with `parallax lint --against --data` instead."
            );
            return Err(JobError { kind: problem::OVERLOADED, detail });
        }
        let version = |snapshot: &Snapshot| snapshot.version().to_string();
        let mut document = count.finish().to_json();
        document["site"] = json!(after.site().site.get());
        document["version"] = json!(version(&after));
        document["against"] = json!({ "version": before.map(version) });
        Ok(JobOutput {
            content_type: "application/json",
            text: document.to_string(),
            next_since: None,
            damaged_places: 0,
        })
    }
}

/// Checks that a snapshot has this site ID, and a tracking ID that no other published site has.
fn check_site(snapshot: &Snapshot, site: &str, other_tracking_ids: &[String]) -> Result<(), JobError> {
    let invalid = |detail| Err(JobError { kind: problem::INVALID_SNAPSHOT, detail });
    let actual = snapshot.site().site.get();
    if actual != site {
        return invalid(format!("The snapshot has site {actual}, and the parameter 'site' is {site}."));
    }
    let tracking_id = snapshot.site().tracking_id.as_str();
    if other_tracking_ids.iter().any(|other| other == tracking_id) {
        return invalid(format!(
            "The tracking ID {tracking_id} belongs to another site; change one of them."
        ));
    }
    Ok(())
}

fn refused(error: &SnapshotError) -> JobError {
    match error {
        SnapshotError::BudgetExceeded { .. } | SnapshotError::Unreadable(_) => {
            JobError { kind: problem::OVERLOADED, ..not_served(error) }
        }
        _ => not_served(error),
    }
}

fn not_served(reason: impl Display) -> JobError {
    let detail = format!("The server would not serve the snapshot: {reason}.");
    JobError { kind: problem::INVALID_SNAPSHOT, detail }
}

fn lost_part() -> JobError {
    let detail = "The server does not have the parts before this one; send the file again from offset 0.";
    JobError { kind: problem::INVALID_SNAPSHOT, detail: detail.to_owned() }
}
