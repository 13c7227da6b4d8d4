//! What became of the events of one request, and how it is answered: a receipt, or a problem where nothing is valid.
//!
//! [`Fates`] own their texts, so that they can wait for the disk while the body's buffers serve others.

use std::ops::Range;

use super::refusal::Refusal;
use crate::json;
use crate::problem::{self, Kind};

/// Why a valid event is not recorded, on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Preview,
    NoConsent,
    Bot,
}

impl Reason {
    /// As a receipt and `X-Dropped` say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Preview => "preview",
            Self::NoConsent => "no_consent",
            Self::Bot => "bot",
        }
    }
}

/// What the log says of a record that was handed to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It has this number.
    Accepted(u64),
    /// It was there before, or earlier in the same batch.
    Duplicate,
}

/// How safe accepted events are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durable {
    Disk,
    Written,
}

/// What was done with the records.
#[derive(Debug, Clone, Copy)]
pub enum Stored<'a> {
    /// One answer for each record, in order.
    Answered(&'a [Answer], Durable),
    /// Nothing, as `dryRun=1` asks.
    Nothing,
}

/// The fates of a request's events, in their order.
#[derive(Debug, Default)]
pub struct Fates {
    is_batch: bool,
    fates: Vec<Fate>,
    /// All message IDs, one behind the other.
    ids: String,
}

#[derive(Debug)]
struct Fate {
    id: Option<Range<u32>>,
    verdict: Verdict,
}

#[derive(Debug)]
enum Verdict {
    Recorded,
    Dropped(Reason),
    Rejected(Box<Refusal>),
}

impl Fates {
    /// No fates yet, in the room of `self`, which has to do for those of so many events.
    pub(super) fn begin(mut self, is_batch: bool, events: usize) -> Self {
        self.fates.clear();
        self.fates.reserve_exact(events);
        self.ids.clear();
        Self { is_batch, ..self }
    }

    pub(super) fn record(&mut self, message_id: Option<&str>) {
        self.push(message_id, Verdict::Recorded);
    }

    pub(super) fn drop(&mut self, message_id: Option<&str>, reason: Reason) {
        self.push(message_id, Verdict::Dropped(reason));
    }

    pub(super) fn reject(&mut self, message_id: Option<&str>, refusal: Refusal) {
        self.push(message_id, Verdict::Rejected(Box::new(refusal)));
    }

    fn push(&mut self, message_id: Option<&str>, verdict: Verdict) {
        let id = message_id.map(|id| {
            let start = self.ids.len() as u32;
            self.ids.push_str(id);
            start..self.ids.len() as u32
        });
        self.fates.push(Fate { id, verdict });
    }

