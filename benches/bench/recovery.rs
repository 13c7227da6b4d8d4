//! A benchmark that recovers a log and folds its records, repeatedly.

use std::path::Path;
use std::sync::Arc;

use parallax::testing::log::{self, Ack, LogConsumer, LogWriter, Options, Queue, Records, Request};
use parallax::testing::record::{Record, RecordKind};
use parallax::testing::storage::disk::RealDisk;
use parallax::testing::visitors::live::ProfileTable;
use tempfile::TempDir;

use crate::folding::{SECRET, record};
use crate::posting::FrozenClock;

/// Records of the log, two for each visitor: a page view and another event.
pub const RECORDS: usize = 1_000;
/// Records in one batch of the log, and in one request to its writer.
const RECORDS_PER_BATCH: usize = 10;

/// A sealed log.
pub struct RecoveryBench {
    dir: TempDir,
}

impl RecoveryBench {
    /// Writes the log.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (queue, mut writer, _) = open(dir.path(), Box::new(|_: Records<'_>| {}));
        let client = queue.client(Arc::new(|| {}));
        for first in (0..RECORDS).step_by(RECORDS_PER_BATCH) {
            let mut request = Request::new(0);
            for number in first..first + RECORDS_PER_BATCH {
                let kind = if number.is_multiple_of(2) { RecordKind::Page } else { RecordKind::Track };
                let anon_id = format!("507f191e-810c-4972-9de8-60ea{:08}", number / 2);
                let record = Record { key: number as u128 + 1, ..record(kind, &anon_id, number) };
                request.push(&record).expect("within all bounds");
            }
            client.send(request).expect("the queue takes it");
            writer.run_once();
            client.next_completion().expect("a step completes it");
        }
        writer.close();
        Self { dir }
    }

    /// Recovers the log, and folds its records into an empty table. Returns the number of records.
    pub fn recover(&self) -> u64 {
        let mut table = ProfileTable::new(SECRET, u64::MAX).0;
        open(self.dir.path(), Box::new(move |records: Records<'_>| table.fold(records))).2
    }
}

/// Opens the log. Returns the number of recovered records, too.
fn open(dir: &Path, consumer: Box<dyn LogConsumer>) -> (Queue, LogWriter, u64) {
    let options = Options { ack: Ack::Written, ..Options::default() };
    let (queue, writer, report) =
        log::open(dir, options, Arc::new(RealDisk), Arc::new(FrozenClock), consumer).expect("it opens");
    (queue, writer, report.records)
}
