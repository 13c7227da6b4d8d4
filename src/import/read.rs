//! The phase that reads the inputs into sorted runs.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::error::ImportError;
use super::inputs::{Input, InputKind};
use super::order::{KEY_BYTES, PLACE_BYTES, Place, import_keys};
use super::progress::{ImportPaths, Phase, Progress};
use super::refused::{Refused, RefusedList};
use super::runs::{RunKind, SortBuffer};
use super::{ImportObserver, directories, lines};
use crate::record::Record;
use crate::storage::disk::Disk;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
/// Time by which a received time may be after the start of the import, in milliseconds: one day, for a clock that is wrong. A later
/// one is refused, because it would come after all events of the future.
const AHEAD_MS_MAX: i64 = DAY_MS;

/// The runs of records: place, encoded record.
pub(super) const RECORDS: RunKind = RunKind { name: "records", prefix_bytes: PLACE_BYTES };
/// The runs of keys: key, place.
pub(super) const KEYS: RunKind = RunKind { name: "keys", prefix_bytes: KEY_BYTES + PLACE_BYTES };

/// The receiver of the records of all inputs.
pub(super) struct RecordSink<'a> {
    paths: &'a ImportPaths,
    pub(super) progress: &'a mut Progress,
    pub(super) observer: &'a mut dyn ImportObserver,
    sort_bytes: u64,
    records: SortBuffer,
    keys: SortBuffer,
    refused: RefusedList,
    /// Bytes of the inputs before the present one.
    bytes_before: u64,
}

/// Reads the inputs from the place at which the last run ended.
///
/// # Errors
/// An input cannot be read or has changed, or the disk fails.
pub(super) fn read_inputs(
    disk: &Arc<dyn Disk>,
    inputs: &[Input],
    paths: &ImportPaths,
    progress: &mut Progress,
    sort_bytes: u64,
    observer: &mut dyn ImportObserver,
) -> Result<(), ImportError> {
    let refused = RefusedList::open(&paths.refused, progress.read.refused_bytes);
    let mut sink = RecordSink {
        refused: refused.map_err(ImportError::at(&paths.refused))?,
        records: SortBuffer::new(RECORDS),
        keys: SortBuffer::new(KEYS),
        bytes_before: 0,
        sort_bytes,
        paths,
        progress,
        observer,
    };
    sink.observer.begin("reading", inputs.iter().map(|input| input.stamp.bytes).sum());
    for (index, input) in inputs.iter().enumerate() {
        if index >= sink.progress.read.input {
            match input.kind {
                InputKind::Directory { .. } => directories::read(disk, input, &mut sink)?,
                InputKind::File => lines::read(input, &mut sink)?,
            }
            sink.end_input();
        }
        sink.bytes_before += input.stamp.bytes;
    }
    sink.progress.phase = Phase::Duplicates;
    sink.write_runs().map_err(ImportError::at(&paths.work))
}

impl RecordSink<'_> {
    /// Returns whether the records of a site are imported.
    pub(super) fn has_site(&self, site: &str) -> bool {
        let sites = &self.progress.settings.sites;
        sites.is_empty() || sites.iter().any(|wanted| wanted == site)
    }

    /// Returns whether crawlers of a site have changed profiles.
    pub(super) fn keeps_bots(&self, site: &str) -> bool {
        self.progress.settings.keep_bots.iter().any(|keeping| keeping == site)
    }

    /// Returns whether all sites are imported.
    pub(super) fn has_all_sites(&self) -> bool {
        self.progress.settings.sites.is_empty()
    }

    /// Returns the reason why a record with this received time is refused.
    pub(super) fn refused_time(&self, received_ms: i64) -> Option<String> {
        let days = self.progress.settings.retain_days?;
        let is_old = received_ms < self.progress.began_ms - i64::from(days) * DAY_MS;
        is_old.then(|| format!("the record is older than the retention of {days} days"))
    }

    /// Returns whether a received time is later than the clock of any server can be.
    pub(super) fn is_future(&self, received_ms: i64) -> bool {
        received_ms > self.progress.began_ms.saturating_add(AHEAD_MS_MAX)
    }

    /// Adds a record of the present input. `seq` is that in its log, if it is known.
    pub(super) fn add(
        &mut self,
        position: u64,
        seq: Option<u64>,
        record: &Record<'_>,
        encoded_record: &[u8],
    ) {
        let read = &mut self.progress.read;
        let order_ms = read.order.add(seq, record.received_ms);
        let place = Place { order_ms, input: read.input as u32, position }.to_bytes();
        self.records.add(&[&place, encoded_record]);
        import_keys(record).for_each(|key| self.keys.add(&[&key, &place]));
    }

    /// Adds a line or a record to the list of the refused ones.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn refuse(&mut self, refused: &Refused<'_>) -> Result<(), ImportError> {
        self.progress.read.refused += 1;
        self.observer.on_refused(refused);
        self.refused.add(refused).map_err(ImportError::at(&self.paths.refused))
    }

    /// Reports damage of a data directory.
    pub(super) fn report_damage(&mut self, dir: &Path, damage: &impl std::fmt::Display) {
        self.progress.read.has_damage = true;
        self.observer.on_damage(format!("{}/{damage}", dir.display()));
    }

    /// Notes the place up to which the present input is in the buffers, and writes them as runs if they are full. `done_bytes` are
    /// those of the input.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn advance_to(&mut self, position: u64, done_bytes: u64) -> Result<(), ImportError> {
        self.progress.read.position = position;
        if self.records.memory_bytes() + self.keys.memory_bytes() < self.sort_bytes {
            return Ok(());
        }
        self.observer.set_done(self.bytes_before + done_bytes);
        self.write_runs().map_err(ImportError::at(&self.paths.work))
    }

    fn end_input(&mut self) {
        let read = &mut self.progress.read;
        read.input += 1;
        read.position = 0;
        read.lines = 0;
        read.order = Default::default();
    }

    /// Writes the buffers as runs, then saves the progress.
    fn write_runs(&mut self) -> io::Result<()> {
        let work = &self.paths.work;
        if !self.records.is_empty() {
            self.records.write_run(work, self.progress.records.count)?;
            self.keys.write_run(work, self.progress.keys.count)?;
            self.progress.records.count += 1;
            self.progress.keys.count += 1;
        }
        self.progress.read.refused_bytes = self.refused.sync()?;
        self.paths.save(self.progress)
    }
}
