//! A killed process keeps every acknowledged event exactly once, and still recognizes it as a duplicate (R4).

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::harness::{Client, PATIENCE, Response, Server, eventually, post, times};
use crate::logged;

const CLIENTS: usize = 4;

fn server() -> Server {
    Server::start(&[("demo.snapshot", &parallax::testing::cli::demo::compile_demo().1)], &[])
}

/// Returns a request with an event for each message ID: a single event or a batch.
fn request(ids: &[String]) -> Vec<u8> {
    let event = |id: &String| json!({ "anonId": "v1", "event": "e", "messageId": id });
    let body = match ids {
        [id] => event(id),
        ids => json!({ "batch": ids.iter().map(event).collect::<Vec<_>>() }),
    };
    post("/v1/track?site=fjell", &[], body.to_string().as_bytes())
}

/// Sends single events and batches of seven in turn until the server is gone. Returns the acknowledged IDs.
/// `count` is the number of acknowledged events of all clients.
fn send(address: SocketAddr, name: &str, count: &AtomicUsize) -> Vec<String> {
    let mut acknowledged = Vec::new();
    let Ok(mut stream) = TcpStream::connect(address) else { return acknowledged };
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout is set");
    for n in 0.. {
        let size = if n % 2 == 0 { 1 } else { 7 };
        let ids: Vec<_> = (0..size).map(|i| format!("{name}-{n}-{i}")).collect();
        if stream.write_all(&request(&ids)).is_err() {
            break;
        }
        match read_response(&mut stream) {
            Some((200, body)) => assert_eq!(body["accepted"], size, "{body}"),
            // A server that is shutting down may refuse the request.
            Some((503, body)) => {
                assert_eq!(body["code"], "draining");
                break;
            }
            Some((status, body)) => panic!("{status} {body}"),
            None => break,
        }
        count.fetch_add(ids.len(), Ordering::Relaxed);
        acknowledged.extend(ids);
    }
    acknowledged
}

/// Returns the status and the body of the next response, or `None` if the connection ends in it.
fn read_response(stream: &mut TcpStream) -> Option<(u16, Value)> {
    let (mut received, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(bytes) => received.extend_from_slice(&chunk[..bytes]),
        }
        let text = String::from_utf8_lossy(&received);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length: usize = head.split("Content-Length: ").nth(1)?.split('\r').next()?.parse().ok()?;
        if body.len() == length {
            let status = head.split(' ').nth(1)?.parse().ok()?;
            return Some((status, serde_json::from_str(body).expect("JSON")));
        }
    }
}

/// Runs four clients against `server`. Once `min_events` events are acknowledged, runs `end`, which ends the
/// server. Returns the IDs of the acknowledged events.
fn run_clients(
    server: &mut Server,
    name: &str,
    min_events: usize,
    end: impl FnOnce(&mut Server),
) -> Vec<String> {
    let (count, address) = (AtomicUsize::new(0), server.edge);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (count, name) = (&count, format!("{name}-{client}"));
                scope.spawn(move || send(address, &name, count))
            })
            .collect();
        eventually("events are acknowledged", || (count.load(Ordering::Relaxed) >= min_events).then_some(()));
        end(server);
        clients.into_iter().flat_map(|client| client.join().expect("all responses were correct")).collect()
    })
}

/// Asserts that the records contain every acknowledged event, and no event twice.
#[track_caller]
fn assert_stored_once(records: &[Value], acknowledged: &[String]) {
    let mut found = BTreeMap::new();
    for record in records {
        *found.entry(record["messageId"].as_str().expect("an id")).or_insert(0) += 1;
    }
    let lost: Vec<_> = acknowledged.iter().filter(|id| !found.contains_key(id.as_str())).collect();
    let examples = &lost[..lost.len().min(10)];
    assert!(lost.is_empty(), "of {} acknowledged {} are lost: {examples:?}", acknowledged.len(), lost.len());
    let duplicated: Vec<_> = found.iter().filter(|(_, times)| **times > 1).collect();
    assert!(duplicated.is_empty(), "{duplicated:?}");
}

fn resend(server: &Server, ids: &[String]) -> Response {
    let mut client = Client::to(server.edge);
    client.send(&request(ids));
    client.response(false)
}

#[test]
fn a_server_killed_under_load_loses_and_duplicates_no_event() {
    let (mut server, mut acknowledged, mut since) = (server(), Vec::new(), 0);
    let rounds = times(20, 1_000);
    for round in 0..rounds {
        let min_events = 20 + 37 * (round % 7);
        let ids_of_round =
            run_clients(&mut server, &format!("r{round}"), min_events, |server| server.signal("KILL"));
        assert!(ids_of_round.len() >= min_events);
        // Segments that are hardly ever full, and segments that are full after some requests, in turn.
        server = server.restart(&["--segment-bytes", ["67108864", "65536"][round % 2]]);
        let records = logged::records_after_start(&server, since);
        assert_stored_once(&records, &ids_of_round);
        since = records.last().map_or(since, |record| logged::parse_seq(&record["seq"]));
        for ids in ids_of_round.chunks(500) {
            let receipt = resend(&server, ids).json();
            assert_eq!((&receipt["accepted"], &receipt["duplicates"]), (&json!(0), &json!(ids.len())));
        }
        acknowledged.extend(ids_of_round);
        if (round + 1) % 20 == 0 {
            assert_stored_once(&logged::records_after_start(&server, 0), &acknowledged);
        }
    }
    eprintln!("killed {rounds} times: {} events acknowledged, each found once", acknowledged.len());
}

#[test]
fn a_killed_server_with_ack_written_loses_no_event_either() {
    let mut server = server().restart(&["--ack", "written"]);
    let mut acknowledged = Vec::new();
    for round in 0..times(5, 100) {
        acknowledged
            .extend(run_clients(&mut server, &format!("w{round}"), 200, |server| server.signal("KILL")));
        server = server.restart(&["--ack", "written"]);
        assert_stored_once(&logged::records_after_start(&server, 0), &acknowledged);
    }
}

#[test]
fn a_server_stopped_under_load_answers_its_requests_and_seals_the_log() {
    let (mut server, mut acknowledged) = (server(), Vec::new());
    for round in 0..times(3, 50) {
        let ids_of_round = run_clients(&mut server, &format!("s{round}"), 200, |server| {
            server.signal("TERM");
            assert_eq!(server.exit_code(), 0);
        });
        acknowledged.extend(ids_of_round);
        server.wait_for_log("sealed the log");
        // The log is read before the restart. A sealed log states its end itself.
        assert_stored_once(&logged::records(server.data(), 0), &acknowledged);
        server = server.restart(&[]);
        assert!(!server.log().contains("WARN"), "{}", server.log());
    }
}
