//! `--ack written`: a sync follows within 100 ms, and the log writes batches again if their sync failed.

use std::sync::Arc;

use parallax::testing::clock::Clock;
use parallax::testing::log::{Ack, Options, RecordResult, WriteOutcome};

use super::simulated::{Plan, SimulatedDisk};
use super::{Log, TestClock, options, request};

fn open(disk: &SimulatedDisk, clock: &Arc<TestClock>) -> Log {
    let options = Options { ack: Ack::Written, ..options() };
    Log::open(Arc::new(disk.clone()), clock, options).expect("the disk works")
}

#[test]
fn a_sync_follows_within_100_ms_under_constant_load() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = open(&disk, &clock);
    let mut written_ms = Vec::new();
    for key in 1..=500 {
        assert_eq!(log.record(&[key], clock.now_ms()).outcome, WriteOutcome::Written);
        written_ms.push(clock.now_ms());
        clock.pass(1);
        let synced = log.queue.metrics().durable_seq() as usize;
        assert!(written_ms[synced..].iter().all(|ms| clock.now_ms() - ms < 100));
    }
    let due = log.writer.next_due().expect("a sync is due");
    clock.pass((due - clock.monotonic()).as_millis() as u64);
    log.writer.run_once();
    assert_eq!(log.queue.metrics().durable_seq(), 500, "also without a request");
}

#[test]
fn records_of_a_failed_sync_are_rewritten_before_new_ones_are_accepted() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = open(&disk, &clock);
    assert_eq!(log.record(&[1, 2], clock.now_ms()).outcome, WriteOutcome::Written);
    clock.pass(60);
    disk.plan(Plan::From(1));
    log.writer.run_once();
    let metrics = log.queue.metrics();
    assert_eq!((metrics.is_available(), metrics.durable_seq(), metrics.last_seq()), (false, 0, 2));
    assert!(log.client.send(request(0, &[3], clock.now_ms())).is_err());

    disk.plan(Plan::Never);
    clock.pass(500);
    log.writer.run_once();
    assert_eq!(
        (log.queue.metrics().durable_seq(), log.consumed()),
        (2, vec![(1, 1), (2, 2)]),
        "the consumer receives each record once"
    );
    let completion = log.record(&[2, 3], clock.now_ms());
    assert_eq!(completion.request.results(), [RecordResult::Duplicate, RecordResult::Accepted(3)]);
    drop(log);
    disk.cut_power();
    assert_eq!(open(&disk, &clock).consumed()[..2], [(1, 1), (2, 2)]);
}
