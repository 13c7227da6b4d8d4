//! The records of the own log that have not returned: the newest in memory, the others from the segments.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::follow::{OwnLog, OwnRecord};
use crate::log::{LogError, LogItem, LogReader, Records};
use crate::storage::disk::Disk;
use crate::visitors::checkpoint::directory::CheckpointDirectory;

/// Bytes of records in memory, about 100,000 records. At the limit the oldest leave memory and are read from the log.
pub(crate) const PENDING_BYTES_MAX: usize = 64 << 20;
/// Bytes read from the log at once: some more than a run takes.
const LOAD_BYTES: usize = 512 << 10;
/// Bytes of records that were read from the log. The messages under way have 2 MiB. At the limit the oldest
/// leave memory, and are read again if the forwarder goes back to them.
pub const LOADED_BYTES_MAX: usize = 8 << 20;

/// Consecutive records of the log.
struct Batch {
    first_seq: u64,
    bytes: Vec<u8>,
    /// The end of each record in `bytes`.
    ends: Vec<u32>,
    /// The time of a monotonic clock when the records became durable, in milliseconds.
    durable_ms: i64,
}

impl Batch {
    fn new(records: Records<'_>, durable_ms: i64) -> Self {
        let (mut bytes, mut ends) = (Vec::with_capacity(records.byte_len()), Vec::new());
        for record in records.iter_encoded() {
            bytes.extend_from_slice(record);
            ends.push(bytes.len() as u32);
        }
        Self { first_seq: records.first_seq, bytes, ends, durable_ms }
    }

    fn end_seq(&self) -> u64 {
        self.first_seq + self.ends.len() as u64
    }

    /// Returns the number of bytes of the records from `seq` on.
    fn bytes_from(&self, seq: u64) -> usize {
        let before = usize::try_from(seq.saturating_sub(self.first_seq)).unwrap_or(usize::MAX);
        let last_before = before.min(self.ends.len()).checked_sub(1);
        self.bytes.len() - last_before.map_or(0, |index| self.ends[index] as usize)
    }

    fn record(&self, seq: u64) -> Option<&[u8]> {
        let index = usize::try_from(seq.checked_sub(self.first_seq)?).ok()?;
        let end = *self.ends.get(index)? as usize;
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        self.bytes.get(begin..end)
    }
}

/// The own log, as the rules read it. A record that has left memory is [`OwnRecord::NotLoaded`] until a
/// [`load`](Self::load).
pub struct OwnRecords {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    /// The first seq that retention has kept, when the log was opened or at the last look.
    first_seq: u64,
    durable_seq: u64,
    /// The newest records, in seq order.
    recent: VecDeque<Batch>,
    recent_bytes: usize,
    /// Records that were read from the log, in seq order. They are all undamaged records of `loaded_range`.
    loaded: VecDeque<Batch>,
    loaded_range: std::ops::Range<u64>,
    /// A reader that continues after `loaded_range`.
    reader: Option<LogReader>,
}

impl OwnRecords {
    /// Creates the log of a directory whose last seq is `last_seq`, or a later one. Recovery then passes the
    /// later records to [`push`](Self::push).
    pub fn new(disk: Arc<dyn Disk>, directory: &Path, last_seq: u64) -> Self {
        Self {
            disk,
            directory: directory.to_owned(),
            first_seq: 1,
            durable_seq: last_seq,
            recent: VecDeque::new(),
            recent_bytes: 0,
            loaded: VecDeque::new(),
            loaded_range: 0..0,
            reader: None,
        }
    }

    /// Reads again which records retention has kept.
    pub(crate) fn refresh_first_seq(&mut self) {
        let directory = CheckpointDirectory::new(Arc::clone(&self.disk), &self.directory);
        if let Ok(first) = directory.first_log_seq() {
            self.first_seq = first.max(1);
        }
    }

    /// Adds durable records.
    pub fn push(&mut self, records: Records<'_>, now_ms: i64) {
        self.durable_seq = records.seqs().end - 1;
        self.recent_bytes += records.byte_len();
        self.recent.push_back(Batch::new(records, now_ms));
        while self.recent_bytes > PENDING_BYTES_MAX && self.recent.len() > 1 {
            self.drop_oldest();
        }
    }

    /// Forgets the records that have returned. The forwarder goes back to the others if they do not return.
    pub fn forget_through(&mut self, returned_seq: u64) {
        while self.recent.front().is_some_and(|batch| batch.end_seq() <= returned_seq + 1) {
            self.drop_oldest();
        }
        while self.loaded.front().is_some_and(|batch| batch.end_seq() <= returned_seq + 1) {
            self.loaded.pop_front();
        }
        self.loaded_range.start = self.loaded_range.start.max(returned_seq + 1);
    }

    fn drop_oldest(&mut self) {
        if let Some(batch) = self.recent.pop_front() {
            self.recent_bytes -= batch.bytes.len();
        }
    }

    /// Forgets the records in memory, because an erasure has changed the files.
    pub fn read_again(&mut self) {
        (self.recent, self.recent_bytes) = (VecDeque::new(), 0);
        (self.loaded, self.loaded_range, self.reader) = (VecDeque::new(), 0..0, None);
    }

