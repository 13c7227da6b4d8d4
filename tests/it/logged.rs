//! What a data folder holds, read beside its server.

use std::path::Path;
use std::sync::Arc;

use parallax::storage::disk::RealDisk;
use parallax::visitors::events::export;
use parallax::visitors::log::{Item, Reader};
use serde_json::Value;

use crate::harness::{Response, Server, eventually};

/// The records behind `since`, as they are exported; what is wrong with the log fails the test.
pub fn records(folder: &Path, since: u64) -> Vec<Value> {
    let mut reader = Reader::open(Arc::new(RealDisk), folder, since).expect("the log can be read");
    let (mut records, mut line) = (Vec::new(), Vec::new());
    loop {
        match reader.read_next().expect("the log can be read") {
            None => return records,
            Some(Item::Finding(finding)) => panic!("{finding}"),
            Some(Item::Records(batch)) => {
                for (seq, record) in batch.iter() {
                    line.clear();
                    export::line(&mut line, seq, &record);
                    records.push(serde_json::from_slice(&line).expect("a line of JSON"));
                }
            }
        }
    }
}

/// The records behind `since` of a server that has just started. What was written last before is named durable a moment later.
pub fn recovered(server: &Server, since: u64) -> Vec<Value> {
    settled(server);
    records(server.data(), since)
}

/// Waits until all that a server found when it started is named durable.
pub fn settled(server: &Server) {
    let log = server.log();
    let next = log.split("the next one gets seq ").nth(1).expect("the server says so");
    let next: u64 =
        next.split(|c: char| !c.is_ascii_digit()).next().and_then(|text| text.parse().ok()).expect("digits");
    is_durable(server.data(), next - 1);
}

/// The records up to the last that `receipt` says was accepted.
pub fn up_to(folder: &Path, receipt: &Response) -> Vec<Value> {
    let seq = seq(receipt).expect("something was accepted");
    is_durable(folder, seq);
    let mut records = records(folder, 0);
    records.retain(|record| number(&record["seq"]) <= seq);
    records
}

fn is_durable(folder: &Path, seq: u64) {
    eventually("the log names it durable", || {
        let reader = Reader::open(Arc::new(RealDisk), folder, seq).expect("the log can be read");
        (reader.last_seq() >= seq).then_some(())
    });
}

/// The `seq` of a receipt.
pub fn seq(receipt: &Response) -> Option<u64> {
    let seq = &receipt.json()["seq"];
    (!seq.is_null()).then(|| number(seq))
}

/// A seq as it is exported.
pub fn number(seq: &Value) -> u64 {
    seq.as_str().and_then(|text| text.parse().ok()).expect("digits in a string")
}
