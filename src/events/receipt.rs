//! The results of one request's events, and the response body: a receipt, or a problem if no event is valid.
//!
//! The results own their texts. They can wait for the disk while other requests use the body's buffers.

use std::ops::Range;

use super::ignored::IgnoredValues;
use super::refusal::Refusal;
use crate::acknowledgement::{Ack, RecordResult};
use crate::http::problem_document;
use crate::json;
use crate::problem::{self, ProblemKind};

/// The reason why a valid event was dropped on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    Preview,
    NoConsent,
    Bot,
}

impl DropReason {
    /// Returns the name for receipts and for `X-Dropped`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Preview => "preview",
            Self::NoConsent => "no_consent",
            Self::Bot => "bot",
        }
    }
}

/// The outcome for the records of a request.
#[derive(Debug, Clone, Copy)]
pub enum StoreOutcome<'a> {
    /// One result for each record, in order. The last value says whether the next resolve sees the events;
    /// `None` without a cluster, where it always does.
    Stored(&'a [RecordResult], Ack, Option<bool>),
    /// Nothing was stored, because of `dryRun=1`.
    DryRun,
}

/// The results of a request's events, in order.
#[derive(Debug, Default)]
pub struct EventResults {
    is_batch: bool,
    results: Vec<EventResult>,
    /// All message IDs, concatenated.
    message_ids: String,
    /// The optional values that were ignored.
    pub(super) ignored: IgnoredValues,
}

#[derive(Debug)]
struct EventResult {
    message_id: Option<Range<u32>>,
    status: EventStatus,
}

#[derive(Debug)]
enum EventStatus {
    Recorded,
    Dropped(DropReason),
    Rejected(Box<Refusal>),
}

impl EventResults {
    /// Clears the results and reserves space for `event_count` new ones. Reuses the allocations.
    pub(super) fn reset(mut self, is_batch: bool, event_count: usize) -> Self {
        self.results.clear();
        self.results.reserve_exact(event_count);
        self.message_ids.clear();
        self.ignored.clear();
        Self { is_batch, ..self }
    }

    pub(super) fn push_recorded(&mut self, message_id: Option<&str>) {
        self.push(message_id, EventStatus::Recorded);
    }

    pub(super) fn push_dropped(&mut self, message_id: Option<&str>, reason: DropReason) {
        self.push(message_id, EventStatus::Dropped(reason));
    }

    pub(super) fn push_rejected(&mut self, message_id: Option<&str>, refusal: Refusal) {
        self.push(message_id, EventStatus::Rejected(Box::new(refusal)));
    }

    fn push(&mut self, message_id: Option<&str>, status: EventStatus) {
        let id = message_id.map(|id| {
            let start = self.message_ids.len() as u32;
            self.message_ids.push_str(id);
            start..self.message_ids.len() as u32
        });
        self.results.push(EventResult { message_id: id, status });
    }

    /// Returns the number of events to be recorded.
    pub fn recorded_count(&self) -> usize {
        self.count(|result| matches!(result, EventStatus::Recorded))
    }

    /// Returns the number of optional values that were ignored.
    pub fn ignored_count(&self) -> usize {
        self.ignored.count()
    }

    /// Returns the number of events whose user ID is not verified, recorded or not.
    pub fn unverified_users_count(&self) -> usize {
        self.ignored.unverified_users()
    }

    /// Returns the number of events dropped for this reason.
    pub fn dropped_count(&self, reason: DropReason) -> usize {
        self.count(|result| matches!(result, EventStatus::Dropped(own) if *own == reason))
    }

