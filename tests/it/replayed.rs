//! Real traffic of a site, sent as page views: each profile equals a count of the visitor's requests.

use std::collections::BTreeMap;

use parallax::testing::resolve::user_agent::UserAgentParser;
use serde_json::{Value, json};

use crate::harness::{Client, Server, cases};

const BATCH: usize = 500;
const SILENCE_S: i64 = 30 * 60;

/// A line of the access log.
struct LoggedRequest {
    visitor: String,
    /// Time of the request, in seconds since 1970.
    at_s: i64,
    /// The request target, as the client sent it.
    target: String,
    agent: String,
}

fn parse_line(line: &str) -> LoggedRequest {
    let columns: Vec<&str> = line.split('\t').collect();
    let [visitor, time, request, _, _, _, agent] = columns[..] else { panic!("seven columns: {line}") };
    let target = request.split(' ').nth(1).unwrap_or(request);
    LoggedRequest {
        visitor: visitor.to_owned(),
        at_s: seconds(time),
        target: target.to_owned(),
        agent: agent.to_owned(),
    }
}

/// Parses "17/May/2015:10:05:03 +0000" into seconds since 1970. All lines are of the same month.
fn seconds(time: &str) -> i64 {
    let number = |from: usize, to: usize| time[from..to].parse::<i64>().expect("digits");
    assert!(time[2..].starts_with("/May/2015:") && time.ends_with(" +0000"), "{time}");
    // The 1st of May 2015 is day 16,556.
    ((16_555 + number(0, 2)) * 24 + number(12, 14)) * 3_600 + number(15, 17) * 60 + number(18, 20)
}

/// Returns the path under which a page is counted: without query, fragment and closing slash, and with
/// decoded escapes. Returns a target that is no path unchanged.
fn page(target: &str) -> String {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let path = if path.len() > 1 { path.strip_suffix('/').unwrap_or(path) } else { path };
    if path.contains("//") || !path.starts_with('/') {
        return target.to_owned();
    }
    let (mut bytes, mut rest) = (Vec::new(), path.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| target.to_owned())
}

/// Counts spans of requests without a pause of more than half an hour.
fn visits(mut times_s: Vec<i64>) -> usize {
    times_s.sort_unstable();
    1 + times_s.windows(2).filter(|two| two[1] - two[0] > SILENCE_S).count()
}

#[test]
fn profiles_of_real_traffic_match_the_counts_of_its_requests() {
    let Some(directory) = cases() else { return };
    let text = std::fs::read_to_string(directory.join("apache-access-log/requests.tsv")).expect("the log");
    let all: Vec<LoggedRequest> = text.lines().skip(1).map(parse_line).collect();
    assert_eq!(all.len(), 3_000);
    let server = Server::demo();
    let mut client = Client::to(server.edge);
    for batch in all.chunks(BATCH) {
        let events: Vec<Value> = batch
            .iter()
            .map(|request| {
                json!({ "type": "page", "anonId": request.visitor, "timestamp": request.at_s * 1_000,
                    "properties": { "path": request.target }, "context": { "userAgent": request.agent } })
            })
            .collect();
        let body = json!({ "batch": events }).to_string();
        let response = client.post("/v1/batch?site=fjell", &[], body.as_bytes());
        assert_eq!(response.json()["accepted"], batch.len(), "{}", response.text());
    }

    let parser = UserAgentParser::new();
    let mut visitors: BTreeMap<&str, Vec<&LoggedRequest>> = BTreeMap::new();
    for request in all.iter().filter(|request| !parser.parse(&request.agent).is_crawler) {
        visitors.entry(&request.visitor).or_default().push(request);
    }
    assert!(visitors.len() > 300, "only {} visitors are no crawlers", visitors.len());
    for (visitor, requests) in &visitors {
        let answer = server.admin_get(&format!("/visitors?site=fjell&anonId={visitor}")).json();
        let profile = &answer["profile"];
        let times: Vec<i64> = requests.iter().map(|request| request.at_s).collect();
        assert_eq!(profile["visitor"]["visits"], visits(times.clone()), "{visitor}");
        assert_eq!(profile["visitor"]["pageViews"], requests.len(), "{visitor}");
        assert_eq!(profile["visitor"]["firstSeen"], times.iter().min().expect("a time") * 1_000, "{visitor}");
        assert_eq!(profile["visitor"]["lastSeen"], times.iter().max().expect("a time") * 1_000, "{visitor}");
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        requests.iter().for_each(|request| *counts.entry(page(&request.target)).or_default() += 1);
        let kept = profile["pages"].as_object().expect("pages");
        assert_eq!(kept.len(), counts.len().min(64), "{visitor}: {kept:?} of {counts:?}");
        for (path, history) in kept.iter().filter(|_| counts.len() <= 64) {
            assert_eq!(
                history["count"],
                counts.get(path).copied().unwrap_or_default(),
                "{path} of {visitor}"
            );
        }
        if counts.len() > 64 {
            // A page that was dropped and visited again is counted from zero.
            for (path, history) in kept {
                let count = history["count"].as_u64().expect("a count") as usize;
                assert!((1..=counts[path]).contains(&count), "{path} of {visitor}");
            }
        }
    }
    let crawler =
        all.iter().find(|request| parser.parse(&request.agent).is_crawler).expect("the log has crawlers");
    if !visitors.contains_key(&*crawler.visitor) {
        let answer = server.admin_get(&format!("/visitors?site=fjell&anonId={}", crawler.visitor)).json();
        assert_eq!(answer["known"], false, "a crawler has no profile");
    }
}
