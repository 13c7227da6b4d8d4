//! Each call fails once, in each way. The log acknowledges nothing falsely, and then it resumes.

use std::sync::Arc;

use parallax::testing::clock::Clock;
use parallax::testing::log::{Ack, DISK_RECOVERED_MS, Options, RecordResult, SendError, WriteOutcome};

use super::simulated::{Fault, Plan, SimulatedDisk};
use super::{Log, TestClock, options, request};

struct Client {
    disk: SimulatedDisk,
    clock: Arc<TestClock>,
    options: Options,
    accepted: Vec<(u64, u128)>,
}

impl Client {
    /// Opens the log, and tries again if the one failing call is one of these.
    fn open(&self) -> Log {
        let open = || Log::open(Arc::new(self.disk.clone()), &self.clock, self.options.clone());
        let log = open().or_else(|_| open()).expect("only one call fails");
        assert!(!log.report.has_unexpected_damage(), "{:?}", log.report.damage);
        log
    }

    /// Sends a record, and sends it again every 500 ms until the log accepts it.
    fn record_until_accepted(&mut self, log: &mut Log, key: u128) {
        let sent = log.client.send(request(0, &[key], self.clock.now_ms()));
        if sent.is_ok() {
            log.writer.run_once();
            let completion = log.client.next_completion().expect("one step completes the request");
            if completion.outcome != WriteOutcome::DiskUnavailable {
                let result = completion.request.results()[0];
                let RecordResult::Accepted(seq) = result else {
                    panic!("{key} was never accepted: {result:?}")
                };
                return self.accepted.push((seq, key));
            }
        }
        self.clock.pass(500);
        log.writer.run_once();
        self.record_until_accepted(log, key);
    }

    /// Writes, stops, restarts and cuts the power. Returns whether there was an nth call, which fails.
    fn run(&mut self, n: u64) -> bool {
        let mut log = self.open();
        for key in 1..=6 {
            self.record_until_accepted(&mut log, key);
            self.clock.pass(if key % 2 == 0 { 120 } else { 10 });
            log.writer.run_once();
        }
        log.stop();
        let mut log = self.open();
        for key in 7..=9 {
            self.record_until_accepted(&mut log, key);
        }
        self.clock.pass(60);
        log.writer.run_once();
        let is_durable = log.queue.metrics().durable_seq() == 9;
        drop(log);
        if is_durable {
            self.disk.cut_power();
        }
        let consumed = self.open().consumed();
        assert_eq!(consumed, self.accepted, "n = {n}");
        self.disk.calls() >= n
    }
}

fn fail_each_call(ack: Ack, fault: Fault) {
    for n in 1.. {
        let disk = SimulatedDisk::new(n);
        disk.plan(Plan::Nth(n, fault));
        let options = Options { ack, segment_bytes: 600, ..options() };
        let mut client = Client { disk, clock: Arc::default(), options, accepted: Vec::new() };
        if !client.run(n) {
            assert!(n > 60, "{n} calls are too few");
            return;
        }
    }
}

#[test]
fn the_log_survives_an_io_error_in_any_call() {
    fail_each_call(Ack::Disk, Fault::Eio);
    fail_each_call(Ack::Written, Fault::Eio);
}

#[test]
fn the_log_survives_a_full_disk_in_any_call() {
    fail_each_call(Ack::Disk, Fault::Enospc);
    fail_each_call(Ack::Written, Fault::Enospc);
}

#[test]
fn the_log_survives_a_short_result_in_any_call() {
    fail_each_call(Ack::Disk, Fault::Short);
    fail_each_call(Ack::Written, Fault::Short);
}

#[test]
fn the_log_survives_an_interrupt_in_any_call() {
    fail_each_call(Ack::Disk, Fault::Eintr);
    fail_each_call(Ack::Written, Fault::Eintr);
}

fn check_full_disk(ack: Ack) {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = Options { ack, ..options() };
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options).expect("the disk works");
    log.record(&[1], clock.now_ms());

    disk.plan(Plan::Full);
    assert_eq!(log.record(&[2], clock.now_ms()).outcome, WriteOutcome::DiskUnavailable);
    let refused = log.client.send(request(0, &[3], clock.now_ms())).map_err(|(_, error)| error);
    assert_eq!(refused, Err(SendError::DiskUnavailable), "rejected without a step of the writer");
    assert!(!log.queue.metrics().is_available());
    for _ in 0..100 {
        clock.pass(100);
        log.writer.run_once();
    }
    let tries = disk.calls();
    assert!(tries < 100, "{tries} calls in ten seconds are too many");

    disk.plan(Plan::Never);
    let due = log.writer.next_due().expect("a retry is due") - clock.monotonic();
    assert!(due.as_millis() <= 500, "{due:?}");
    clock.pass(due.as_millis() as u64);
    log.writer.run_once();
    let results = log.record(&[2], clock.now_ms()).request.results().to_vec();
    assert_eq!(results, [RecordResult::Accepted(2)], "a rejected record leaves no trace");
}

#[test]
fn a_full_disk_rejects_records_until_half_a_second_after_there_is_room() {
    check_full_disk(Ack::Disk);
    check_full_disk(Ack::Written);
}

fn pass_and_run(log: &mut Log, clock: &TestClock, ms: u64) {
    clock.pass(ms);
    log.writer.run_once();
}

#[test]
fn a_failing_disk_is_reported_until_a_second_without_a_failure() {
    for ack in [Ack::Disk, Ack::Written] {
        let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
        let options = Options { ack, ..options() };
        let mut log = Log::open(Arc::new(disk.clone()), &clock, options).expect("the disk works");
        assert!(log.queue.metrics().is_recording());
        disk.plan(Plan::Full);
        log.record(&[1], clock.now_ms());
        assert!(!log.queue.metrics().is_recording(), "at once");
        disk.plan(Plan::Never);
        pass_and_run(&mut log, &clock, 500);
        assert!(log.queue.metrics().is_available(), "events are accepted again");
        pass_and_run(&mut log, &clock, DISK_RECOVERED_MS - 501);
        assert!(!log.queue.metrics().is_recording(), "one millisecond early");
        let due = log.writer.next_due().expect("the report is due") - clock.monotonic();
        assert!(due.as_millis() <= 1, "{due:?}");
        pass_and_run(&mut log, &clock, 1);
        assert!(log.queue.metrics().is_recording());
    }
}

#[test]
fn a_failure_that_a_new_segment_repairs_stops_no_recording() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk works");
    disk.plan(Plan::Nth(1, Fault::Eio));
    assert_eq!(log.record(&[1], clock.now_ms()).outcome, WriteOutcome::Durable);
    let metrics = log.queue.metrics();
    assert_eq!((metrics.is_recording(), metrics.write_errors()), (true, 1));
}

#[test]
fn a_disk_that_fails_until_the_stop_leaves_the_unsynced_seqs() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let options = Options { ack: Ack::Written, ..options() };
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options).expect("the disk works");
    log.record(&[1], clock.now_ms());
    pass_and_run(&mut log, &clock, 100);
    log.record(&[2, 3], clock.now_ms());
    disk.plan(Plan::From(1));
    let position = log.stop();
    assert_eq!((position.durable_seq, position.last_seq), (1, 3));
}
