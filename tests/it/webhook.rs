//! `--on-publish`: each served version reaches the receiver, and no failure of the receiver reaches a visitor.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use parallax::testing::webhook::queue::{DeliveryQueue, Message, ServedSite};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::harness::{PATIENCE, Server, eventually, snapshot, temporary_directory};

/// A request that the receiver got.
#[derive(Debug)]
struct Received {
    head: String,
    body: String,
}

impl Received {
    /// Reads one request. Returns `None` if the sender closes the connection.
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            (reader.read_line(&mut head).ok()? > 0).then_some(())?;
        }
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
        let mut body = vec![0; length.map_or(0, |length| length.parse().expect("digits"))];
        reader.read_exact(&mut body).ok()?;
        Some(Self { head, body: String::from_utf8(body).expect("UTF-8") })
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// A receiver that answers its requests one after the other. The thread ends with the test process.
struct Endpoint {
    address: SocketAddr,
    received: Receiver<Received>,
    /// The response to each request. Without one the request waits.
    answers: Sender<&'static str>,
}

impl Endpoint {
    fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").expect("a port"))
    }

    fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().expect("an address");
        let (tell, received) = channel();
        let (answers, to_send) = channel::<&str>();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let Some(request) = Received::read(&stream) else { continue };
                if tell.send(request).is_err() {
                    return;
                }
                let Ok(answer) = to_send.recv() else { return };
                // The sender may have given up meanwhile.
                let _ =
                    stream.write_all(format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n").as_bytes());
            }
        });
        Self { address, received, answers }
    }

    fn url(&self) -> String {
        format!("http://{}/hook?x=1", self.address)
    }

    fn receive(&self) -> Received {
        self.received.recv_timeout(PATIENCE).expect("a message arrives")
    }

    fn answer(&self, status: &'static str) {
        self.answers.send(status).expect("the receiver runs");
    }

    /// Receives a message and accepts it.
    fn accept(&self) -> Received {
        self.answer("204 No Content");
        self.receive()
    }
}

fn acme(version: u64) -> Vec<u8> {
    site("acme", version)
}

