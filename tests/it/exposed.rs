//! The trace of experiments: the export alone tells for every page view which experiments decided, and with which
//! arm. The arms are computed here again from the hash functions that GrowthBook publishes.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Client, Server, eventually, snapshot, times};

const PHONE: &str =
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile/15E148 Safari/604.1";
const DESKTOP: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
/// Events of one request.
const BATCH_EVENTS: usize = 250;

/// A site with three experiments and two audiences. Two zones share the experiment with a holdout. The zone `pay`
/// is in a variant of the zone `shop`.
fn site() -> Vec<u8> {
    let node = |id: &str| json!([{ "id": id, "type": "Text", "props": {} }]);
    let zone = |variants: &[&str], rules: Value| {
        let variants: serde_json::Map<_, _> =
            variants.iter().map(|key| ((*key).to_owned(), node(key))).collect();
        json!({ "default": node("default"), "variants": variants, "rules": rules })
    };
    let colour =
        json!([{ "experiment": { "key": "cta-colour", "variants": ["default", "b"], "holdout": 0.1 } }]);
    let front = json!([
        { "experiment": { "key": "slow-front", "variants": ["default", "slow", "fast"], "weights": [0.2, 0.3, 0.5],
            "coverage": 0.8, "seed": "front-2026" }, "when": { "$audience": "german" } },
        { "audience": "phones", "variant": "fast" },
    ]);
    let pay = json!([
        { "audience": "phones", "variant": "phone" },
        { "experiment": { "key": "checkout", "variants": ["one", "two"], "namespace": ["pay", 0.0, 0.6] } },
    ]);
    let mut shop = zone(&[], json!([{ "when": { "country": { "$in": ["DE", "AT"] } }, "variant": "open" }]));
    shop["variants"]["open"] = json!([{ "id": "open", "type": "Shop", "props": {},
        "zones": { "pay": zone(&["phone", "one", "two"], pay) } }]);
    let zones = json!({ "cta": zone(&["b"], colour.clone()), "cta-foot": zone(&["b"], colour),
        "front": zone(&["slow", "fast"], front), "shop": shop });
    let page = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": zones } }).to_string();
    let audiences = json!({ "german": { "when": { "locale": { "$regex": "^de" } } },
        "phones": { "when": { "device.type": "mobile" } } });
    let about = json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme" });
    let files = [
        ("site.json", about.to_string()),
        ("audiences.json", audiences.to_string()),
        ("routes/index.json", page),
    ];
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    snapshot(&files, 1)
}

/// FNV-1a with 32 bits, as published.
fn fnv1a_32(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Version 1 of GrowthBook's hash.
fn hash_v1(seed: &str, id: &str) -> f64 {
    f64::from(fnv1a_32(&format!("{id}{seed}")) % 1000) / 1000.0
}

/// Version 2 of GrowthBook's hash.
fn hash_v2(seed: &str, id: &str) -> f64 {
    f64::from(fnv1a_32(&fnv1a_32(&format!("{seed}{id}")).to_string()) % 10_000) / 10_000.0
}

/// Returns the arm of a hash: the arms have consecutive shares, of which `coverage` takes part.
fn arm<'a>(hash: f64, arms: &[(&'a str, f64)], coverage: f64) -> Option<&'a str> {
    let mut begin = 0.0;
    arms.iter().find_map(|(name, weight)| {
        let is_inside = hash >= begin && hash < begin + weight * coverage;
        begin += weight;
        is_inside.then_some(*name)
    })
}

struct Visitor {
    id: String,
    locale: &'static str,
    country: &'static str,
    is_phone: bool,
}

impl Visitor {
    fn new(number: usize) -> Self {
        Self {
            id: format!("visitor-{number}"),
            locale: ["de-DE", "en", "de"][number % 3],
            country: ["DE", "NO", "AT", "DE", "US"][number % 5],
            is_phone: number.is_multiple_of(4),
        }
    }

    fn query(&self) -> String {
        let agent = if self.is_phone { PHONE } else { DESKTOP }.replace(' ', "+").replace(';', "%3B");
        let Self { id, locale, country, .. } = self;
        format!("?site=acme&route=/&anonId={id}&locale={locale}&country={country}&userAgent={agent}")
    }

