//! Every call fails once, in every way: nothing is acknowledged falsely, and service resumes.

use std::sync::Arc;

use parallax::clock::Clock;
use parallax::visitors::log::{Ack, Options, Outcome, Refusal, Verdict};

use super::simulated::{Fault, Plan, SimulatedDisk};
use super::{Log, TestClock, options, request};

struct Client {
    disk: SimulatedDisk,
    clock: Arc<TestClock>,
    options: Options,
    accepted: Vec<(u64, u128)>,
}

impl Client {
    /// Opens; where that fails, because of the one call that does, again.
    fn open(&self) -> Log {
        let open = || Log::open(Arc::new(self.disk.clone()), &self.clock, self.options.clone());
        let log = open().or_else(|_| open()).expect("one call fails, not two");
        assert!(!log.report.is_loud(), "{:?}", log.report.findings);
        log
    }

    /// Sends until it is accepted; within a second of the failure, it is.
    fn record(&mut self, log: &mut Log, key: u128) {
        let sent = log.port.send(request(0, &[key], self.clock.now_ms()));
        if sent.is_ok() {
            log.writer.step();
            let completion = log.port.take().expect("a step answers what was sent");
            if completion.outcome != Outcome::DiskUnavailable {
                let verdict = completion.request.verdicts()[0];
                let Verdict::Accepted(seq) = verdict else { panic!("{key} was never accepted: {verdict:?}") };
                return self.accepted.push((seq, key));
            }
        }
        self.clock.pass(500);
        log.writer.step();
        self.record(log, key);
    }

    /// Whether the call that is to fail was made.
    fn live(&mut self, n: u64) -> bool {
        let mut log = self.open();
        for key in 1..=6 {
            self.record(&mut log, key);
            self.clock.pass(if key % 2 == 0 { 120 } else { 10 });
            log.writer.step();
        }
        log.stop();
        let mut log = self.open();
        for key in 7..=9 {
            self.record(&mut log, key);
        }
        self.clock.pass(60);
        log.writer.step();
        let is_durable = log.queue.figures().durable_seq() == 9;
        drop(log);
        if is_durable {
            self.disk.cut_power();
        }
        let folded = self.open().folded();
        assert_eq!(folded, self.accepted, "n = {n}");
        self.disk.calls() >= n
    }
}

fn every_call_fails(ack: Ack, fault: Fault) {
    for n in 1.. {
        let disk = SimulatedDisk::new(n);
        disk.plan(Plan::Nth(n, fault));
        let options = Options { ack, segment_bytes: 600, ..options() };
        let mut client = Client { disk, clock: Arc::default(), options, accepted: Vec::new() };
        if !client.live(n) {
            assert!(n > 60, "{n} calls are too few to have tried anything");
            return;
        }
    }
}

#[test]
fn any_call_may_fail_with_an_input_output_error() {
    every_call_fails(Ack::Disk, Fault::Eio);
    every_call_fails(Ack::Written, Fault::Eio);
}

#[test]
fn any_call_may_find_the_disk_full() {
    every_call_fails(Ack::Disk, Fault::Enospc);
    every_call_fails(Ack::Written, Fault::Enospc);
}

#[test]
fn any_call_may_do_less_than_asked() {
    every_call_fails(Ack::Disk, Fault::Short);
    every_call_fails(Ack::Written, Fault::Short);
}

#[test]
fn any_call_may_be_interrupted() {
    every_call_fails(Ack::Disk, Fault::Eintr);
    every_call_fails(Ack::Written, Fault::Eintr);
}

fn a_full_disk(ack: Ack) {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = Options { ack, ..options() };
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options).expect("the disk is well");
    log.record(&[1], clock.now_ms());

    disk.plan(Plan::Full);
    assert_eq!(log.record(&[2], clock.now_ms()).outcome, Outcome::DiskUnavailable);
    let refused = log.port.send(request(0, &[3], clock.now_ms())).map_err(|(_, refusal)| refusal);
    assert_eq!(refused, Err(Refusal::DiskUnavailable), "refused without a step");
    assert!(!log.queue.figures().is_available());
    for _ in 0..100 {
        clock.pass(100);
        log.writer.step();
    }
    let tries = disk.calls();
    assert!(tries < 100, "{tries} calls in ten seconds are a spin");

    disk.plan(Plan::Never);
    let due = log.writer.due().expect("it tries again by itself") - clock.monotonic();
    assert!(due.as_millis() <= 500, "{due:?}");
    clock.pass(due.as_millis() as u64);
    log.writer.step();
    let verdicts = log.record(&[2], clock.now_ms()).request.verdicts().to_vec();
    assert_eq!(verdicts, [Verdict::Accepted(2)], "a refused record leaves no trace");
}

#[test]
fn a_full_disk_refuses_at_once_and_serves_again_within_half_a_second_of_room() {
    a_full_disk(Ack::Disk);
    a_full_disk(Ack::Written);
}