    /// Iterates over the refusals in order.
    pub fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        self.results.iter().filter_map(|fate| match &fate.status {
            EventStatus::Rejected(refusal) => Some(&**refusal),
            _ => None,
        })
    }

    /// Returns the approximate memory use, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let fates = self.results.capacity() * size_of::<EventResult>();
        let texts = self.message_ids.capacity() + self.ignored.memory_bytes();
        fates + texts + self.refusals().map(Refusal::memory_bytes).sum::<usize>()
    }

    fn count(&self, matches: impl Fn(&EventStatus) -> bool) -> usize {
        self.results.iter().filter(|fate| matches(&fate.status)).count()
    }

    /// Returns whether nothing was dropped, rejected or ignored, so that `Prefer: return=minimal` needs no receipt.
    pub fn are_all_recorded(&self) -> bool {
        self.recorded_count() == self.results.len() && self.ignored.is_empty()
    }

    /// Returns the reason why a single event was dropped, for `X-Dropped`. It is `None` for a batch.
    pub fn single_drop_reason(&self) -> Option<DropReason> {
        match self.results[..] {
            [EventResult { status: EventStatus::Dropped(reason), .. }] if !self.is_batch => Some(reason),
            _ => None,
        }
    }

    /// Returns the rejection if the whole request is rejected: a single invalid event, or a batch without a
    /// valid event. An empty batch is not rejected.
    pub fn problem(&self) -> Option<RejectedRequest<'_>> {
        let first = self.refusals().next()?;
        match self.is_batch {
            false => Some(RejectedRequest::Event(first)),
            true if self.refusals().count() == self.results.len() => Some(RejectedRequest::Batch(self)),
            true => None,
        }
    }

    /// Appends the receipt.
    ///
    /// # Panics
    /// If there are fewer results than records.
    pub fn write_receipt(&self, outcome: StoreOutcome<'_>, out: &mut Vec<u8>) {
        let (mut answers, durable, visible) = match outcome {
            StoreOutcome::Stored(answers, durable, visible) => (answers.iter(), Some(durable), visible),
            StoreOutcome::DryRun => ([].iter(), None, None),
        };
        let duplicates = answers.clone().filter(|answer| **answer == RecordResult::Duplicate).count();
        // An event of a cluster has a seq as soon as the stream has returned it.
        let seq = answers.clone().rev().filter(|_| visible != Some(false)).find_map(|answer| match answer {
            RecordResult::Accepted(seq) => Some(*seq),
            RecordResult::Duplicate => None,
        });
        let rejected = self.refusals().count();
        let recorded = self.recorded_count();
        for (name, count) in [
            (&b"{\"accepted\":"[..], recorded - duplicates),
            (b",\"duplicates\":", duplicates),
            (b",\"dropped\":", self.results.len() - recorded - rejected),
            (b",\"rejected\":", rejected),
        ] {
            out.extend_from_slice(name);
            json::write_number(out, count);
        }
        write_durability(out, durable, seq);
        if let Some(visible) = visible {
            out.extend_from_slice(if visible { b",\"visible\":true" } else { b",\"visible\":false" });
        }
        out.extend_from_slice(b",\"results\":[");
        let is_duplicate = |result: &EventStatus| {
            matches!(result, EventStatus::Recorded)
                && durable.is_some()
                && *answers.next().expect("one result for each record") == RecordResult::Duplicate
        };
        self.write_results(out, is_duplicate);
        out.push(b']');
        self.ignored.write_member(out);
        out.push(b'}');
    }

    /// Appends a result for each event that was dropped or rejected or is a duplicate.
    fn write_results(&self, out: &mut Vec<u8>, mut is_duplicate: impl FnMut(&EventStatus) -> bool) {
        let mut is_first = true;
        for (index, fate) in self.results.iter().enumerate() {
            let is_duplicate = is_duplicate(&fate.status);
            if matches!(fate.status, EventStatus::Recorded) && !is_duplicate {
                continue;
            }
            if !is_first {
                out.push(b',');
            }
            is_first = false;
            self.write_result(out, index, fate);
        }
    }

    /// Appends the result of an event that was not accepted.
    fn write_result(&self, out: &mut Vec<u8>, index: usize, result: &EventResult) {
        out.extend_from_slice(b"{\"index\":");
        json::write_number(out, index);
        out.extend_from_slice(b",\"messageId\":");
        match &result.message_id {
            Some(id) => json::write_string(out, &self.message_ids[id.start as usize..id.end as usize]),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"status\":");
        match &result.status {
            EventStatus::Recorded => out.extend_from_slice(b"\"duplicate\""),
            EventStatus::Dropped(reason) => {
                out.extend_from_slice(b"\"dropped\",\"reason\":");
                json::write_string(out, reason.name());
            }
            EventStatus::Rejected(refusal) => {
                out.extend_from_slice(b"\"rejected\",");
                refusal.write_members(out);
            }
        }
        out.push(b'}');
    }
}

fn write_durability(out: &mut Vec<u8>, ack: Option<Ack>, seq: Option<u64>) {
    out.extend_from_slice(match ack {
        Some(Ack::Disk) => b",\"durable\":\"disk\",\"seq\":",
        Some(Ack::Written) => b",\"durable\":\"written\",\"seq\":",
        None => b",\"durable\":null,\"seq\":",
    });
    match seq {
        Some(seq) => {
            out.push(b'"');
            json::write_number(out, seq);
            out.push(b'"');
        }
        None => out.extend_from_slice(b"null"),
    }
}

/// A request that is rejected as a whole.
#[derive(Debug, Clone, Copy)]
pub enum RejectedRequest<'a> {
    /// An invalid single event or an invalid body.
    Event(&'a Refusal),
    /// A batch without a valid event.
    Batch(&'a EventResults),
}

impl RejectedRequest<'_> {
    /// Returns the row in the table of problems, which has the status. For a batch the status is always 400.
    pub fn kind(&self) -> &'static ProblemKind {
        match self {
            Self::Event(refusal) => refusal.kind,
            Self::Batch(_) => problem::INVALID_EVENT,
        }
    }

    /// Appends the problem document (RFC 9457). Omits `requestId` if there is no request ID.
    pub fn write_problem(&self, request_id: Option<&str>, out: &mut Vec<u8>) {
        let kind = self.kind();
        problem_document::write_kind(out, kind);
        out.push(b',');
        match self {
            Self::Event(refusal) => refusal.write_members(out),
            Self::Batch(fates) => {
                out.extend_from_slice(b"\"code\":\"invalid_event\",\"pointer\":\"/batch\",");
                out.extend_from_slice(b"\"detail\":\"No event of the batch is valid.\",\"errors\":[");
                fates.write_results(out, |_| false);
                out.push(b']');
            }
        }
        problem_document::write_end(out, request_id.map(str::as_bytes));
    }
}
