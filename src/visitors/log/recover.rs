//! From a folder as a crash may have left it to one that can be written to.
//!
//! Nothing is ever appended to a segment of an earlier process. Whole batches above the watermark may
//! have been acknowledged, but nothing proves that they are durable, and syncing their file would
//! prove nothing either: a sync that failed before may have marked their pages clean. So they are written anew
//! into the segment that recovery begins, which voids where they stood.
//!
//! Then tails that are torn or void are kept aside, and what is not counted any more is cut, so that the
//! next start has nothing to say about them.

use std::collections::VecDeque;
use std::ops::Range;

use super::active_segment::Active;
use super::dedup::Duplicates;
use super::directory::{Directory, segment_name};
use super::erase::{self, Erased, Resumed};
use super::format::Batch;
use super::record::key_and_time;
use super::verify::{Finding, Flaw, Passage, Place, Survey, Walk, finding};
use super::{Follower, LogError, Options, Reach};
use crate::clock::Clock;
use crate::limits::{FINDINGS_MAX, SEQ_MAX};

/// What recovery found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Segments that count.
    pub segments: usize,
    /// Records that were handed over.
    pub records: u64,
    /// Of these, the ones above the watermark, which were written anew.
    pub moved: u64,
    /// The next record gets this seq.
    pub next_seq: u64,
    /// What is wrong, at most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// How many more there are.
    pub findings_left_out: u64,
    /// How many of all are more than what crashes leave.
    pub damaged: u64,
    /// The files to which tails were cut.
    pub kept_aside: Vec<String>,
    /// An erasure that was under way, and is finished.
    pub finished: Option<Erased>,
}

impl Report {
    /// Whether there is more wrong than what crashes leave.
    pub fn is_loud(&self) -> bool {
        self.damaged > 0
    }

    fn find(&mut self, finding: Finding) {
        self.damaged += u64::from(finding.flaw.is_loud());
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.findings_left_out += 1;
        }
    }
}

/// A segment that is not written to any more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closed {
    pub(super) first_seq: u64,
    /// Of its file.
    pub(super) bytes: u64,
    /// The newest received time; milliseconds. `None` without records.
    pub(super) newest_ms: Option<i64>,
}

/// What the writer goes on from.
pub(super) struct Recovered {
    pub(super) active: Active,
    pub(super) closed: VecDeque<Closed>,
    pub(super) duplicates: Duplicates,
    pub(super) report: Report,
}

/// Reads the folder, hands over what it holds, and makes it ready.
pub(super) fn recover(
    directory: &Directory,
    options: &Options,
    clock: &dyn Clock,
    follower: &mut dyn Follower,
) -> Result<Recovered, LogError> {
    let failed = |error| LogError::io(&directory.path(""), error);
    directory.clear().map_err(failed)?;
    let mut survey = Survey::of(directory)?;
    // A checkpoint proves what it holds, too.
    survey.proven = survey.proven.max(options.folded_seq);
    if survey.proven >= SEQ_MAX {
        return Err(LogError::NoSeqLeft { folder: directory.path(""), seq: survey.proven });
    }
    for place in survey.let_go.iter_mut().chain(&mut survey.places) {
        name_rightly(directory, place)?;
    }
    for place in &survey.let_go {
        directory.remove(place.named_seq).map_err(failed)?;
    }
    let mut recovery = Recovery::new(directory, options, survey.proven);
    survey.findings.into_iter().for_each(|finding| recovery.report.find(finding));
    recovery.is_erasing = directory.is_erasing().map_err(failed)?;
    recovery.resume_erasing(&survey.places)?;
    for (done, place) in survey.places.iter().enumerate() {
        follower.recovering(done, survey.places.len());
        let failed = |error| LogError::io(&directory.path(&place.name()), error);
        let walk = Walk::new(directory, place, survey.proven).map_err(failed)?;
        recovery.segment(place, walk, follower).map_err(failed)?;
    }
    recovery.report.segments = survey.places.len();
    follower.recovering(survey.places.len(), survey.places.len());
    recovery.finish(clock).map_err(failed)
}

/// Gives a segment the name of its first seq: nothing is to be deleted or replaced under the name of another.
fn name_rightly(directory: &Directory, place: &mut Place) -> Result<(), LogError> {
    if place.named_seq == place.first_seq {
        return Ok(());
    }
    let failed = |error| LogError::io(&directory.path(&place.name()), error);
    if directory.segments().map_err(failed)?.contains(&place.first_seq) {
        let file = directory.path(&place.name());
        return Err(LogError::Misnamed { file, first_seq: place.first_seq });
    }
    directory.rename(&place.name(), &segment_name(place.first_seq)).map_err(failed)?;
    place.named_seq = place.first_seq;
    Ok(())
}

/// What the folder holds: above the watermark as far as whole batches follow each other.
pub(super) fn reach(directory: &Directory) -> Result<Reach, LogError> {
    let survey = Survey::of(directory)?;
    let mut last = survey.proven;
    if let Some(place) = survey.places.last() {
        let failed = |error| LogError::io(&directory.path(&place.name()), error);
        let mut walk = Walk::new(directory, place, survey.proven).map_err(failed)?;
        // What was sealed is below the watermark.
        while walk.footer().is_none()
            && let Some(passage) = walk.next().map_err(failed)?
        {
            if let Passage::Batch { batch, .. } = passage {
                last = last.max(batch.records.seqs().end - 1);
            }
        }
    }
    let first = survey.places.first().map_or(last + 1, |place| place.first_seq);
    Ok(Reach { first, last })
}

