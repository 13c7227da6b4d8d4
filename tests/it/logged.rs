//! A reader for the data directory of a running server.

use std::path::Path;
use std::sync::Arc;

use parallax::testing::events::export;
use parallax::testing::log::{LogError, LogItem, LogReader};
use parallax::testing::storage::disk::RealDisk;
use serde_json::Value;

use crate::harness::{Response, Server, eventually};

/// Returns the records after seq `since` in the format of an export. Damage in the log fails the test.
pub fn records(directory: &Path, since: u64) -> Vec<Value> {
    let mut reader = LogReader::open(Arc::new(RealDisk), directory, since).expect("the log is readable");
    let (mut records, mut line) = (Vec::new(), Vec::new());
    loop {
        match reader.read_next().expect("the log is readable") {
            None => return records,
            Some(LogItem::Damage(damage)) => panic!("{damage}"),
            Some(LogItem::Records(batch)) => {
                for (seq, record) in batch.iter() {
                    line.clear();
                    export::write_line(&mut line, seq, &record);
                    records.push(serde_json::from_slice(&line).expect("a line of JSON"));
                }
            }
        }
    }
}

/// Calls `open`, again while the directory is locked: a process that another test starts holds the lock of a log, although that
/// log is closed, until it runs its own program.
pub fn when_unlocked<T>(mut open: impl FnMut() -> Result<T, LogError>) -> Result<T, LogError> {
    eventually("the directory is unlocked", || match open() {
        Err(LogError::Locked { .. }) => None,
        opened => Some(opened),
    })
}

/// Returns the records after seq `since` of a server that has just started. First waits until all of them are
/// marked durable, because the last ones of the previous run are marked a moment after the start.
pub fn records_after_start(server: &Server, since: u64) -> Vec<Value> {
    wait_until_durable(server);
    records(server.data(), since)
}

/// Waits until every record that the server found at startup is marked durable.
pub fn wait_until_durable(server: &Server) {
    let log = server.log();
    let next = log.split("next_seq=").nth(1).expect("the log line of the opened event log");
    let next: u64 =
        next.split(|c: char| !c.is_ascii_digit()).next().and_then(|text| text.parse().ok()).expect("digits");
    wait_for_seq(server.data(), next - 1);
}

/// Waits until the last record that `receipt` accepted is durable, and returns the records up to it.
pub fn records_up_to(directory: &Path, receipt: &Response) -> Vec<Value> {
    let seq = receipt_seq(receipt).expect("the receipt accepts an event");
    wait_for_seq(directory, seq);
    let mut records = records(directory, 0);
    records.retain(|record| parse_seq(&record["seq"]) <= seq);
    records
}

fn wait_for_seq(directory: &Path, seq: u64) {
    eventually("the record becomes durable", || {
        let reader = LogReader::open(Arc::new(RealDisk), directory, seq).expect("the log is readable");
        (reader.last_seq() >= seq).then_some(())
    });
}

/// Returns the `seq` of a receipt.
pub fn receipt_seq(receipt: &Response) -> Option<u64> {
    let seq = &receipt.json()["seq"];
    (!seq.is_null()).then(|| parse_seq(seq))
}

/// Parses a seq as it is exported.
pub fn parse_seq(seq: &Value) -> u64 {
    seq.as_str().and_then(|text| text.parse().ok()).expect("digits in a string")
}
