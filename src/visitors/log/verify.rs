//! What stands in the folder, and what it means: kept, lost, torn or void.
//!
//! Recovery, readers and `check` all see the log through here, so that they cannot disagree.

use std::io;
use std::ops::Range;

use super::LogError;
use super::directory::{Directory, Oldest, segment_name};
use super::footer::Footer;
use super::format::{Batch, HeaderFault};
use super::scan::{self, Item, Scan};

/// What is wrong at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// In the folder.
    pub file: String,
    /// Offset.
    pub at: u64,
    /// From there on.
    pub bytes: u64,
    /// What it is.
    pub flaw: Flaw,
    /// Seqs that nothing readable holds any more.
    pub lost: Range<u64>,
}

/// What kind of wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// A segment's header is damaged; its name stood in for it.
    Header,
    /// A segment's header names another first seq than its name.
    Name,
    /// A batch, or what should be one, is damaged below the watermark.
    Batch,
    /// Records that were there are not, without a trace.
    Missing,
    /// `oldest` is damaged.
    Oldest,
    /// `secret` is damaged or missing while an erasure is under way.
    Secret,
    /// Damage above the watermark: what a crash leaves. Nothing acknowledged as durable was there.
    Torn,
    /// A later segment voids it: what a failed sync leaves.
    Void,
}

impl Flaw {
    /// Whether it is more than what crashes and failed syncs leave.
    pub fn is_loud(self) -> bool {
        !matches!(self, Self::Torn | Self::Void)
    }
}

impl std::fmt::Display for Flaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Header => "the header is damaged; the file's name stood in for it",
            Self::Name => "the header names another first seq than the file's name",
            Self::Batch => "damaged",
            Self::Missing => "records are missing",
            Self::Oldest => "damaged; nothing was deleted for its sake",
            Self::Secret => "damaged or missing; an erasure that was begun cannot be finished",
            Self::Torn => "a torn tail",
            Self::Void => "a tail that a later segment voids",
        })
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}, {} bytes: {}", self.file, self.at, self.bytes, self.flaw)?;
        if self.lost.is_empty() {
            Ok(())
        } else {
            write!(f, "; lost {}..={}", self.lost.start, self.lost.end - 1)
        }
    }
}

/// A segment in its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// By its name.
    pub named_seq: u64,
    /// By its header, or its name.
    pub first_seq: u64,
    /// The first seq of the segment after it, which voids from there on.
    pub limit: u64,
}

impl Place {
    /// Its file.
    pub fn name(&self) -> String {
        segment_name(self.named_seq)
    }
}

/// The folder at one moment.
#[derive(Debug)]
pub struct Survey {
    /// The segments that count, in order.
    pub places: Vec<Place>,
    /// The segments that retention let go and a crash left.
    pub let_go: Vec<Place>,
    /// The watermark: all up to this one were durable.
    pub proven: u64,
    /// What is wrong with headers and the folder.
    pub findings: Vec<Finding>,
}

impl Survey {
    /// Looks at every header, and through the last segment.
    ///
    /// # Errors
    /// What the system says; a format version that this release does not know.
    pub fn of(directory: &Directory) -> Result<Self, LogError> {
        let mut findings = Vec::new();
        let mut places = Vec::new();
        for named_seq in directory.segments().map_err(|error| LogError::io(&directory.path(""), error))? {
            places.extend(place(directory, named_seq, &mut findings)?);
        }
        // Behind the segments, so that none is missed which retention took away while they were looked at.
        let oldest = oldest(directory, &mut findings)?;
        places.sort_by_key(|place| place.first_seq);
        for at in 1..places.len() {
            places[at - 1].limit = places[at].first_seq;
        }
        let first = places.first().map_or(1, |first| first.first_seq.max(1));
        let oldest = oldest.unwrap_or(first);
        let kept = places.split_off(places.partition_point(|place| place.limit <= oldest));
        if let Some(first) = kept.first().filter(|first| first.first_seq > oldest) {
            findings.push(finding(&first.name(), 0, 0, Flaw::Missing, oldest..first.first_seq));
        }
        let proven = kept.last().map_or(Ok(0), |last| proven_by(directory, last))?.max(oldest - 1);
        Ok(Self { places: kept, let_go: places, proven, findings })
    }

