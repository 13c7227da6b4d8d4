//! The records after a seq, in order, up to the durable ones.
//!
//! Works beside a running server, without its lock: what is read are the segments that were there at the
//! beginning, up to the watermark that their own headers, batches and footers name. So a record is
//! never given that a power cut could still take. A writer at rest names the durable seq within 100 ms.

use std::path::Path;
use std::sync::Arc;

use super::LogError;
use super::directory::Directory;
use super::footer::Footer;
use super::format::{Batch, Records};
use super::scan;
use super::verify::{Finding, Passage, Place, Survey, Walk};
use crate::storage::disk::Disk;

/// The footer of the segment at `path`: what it holds without reading it. `None` where it was not sealed, or
/// its footer is damaged.
///
/// # Errors
/// What the system says.
pub fn read_footer(disk: &dyn Disk, path: &Path) -> std::io::Result<Option<Footer>> {
    scan::footer(&*disk.open(path)?)
}

/// Goes through the records of a folder.
pub struct Reader {
    directory: Directory,
    proven: u64,
    since: u64,
    findings: std::vec::IntoIter<Finding>,
    places: std::vec::IntoIter<Place>,
    walk: Option<(String, Walk)>,
    batch: Vec<u8>,
}

/// What comes next.
#[derive(Debug)]
pub enum Item<'a> {
    /// Records, at least one.
    Records(Records<'a>),
    /// Something is wrong there; the records beside it follow. Torn and void tails are passed over.
    Finding(Finding),
}

impl Reader {
    /// Reads the records behind `since`, 0 for all.
    ///
    /// # Errors
    /// What the system says; a format version that this release does not know.
    pub fn open(disk: Arc<dyn Disk>, folder: &Path, since: u64) -> Result<Self, LogError> {
        let directory = Directory::read(disk, folder);
        let Survey { mut places, proven, findings, .. } = Survey::of(&directory)?;
        places.retain(|place| place.limit > since.saturating_add(1));
        let (findings, places) = (findings.into_iter(), places.into_iter());
        Ok(Self { directory, proven, since, findings, places, walk: None, batch: Vec::new() })
    }

    /// The same, up to `durable` at least: for the process that writes, which knows more than its files say so far.
    #[must_use]
    pub fn up_to(mut self, durable: u64) -> Self {
        self.proven = self.proven.max(durable);
        self
    }

    /// The last seq that will be read, if nothing is wrong there.
    pub fn last_seq(&self) -> u64 {
        self.proven
    }

    /// What comes next; `None` at the end.
    ///
    /// # Errors
    /// What the system says.
    pub fn read_next(&mut self) -> Result<Option<Item<'_>>, LogError> {
        if let Some(finding) = self.findings.next() {
            return Ok(Some(Item::Finding(finding)));
        }
        loop {
            let Some((name, walk)) = &mut self.walk else {
                let Some(place) = self.places.next() else { return Ok(None) };
                self.enter(&place)?;
                continue;
            };
            match walk.next().map_err(|error| LogError::io(&self.directory.path(name), error))? {
                None => self.walk = None,
                Some(Passage::Flaw(finding)) if finding.flaw.is_loud() => {
                    return Ok(Some(Item::Finding(finding)));
                }
                Some(Passage::Flaw(_)) => {}
                Some(Passage::Batch { batch, .. }) => {
                    let seqs = batch.records.seqs();
                    if !seqs.is_empty() && seqs.end > self.since + 1 && seqs.start <= self.proven {
                        self.batch.clear();
                        self.batch.extend_from_slice(batch.bytes);
                        let records = Batch::trusted(&self.batch).records.until(seqs.end);
                        return Ok(Some(Item::Records(records.from(self.since + 1))));
                    }
                }
            }
        }
    }

    fn enter(&mut self, place: &Place) -> Result<(), LogError> {
        let name = place.name();
        match Walk::new(&self.directory, place, self.proven) {
            Ok(mut walk) => {
                walk.skip_to(self.since + 1);
                self.walk = Some((name, walk));
                Ok(())
            }
            // Retention took it away meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(LogError::io(&self.directory.path(&name), error)),
        }
    }
}
