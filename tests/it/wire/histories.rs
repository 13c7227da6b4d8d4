//! Conditions on the past and on the clock: counts and times of events and pages, names that end in `*`, and
//! `now.at`.

use parallax::testing::clock::now_ms;
use parallax::testing::events::time;
use serde_json::{Value, json};

use super::{acme_snapshot, page, start_server, zone};
use crate::dice::Dice;
use crate::harness::{Client, Server, times};

const HOUR_MS: i64 = 3_600_000;
/// Names of events, some of which begin like others, and the names and prefixes of conditions.
const NAMES: [&str; 6] = ["Product Viewed", "Product Added", "Product", "Prod", "Order", "page.count"];
const NAMED: [&str; 8] =
    ["Product", "Product*", "Product *", "Prod*", "*", "page.count*", "page*", "Nothing*"];
const PATHS: [&str; 6] = ["/", "/docs", "/docs/a", "/docs/a/b", "/docsets", "/about"];
const PATHS_NAMED: [&str; 7] = ["/docs", "/docs/*", "/docs*", "/*", "*", "/docs/a*", "/none/*"];

/// Returns the text of a time (RFC 3339) at an offset from UTC.
fn text(at_ms: i64, offset: (&str, i64)) -> String {
    let mut text = Vec::new();
    time::write(&mut text, at_ms + offset.1);
    String::from_utf8(text).expect("ASCII").replace('Z', offset.0)
}

const UTC: (&str, i64) = ("Z", 0);
const INDIA: (&str, i64) = ("+05:30", 5 * HOUR_MS + HOUR_MS / 2);

