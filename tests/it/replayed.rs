//! Real traffic of a site, sent as page views: what is known of each visitor then is what counting its requests gives.

use std::collections::BTreeMap;

use parallax::resolve::user_agent::Agents;
use serde_json::{Value, json};

use crate::harness::{Client, Server, cases};

const BATCH: usize = 500;
const SILENCE_S: i64 = 30 * 60;

/// A line of the log.
struct Seen {
    visitor: String,
    /// Seconds since 1970.
    at_s: i64,
    /// As it was asked for.
    target: String,
    agent: String,
}

fn seen(line: &str) -> Seen {
    let columns: Vec<&str> = line.split('\t').collect();
    let [visitor, time, request, _, _, _, agent] = columns[..] else { panic!("seven columns: {line}") };
    let target = request.split(' ').nth(1).unwrap_or(request);
    Seen {
        visitor: visitor.to_owned(),
        at_s: seconds(time),
        target: target.to_owned(),
        agent: agent.to_owned(),
    }
}

/// "17/May/2015:10:05:03 +0000"; the file is of one month.
fn seconds(time: &str) -> i64 {
    let number = |from: usize, to: usize| time[from..to].parse::<i64>().expect("digits");
    assert!(time[2..].starts_with("/May/2015:") && time.ends_with(" +0000"), "{time}");
    // The 1st of May 2015 is day 16,556.
    ((16_555 + number(0, 2)) * 24 + number(12, 14)) * 3_600 + number(15, 17) * 60 + number(18, 20)
}

/// A path as pages are counted by: without query, fragment and closing slash, its escapes decoded; what is no path as it came.
fn page(target: &str) -> String {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let path = if path.len() > 1 { path.strip_suffix('/').unwrap_or(path) } else { path };
    if path.contains("//") || !path.starts_with('/') {
        return target.to_owned();
    }
    let (mut bytes, mut rest) = (Vec::new(), path.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        let hex = behind.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| target.to_owned())
}

/// Spans of requests with no more than half an hour between two.
fn visits(mut times_s: Vec<i64>) -> usize {
    times_s.sort_unstable();
    1 + times_s.windows(2).filter(|two| two[1] - two[0] > SILENCE_S).count()
}

#[test]
fn three_thousand_requests_of_a_real_site_give_the_visits_and_counts_that_counting_gives() {
    let Some(folder) = cases() else { return };
    let text = std::fs::read_to_string(folder.join("apache-access-log/requests.tsv")).expect("the log");
    let all: Vec<Seen> = text.lines().skip(1).map(seen).collect();
    assert_eq!(all.len(), 3_000);
    let server = Server::demo();
    let mut client = Client::to(server.edge);
    for batch in all.chunks(BATCH) {
        let events: Vec<Value> = batch
            .iter()
            .map(|seen| {
                json!({ "type": "page", "anonId": seen.visitor, "timestamp": seen.at_s * 1_000,
                    "properties": { "path": seen.target }, "context": { "userAgent": seen.agent } })
            })
            .collect();
        let body = json!({ "batch": events }).to_string();
        let response = client.post("/v1/batch?site=fjell", &[], body.as_bytes());
        assert_eq!(response.json()["accepted"], batch.len(), "{}", response.text());
    }

    let agents = Agents::new();
    let mut people: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
    for seen in all.iter().filter(|seen| !agents.facts(&seen.agent).crawler) {
        people.entry(&seen.visitor).or_default().push(seen);
    }
    assert!(people.len() > 300, "{} visitors are no crawlers", people.len());
    for (visitor, seen) in &people {
        let told = server.admin_get(&format!("/visitors?site=fjell&anonId={visitor}")).json();
        let profile = &told["profile"];
        // One more is the visit that begins now: the last was in 2015.
        let times: Vec<i64> = seen.iter().map(|seen| seen.at_s).collect();
        assert_eq!(profile["visitor"]["visits"], visits(times.clone()) + 1, "{visitor}");
        assert_eq!(profile["visitor"]["pageViews"], seen.len(), "{visitor}");
        assert_eq!(profile["visitor"]["firstSeen"], times.iter().min().expect("a time") * 1_000, "{visitor}");
        assert_eq!(profile["visitor"]["lastSeen"], times.iter().max().expect("a time") * 1_000, "{visitor}");
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        seen.iter().for_each(|seen| *counts.entry(page(&seen.target)).or_default() += 1);
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
            // A page that went and came back counts anew.
            for (path, history) in kept {
                let count = history["count"].as_u64().expect("a count") as usize;
                assert!((1..=counts[path]).contains(&count), "{path} of {visitor}");
            }
        }
    }
    let crawler = all.iter().find(|seen| agents.facts(&seen.agent).crawler).expect("the log has crawlers");
    if !people.contains_key(&*crawler.visitor) {
        let told = server.admin_get(&format!("/visitors?site=fjell&anonId={}", crawler.visitor)).json();
        assert_eq!(told["known"], false, "a crawler has no profile");
    }
}
