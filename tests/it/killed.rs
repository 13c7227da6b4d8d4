//! What was acknowledged is there after the process is killed, once, and is known again (R4).

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
    Server::start(&[("demo.snapshot", &parallax::cli::demo::snapshot().1)], &[])
}

/// Events by their message IDs: singles and batches of seven by turns.
fn request(ids: &[String]) -> Vec<u8> {
    let event = |id: &String| json!({ "anonId": "v1", "event": "e", "messageId": id });
    let body = match ids {
        [id] => event(id),
        ids => json!({ "batch": ids.iter().map(event).collect::<Vec<_>>() }),
    };
    post("/v1/track?site=fjell", &[], body.to_string().as_bytes())
}

/// Sends events until the server is gone; the ids that it acknowledged. `count` is of all clients.
fn send(address: SocketAddr, name: &str, count: &AtomicUsize) -> Vec<String> {
    let mut acknowledged = Vec::new();
    let Ok(mut stream) = TcpStream::connect(address) else { return acknowledged };
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out is set");
    for n in 0.. {
        let size = if n % 2 == 0 { 1 } else { 7 };
        let ids: Vec<_> = (0..size).map(|i| format!("{name}-{n}-{i}")).collect();
        if stream.write_all(&request(&ids)).is_err() {
            break;
        }
        match whole_answer(&mut stream) {
            Some((200, body)) => assert_eq!(body["accepted"], size, "{body}"),
            // A server that is told to stop may say so.
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

/// Status and body of the next answer; None where the connection ends before it is whole.
fn whole_answer(stream: &mut TcpStream) -> Option<(u16, Value)> {
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

/// Four clients send to `server` until `end` ends it, which runs once `least` events are acknowledged. The ids of these.
fn load(server: &mut Server, name: &str, least: usize, end: impl FnOnce(&mut Server)) -> Vec<String> {
    let (count, address) = (AtomicUsize::new(0), server.edge);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (count, name) = (&count, format!("{name}-{client}"));
                scope.spawn(move || send(address, &name, count))
            })
            .collect();
        eventually("events are acknowledged", || (count.load(Ordering::Relaxed) >= least).then_some(()));
        end(server);
        clients.into_iter().flat_map(|client| client.join().expect("no answer was wrong")).collect()
    })
}

/// Every acknowledged event is among the records, and none of these is there twice.
#[track_caller]
fn holds(records: &[Value], acknowledged: &[String]) {
    let mut found = BTreeMap::new();
    for record in records {
        *found.entry(record["messageId"].as_str().expect("an id")).or_insert(0) += 1;
    }
    let lost: Vec<_> = acknowledged.iter().filter(|id| !found.contains_key(id.as_str())).collect();
    let some = &lost[..lost.len().min(10)];
    assert!(lost.is_empty(), "of {} acknowledged {} are lost: {some:?}", acknowledged.len(), lost.len());
    let twice: Vec<_> = found.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

fn resend(server: &Server, ids: &[String]) -> Response {
    let mut client = Client::to(server.edge);
    client.send(&request(ids));
    client.response(false)
}

#[test]
fn killed_under_load_it_loses_nothing_and_counts_nothing_twice() {
    let (mut server, mut acknowledged, mut since) = (server(), Vec::new(), 0);
    let rounds = times(20, 1_000);
    for round in 0..rounds {
        let least = 20 + 37 * (round % 7);
        let of_round = load(&mut server, &format!("r{round}"), least, |server| server.signal("KILL"));
        assert!(of_round.len() >= least);
        // By turns segments that are hardly ever full, and that are full after some requests.
        server = server.restart(&["--segment-bytes", ["67108864", "65536"][round % 2]]);
        let records = logged::recovered(&server, since);
        holds(&records, &of_round);
        since = records.last().map_or(since, |record| logged::number(&record["seq"]));
        for ids in of_round.chunks(500) {
            let receipt = resend(&server, ids).json();
            assert_eq!((&receipt["accepted"], &receipt["duplicates"]), (&json!(0), &json!(ids.len())));
        }
        acknowledged.extend(of_round);
        if (round + 1) % 20 == 0 {
            holds(&logged::recovered(&server, 0), &acknowledged);
        }
    }
    eprintln!("{rounds} times killed: {} events acknowledged, all found once", acknowledged.len());
}

#[test]
fn with_ack_written_a_killed_process_loses_nothing_either() {
    let mut server = server().restart(&["--ack", "written"]);
    let mut acknowledged = Vec::new();
    for round in 0..times(5, 100) {
        acknowledged.extend(load(&mut server, &format!("w{round}"), 200, |server| server.signal("KILL")));
        server = server.restart(&["--ack", "written"]);
        holds(&logged::recovered(&server, 0), &acknowledged);
    }
}

#[test]
fn stopped_under_load_it_answers_what_it_took_and_seals_the_log() {
    let (mut server, mut acknowledged) = (server(), Vec::new());
    for round in 0..times(3, 50) {
        let of_round = load(&mut server, &format!("s{round}"), 200, |server| {
            server.signal("TERM");
            assert_eq!(server.exit_code(), 0);
        });
        acknowledged.extend(of_round);
        assert!(server.log().contains("the log is sealed"), "{}", server.log());
        // As it was left: a sealed log needs nobody to name its end.
        holds(&logged::records(server.data(), 0), &acknowledged);
        server = server.restart(&[]);
        assert!(!server.log().contains("WARN"), "{}", server.log());
    }
}