    /// Returns the experiments that decide for the visitor, with their arms.
    fn exposures(&self) -> BTreeMap<&'static str, &'static str> {
        let id = &self.id;
        let is_held_out = hash_v2("holdout:cta-colour", id) < 0.1;
        let colour = arm(hash_v2("cta-colour", id), &[("default", 0.5), ("b", 0.5)], 1.0);
        let front = arm(hash_v2("front-2026", id), &[("default", 0.2), ("slow", 0.3), ("fast", 0.5)], 0.8);
        let in_namespace = hash_v1("__pay", id) < 0.6;
        let pay = arm(hash_v2("checkout", id), &[("one", 0.5), ("two", 0.5)], 1.0);
        let has_pay = ["DE", "AT"].contains(&self.country) && !self.is_phone;
        let decided = [
            ("cta-colour", if is_held_out { Some("~") } else { colour }),
            ("slow-front", front.filter(|_| self.locale.starts_with("de"))),
            ("checkout", pay.filter(|_| has_pay && in_namespace)),
        ];
        decided.into_iter().filter_map(|(key, arm)| Some((key, arm?))).collect()
    }

    /// Asks for the decision, and checks the shown variants. Returns the page event that the page then sends.
    fn view(&self, client: &mut Client, endpoint: &str) -> Value {
        let response = client.request("GET", &format!("/v1/{endpoint}{}", self.query()), &[]);
        assert_eq!(response.status, 200, "{}", response.text());
        let answer = response.json();
        let exposures = self.exposures();
        let shown =
            |key: &str| exposures.get(key).copied().map(|arm| if arm == "~" { "default" } else { arm });
        for (zone, key) in
            [("cta", "cta-colour"), ("cta-foot", "cta-colour"), ("front", "slow-front"), ("pay", "checkout")]
        {
            if let Some(variant) = shown(key) {
                assert_eq!(answer["selected"][zone], variant, "{zone} of {}", self.id);
            }
        }
        let experiments = answer["experiments"].as_str().expect("a private answer has `experiments`");
        assert_eq!(response.field("x-experiments"), Some(experiments));
        json!({ "type": "page", "anonId": self.id, "properties": { "path": "/" }, "variants": answer["variants"],
            "experiments": experiments })
    }
}

/// Returns the exported records, when there are `count`.
fn export(server: &Server, count: usize) -> Vec<Value> {
    eventually("all records are exported", || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
        let output = command.arg("export").arg(server.data()).output().expect("the command runs");
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let lines = text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON"));
        Some(lines.collect::<Vec<_>>()).filter(|records| records.len() == count)
    })
}

#[test]
fn the_export_alone_tells_which_experiments_decided_and_with_which_arm() {
    let server = Server::start(&[("acme.snapshot", &site())], &[]);
    let visitors: Vec<_> = (0..times(500, 10_000)).map(Visitor::new).collect();
    let mut client = Client::to(server.edge);
    for (number, some) in visitors.chunks(BATCH_EVENTS).enumerate() {
        let endpoint = ["resolve", "variants"][number % 2];
        let events: Vec<_> = some.iter().map(|visitor| visitor.view(&mut client, endpoint)).collect();
        let body = json!({ "site": "acme", "batch": events }).to_string();
        let receipt = client.post("/v1/batch", &[], body.as_bytes());
        assert_eq!(receipt.json()["accepted"], some.len(), "{}", receipt.text());
    }
    let records = export(&server, visitors.len());
    let mut counts = BTreeMap::new();
    for (visitor, record) in visitors.iter().zip(&records) {
        assert_eq!(record["anonId"], visitor.id);
        let pairs: Vec<_> = visitor.exposures().iter().map(|(key, arm)| format!("{key}:{arm}")).collect();
        assert_eq!(record["experiments"], pairs.join(","), "{}", visitor.id);
        pairs.into_iter().for_each(|pair| *counts.entry(pair).or_insert(0) += 1);
    }
    let arms = [
        "checkout:one",
        "checkout:two",
        "cta-colour:b",
        "cta-colour:default",
        "cta-colour:~",
        "slow-front:default",
        "slow-front:fast",
        "slow-front:slow",
    ];
    assert!(counts.keys().eq(arms), "each arm occurs, {counts:?}");
}