    /// Returns the number of bytes in memory.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.recent_bytes
    }

    /// Returns when the first record after `returned_seq` became durable. `i64::MIN` if that is not known any more.
    pub(crate) fn durable_ms_after(&self, returned_seq: u64) -> i64 {
        match self.recent.front() {
            Some(batch) if batch.first_seq > returned_seq + 1 => i64::MIN,
            Some(_) => {
                let batch = self.recent.iter().find(|batch| batch.end_seq() > returned_seq + 1);
                batch.map_or(i64::MAX, |batch| batch.durable_ms)
            }
            None if returned_seq < self.durable_seq => i64::MIN,
            None => i64::MAX,
        }
    }

    /// Makes the undamaged records from `first_seq` on readable, up to `last_seq` or to an earlier seq. Returns that
    /// seq. It is `last_seq` if the log ends before `first_seq`.
    ///
    /// # Errors
    /// The log cannot be read, or its files are gone.
    pub fn load(&mut self, first_seq: u64, last_seq: u64) -> Result<u64, LogError> {
        if first_seq > self.durable_seq
            || self.recent.front().is_some_and(|batch| batch.first_seq <= first_seq)
        {
            return Ok(last_seq);
        }
        // Records after these are in memory, or not written yet.
        let recent_seq = self.recent.front().map_or(u64::MAX, |batch| batch.first_seq);
        let last_seq = last_seq.min(recent_seq - 1).min(self.durable_seq);
        if (self.loaded_range.start..=self.loaded_range.end).contains(&first_seq) {
            self.drop_loaded_before(first_seq);
        } else {
            (self.reader, self.loaded_range) = (None, first_seq..first_seq);
            self.loaded.clear();
        }
        if last_seq >= self.loaded_range.end {
            self.read(first_seq, last_seq)?;
        }
        Ok(last_seq.min(self.loaded_range.end - 1))
    }

    /// Drops loaded batches that end before `first_seq`, if there are too many.
    fn drop_loaded_before(&mut self, first_seq: u64) {
        let mut bytes: usize = self.loaded.iter().map(|batch| batch.bytes.len()).sum();
        while let Some(batch) = self.loaded.front()
            && bytes > LOADED_BYTES_MAX
            && batch.end_seq() <= first_seq
        {
            bytes -= batch.bytes.len();
            self.loaded_range.start = batch.end_seq();
            self.loaded.pop_front();
        }
    }

    /// Reads further, up to `last_seq` or until enough records from `first_seq` on are in memory.
    fn read(&mut self, first_seq: u64, last_seq: u64) -> Result<(), LogError> {
        let mut bytes: usize = self.loaded.iter().map(|batch| batch.bytes_from(first_seq)).sum();
        // A reader of this call sees all durable records.
        let (mut is_current, mut is_damaged) = (false, false);
        while self.loaded_range.end <= last_seq && bytes < LOAD_BYTES {
            let mut reader = match self.reader.take() {
                Some(reader) => reader,
                None => {
                    (is_current, is_damaged) = (true, false);
                    self.open(self.loaded_range.end - 1)?
                }
            };
            match reader.read_next()? {
                Some(LogItem::Records(records)) => {
                    let batch = Batch::new(records, i64::MIN);
                    (bytes, self.loaded_range.end) = (bytes + batch.bytes.len(), batch.end_seq());
                    self.loaded.push_back(batch);
                    self.reader = Some(reader);
                }
                Some(LogItem::Damage(_)) => {
                    (is_damaged, self.reader) = (true, Some(reader));
                }
                // The end of the log is damaged: the rest is a hole.
                None if is_current && is_damaged => self.loaded_range.end = last_seq + 1,
                // An intact log has all durable records.
                None if is_current => return Err(self.missing(self.loaded_range.end)),
                // Records were written since the reader was opened.
                None => {}
            }
        }
        Ok(())
    }

    /// Passes the records after `seq` to `visit`, from the files. A seq without a record, or with a damaged
    /// one, is `None`.
    fn read_after(&self, seq: u64, visit: &mut dyn FnMut(Option<&[u8]>) -> bool) -> Result<(), LogError> {
        let (mut reader, mut next) = (self.open(seq)?, seq + 1);
        while let Some(item) = reader.read_next()? {
            let LogItem::Records(records) = item else { continue };
            if records.first_seq > next {
                visit(None);
                return Ok(());
            }
            for record in records.iter_encoded() {
                next += 1;
                if next - 1 > self.durable_seq || !visit(Some(record)) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns the seqs that the log can have.
    fn seqs(&self) -> std::ops::RangeInclusive<u64> {
        self.first_seq..=self.durable_seq
    }

    fn missing(&self, seq: u64) -> LogError {
        let text = format!(
            "the directory lacks the record {seq}, which this server has written; put its files back"
        );
        LogError::io(&self.directory, std::io::Error::new(std::io::ErrorKind::NotFound, text))
    }

    fn open(&self, after_seq: u64) -> Result<LogReader, LogError> {
        let reader = LogReader::open(Arc::clone(&self.disk), &self.directory, after_seq)?;
        Ok(reader.with_durable_seq(self.durable_seq))
    }
}

impl OwnLog for OwnRecords {
    fn first_seq(&self) -> u64 {
        self.first_seq
    }

    fn last_seq(&self) -> u64 {
        self.durable_seq
    }

    fn record(&self, seq: u64) -> OwnRecord<'_> {
        let is_recent = self.recent.front().is_some_and(|batch| batch.first_seq <= seq);
        let batches = if is_recent { &self.recent } else { &self.loaded };
        let index = batches.partition_point(|batch| batch.end_seq() <= seq);
        match batches.get(index).and_then(|batch| batch.record(seq)) {
            Some(bytes) => OwnRecord::Encoded(bytes),
            None if is_recent || self.loaded_range.contains(&seq) || !self.seqs().contains(&seq) => {
                OwnRecord::Absent
            }
            None => OwnRecord::NotLoaded,
        }
    }

    /// Reads the log once, at about the speed of the disk. The rules do this only for a state that another node made.
    fn visit_after(&self, seq: u64, visit: &mut dyn FnMut(Option<&[u8]>) -> bool) {
        if let Err(error) = self.read_after(seq, visit) {
            tracing::error!(%error, "cannot read the own log; records that cannot be compared are sent again");
        }
    }
}