    /// How many events are to be recorded.
    pub fn recorded(&self) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::Recorded))
    }

    /// How many were dropped for this reason.
    pub fn dropped(&self, reason: Reason) -> usize {
        self.count(|verdict| matches!(verdict, Verdict::Dropped(own) if *own == reason))
    }

    /// The refusals, in order.
    pub fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        self.fates.iter().filter_map(|fate| match &fate.verdict {
            Verdict::Rejected(refusal) => Some(&**refusal),
            _ => None,
        })
    }

    /// What they hold in memory, about.
    pub fn bytes(&self) -> usize {
        let fates = self.fates.capacity() * size_of::<Fate>();
        fates + self.ids.capacity() + self.refusals().map(Refusal::bytes).sum::<usize>()
    }

    fn count(&self, is: impl Fn(&Verdict) -> bool) -> usize {
        self.fates.iter().filter(|fate| is(&fate.verdict)).count()
    }

    /// Whether nothing was dropped or rejected, so that `Prefer: return=minimal` needs no receipt.
    pub fn is_complete(&self) -> bool {
        self.recorded() == self.fates.len()
    }

    /// Why a single event was dropped, for `X-Dropped`.
    pub fn single_drop(&self) -> Option<Reason> {
        match self.fates[..] {
            [Fate { verdict: Verdict::Dropped(reason), .. }] if !self.is_batch => Some(reason),
            _ => None,
        }
    }

    /// What is refused as a whole, if it is: a single event that is invalid, or a batch in which none is valid. An empty batch
    /// has nothing invalid.
    pub fn problem(&self) -> Option<Refused<'_>> {
        let first = self.refusals().next()?;
        match self.is_batch {
            false => Some(Refused::Event(first)),
            true if self.refusals().count() == self.fates.len() => Some(Refused::Batch(self)),
            true => None,
        }
    }

    /// Appends the receipt.
    ///
    /// # Panics
    /// Where there are fewer answers than events that are to be recorded.
    pub fn receipt(&self, stored: Stored<'_>, out: &mut Vec<u8>) {
        let (mut answers, durable) = match stored {
            Stored::Answered(answers, durable) => (answers.iter(), Some(durable)),
            Stored::Nothing => ([].iter(), None),
        };
        let duplicates = answers.clone().filter(|answer| **answer == Answer::Duplicate).count();
        let seq = answers.clone().rev().find_map(|answer| match answer {
            Answer::Accepted(seq) => Some(*seq),
            Answer::Duplicate => None,
        });
        let rejected = self.refusals().count();
        let recorded = self.recorded();
        for (name, count) in [
            (&b"{\"accepted\":"[..], recorded - duplicates),
            (b",\"duplicates\":", duplicates),
            (b",\"dropped\":", self.fates.len() - recorded - rejected),
            (b",\"rejected\":", rejected),
        ] {
            out.extend_from_slice(name);
            json::number(out, count);
        }
        write_state(out, durable, seq);
        out.extend_from_slice(b",\"results\":[");
        let is_duplicate = |verdict: &Verdict| {
            matches!(verdict, Verdict::Recorded)
                && durable.is_some()
                && *answers.next().expect("an answer for each record") == Answer::Duplicate
        };
        self.write_results(out, is_duplicate);
        out.extend_from_slice(b"]}");
    }

    /// Appends a result for each event that was dropped, rejected, or is a duplicate.
    fn write_results(&self, out: &mut Vec<u8>, mut is_duplicate: impl FnMut(&Verdict) -> bool) {
        let mut is_first = true;
        for (index, fate) in self.fates.iter().enumerate() {
            let is_duplicate = is_duplicate(&fate.verdict);
            if matches!(fate.verdict, Verdict::Recorded) && !is_duplicate {
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
    fn write_result(&self, out: &mut Vec<u8>, index: usize, fate: &Fate) {
        out.extend_from_slice(b"{\"index\":");
        json::number(out, index);
        out.extend_from_slice(b",\"messageId\":");
        match &fate.id {
            Some(id) => json::string(out, &self.ids[id.start as usize..id.end as usize]),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"status\":");
        match &fate.verdict {
            Verdict::Recorded => out.extend_from_slice(b"\"duplicate\""),
            Verdict::Dropped(reason) => {
                out.extend_from_slice(b"\"dropped\",\"reason\":");
                json::string(out, reason.name());
            }
            Verdict::Rejected(refusal) => {
                out.extend_from_slice(b"\"rejected\",");
                refusal.write_members(out);
            }
        }
        out.push(b'}');
    }
}

fn write_state(out: &mut Vec<u8>, durable: Option<Durable>, seq: Option<u64>) {
    out.extend_from_slice(match durable {
        Some(Durable::Disk) => b",\"durable\":\"disk\",\"seq\":",
        Some(Durable::Written) => b",\"durable\":\"written\",\"seq\":",
        None => b",\"durable\":null,\"seq\":",
    });
    match seq {
        Some(seq) => {
            out.push(b'"');
            json::number(out, seq);
            out.push(b'"');
        }
        None => out.extend_from_slice(b"null"),
    }
}

/// A request that is refused as a whole.
#[derive(Debug, Clone, Copy)]
pub enum Refused<'a> {
    /// A single event, or a body that is none.
    Event(&'a Refusal),
    /// A batch of invalid events.
    Batch(&'a Fates),
}

impl Refused<'_> {
    /// Its row in the table of problems, with the status. A batch's is 400 whatever is wrong with its events.
    pub fn kind(&self) -> &'static Kind {
        match self {
            Self::Event(refusal) => refusal.kind,
            Self::Batch(_) => problem::INVALID_EVENT,
        }
    }

    /// Appends the problem (RFC 9457), without its request ID where there is none.
    pub fn write(&self, request_id: Option<&str>, out: &mut Vec<u8>) {
        let kind = self.kind();
        out.extend_from_slice(b"{\"type\":\"https://parallax.dev/problems/");
        out.extend_from_slice(kind.code.as_bytes());
        out.extend_from_slice(b"\",\"title\":");
        json::string(out, kind.title);
        out.extend_from_slice(b",\"status\":");
        json::number(out, kind.status);
        out.push(b',');
        match self {
            Self::Event(refusal) => refusal.write_members(out),
            Self::Batch(fates) => {
                out.extend_from_slice(b"\"code\":\"invalid_event\",\"pointer\":\"/batch\",");
                out.extend_from_slice(b"\"detail\":\"Expected a batch with a valid event.\",\"errors\":[");
                fates.write_results(out, |_| false);
                out.push(b']');
            }
        }
        if let Some(id) = request_id {
            out.extend_from_slice(b",\"requestId\":");
            json::string(out, id);
        }
        out.push(b'}');
    }
}