    /// Looks at one segment as if it were alone.
    ///
    /// # Errors
    /// As of [`Survey::of`].
    pub fn of_one(directory: &Directory, named_seq: u64) -> Result<Self, LogError> {
        let mut findings = Vec::new();
        let places: Vec<Place> = place(directory, named_seq, &mut findings)?.into_iter().collect();
        let proven = places.last().map_or(Ok(0), |last| proven_by(directory, last))?;
        Ok(Self { places, let_go: Vec::new(), proven, findings })
    }
}

/// The first seq that is kept; `None` where that is not known.
fn oldest(directory: &Directory, findings: &mut Vec<Finding>) -> Result<Option<u64>, LogError> {
    match directory.oldest().map_err(|error| LogError::io(&directory.path("oldest"), error))? {
        Oldest::Absent => Ok(Some(1)),
        Oldest::Seq(seq) => Ok(Some(seq.max(1))),
        Oldest::Damaged => {
            findings.push(finding("oldest", 0, 0, Flaw::Oldest, 0..0));
            Ok(None)
        }
    }
}

/// `None` where retention took the file away meanwhile.
fn place(
    directory: &Directory,
    named_seq: u64,
    findings: &mut Vec<Finding>,
) -> Result<Option<Place>, LogError> {
    let name = segment_name(named_seq);
    let failed = |error| LogError::io(&directory.path(&name), error);
    let file = match directory.open(&name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(failed)?,
    };
    let first_seq = match scan::header(&*file).map_err(failed)? {
        Ok(header) => header.first_seq,
        Err(HeaderFault::Version(version)) => {
            return Err(LogError::Version { file: directory.path(&name), version });
        }
        Err(HeaderFault::Damaged) => {
            findings.push(finding(&name, 0, 40, Flaw::Header, 0..0));
            named_seq
        }
    };
    if first_seq != named_seq {
        findings.push(finding(&name, 16, 8, Flaw::Name, 0..0));
    }
    Ok(Some(Place { named_seq, first_seq, limit: u64::MAX }))
}

/// The greatest durable seq that a segment names: in its footer, or else in its header and its batches.
fn proven_by(directory: &Directory, place: &Place) -> Result<u64, LogError> {
    let failed = |error| LogError::io(&directory.path(&place.name()), error);
    let file = directory.open(&place.name()).map_err(failed)?;
    if let Some(footer) = scan::footer(&*file).map_err(failed)? {
        return Ok(footer.last_seq);
    }
    let end = file.length().map_err(failed)?;
    let mut scan = Scan::new(file, end);
    let mut proven = place.first_seq.saturating_sub(1);
    while let Some(item) = scan.next().map_err(failed)? {
        if let Item::Batch { batch, .. } = item {
            proven = proven.max(batch.durable);
        }
    }
    Ok(proven)
}

pub(super) fn finding(file: &str, at: u64, bytes: u64, flaw: Flaw, lost: Range<u64>) -> Finding {
    Finding { file: file.to_owned(), at, bytes, flaw, lost }
}

/// What comes next in a segment.
#[derive(Debug)]
pub enum Passage<'a> {
    /// A batch that counts.
    Batch {
        /// Its offset.
        at: u64,
        /// What it is.
        batch: Batch<'a>,
    },
    /// Something is wrong; reading goes on behind it, unless it is torn or void: that is the last.
    Flaw(Finding),
}

/// Goes through one segment.
pub struct Walk {
    scan: Scan,
    footer: Option<Footer>,
    bytes: u64,
    name: String,
    expected: u64,
    limit: u64,
    proven: u64,
    /// Damage whose loss shows at the next batch: where, how much.
    damage: Option<(u64, u64)>,
    ended: bool,
}

