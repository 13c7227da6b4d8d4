//! What the benchmarks share: a site of the size that the goals speak of, and a desk to answer at.
//!
//! The page is 8 KB of layout with three personalized zones; ten audiences, of which its rules ask
//! three, one by a regular expression; two zones move together in an experiment.

#![allow(dead_code, reason = "each benchmark takes what it needs of this module")]

use std::collections::HashSet;
use std::sync::Arc;

use parallax::api::{Desk, Settings, Surface};
use parallax::edge::agent::Agents;
use parallax::http::request::{Parsed, parse};
use parallax::snapshot::compile::compile;
use parallax::snapshot::current::Current;
use parallax::snapshot::files::Files;
use parallax::snapshot::open::Budget;
use parallax::snapshot::read::read;
use parallax::snapshot::shelf::Shelf;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Compiles files given as path and JSON.
pub fn compiled(files: &[(String, Value)], version: u64) -> Vec<u8> {
    let texts: Vec<_> = files.iter().map(|(path, json)| (path.as_str(), json.to_string())).collect();
    let files = Files::from_memory(texts.iter().map(|(path, text)| (*path, text.as_bytes())));
    let (source, mistakes) = read(&files, &|_, _| {});
    let compiled = compile(&source, mistakes, version, &|_, _| {});
    compiled.unwrap_or_else(|mistakes| panic!("{}", mistakes.report(&files)))
}

/// The site of the goals, with `routes` pages of the same kind.
pub fn site(routes: usize) -> Vec<(String, Value)> {
    let mut audiences = json!({
        "german": { "when": { "locale": { "$regex": "^de(-|$)" } } },
        "mobile": { "when": { "device.type": "mobile" } },
        "nordic": { "when": { "country": { "$in": ["NO", "SE", "DK", "FI", "IS"] } } },
    });
    for i in 3..10 {
        audiences[format!("plan-{i}")] = json!({ "when": { "traits.plan": format!("p{i}") } });
    }
    let mut files = vec![
        ("site.json".to_owned(), json!({ "site": "bench", "trackingId": "track_bench", "name": "Bench" })),
        ("audiences.json".to_owned(), audiences),
    ];
    files.extend((0..routes).map(|i| (format!("routes/{i}.json"), page(i))));
    files
}

/// Text that compresses about as prose does: words drawn from a list by a fixed sequence.
struct Words(u32);

impl Words {
    fn text(&mut self, words: usize) -> String {
        const LIST: &str = "tent storm light shop pole canvas morning valley boots stove kettle rain weight \
            sleeping autumn repaired workshop before without carries another stands thousand metres walked";
        let list: Vec<&str> = LIST.split_whitespace().collect();
        let mut word = || {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            list[(self.0 >> 16) as usize % list.len()]
        };
        (0..words).map(|_| word()).collect::<Vec<_>>().join(" ")
    }
}

fn page(number: usize) -> Value {
    let text = "A tent that stands in a storm is worth more than one that is light in a shop. ";
    let node = |id: &str, words: usize| json!([{ "id": id, "type": "Text", "props": { "title": id, "text": text.repeat(words) } }]);
    let arms = json!({ "key": "bench-arms", "variants": ["default", "b"] });
    json!({
        "path": format!("/page-{number}"),
        "layout": { "root": { "props": { "title": format!("Page {number}") } }, "zones": {
            "hero": { "default": node("h0", 8), "variants": { "de": node("h1", 8), "mobile": node("h2", 8) },
                "rules": [{ "audience": "german", "variant": "de" }, { "audience": "mobile", "variant": "mobile" }] },
            "main": node("m", 70),
            "aside": { "default": node("a0", 8), "variants": { "b": node("a1", 8) },
                "rules": [{ "audience": "nordic", "variant": "b" }, { "experiment": arms.clone() }] },
            "foot": { "default": node("f0", 8), "variants": { "b": node("f1", 8) }, "rules": [{ "experiment": arms }] },
        } },
    })
}

/// A desk that serves one snapshot.
pub struct Served {
    pub desk: Desk,
    pub out: Vec<u8>,
    _folder: TempDir,
}

impl Served {
    pub fn new(snapshot: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("bench.snapshot"), snapshot).expect("written");
        let current = Current::default();
        let mut shelf = Shelf::new(Budget::new(u64::MAX));
        shelf.scan(folder.path(), &HashSet::new(), &current).expect("scanned");
        let settings = Settings { explain: false, country_header: None };
        let desk = Desk::new(Surface::Edge, settings, &current, Arc::new(Agents::new()));
        Self { desk, out: Vec::with_capacity(64 * 1024), _folder: folder }
    }

    /// From request bytes to response bytes.
    pub fn answer(&mut self, request: &[u8]) -> &[u8] {
        self.out.clear();
        match parse(request, None) {
            Parsed::Whole(request, _) => self.desk.answer(&request, &mut self.out),
            other => panic!("{other:?}"),
        }
        &self.out
    }
}

/// A request as a server sends it for its visitor, and what its answer must begin with and contain.
pub struct Case {
    pub name: &'static str,
    pub request: Vec<u8>,
    pub contains: &'static str,
}

impl Case {
    fn new(name: &'static str, target: &str, fields: &str, contains: &'static str) -> Self {
        let request = format!("GET {target} HTTP/1.1\r\nHost: edge.example\r\nAccept: */*\r\n{fields}\r\n");
        Self { name, request: request.into_bytes(), contains }
    }

    pub fn assert(&self, answer: &[u8]) {
        let whole = String::from_utf8_lossy(answer);
        let text = &whole[..whole.floor_char_boundary(1_500)];
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{}: {text}", self.name);
        assert!(text.contains(self.contains), "{}: {text}", self.name);
    }
}

const FORCED: &str = "/v1/resolve?trackingId=track_bench&route=/page-7&variants=hero:de,aside:b";
const DECIDED: &str = "trackingId=track_bench&route=/page-7&anonId=0c9a4e6b-visitor&country=SE";
const BROWSER: &str = "User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:143.0) Gecko/20100101 Firefox/143.0\r\n\
                       Accept-Language: de-DE,de;q=0.9,en;q=0.8\r\n";

/// The requests of the benchmarks.
pub fn cases() -> [Case; 5] {
    let gzip = "Accept-Encoding: gzip\r\n";
    [
        Case::new("resolve_forced", FORCED, "", "\"variants\":\"aside:b,hero:de\""),
        Case::new("resolve_forced_gzip", FORCED, gzip, "Content-Encoding: gzip"),
        Case::new(
            "resolve_decided",
            &format!("/v1/resolve?{DECIDED}"),
            BROWSER,
            "X-Variants: aside:b,hero:de",
        ),
        Case::new(
            "resolve_decided_gzip",
            &format!("/v1/resolve?{DECIDED}"),
            &format!("{BROWSER}{gzip}"),
            "Content-Encoding: gzip",
        ),
        Case::new(
            "variants",
            &format!("/v1/variants?{DECIDED}"),
            BROWSER,
            "\"variants\":\"aside:b,hero:de\"",
        ),
    ]
}
