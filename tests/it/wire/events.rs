//! The event endpoints over HTTP (interface, section 10): requests, responses and the resulting log records.
//!
//! Tests share a server and its log. Each test reads only the records of its own visitor.

mod bounds;
mod duplicates;
mod kinds;
mod origins;
mod policies;
mod receipts;
mod recorded;
mod sites;
mod transport;
mod types;
mod visitors;

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::{SharedServer, compile_site, page, site_file};
use crate::harness::{Response, Server};
use crate::logged;

static SERVER: SharedServer = SharedServer::new(start_default);

/// Starts a server for five sites with different policies.
fn start_default() -> Server {
    start_with_flags(&[])
}

fn start_with_flags(flags: &[&str]) -> Server {
    let routes = [page("/", json!({})), page("/pricing", json!({}))];
    let sites = [
        ("acme", json!({})),
        ("closed", json!({ "origins": ["https://www.acme.example", "http://localhost:*"], "cookie": "vid" })),
        (
            "shops",
            json!({ "origins": ["https://www.acme.example", "https://*.shop.example"], "hosts": ["www.sister.example"], "ignoredReferrers": ["www.pay.example", "*.bank.example"] }),
        ),
        ("dropping", json!({ "bots": "drop", "privacy": { "honorGpc": true, "ip": "truncated" } })),
        ("keeping", json!({ "bots": "keep", "privacy": { "ip": "full" } })),
    ];
    let snapshots =
        sites.map(|(id, more)| (format!("{id}.snapshot"), compile_site(&site_file(id, more), &routes, 1)));
    let snapshots: Vec<_> = snapshots.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    Server::start(&snapshots, flags)
}

/// Returns an ID that no other test uses.
fn unique_id(prefix: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("{prefix}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

fn post(target: &str, body: &Value) -> Response {
    post_with(target, &[], body)
}

fn post_with(target: &str, fields: &[(&str, &str)], body: &Value) -> Response {
    SERVER.get().post(target, fields, body.to_string().as_bytes())
}

/// Returns the record of the visitor's only event, which `receipt` acknowledges.
#[track_caller]
fn only_record(receipt: &Response, anon_id: &str) -> Value {
    let mut records = records_of(receipt, anon_id);
    assert_eq!(records.len(), 1, "{records:?}");
    records.remove(0)
}

/// Returns the records of the visitor up to `receipt`.
#[track_caller]
fn records_of(receipt: &Response, anon_id: &str) -> Vec<Value> {
    assert_eq!(receipt.status, 200, "{}", receipt.text());
    let mut records = logged::records_up_to(SERVER.get().data(), receipt);
    records.retain(|record| record["anonId"] == anon_id);
    records
}

/// Returns the numbers of accepted, duplicate, dropped and rejected events.
#[track_caller]
fn counts(receipt: &Response) -> [u64; 4] {
    assert_eq!(receipt.status, 200, "{}", receipt.text());
    let receipt = receipt.json();
    ["accepted", "duplicates", "dropped", "rejected"].map(|name| receipt[name].as_u64().expect("a count"))
}

/// Returns the status, code and pointer of a problem.
fn problem_with_pointer(response: &Response) -> (u16, String, Option<String>) {
    let pointer = response.json()["pointer"].as_str().map(str::to_owned);
    (response.status, response.code(), pointer)
}

fn expected_problem(status: u16, code: &str, pointer: &str) -> (u16, String, Option<String>) {
    (status, code.to_owned(), (!pointer.is_empty()).then(|| pointer.to_owned()))
}
