//! `--ack written`: the sync follows within 100 ms, and what it could not sync is written anew.

use std::sync::Arc;

use parallax::clock::Clock;
use parallax::visitors::log::{Ack, Options, Outcome, Verdict};

use super::simulated::{Plan, SimulatedDisk};
use super::{Log, TestClock, options, request};

fn open(disk: &SimulatedDisk, clock: &Arc<TestClock>) -> Log {
    let options = Options { ack: Ack::Written, ..options() };
    Log::open(Arc::new(disk.clone()), clock, options).expect("the disk is well")
}

#[test]
fn the_sync_follows_within_a_hundred_milliseconds_however_much_comes() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = open(&disk, &clock);
    let mut written_ms = Vec::new();
    for key in 1..=500 {
        assert_eq!(log.record(&[key], clock.now_ms()).outcome, Outcome::Written);
        written_ms.push(clock.now_ms());
        clock.pass(1);
        let synced = log.queue.figures().durable_seq() as usize;
        assert!(written_ms[synced..].iter().all(|ms| clock.now_ms() - ms < 100));
    }
    let due = log.writer.due().expect("what is written waits for a sync");
    clock.pass((due - clock.monotonic()).as_millis() as u64);
    log.writer.step();
    assert_eq!(log.queue.figures().durable_seq(), 500, "without a request, too");
}

#[test]
fn what_a_failed_sync_left_is_written_anew_under_its_seqs_before_anything_else_is_acknowledged() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = open(&disk, &clock);
    assert_eq!(log.record(&[1, 2], clock.now_ms()).outcome, Outcome::Written);
    clock.pass(60);
    disk.plan(Plan::From(1));
    log.writer.step();
    let figures = log.queue.figures();
    assert_eq!((figures.is_available(), figures.durable_seq(), figures.last_seq()), (false, 0, 2));
    assert!(log.port.send(request(0, &[3], clock.now_ms())).is_err());

    disk.plan(Plan::Never);
    clock.pass(500);
    log.writer.step();
    assert_eq!((log.queue.figures().durable_seq(), log.folded()), (2, vec![(1, 1), (2, 2)]), "folded once");
    let completion = log.record(&[2, 3], clock.now_ms());
    assert_eq!(completion.request.verdicts(), [Verdict::Duplicate, Verdict::Accepted(3)]);
    drop(log);
    disk.cut_power();
    assert_eq!(open(&disk, &clock).folded()[..2], [(1, 1), (2, 2)]);
}