/// A test of the times of an event or page, with the naive evaluation over all of them.
#[derive(Debug)]
enum Test {
    Count { operator: &'static str, bound: u64, within_hours: Option<i64> },
    CountMember { operator: &'static str, bound: u64 },
    Time { is_first: bool, operator: &'static str, at_ms: i64 },
}

impl Test {
    fn random(dice: &mut Dice, base_ms: i64) -> Self {
        let operator = *dice.pick(&["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]);
        match dice.below(4) {
            0 => {
                let operator = if matches!(operator, "$eq" | "$ne") { "$lt" } else { operator };
                let at_ms = base_ms - dice.below(12) as i64 * HOUR_MS;
                Self::Time { is_first: dice.below(2) == 0, operator, at_ms }
            }
            1 => Self::CountMember { operator, bound: dice.below(60) as u64 },
            _ => {
                let within_hours = (dice.below(4) > 0).then(|| 1 + dice.below(12) as i64);
                let max = if matches!(operator, "$gte" | "$lt") { 16 } else { 15 };
                Self::Count { operator, bound: dice.below(max + 1) as u64, within_hours }
            }
        }
    }

    fn condition(&self, path: &str) -> Value {
        match self {
            Self::Count { operator, bound, within_hours: None } => {
                json!({ path: { "$count": { *operator: bound } } })
            }
            Self::Count { operator, bound, within_hours: Some(hours) } => {
                json!({ path: { "$count": { *operator: bound, "within": format!("{hours}h") } } })
            }
            Self::CountMember { operator, bound } => {
                json!({ format!("{path}.count"): { *operator: bound } })
            }
            Self::Time { is_first, operator, at_ms } => {
                let member = if *is_first { "first" } else { "last" };
                json!({ format!("{path}.{member}"): { *operator: text(*at_ms, INDIA) } })
            }
        }
    }

    fn holds(&self, at_ms: &[i64], base_ms: i64) -> bool {
        let compare = |operator: &str, value: i64, bound: i64| match operator {
            "$eq" => value == bound,
            "$ne" => value != bound,
            "$gt" => value > bound,
            "$gte" => value >= bound,
            "$lt" => value < bound,
            _ => value <= bound,
        };
        match self {
            Self::Count { operator, bound, within_hours } => {
                let since_ms = within_hours.map_or(0, |hours| base_ms - hours * HOUR_MS);
                let count = at_ms.iter().filter(|at| **at >= since_ms).count();
                compare(operator, count as i64, *bound as i64)
            }
            Self::CountMember { operator, bound } => compare(operator, at_ms.len() as i64, *bound as i64),
            Self::Time { is_first, operator, at_ms: bound } => {
                let end = if *is_first { at_ms.iter().min() } else { at_ms.iter().max() };
                compare(operator, end.copied().unwrap_or(0), *bound)
            }
        }
    }
}

/// An event or page of a visitor.
struct Occurrence {
    is_page: bool,
    name: &'static str,
    at_ms: i64,
}

impl Occurrence {
    fn event(&self, anon_id: &str) -> Value {
        match self.is_page {
            true => {
                json!({ "type": "page", "anonId": anon_id, "timestamp": self.at_ms, "properties": { "path": self.name } })
            }
            false => {
                json!({ "type": "track", "anonId": anon_id, "timestamp": self.at_ms, "event": self.name })
            }
        }
    }
}

/// Returns occurrences at half hours before `base_ms`, so that no bound of a test is close to one.
fn random_occurrences(dice: &mut Dice, base_ms: i64) -> Vec<Occurrence> {
    let mut all = Vec::new();
    for (is_page, names) in [(false, NAMES), (true, PATHS)] {
        for name in names {
            for _ in 0..*dice.pick(&[0, 0, 1, 2, 5, 15, 16, 17, 30]) {
                let at_ms = base_ms - dice.below(14) as i64 * HOUR_MS - HOUR_MS / 2;
                all.push(Occurrence { is_page, name, at_ms });
            }
        }
    }
    all
}

fn is_named(name: &str, pattern: &str) -> bool {
    pattern.strip_suffix('*').map_or(name == pattern, |prefix| name.starts_with(prefix))
}

/// Compares each condition with its naive evaluation, for each visitor.
#[test]
fn names_that_end_in_a_star_mean_every_name_with_that_prefix() {
    let mut dice = Dice(16);
    let base_ms = now_ms();
    let tests: Vec<_> = (0..times(80, 600))
        .map(|_| {
            let is_page = dice.below(2) == 0;
            let named = *if is_page { dice.pick(&PATHS_NAMED) } else { dice.pick(&NAMED) };
            (is_page, named, Test::random(&mut dice, base_ms))
        })
        .collect();
    let routes: Vec<_> = tests
        .iter()
        .enumerate()
        .map(|(i, (is_page, named, test))| {
            let condition = test.condition(&format!("{}.{named}", if *is_page { "pages" } else { "events" }));
            page(
                &format!("/{i}"),
                json!({ "z": zone(&["hit"], json!([{ "when": condition, "variant": "hit" }])) }),
            )
        })
        .collect();
    let server = start_server(&routes);
    let mut client = Client::to(server.edge);
    for visitor in 0..times(10, 60) {
        let id = format!("visitor-{visitor}");
        let occurrences = random_occurrences(&mut dice, base_ms);
        let batch: Vec<_> = occurrences.iter().map(|occurrence| occurrence.event(&id)).collect();
        let batch = json!({ "site": "acme", "batch": batch }).to_string();
        let receipt = client.post("/v1/batch", &[], batch.as_bytes());
        assert_eq!(receipt.json()["accepted"], occurrences.len(), "{}", receipt.text());
        for (i, (is_page, named, test)) in tests.iter().enumerate() {
            let found = occurrences.iter().filter(|o| o.is_page == *is_page && is_named(o.name, named));
            let at_ms: Vec<_> = found.map(|occurrence| occurrence.at_ms).collect();
            let target = format!("/v1/variants?site=acme&route=/{i}&anonId={id}");
            let shown = client.request("GET", &target, &[]).json()["variants"].clone();
            assert_eq!(shown == "z:hit", test.holds(&at_ms, base_ms), "{named} {test:?} of {at_ms:?}");
        }
    }
}

#[test]
fn a_rule_may_begin_and_end_at_an_instant() {
    let now = now_ms();
    let conditions = [
        (json!({ "now.at": { "$gte": text(now - HOUR_MS, UTC) } }), true),
        (json!({ "now.at": { "$gte": text(now + HOUR_MS, UTC) } }), false),
        (
            json!({ "now.at": { "$gte": text(now - HOUR_MS, INDIA), "$lt": text(now + HOUR_MS, INDIA) } }),
            true,
        ),
        (json!({ "now.at": { "$lt": text(now - HOUR_MS, INDIA) } }), false),
        (json!({ "now.at": { "$gt": now - HOUR_MS, "$lt": now + HOUR_MS } }), true),
        (json!({ "now.at": text(now - HOUR_MS, UTC) }), false),
        (json!({ "now.at": { "$type": "number" } }), true),
    ];
    let rule = |condition: &Value| json!([{ "when": condition, "variant": "hit" }]);
    let zones = conditions.iter().enumerate();
    let zones = zones.map(|(i, (condition, _))| (format!("z{i}"), zone(&["hit"], rule(condition))));
    let zones: serde_json::Map<_, _> = zones.collect();
    let server = Server::start(&[("acme.snapshot", &acme_snapshot(&[page("/", zones.into())]))], &[]);
    let selected = server.get("/v1/variants?site=acme&route=/").json()["selected"].clone();
    for (i, (condition, holds)) in conditions.iter().enumerate() {
        assert_eq!(selected[format!("z{i}")] == "hit", *holds, "{condition}");
    }
    let explained = server.admin_get("/v1/variants?site=acme&route=/&explain=1").json();
    let at = explained["visitor"]["now"]["at"].as_i64().expect("milliseconds");
    assert!((now..now + HOUR_MS).contains(&at), "{at}");
}
