//! Who is known after a restart: whoever the log knows, exactly as it does.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parallax::clock::now_ms;
use parallax::resolve::visitor_context::past_json;
use parallax::storage::disk::RealDisk;
use parallax::visitors::live::{Live, Looks};
use parallax::visitors::log::{Item, Reader};
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::harness::{PATIENCE, Server, eventually, post, times};
use crate::logged;

const CLIENTS: u64 = 4;
const MINUTE_MS: i64 = 60_000;

/// An event of one of a few visitors, who share users, pages and names.
fn event(dice: &mut Dice) -> Value {
    let anon_id = format!("v{}", dice.below(30));
    // Some days back, so that visits end and events come late.
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
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out is set");
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

/// What the records of a data folder say of visitors, and the ids that they name.
fn folded(server: &Server) -> (Looks, BTreeSet<String>) {
    let (mut live, looks) = Live::new([7; 16], u64::MAX);
    let mut ids = BTreeSet::new();
    let mut reader = Reader::open(Arc::new(RealDisk), server.data(), 0).expect("the log can be read");
    while let Some(item) = reader.read_next().expect("the log can be read") {
        let Item::Records(records) = item else { panic!("{item:?}") };
        live.fold(records);
        for (_, record) in records.iter() {
            ids.extend(record.anon_id.map(|id| format!("anonId={id}")));
            ids.extend(record.user_id.map(|id| format!("userId={id}")));
        }
    }
    (looks, ids)
}

/// Every visitor that the log names is known to `server` as the log's records say, whole.
fn assert_as_folded(server: &Server) {
    logged::settled(server);
    let (looks, ids) = folded(server);
    assert!(ids.len() > 30, "the log names visitors");
    let mut lookup = looks.lookup();
    for asked in ids {
        let (kind, id) = asked.split_once('=').expect("kind and id");
        let visitors = lookup.pin();
        let profile =
            if kind == "anonId" { visitors.anonymous("fjell", id) } else { visitors.user("fjell", id) };
        let aliases: Vec<&str> = profile.iter().flat_map(|profile| profile.anon_ids()).collect();
        let told = server.admin_get(&format!("/visitors?site=fjell&{asked}")).json();
        assert_eq!(told["profile"], Value::Object(past_json(profile, now_ms())), "{asked}");
        assert_eq!(told["aliases"], json!(aliases), "{asked}");
    }
}

#[test]
fn killed_under_load_every_profile_is_the_fold_of_the_log() {
    let mut server = Server::demo();
    for round in 0..times(3, 20) as u64 {
        let (acknowledged, address) = (AtomicUsize::new(0), server.edge);
        server = thread::scope(|scope| {
            for client in 0..CLIENTS {
                let acknowledged = &acknowledged;
                scope.spawn(move || send(address, 100 * round + client, acknowledged));
            }
            eventually("much is acknowledged", || (acknowledged.load(Ordering::Relaxed) > 500).then_some(()));
            server.restart(&[])
        });
        assert_as_folded(&server);
    }
}