impl Walk {
    /// Through the segment at `place`, of a folder whose watermark is `proven`.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(directory: &Directory, place: &Place, proven: u64) -> io::Result<Self> {
        let file = directory.open(&place.name())?;
        let (footer, bytes) = (scan::footer(&*file)?, file.length()?);
        let end = footer.as_ref().map_or(bytes, |footer| footer.at);
        let scan = Scan::new(file, end);
        let (expected, limit) = (place.first_seq, place.limit);
        let name = place.name();
        Ok(Self { scan, footer, bytes, name, expected, limit, proven, damage: None, ended: false })
    }

    /// The footer, if it was sealed.
    pub fn footer(&self) -> Option<&Footer> {
        self.footer.as_ref()
    }

    /// Of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the batches end, once all were met.
    pub fn end(&self) -> u64 {
        self.scan.end()
    }

    /// Zeros behind them, for others to go over; known then as well.
    pub fn reserved_bytes(&self) -> u64 {
        if self.footer.is_some() { 0 } else { self.bytes - self.end() }
    }

    /// Leaves out what the index lets be left out before `seq`.
    pub fn skip_to(&mut self, seq: u64) {
        let Some(footer) = &self.footer else { return };
        let behind = footer.index.partition_point(|&(first, _)| first <= seq);
        if let Some(&(first, at)) = behind.checked_sub(1).and_then(|entry| footer.index.get(entry)) {
            self.scan.seek(at);
            self.expected = first;
        }
    }

    /// What comes next; `None` at the end.
    ///
    /// # Errors
    /// What the system says.
    pub fn next(&mut self) -> io::Result<Option<Passage<'_>>> {
        while !self.ended {
            let (at, seqs) = match self.scan.next()? {
                None => return Ok(self.end_of_segment().map(Passage::Flaw)),
                Some(Item::Damage { at, bytes }) => {
                    if self.nothing_is_owed() {
                        return Ok(self.torn(at)?.map(Passage::Flaw));
                    }
                    let (first_at, _) = *self.damage.get_or_insert((at, 0));
                    self.damage = Some((first_at, at + bytes - first_at));
                    continue;
                }
                Some(Item::Batch { at, batch }) => (at, batch.records.seqs()),
            };
            if seqs.start >= self.limit && !seqs.is_empty() {
                if self.damage.is_some() || !self.nothing_is_owed() {
                    self.scan.seek(at);
                    return Ok(Some(Passage::Flaw(self.gap(at, self.owed_until()))));
                }
                return Ok(Some(Passage::Flaw(self.rest(at, Flaw::Void)?)));
            }
            if seqs.start != self.expected && self.nothing_is_owed() {
                return Ok(Some(Passage::Flaw(self.rest(at, Flaw::Torn)?)));
            }
            self.scan.seek(at);
            if seqs.start > self.expected || self.damage.is_some() {
                return Ok(Some(Passage::Flaw(self.gap(at, seqs.start))));
            }
            return self.take(at, seqs);
        }
        Ok(None)
    }

    /// The batch at `at`, which was looked at before; one that repeats seqs is a flaw.
    fn take(&mut self, at: u64, seqs: Range<u64>) -> io::Result<Option<Passage<'_>>> {
        let repeats = seqs.start < self.expected;
        if !repeats {
            self.expected = seqs.end.min(self.limit);
        }
        let Some(Item::Batch { mut batch, .. }) = self.scan.next()? else { return Ok(None) };
        if repeats {
            let bytes = batch.bytes.len() as u64;
            return Ok(Some(Passage::Flaw(finding(&self.name, at, bytes, Flaw::Batch, 0..0))));
        }
        batch.records = batch.records.until(self.expected);
        Ok(Some(Passage::Batch { at, batch }))
    }

    /// Whether all that is known to have been durable in this segment has been met.
    fn nothing_is_owed(&self) -> bool {
        self.expected > self.proven || self.expected >= self.limit
    }

    fn owed_until(&self) -> u64 {
        self.limit.min(self.proven + 1)
    }

    /// A torn tail, unless it is one that a writer has not written yet.
    fn torn(&mut self, at: u64) -> io::Result<Option<Finding>> {
        if self.footer.is_none() && self.scan.has_gone_on(at, self.bytes)? {
            self.ended = true;
            return Ok(None);
        }
        self.rest(at, Flaw::Torn).map(Some)
    }

    fn rest(&mut self, at: u64, flaw: Flaw) -> io::Result<Finding> {
        self.ended = true;
        let bytes = self.scan.written_end(at)? - at;
        Ok(finding(&self.name, at, bytes, flaw, 0..0))
    }

    fn gap(&mut self, at: u64, found: u64) -> Finding {
        let lost = self.expected..found.max(self.expected);
        self.expected = lost.end;
        match self.damage.take() {
            Some((damage_at, bytes)) => finding(&self.name, damage_at, bytes, Flaw::Batch, lost),
            None => finding(&self.name, at, 0, Flaw::Missing, lost),
        }
    }

    fn end_of_segment(&mut self) -> Option<Finding> {
        self.ended = true;
        let owed = self.owed_until();
        (self.expected < owed || self.damage.is_some()).then(|| self.gap(self.scan.end(), owed))
    }
}
