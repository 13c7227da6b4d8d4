//! After a restart the server knows exactly the visitors that the log contains.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parallax::testing::clock::now_ms;
use parallax::testing::log::{LogItem, LogReader};
use parallax::testing::record::IdKind;
use parallax::testing::resolve::visitor_context::profile_json;
use parallax::testing::storage::disk::RealDisk;
use parallax::testing::visitors::live::{ProfileReaders, ProfileTable};
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::harness::{PATIENCE, Server, eventually, post, times};
use crate::logged;

const CLIENTS: u64 = 4;
const MINUTE_MS: i64 = 60_000;

/// Returns an event of one of 30 visitors, who share users, pages and names.
fn event(dice: &mut Dice) -> Value {
    let anon_id = format!("v{}", dice.below(30));
    // The timestamp is up to four days old, so that visits end and events arrive late.
    let timestamp = now_ms() - MINUTE_MS * dice.below(4 * 24 * 60) as i64;
    let page = format!("https://acme.example/p{}?utm_source=s{}", dice.below(9), dice.below(3));
    match dice.below(8) {
        0..3 => {
            json!({ "type": "page", "anonId": anon_id, "timestamp": timestamp, "properties": { "url": page } })
        }
        3..5 => {
            json!({ "type": "track", "anonId": anon_id, "timestamp": timestamp, "event": format!("e{}", dice.below(5)) })
        }
        5 => {
            json!({ "type": "identify", "anonId": anon_id, "userId": format!("u{}", dice.below(10)), "timestamp": timestamp,
            "traits": { "plan": format!("p{}", dice.below(3)) } })
        }
        6 => {
            json!({ "type": "profile", "anonId": anon_id, "timestamp": timestamp, "increment": { "n": 1 }, "union": { "tags": [dice.below(4)] } })
        }
        _ => {
            json!({ "type": "track", "userId": format!("u{}", dice.below(10)), "timestamp": timestamp, "event": "server" })
        }
    }
}

/// Sends batches until the server is gone.
fn send(address: SocketAddr, seed: u64, acknowledged: &AtomicUsize) {
    let (mut dice, mut answer) = (Dice(seed), [0; 4096]);
    let Ok(mut stream) = TcpStream::connect(address) else { return };
    stream.set_read_timeout(Some(PATIENCE)).expect("the timeout is set");
    loop {
        let events: Vec<Value> = (0..=dice.below(20)).map(|_| event(&mut dice)).collect();
        let body = json!({ "batch": events }).to_string();
        if stream.write_all(&post("/v1/batch?site=fjell", &[], body.as_bytes())).is_err() {
            return;
        }
        match stream.read(&mut answer) {
            Ok(0) | Err(_) => return,
            Ok(bytes) => {
                assert!(answer[..bytes].starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer))
            }
        }
        acknowledged.fetch_add(events.len(), Ordering::Relaxed);
    }
}

/// Folds the log of a server. Returns the profiles, and the IDs that the records name.
fn fold_log(server: &Server) -> (ProfileReaders, BTreeSet<String>) {
    let (mut table, readers) = ProfileTable::new([7; 16], u64::MAX);
    let mut ids = BTreeSet::new();
    let mut reader = LogReader::open(Arc::new(RealDisk), server.data(), 0).expect("the log is readable");
    while let Some(item) = reader.read_next().expect("the log is readable") {
        let LogItem::Records(records) = item else { panic!("{item:?}") };
        table.fold(records);
        for (_, record) in records.iter() {
            ids.extend(record.anon_id.map(|id| format!("anonId={id}")));
            ids.extend(record.user_id.map(|id| format!("userId={id}")));
        }
    }
    (readers, ids)
}

/// Asserts that `server` knows every visitor of the log, with exactly the profile that the log gives.
fn assert_profiles_match_log(server: &Server) {
    logged::wait_until_durable(server);
    let (readers, ids) = fold_log(server);
    assert!(ids.len() > 30, "the log names too few visitors");
    let mut reader = readers.reader();
    for query in ids {
        let (kind, id) = query.split_once('=').expect("kind and id");
        let visitors = reader.pin();
        let id_kind = if kind == "anonId" { IdKind::Anon } else { IdKind::User };
        let profile = visitors.find("fjell", id_kind, id);
        let aliases: Vec<&str> = profile.iter().flat_map(|profile| profile.anon_ids()).collect();
        let answer = server.admin_get(&format!("/visitors?site=fjell&{query}")).json();
        assert_eq!(
            answer["profile"],
            Value::Object(profile_json(profile, profile.map_or(0, |profile| profile.visits()))),
            "{query}"
        );
        assert_eq!(answer["aliases"], json!(aliases), "{query}");
    }
}

#[test]
fn profiles_match_the_log_after_a_kill_under_load() {
    let mut server = Server::demo();
    for round in 0..times(3, 20) as u64 {
        let (acknowledged, address) = (AtomicUsize::new(0), server.edge);
        server = thread::scope(|scope| {
            for client in 0..CLIENTS {
                let acknowledged = &acknowledged;
                scope.spawn(move || send(address, 100 * round + client, acknowledged));
            }
            eventually("many events are acknowledged", || {
                (acknowledged.load(Ordering::Relaxed) > 500).then_some(())
            });
            server.restart(&[])
        });
        assert_profiles_match_log(&server);
    }
}
