//! Questions that wait for the thread `insights`: their order, equal ones, and clients that go.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use parallax::testing::admin::waiting::{WAIT_MAX, WaitingQuestion, WaitingQuestions};
use serde_json::{Value, json};

use super::goals::{conversions, publication};
use super::served::{column_files, page, send, without_time};
use crate::dice::Dice;
use crate::harness::{Client, PATIENCE, Response, Server, eventually, times};

/// Requests that wait at most.
const REQUESTS_MAX: usize = 128;

/// A server whose thread `insights` stops at its first question, at a column file that is a FIFO without a writer.
struct HeldServer {
    server: Server,
    fifo: PathBuf,
}

impl HeldServer {
    fn start() -> Self {
        let demo = parallax::testing::cli::demo::compile_demo().1;
        let server = Server::start(&[("demo.snapshot", &demo)], &["--segment-bytes", "65536"]);
        let mut edge = Client::to(server.edge);
        (0..20).for_each(|_| send(&mut edge, &[page("a", "/")]));
        let name = eventually("a column file is written", || column_files(&server).into_iter().next());
        let (fifo, other) = (server.data().join(name), server.path("fifo"));
        assert!(Command::new("mkfifo").arg(&other).status().expect("mkfifo is there").success());
        fs::rename(other, &fifo).expect("the FIFO replaces the column file");
        Self { server, fifo }
    }

    /// Lets the thread continue. It builds the column file again. The returned writer keeps the FIFO open.
    fn release(&self) -> File {
        OpenOptions::new().write(true).open(&self.fifo).expect("the FIFO opens when the thread reads it")
    }

    /// Sends a question. When this returns, the admin thread has read it, because it has answered a later request.
    fn ask(&self, question: &str) -> Client {
        let mut client = Client::to(self.server.admin);
        client.send(request(question).as_bytes());
        assert_eq!(self.server.admin_get("/healthz").status, 200);
        client
    }

    /// Publishes a version of the site `acme` with these goals. Returns when the server serves the version.
    fn publish_goals(&self, version: u64, goals: &Value) {
        self.server.publish("acme.snapshot", &publication(version, goals));
        let version = version.to_string();
        eventually("the version is served", || {
            let response = self.server.get("/v1/routes?site=acme");
            (response.field("x-version") == Some(&version)).then_some(())
        });
    }

    fn metric(&self, name: &str) -> u64 {
        let page = self.server.admin_get("/metrics");
        let value = page.text().lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no metric {name}"))
    }

    fn wait_for_abandoned(&self, questions: u64) {
        eventually("the server notices the clients that have gone", || {
            (self.metric("parallax_insights_abandoned_total ") == questions).then_some(())
        });
    }

    /// Returns the questions that were answered.
    fn answered(&self) -> u64 {
        self.metric("parallax_insights_query_seconds_count ")
    }
}