struct Recovery<'a> {
    directory: &'a Directory,
    is_erasing: bool,
    proven: u64,
    folded_seq: u64,
    /// Of the segment that is begun.
    reserve_until: u64,
    duplicates: Duplicates,
    closed: VecDeque<Closed>,
    /// Whole batches above the watermark.
    tail: Vec<u8>,
    cuts: Vec<Cut>,
    report: Report,
}

/// What is to be cut from a segment.
struct Cut {
    named_seq: u64,
    /// Where.
    at: u64,
    /// What of it is to be kept aside: it was not moved.
    rest: Option<Range<u64>>,
}

impl<'a> Recovery<'a> {
    fn new(directory: &'a Directory, options: &Options, proven: u64) -> Self {
        Self {
            directory,
            is_erasing: false,
            proven,
            folded_seq: options.folded_seq,
            reserve_until: options.reserve_until(),
            duplicates: Duplicates::new(options.duplicates_max, options.seed),
            closed: VecDeque::new(),
            tail: Vec::new(),
            cuts: Vec::new(),
            report: Report::default(),
        }
    }

    /// Finishes the erasure that was under way, before anything of it is handed over.
    fn resume_erasing(&mut self, places: &[Place]) -> Result<(), LogError> {
        if !self.is_erasing {
            return Ok(());
        }
        match erase::resume(self.directory, places)? {
            Resumed::Nothing => {}
            Resumed::Finished(erased) => self.report.finished = Some(erased),
            Resumed::NobodyKnows => {
                self.is_erasing = false;
                self.report.find(finding("secret", 0, 0, Flaw::Secret, 0..0));
            }
        }
        Ok(())
    }

    fn segment(&mut self, place: &Place, mut walk: Walk, follower: &mut dyn Follower) -> std::io::Result<()> {
        let mut closed = Closed { first_seq: place.first_seq, bytes: walk.bytes(), newest_ms: None };
        let is_sealed = walk.footer().is_some();
        if let Some(footer) = walk.footer().filter(|footer| footer.last_seq <= self.folded_seq) {
            for &(key, received_ms) in &footer.keys {
                self.duplicates.seen(key, received_ms);
            }
            closed.newest_ms = Some(footer.newest_ms);
            self.closed.push_back(closed);
            return Ok(());
        }
        let (mut moved_at, mut rest) = (None, None);
        let footer_end = is_sealed.then(|| walk.bytes());
        while let Some(passage) = walk.next()? {
            match passage {
                Passage::Batch { at, batch } => {
                    let Range { start, end } = batch.records.seqs();
                    if start <= self.proven {
                        // A batch is synced as one: where its first record is durable, its last one is.
                        self.proven = self.proven.max(end.saturating_sub(1));
                    } else if batch.records.count > 0 {
                        moved_at.get_or_insert(at);
                        self.tail.extend_from_slice(batch.bytes);
                        self.report.moved += u64::from(batch.records.count);
                    }
                    closed.newest_ms = closed.newest_ms.max(self.batch(&batch, follower));
                }
                Passage::Flaw(finding) => {
                    // A footer goes with what is kept aside.
                    let end = footer_end.unwrap_or(finding.at + finding.bytes);
                    rest = (!finding.flaw.is_loud()).then_some(finding.at..end);
                    self.report.find(finding);
                }
            }
        }
        // A sealed one is cut only where another will have its name.
        let stays = is_sealed && place.named_seq != self.proven + 1;
        let rest_at = rest.as_ref().map(|rest| rest.start);
        let reserved_at = (walk.reserved_bytes() > 0).then(|| walk.end());
        if let (Some(at), false) = (moved_at.or(rest_at).or(reserved_at), stays) {
            closed.bytes = at;
            self.cuts.push(Cut { named_seq: place.named_seq, at, rest });
        }
        self.closed.push_back(closed);
        Ok(())
    }

    /// Hands a batch over; the newest received time is the answer.
    fn batch(&mut self, batch: &Batch<'_>, follower: &mut dyn Follower) -> Option<i64> {
        let mut newest_ms = None;
        for (key, received_ms) in batch.records.encoded().map(key_and_time) {
            self.duplicates.seen(key, received_ms);
            newest_ms = newest_ms.max(Some(received_ms));
        }
        let records = batch.records.from(self.folded_seq + 1);
        if records.count > 0 {
            self.report.records += u64::from(records.count);
            follower.fold(records);
        }
        newest_ms
    }

    fn finish(mut self, clock: &dyn Clock) -> std::io::Result<Recovered> {
        for cut in &self.cuts {
            if let Some(rest) = &cut.rest {
                self.report.kept_aside.push(self.directory.keep_aside(cut.named_seq, rest.clone())?);
            }
        }
        let first_seq = self.proven + 1;
        let active =
            Active::begin(self.directory, first_seq, clock.now_ms(), &self.tail, self.reserve_until)?;
        // A segment of that name has been replaced.
        for cut in self.cuts.iter().filter(|cut| cut.named_seq != first_seq) {
            self.directory.cut(cut.named_seq, cut.at)?;
        }
        self.closed.retain(|closed| closed.first_seq != first_seq);
        if self.is_erasing {
            self.directory.end_erasing()?;
        }
        self.duplicates.commit();
        self.report.next_seq = first_seq + active.records();
        Ok(Recovered { active, closed: self.closed, duplicates: self.duplicates, report: self.report })
    }
}