fn site(id: &str, version: u64) -> Vec<u8> {
    let about = format!(r#"{{"site":"{id}","trackingId":"track_{id}","name":"{id}"}}"#);
    let page = format!(r#"{{"path":"/","layout":{{"root":{{"props":{{"v":{version}}}}},"zones":{{}}}}}}"#);
    snapshot(&[("site.json", &about), ("routes/index.json", &page)], version)
}

fn start(url: &str, flags: &[&str]) -> Server {
    let flags = [&["--on-publish", url], flags].concat();
    Server::start(&[("acme.snapshot", &acme(1))], &flags)
}

fn metric(server: &Server, name: &str) -> u64 {
    let metrics = server.admin_get("/metrics");
    let line = metrics.text().lines().find(|line| line.starts_with(&format!("{name} ")));
    line.and_then(|line| line.rsplit(' ').next()).expect("the metric").parse().expect("a number")
}

fn served_version(server: &Server) -> Option<String> {
    server.get("/v1/resolve?site=acme&route=/&variants=").field("x-version").map(str::to_owned)
}

fn publish(server: &Server, version: u64) {
    server.publish("acme.snapshot", &acme(version));
    eventually("the version is served", || (served_version(server)? == version.to_string()).then_some(()));
}

/// Waits until the receiver has accepted `count` messages and none is pending.
fn wait_for_deliveries(server: &Server, count: u64) {
    eventually("the messages are delivered", || {
        let counts =
            ["deliveries_total", "pending"].map(|name| metric(server, &format!("parallax_webhook_{name}")));
        (counts == [count, 0]).then_some(())
    });
}

#[test]
fn each_publication_arrives_once() {
    let receiver = Endpoint::start();
    let server = start(&receiver.url(), &["--on-publish-token", "s3cret"]);
    let first = receiver.accept();
    assert!(first.head.starts_with("POST /hook?x=1 HTTP/1.1\r\n"), "{}", first.head);
    assert_eq!(first.body, r#"{"site":"acme","trackingId":"track_acme","version":"1","since":null}"#);
    assert_eq!(first.field("authorization"), Some("Bearer s3cret"));
    assert_eq!(first.field("content-type"), Some("application/json"));
    assert_eq!(first.field("user-agent"), Some(concat!("parallax/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(first.field("host"), Some(&*receiver.address.to_string()));
    wait_for_deliveries(&server, 1);
    publish(&server, 2);
    assert_eq!(receiver.accept().json()["since"], "1");
    // Another site, and a change that serves no other version.
    server.publish("other.snapshot", &site("other", 7));
    let other = receiver.accept().json();
    assert_eq!(other, json!({ "site": "other", "trackingId": "track_other", "version": "7", "since": null }));
    server.publish("copy.snapshot", &acme(2));
    publish(&server, 3);
    assert_eq!(receiver.accept().json()["version"], "3");
    wait_for_deliveries(&server, 4);
    assert!(receiver.received.try_recv().is_err());
    assert_eq!(metric(&server, "parallax_webhook_failures_total"), 0);
    server.wait_for_log("announced publication site=\"acme\" version=3 attempts=1");
}

#[test]
fn the_secrets_are_in_no_log_line() {
    let receiver = Endpoint::start();
    let url = format!("http://{}/hook?key=abc-key", receiver.address);
    let server = start(&url, &["--on-publish-token", "s3cret"]);
    receiver.answer("401 Unauthorized");
    receiver.receive();
    receiver.accept();
    wait_for_deliveries(&server, 1);
    server.wait_for_log("the receiver answered 401");
    let log = server.log();
    assert!(log.contains(&receiver.address.to_string()), "{log}");
    assert!(!log.contains("s3cret") && !log.contains("abc-key"), "{log}");
}

#[test]
fn a_refused_message_is_sent_again() {
    let receiver = Endpoint::start();
    let server = start(&receiver.url(), &[]);
    // A redirect is no success, and is not followed.
    let elsewhere = "302 Found\r\nLocation: /elsewhere";
    for answer in ["500 Internal Server Error", elsewhere] {
        receiver.answer(answer);
        let request = receiver.receive();
        assert!(request.head.starts_with("POST /hook?x=1 "), "{}", request.head);
        assert_eq!(request.field("authorization"), None);
    }
    assert_eq!(receiver.accept().json()["version"], "1");
    wait_for_deliveries(&server, 1);
    assert_eq!(metric(&server, "parallax_webhook_failures_total"), 2);
    server.wait_for_log("attempts=3");
    let log = server.log();
    assert_eq!(log.matches("cannot announce the publication").count(), 1, "{log}");
}

#[test]
fn a_receiver_that_is_down_gets_the_present_version_when_it_returns() {
    // No other test uses this address, so the port stays free.
    let reserved = TcpListener::bind("127.91.17.3:0").expect("a port");
    let address = reserved.local_addr().expect("an address");
    drop(reserved);
    let server = start(&format!("http://{address}/hook"), &[]);
    eventually("an attempt fails", || (metric(&server, "parallax_webhook_failures_total") > 0).then_some(()));
    publish(&server, 2);
    publish(&server, 3);
    assert_eq!(metric(&server, "parallax_webhook_pending"), 1);
    let receiver = Endpoint::on(TcpListener::bind(address).expect("the port is free"));
    // Version 1 was served before, but the receiver has accepted none.
    assert_eq!(
        receiver.accept().json(),
        json!({ "site": "acme", "trackingId": "track_acme", "version": "3", "since": "2" })
    );
    wait_for_deliveries(&server, 1);
}

#[test]
fn a_silent_receiver_delays_neither_publications_nor_visitors() {
    let receiver = Endpoint::start();
    let server = start(&receiver.url(), &["--on-publish-timeout-ms", "500"]);
    receiver.receive();
    for version in 2..=5 {
        publish(&server, version);
    }
    eventually("the attempt times out", || {
        (metric(&server, "parallax_webhook_failures_total") > 0).then_some(())
    });
    // The receiver reads attempts that have timed out, too, so it has more answers than messages.
    (0..100).for_each(|_| receiver.answer("204 No Content"));
    let next = eventually("the present version arrives", || {
        let next = receiver.receive().json();
        (next["version"] == "5").then_some(next)
    });
    assert_eq!(next["since"], "4");
    eventually("it is accepted", || (metric(&server, "parallax_webhook_pending") == 0).then_some(()));
}

#[test]
fn a_silent_receiver_does_not_delay_the_stop() {
    let receiver = Endpoint::start();
    let mut server = start(&receiver.url(), &["--on-publish-timeout-ms", "86400000"]);
    receiver.receive();
    server.signal("TERM");
    assert_eq!(server.exit_code(), 0);
}

#[test]
fn quick_publications_end_with_the_last_version() {
    let receiver = Endpoint::start();
    let server = start(&receiver.url(), &[]);
    for version in 2..=20 {
        server.publish("acme.snapshot", &acme(version));
    }
    let mut versions: Vec<(u64, Option<u64>)> = Vec::new();
    while versions.last().is_none_or(|(version, _)| *version < 20) {
        let message = receiver.accept().json();
        let number = |name: &str| message[name].as_str().map(|text| text.parse().expect("digits"));
        versions.push((number("version").expect("a version"), number("since")));
    }
    for pair in versions.windows(2) {
        assert!(pair[0].0 < pair[1].0 && pair[1].1 == Some(pair[0].0), "{versions:?}");
    }
    wait_for_deliveries(&server, versions.len() as u64);
}

#[test]
fn a_restart_sends_the_served_version_again() {
    let data = temporary_directory();
    let receiver = Endpoint::start();
    let url = receiver.url();
    let snapshots = [("acme.snapshot", &*acme(1))];
    let server = Server::start_with_data(data.path(), &snapshots, &["--on-publish", &url]);
    receiver.accept();
    publish(&server, 2);
    receiver.accept();
    wait_for_deliveries(&server, 2);
    let server = server.restart(&["--on-publish", &url]);
    assert_eq!(
        receiver.accept().json(),
        json!({ "site": "acme", "trackingId": "track_acme", "version": "2", "since": "1" })
    );
    wait_for_deliveries(&server, 1);
}

#[test]
fn an_https_receiver_is_called_with_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server =
        start(&format!("https://localhost:{}/", listener.local_addr().expect("an address").port()), &[]);
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut record = [0; 3];
    stream.read_exact(&mut record).expect("the begin of a handshake");
    assert_eq!(record[..2], [22, 3], "RFC 8446 section 5.1: a handshake record");
    drop(stream);
    server.wait_for_log("cannot announce the publication");
    assert_eq!(served_version(&server).as_deref(), Some("1"));
}

#[test]
fn a_bad_url_or_token_ends_the_start_with_the_flag_and_the_remedy() {
    let directory = temporary_directory();
    let refused = |flags: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_parallax"));
        let places = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        let output =
            command.args(places).args(flags).current_dir(directory.path()).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    for url in [
        "",
        "localhost:3000/hook",
        "ftp://a/b",
        "http://",
        "http:///a",
        "https://:80/",
        "http://a b/",
        "/hook",
        "http://a:99999/",
    ] {
        let text = refused(&["--on-publish", url]);
        assert!(
            text.contains("--on-publish") && text.contains("such as http://localhost:3000/"),
            "{url}: {text}"
        );
    }
    let text = refused(&["--on-publish", "https://me:s3cret@a.example/"]);
    assert!(text.contains("use --on-publish-token") && !text.contains("s3cret"), "{text}");
    for token in ["s3cret two", "s3cret\u{e9}", "s3cret\r\nX: y"] {
        let text = refused(&["--on-publish", "http://a.example/", "--on-publish-token", token]);
        assert!(text.contains("--on-publish-token") && text.contains("visible ASCII"), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
}

#[test]
fn a_token_without_a_url_is_a_warning() {
    let server = Server::start(&[], &["--on-publish-token", "s3cret"]);
    let log = server.log();
    assert!(log.contains("--on-publish-token has no effect without --on-publish; set both"), "{log}");
    assert!(!log.contains("s3cret"), "{log}");
}

fn served(id: &str, version: u64) -> ServedSite {
    ServedSite { site: id.to_owned(), tracking_id: format!("track_{id}"), version, version_before: None }
}

#[test]
fn the_pause_between_attempts_doubles_from_1_to_60_seconds() {
    let begun = Instant::now();
    let mut queue = DeliveryQueue::default();
    queue.update(&[served("a", 1)], begun);
    let (mut now, mut pauses) = (begun, Vec::new());
    for _ in 0..40 {
        let message = queue.due(now).expect("it is due");
        let pause = queue.retry_later(&message, now);
        assert_eq!(queue.next_attempt(), Some(now + pause));
        assert_eq!(queue.due(now + pause - Duration::from_millis(1)), None);
        now += pause;
        pauses.push(pause.as_secs());
    }
    assert_eq!(pauses[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
    assert!(pauses[8..].iter().all(|pause| *pause == 60));
    // A new version begins again.
    queue.update(&[served("a", 2)], now);
    assert_eq!(queue.due(now).map(|message| (message.version, message.attempt)), Some((2, 1)));
}

/// A step of the model test: the served versions of two sites (0: not served), and whether the receiver accepts.
type Step = ([u64; 2], bool, u64);

proptest! {
    #[test]
    fn the_receiver_learns_of_the_last_version_of_each_site(steps in prop::collection::vec(
        ([0_u64..4, 0_u64..4], any::<bool>(), 0_u64..90), 1..40)) {
        let steps: Vec<Step> = steps;
        let mut queue = DeliveryQueue::default();
        let mut now = Instant::now();
        let mut known: [Option<u64>; 2] = [None; 2];
        let mut before = [0; 2];
        for (versions, accepts, seconds) in steps {
            let names = ["a", "b"];
            let sites: Vec<_> = (0..2).filter(|i| versions[*i] > 0).map(|i| served(names[i], versions[i])).collect();
            queue.update(&sites, now);
            for i in 0..2 {
                if versions[i] != before[i] { known[i] = None; }
            }
            before = versions;
            while let Some(message) = queue.due(now) {
                let i = names.iter().position(|name| *name == message.site).expect("a site");
                prop_assert_eq!(message.version, versions[i]);
                prop_assert_eq!(known[i], None, "a version is sent once");
                if accepts {
                    queue.acknowledge(&message);
                    known[i] = Some(message.version);
                } else {
                    queue.retry_later(&message, now);
                }
            }
            let unknown = (0..2).filter(|i| versions[*i] > 0 && known[*i].is_none()).count();
            prop_assert_eq!(queue.pending(), unknown);
            prop_assert_eq!(queue.next_attempt().is_some(), unknown > 0);
            now += Duration::from_secs(seconds);
        }
    }
}

#[test]
fn a_message_is_json_with_versions_as_text() {
    let message = Message {
        site: "a".into(),
        tracking_id: "track_a".into(),
        version: 1 << 53,
        since: Some(7),
        attempt: 1,
    };
    assert_eq!(
        message.to_json(),
        r#"{"site":"a","trackingId":"track_a","version":"9007199254740992","since":"7"}"#
    );
}
