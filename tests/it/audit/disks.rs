//! Failing disks and power cuts, on a simulated disk. It also checks that no descriptor is used after a failure.

use super::{Log, details, read};
use crate::dice::Dice;
use crate::harness::times;
use crate::log::simulated::{Fault, Plan};

/// Appends batches until one fails and then some more. Returns the lines that were acknowledged.
fn append_all(log: &mut Log, batches: u64) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for batch in 0..batches {
        let lines = details(batch * 10..batch * 10 + 1 + batch % 4);
        if log.append(&lines).is_ok() {
            acknowledged.extend(lines);
        }
    }
    acknowledged
}

#[test]
fn each_call_fails_once_in_each_way_and_no_acknowledged_line_is_lost() {
    let calls = {
        let mut log = Log::new(1);
        append_all(&mut log, 5);
        log.disk.calls()
    };
    assert!(calls > 15, "{calls}");
    for fault in [Fault::Eio, Fault::Enospc, Fault::Short, Fault::Eintr] {
        for call in 1..=calls + 8 {
            let mut log = Log::new(call);
            log.disk.plan(Plan::Nth(call, fault));
            let acknowledged = append_all(&mut log, 5);
            log.disk.plan(Plan::Never);
            assert!(acknowledged.len() >= 6, "{fault:?} {call}: at most one batch fails");
            let (report, found) = log.read();
            // A failed batch is cut when the file is opened again.
            let last_failed = acknowledged.last() != details(40..41).last();
            if !last_failed {
                assert_eq!(found, acknowledged, "{fault:?} {call}");
            }
            assert!(report.damage.is_empty(), "{fault:?} {call}: {report:?}");
            log.restart();
            log.disk.cut_power();
            let (report, found) = log.read();
            assert_eq!(found.get(..acknowledged.len()), Some(&acknowledged[..]), "{fault:?} {call}");
            assert!(last_failed || report.damage.is_empty(), "{fault:?} {call}: {report:?}");
        }
    }
}

#[test]
fn a_full_disk_refuses_lines_and_continues_when_it_has_space() {
    let mut log = Log::new(1);
    log.append(&details(0..3)).expect("the disk works");
    log.disk.plan(Plan::Full);
    for _ in 0..3 {
        assert!(log.append(&details(3..5)).is_err());
        assert_eq!(read(&log.disk).1[..3], details(0..3));
    }
    log.disk.plan(Plan::Never);
    log.append(&details(5..7)).expect("the disk has space");
    let (report, found) = log.read();
    let expected = [details(0..3), details(5..7)].concat();
    assert_eq!((found, report.damage.len(), report.files), (expected, 0, 1));
}

#[test]
fn a_disk_that_cannot_be_written_at_the_start_is_used_later() {
    let mut log = Log::new(1);
    log.disk.plan(Plan::Full);
    assert!(log.writer().tick().is_err());
    log.disk.plan(Plan::Never);
    assert_eq!(log.writer().tick().expect("the disk works").number, 0);
    log.append(&details(0..1)).expect("the disk works");
    assert_eq!(log.read().1, details(0..1));
}

#[test]
fn power_cuts_at_any_call_lose_no_acknowledged_line() {
    for seed in 0..times(2_000, 50_000) as u64 {
        let mut dice = Dice(seed);
        let mut log = Log::new(seed);
        let mut acknowledged: Vec<String> = Vec::new();
        let mut has_torn_batch = false;
        for life in 0..4 {
            log.disk.plan(match dice.below(3) {
                0 => Plan::From(1 + dice.below(25) as u64),
                1 => Plan::OneIn(12),
                _ => Plan::Never,
            });
            for batch in 0..3 {
                let begin = life * 1_000 + batch * 100;
                let lines = details(begin..begin + 1 + dice.below(20) as u64);
                match log.append(&lines) {
                    Ok(_) => acknowledged.extend(lines),
                    Err(_) => has_torn_batch = true,
                }
            }
            log.restart();
            log.disk.cut_power();
            log.disk.plan(Plan::Never);
            let (report, found) = log.read();
            let mut left = acknowledged.iter().peekable();
            found.iter().for_each(|line| _ = left.next_if_eq(&line));
            assert_eq!(left.next(), None, "seed {seed}, life {life}: a line is missing: {report:?}");
            // The bytes of an unsynced batch can be anything after a power cut.
            assert!(has_torn_batch || report.damage.is_empty(), "seed {seed}: {report:?}");
        }
    }
}
