//! A start on a disk that cannot be written: the records are read, and events wait for the disk.

use std::path::Path;
use std::sync::Arc;

use parallax::testing::clock::Clock;
use parallax::testing::log::{
    LockedLog, LogClient, LogWriter, RecordResult, Records, RecoveryReport, SendError,
};

use super::simulated::{Fault, Plan, SimulatedDisk};
use super::{Consumed, DIRECTORY, Log, TestClock, options, request};

/// A log whose start may have found a disk that cannot be written.
struct WaitingLog {
    writer: LogWriter,
    client: LogClient,
    report: RecoveryReport,
    consumed: Consumed,
}

impl WaitingLog {
    fn open(disk: &SimulatedDisk, clock: &Arc<TestClock>) -> Option<Self> {
        let consumed = Consumed::default();
        let sink = Arc::clone(&consumed);
        let consumer = move |records: Records<'_>| {
            let mut consumed = sink.lock().expect("the mutex is not poisoned");
            consumed.extend(records.iter().map(|(seq, record)| (seq, record.key)));
        };
        let locked = LockedLog::lock_or_wait(Path::new(DIRECTORY), Arc::new(disk.clone())).ok()?;
        let opened =
            locked.open_when_writable(options(), Arc::clone(clock) as Arc<dyn Clock>, Box::new(consumer));
        let (queue, writer, report) = opened.ok()?;
        Some(Self { writer, client: queue.client(Arc::new(|| {})), report, consumed })
    }

    fn is_available(&self) -> bool {
        self.client.precheck() != Some(SendError::DiskUnavailable)
    }

    fn consumed(&self) -> Vec<(u64, u128)> {
        self.consumed.lock().expect("the mutex is not poisoned").clone()
    }
}

/// Returns a disk with six records, the last of which a killed process has not sealed.
fn written_disk(clock: &Arc<TestClock>) -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    for keys in [[1, 2, 3], [4, 5, 6]] {
        let mut log = Log::open(Arc::new(disk.clone()), clock, options()).expect("the disk works");
        keys.into_iter().for_each(|key| drop(log.record(&[key], clock.now_ms())));
    }
    disk
}

const ALL: [(u64, u128); 6] = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)];

#[test]
fn a_start_on_a_full_disk_reads_all_records_and_accepts_events_when_there_is_room() {
    let clock = Arc::<TestClock>::default();
    let disk = written_disk(&clock);
    disk.plan(Plan::Full);
    let mut log = WaitingLog::open(&disk, &clock).expect("the disk can be read");
    assert_eq!((log.consumed(), log.report.next_seq), (ALL.to_vec(), 7));
    assert!(!log.is_available());
    for _ in 0..20 {
        clock.pass(500);
        log.writer.run_once();
    }
    assert!(!log.is_available());
    disk.plan(Plan::Never);
    clock.pass(500);
    log.writer.run_once();
    assert_eq!(log.consumed(), ALL, "each record once");
    log.client.send(request(0, &[6, 7], clock.now_ms())).expect("the queue accepts it");
    log.writer.run_once();
    let completion = log.client.next_completion().expect("it is complete");
    assert_eq!(completion.request.results(), [RecordResult::Duplicate, RecordResult::Accepted(7)]);
    drop(log);
    let log = Log::open(Arc::new(disk), &clock, options()).expect("the disk works");
    assert_eq!((log.consumed().len(), &log.report.damage[..]), (7, &[][..]));
}

#[test]
fn a_log_that_never_got_room_stops_without_a_change() {
    let clock = Arc::<TestClock>::default();
    let disk = written_disk(&clock);
    let names = disk.names();
    disk.plan(Plan::Full);
    let log = WaitingLog::open(&disk, &clock).expect("the disk can be read");
    disk.plan(Plan::Never);
    let position = log.writer.close();
    assert_eq!((position.last_seq, position.durable_seq), (6, 6));
    assert_eq!(disk.names(), names);
}

#[test]
fn a_start_survives_a_failure_of_any_call_that_writes() {
    for fault in [Fault::Eio, Fault::Enospc, Fault::Short] {
        for n in 1.. {
            let clock = Arc::<TestClock>::default();
            let disk = written_disk(&clock);
            disk.plan(Plan::Nth(n, fault));
            let opened = WaitingLog::open(&disk, &clock);
            let is_through = disk.calls() < n;
            disk.plan(Plan::Never);
            // A call that reads has failed otherwise, and the start ended.
            if let Some(mut log) = opened {
                clock.pass(500);
                log.writer.run_once();
                assert!(log.is_available(), "{fault:?} {n}");
                assert_eq!(log.consumed(), ALL, "{fault:?} {n}");
            }
            if is_through {
                assert!(n > 10, "{n} calls are too few");
                break;
            }
        }
    }
}
