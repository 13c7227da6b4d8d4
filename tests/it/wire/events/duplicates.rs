//! Deduplication: an event is recorded once, even if it is sent several times or on several connections.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

use serde_json::json;

use super::{SERVER, counts, post, records_of, start_with_flags, unique_id};
use crate::harness::{Client, Server};
use crate::logged;

fn event(anon_id: &str, message_id: &str) -> String {
    json!({ "site": "acme", "anonId": anon_id, "event": "e", "messageId": message_id }).to_string()
}

#[test]
fn the_first_event_with_a_message_id_wins() {
    let (id, message) = (unique_id("dup"), unique_id("m"));
    let numbered =
        |n: u32| json!({ "anonId": id, "event": "e", "messageId": message, "properties": { "n": n } });
    let batch = json!({ "site": "acme", "batch": [numbered(1), numbered(2), numbered(3)] });
    let first = post("/v1/batch", &batch);
    assert_eq!(counts(&first), [1, 2, 0, 0]);
    assert_eq!(counts(&post("/v1/batch", &batch)), [0, 3, 0, 0]);
    let records = records_of(&first, &id);
    assert_eq!((records.len(), &records[0]["payload"]["properties"]["n"]), (1, &json!(1)));
}

#[test]
fn a_message_id_belongs_to_its_site_and_may_be_a_number() {
    let message = "9007199254740993";
    let post_to = |site: &str, message: serde_json::Value| {
        post("/v1/track", &json!({ "site": site, "anonId": "v1", "event": "e", "messageId": message }))
    };
    assert_eq!(counts(&post_to("acme", json!(message))), [1, 0, 0, 0]);
    assert_eq!(counts(&post_to("keeping", json!(message))), [1, 0, 0, 0]);
    assert_eq!(counts(&post_to("acme", json!(9_007_199_254_740_993_u64))), [0, 1, 0, 0]);
}

#[test]
fn only_accepted_events_are_deduplicated() {
    let message = unique_id("m");
    let mut event = json!({ "site": "acme", "anonId": "v1", "event": 7, "messageId": message });
    assert_eq!(post("/v1/track", &event).status, 400);
    event["event"] = "e".into();
    event["context"] = json!({ "preview": true });
    assert_eq!(counts(&post("/v1/track", &event)), [0, 0, 1, 0]);
    event["context"] = json!(null);
    assert_eq!(counts(&post("/v1/track?dryRun=1", &event)), [1, 0, 0, 0]);
    assert_eq!(counts(&post("/v1/track", &event)), [1, 0, 0, 0]);
    assert_eq!(counts(&post("/v1/track", &event)), [0, 1, 0, 0]);
}

#[test]
fn events_without_a_message_id_get_distinct_ids() {
    let id = unique_id("minted");
    let event = json!({ "anonId": id, "event": "e" });
    let receipt = post("/v1/batch", &json!({ "site": "acme", "batch": [event, event, event] }));
    assert_eq!(counts(&receipt), [3, 0, 0, 0]);
    assert!(!receipt.body_contains("messageId"));
    let records = records_of(&receipt, &id);
    let ids: BTreeSet<_> =
        records.iter().map(|record| record["messageId"].as_str().expect("an id")).collect();
    assert_eq!(ids.len(), 3);
}

#[test]
fn concurrent_connections_accept_each_message_once() {
    const CLIENTS: usize = 8;
    let (server, id) = (SERVER.get(), unique_id("raced"));
    let messages: Vec<String> = (0..50).map(|_| unique_id("m")).collect();
    let accepted = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = Client::to(server.edge);
                for message in &messages {
                    let receipt = client.post("/v1/track", &[], event(&id, message).as_bytes());
                    let [accepted_now, duplicates, ..] = counts(&receipt);
                    assert_eq!(accepted_now + duplicates, 1);
                    if accepted_now == 1 {
                        accepted.lock().expect("unpoisoned").push(message.clone());
                    }
                }
            });
        }
    });
    let mut accepted = accepted.into_inner().expect("unpoisoned");
    accepted.sort();
    let mut sent = messages.clone();
    sent.sort();
    assert_eq!(accepted, sent);
    let last = post("/v1/track", &json!({ "site": "acme", "anonId": id, "event": "last" }));
    assert_eq!(records_of(&last, &id).len(), messages.len() + 1);
}

#[test]
fn message_ids_survive_a_restart() {
    let mut server = start_with_flags(&[]);
    let send =
        |server: &Server, n: usize| server.post("/v1/track", &[], event("v1", &format!("m{n}")).as_bytes());
    for n in 0..3 {
        let receipt = send(&server, n);
        assert_eq!((counts(&receipt), logged::receipt_seq(&receipt)), ([1, 0, 0, 0], Some(n as u64 + 1)));
        server = server.restart(&[]);
        for before in 0..=n {
            assert_eq!(counts(&send(&server, before)), [0, 1, 0, 0]);
        }
    }
    assert_eq!(logged::records_after_start(&server, 0).len(), 3);
}