fn request(question: &str) -> String {
    format!("GET /insights/{question} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

fn top(limit: usize) -> String {
    format!("top?site=fjell&of=page&limit={limit}")
}

fn answer_of(mut client: Client) -> Response {
    let response = client.response(false);
    assert_eq!(response.status, 200, "{}", response.text());
    response
}

#[test]
fn a_question_whose_client_has_gone_is_not_answered() {
    let held = HeldServer::start();
    let clients: Vec<Client> = (1..=6).map(|limit| held.ask(&top(limit))).collect();
    let last = held.ask(&top(7));
    drop(clients);
    held.wait_for_abandoned(6);
    let _writer = held.release();
    assert_eq!(answer_of(last).json()["total"]["views"], 20);
    assert_eq!(held.answered(), 1);
}

#[test]
fn a_question_about_goals_that_change_while_it_waits_gets_503_and_a_time_to_retry() {
    let held = HeldServer::start();
    let order = json!({ "name": "Order", "event": "Order Placed" });
    let free =
        json!({ "name": "Free", "event": "Order Placed", "where": { "properties.plan": { "$eq": "free" } } });
    held.publish_goals(1, &json!({ "order": order }));
    let plans = ["pro", "free", "free"];
    let events = plans.map(
        |plan| json!({"type": "track", "anonId": "v", "event": "Order Placed", "properties": {"plan": plan}}),
    );
    let body = json!({"trackingId": "track_acme", "batch": events}).to_string();
    let mut edge = Client::to(held.server.edge);
    assert_eq!(edge.post("/v1/batch", &[("Content-Type", "application/json")], body.as_bytes()).status, 200);
    let _first = held.ask(&top(1));
    let mut waiting = held.ask("overview?site=acme&goal=order");
    // The goal has another number now.
    held.publish_goals(2, &json!({ "free": free, "order": order }));
    let _writer = held.release();
    let refused = waiting.response(false);
    assert_eq!((refused.status, refused.code()), (503, "columns_building".to_owned()), "{}", refused.text());
    assert!(refused.field("retry-after").is_some());
    assert_eq!(["free", "order"].map(|goal| conversions(&held.server, goal)), [2, 3]);
}

#[test]
fn a_client_that_closes_its_sending_half_has_gone() {
    let held = HeldServer::start();
    let mut client = TcpStream::connect(held.server.admin).expect("connects");
    client.write_all(request(&top(1)).as_bytes()).expect("sent");
    client.shutdown(Shutdown::Write).expect("the connection is open");
    held.wait_for_abandoned(1);
    assert_eq!(client.read_to_end(&mut Vec::new()).ok(), Some(0));
    drop(held.release());
}

#[test]
fn equal_questions_share_one_answer_until_the_last_client_has_gone() {
    let held = HeldServer::start();
    let first = held.ask(&top(1));
    let mut equal: Vec<Client> = (0..10).map(|_| held.ask(&top(2))).collect();
    let alone = held.ask(&top(3));
    drop((equal.pop(), equal.pop(), alone));
    held.wait_for_abandoned(1);
    let _writer = held.release();
    answer_of(first);
    let texts: Vec<String> = equal.into_iter().map(|client| answer_of(client).text().to_owned()).collect();
    assert_eq!(texts.len(), 8);
    assert!(texts.iter().all(|text| *text == texts[0]), "one computation gives one text, with one time");
    assert_eq!(held.answered(), 2);
}

#[test]
fn an_equal_question_that_is_asked_after_an_event_has_the_event() {
    let held = HeldServer::start();
    let (before, same) = (held.ask(&top(1)), held.ask(&top(1)));
    send(&mut Client::to(held.server.edge), &[page("b", "/")]);
    let after = held.ask(&top(1));
    let _writer = held.release();
    let [before, same, after] = [before, same, after].map(|client| answer_of(client).json());
    assert_eq!((&before["took"], &after["seq"]), (&same["took"], &json!("21")));
}

#[test]
fn one_request_more_than_the_most_is_refused_until_one_ends() {
    let held = HeldServer::start();
    let mut waiting: Vec<Client> = (1..=REQUESTS_MAX + 1).map(|limit| held.ask(&top(limit))).collect();
    waiting.iter_mut().for_each(|client| client.set_read_timeout(Duration::from_millis(1)));
    let (refused, response) = eventually("a request is refused", || {
        waiting.iter_mut().enumerate().find_map(|(number, client)| Some((number, client.try_response()?)))
    });
    assert_eq!((response.status, response.code()), (503, "overloaded".to_owned()));
    assert!(response.field("retry-after").is_some());
    drop(waiting.swap_remove(refused));
    assert!(waiting.iter_mut().all(|client| client.try_response().is_none()), "no other one is refused");
    drop(waiting.pop());
    held.wait_for_abandoned(1);
    waiting.push(held.ask(&top(REQUESTS_MAX + 2)));
    let _writer = held.release();
    for mut client in waiting {
        client.set_read_timeout(PATIENCE);
        answer_of(client);
    }
}

#[test]
fn a_count_of_audiences_whose_client_has_gone_is_dropped() {
    let held = HeldServer::start();
    let _first = held.ask(&top(1));
    drop(held.ask("audiences?site=fjell"));
    held.wait_for_abandoned(1);
    let _writer = held.release();
    let audiences = answer_of(held.ask("audiences?site=fjell")).json();
    assert!(audiences["audiences"].is_array());
}

#[test]
fn an_overview_answers_its_lists_as_top_does() {
    let server = Server::demo();
    let mut edge = Client::to(server.edge);
    send(&mut edge, &[page("a", "/"), page("b", "/b"), page("b", "/")]);
    let ask = |question: &str| without_time(server.admin_get(&format!("/insights/{question}")).json());
    let shared = "site=fjell&page=/&limit=1&contains=%2F";
    let whole = ask(&format!("overview?{shared}&by=hour&of=page&of=device"));
    let mut expected = ask(&format!("overview?{shared}&by=hour"));
    let mut lists = whole["lists"].clone();
    for list in lists.as_array_mut().expect("an array") {
        *list = without_time(list.take());
    }
    assert_eq!(
        lists,
        json!([ask(&format!("top?{shared}&of=page")), ask(&format!("top?{shared}&of=device"))])
    );
    expected["lists"] = whole["lists"].clone();
    assert_eq!(whole, expected);
}

#[test]
fn an_overview_refuses_a_list_that_is_unknown_or_given_twice_or_long() {
    let server = Server::demo();
    let ask = |lists: &str| server.admin_get(&format!("/insights/overview?site=fjell&{lists}"));
    for (lists, code) in [
        ("of=page&of=page", "repeated_param"),
        ("of=page&of=no", "invalid_param"),
        ("of=page&limit=101", "invalid_limit"),
    ] {
        let response = ask(lists);
        assert_eq!((response.status, response.code()), (400, code.to_owned()), "{lists}");
    }
    for lists in ["of=page&limit=99", "of=page&limit=100", "limit=101"] {
        assert_eq!(ask(lists).status, 200, "{lists}");
    }
}

#[test]
fn an_overview_with_lists_is_304_until_an_event_arrives() {
    let server = Server::demo();
    let mut edge = Client::to(server.edge);
    let target = "/insights/overview?site=fjell&of=page&of=event";
    send(&mut edge, &[page("a", "/")]);
    let first = server.admin_get(target);
    let etag = first.field("etag").expect("an ETag").to_owned();
    let ask =
        |target: &str| Client::to(server.admin).request("GET", target, &[("If-None-Match", &etag)]).status;
    assert_eq!(ask(target), 304);
    assert_eq!(ask("/insights/overview?site=fjell&of=page"), 200);
    send(&mut edge, &[page("a", "/")]);
    assert_eq!(ask(target), 200);
}

/// A place of the naive queue, in the order of the answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct NaivePlace {
    turn: u64,
    arrival: u64,
    key: char,
    place: (usize, usize),
    has_gone: bool,
}

/// A naive queue: each place that was added, until its question is answered or the last place of it has gone.
#[derive(Default)]
struct NaiveQueue {
    places: Vec<NaivePlace>,
    turn: u64,
    arrivals: u64,
}

impl NaiveQueue {
    fn add(&mut self, key: char, place: (usize, usize)) {
        self.arrivals += 1;
        let turn = self.turn + 1 + place.1 as u64;
        self.places.push(NaivePlace { turn, arrival: self.arrivals, key, place, has_gone: false });
    }

    fn remove(&mut self, key: char) -> Vec<(usize, usize)> {
        let removed = self.places.extract_if(.., |place| place.key == key);
        removed.filter(|place| !place.has_gone).map(|place| place.place).collect()
    }

    fn take_next(&mut self) -> Option<(char, Vec<(usize, usize)>)> {
        let first = *self.places.iter().min()?;
        self.turn = first.turn;
        Some((first.key, self.remove(first.key)))
    }

    fn abandon(&mut self, slot: usize) -> usize {
        self.places.iter_mut().for_each(|place| place.has_gone |= place.place.0 == slot);
        let is_left = |key: char| self.places.iter().any(|place| place.key == key && !place.has_gone);
        let gone: HashSet<char> =
            self.places.iter().map(|place| place.key).filter(|key| !is_left(*key)).collect();
        gone.iter().for_each(|key| drop(self.remove(*key)));
        gone.len()
    }
}

#[test]
fn requests_take_turns_and_equal_questions_are_one() {
    for seed in 0..times(300, 10_000) as u64 {
        let mut dice = Dice(seed);
        let now = Instant::now();
        let (mut queue, mut naive) = (WaitingQuestions::default(), NaiveQueue::default());
        for slot in 0..40 {
            match dice.below(4) {
                0 | 1 => {
                    for number in 0..1 + dice.below(5) {
                        let key = (b'a' + dice.below(8) as u8) as char;
                        queue.add(key.to_string(), key, now, (slot, number));
                        naive.add(key, (slot, number));
                    }
                }
                2 => {
                    let taken =
                        queue.take_next().map(|WaitingQuestion { question, places, .. }| (question, places));
                    assert_eq!(taken, naive.take_next(), "seed {seed}");
                }
                _ => {
                    let gone = dice.below(40);
                    assert_eq!(queue.abandon(gone), naive.abandon(gone), "seed {seed}");
                }
            }
        }
    }
}

#[test]
fn a_stream_of_later_requests_delays_no_question_for_ever() {
    let (mut queue, now) = (WaitingQuestions::default(), Instant::now());
    (0..4).for_each(|number| queue.add(format!("first {number}"), 0, now, (0, number)));
    let mut taken: Vec<Value> = Vec::new();
    for slot in 1..=8 {
        queue.add(format!("other {slot}"), slot, now, (slot, 0));
        taken.extend(queue.take_next().map(|waiting| json!(waiting.question)));
    }
    assert_eq!(json!(taken), json!([0, 1, 0, 2, 3, 0, 4, 5]));
}

#[test]
fn a_question_is_overdue_after_30_seconds_from_its_first_request() {
    let (mut queue, now, ms) = (WaitingQuestions::default(), Instant::now(), Duration::from_millis(1));
    queue.add("same".to_owned(), (), now, (0, 0));
    queue.add("same".to_owned(), (), now + WAIT_MAX, (1, 0));
    let waiting = queue.take_next().expect("a question");
    let is_overdue = [WAIT_MAX - ms, WAIT_MAX, WAIT_MAX + ms].map(|waited| waiting.is_overdue(now + waited));
    assert_eq!((is_overdue, WAIT_MAX), ([false, false, true], Duration::from_secs(30)));
}
