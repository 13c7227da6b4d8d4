//! Prepared lists of routes: which are kept, for how long, and that they are those of a server that keeps none.

use std::io::Read;
use std::sync::Arc;

use flate2::read::GzDecoder;
use parallax::testing::api::prepared_lists::{LIST_BYTES_MIN, PreparedList, PreparedLists};
use parallax::testing::api::{Handler, Service, Settings};
use parallax::testing::http::request::{ParseOutcome, parse};
use parallax::testing::resolve::user_agent::UserAgentParser;
use parallax::testing::site::catalog::catalog::{Catalog, CurrentCatalog};
use parallax::testing::site::catalog::versions::Versions;
use parallax::testing::site::snapshot::open::Snapshot;
use serde_json::{Value, json};

use crate::fuzz::snapshot::open;
use crate::harness::{LOCALHOST, request_meta, snapshot};

/// A site that is published, and its workers.
struct Site {
    current: CurrentCatalog,
    versions: Versions,
    lists: Arc<PreparedLists>,
}

impl Site {
    fn new(lists_bytes_max: usize) -> Self {
        let lists = Arc::new(PreparedLists::new(lists_bytes_max));
        Self { current: CurrentCatalog::default(), versions: Versions::default(), lists }
    }

    /// Publishes a version with `count` pages, whose content depends on `text`.
    fn publish(&mut self, version: u64, count: usize, text: &str) {
        let snapshot = compile(version, count, text);
        self.versions = self.versions.with_snapshot(&snapshot);
        self.current.swap(Catalog::new([(snapshot, self.versions.clone())].into_iter()));
    }

    fn worker(&self) -> Handler {
        let settings = Settings { prepared_lists: Arc::clone(&self.lists), ..Settings::default() };
        Handler::new(settings, &self.current, Arc::new(UserAgentParser::new()))
    }
}

fn compile(version: u64, count: usize, text: &str) -> Arc<Snapshot> {
    let site = json!({ "site": "acme", "trackingId": "track_acme", "name": "acme" }).to_string();
    let mut files = vec![("site.json".to_owned(), site)];
    files.extend((0..count).map(|number| {
        let zones = json!({ "main": [{ "id": "m", "type": "Text", "props": { "text": text } }] });
        let path = format!("/{number:05}{}", "p".repeat(100));
        let page = json!({ "path": path, "layout": { "root": { "props": {} }, "zones": zones } });
        (format!("routes/{number}.json"), page.to_string())
    }));
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    Arc::new(open(&snapshot(&files, version)).expect("a compiled snapshot opens"))
}

/// Returns the fields of the response, without the time and the request ID, and its body without gzip.
fn get(worker: &mut Handler, query: &str, fields: &str) -> (String, String) {
    let request = format!("GET /v1/routes?site=acme{query} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let mut out = Vec::new();
    match parse(request.as_bytes(), None) {
        ParseOutcome::Complete(request, _) => worker.handle(&request, &request_meta(LOCALHOST), &mut out),
        other => panic!("{other:?}"),
    };
    let end = out.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head") + 4;
    let head = std::str::from_utf8(&out[..end]).expect("UTF-8");
    let lasting = |line: &&str| !line.starts_with("Date: ") && !line.starts_with("X-Request-Id: ");
    let lasting = head.lines().filter(lasting).collect::<Vec<_>>().join("\n");
    let mut body = String::new();
    match head.contains("Content-Encoding: gzip") {
        true => GzDecoder::new(&out[end..]).read_to_string(&mut body).map(drop).expect("gzip"),
        false => body.push_str(std::str::from_utf8(&out[end..]).expect("UTF-8")),
    }
    (lasting, body)
}

fn cursor(body: &str) -> String {
    let body: Value = serde_json::from_str(body).expect("JSON");
    format!("&cursor={}", body["nextCursor"].as_str().expect("a cursor"))
}

const GZIP: &str = "Accept-Encoding: gzip\r\n";

#[test]
fn a_usual_list_is_prepared_once_for_all_workers_in_both_codings() {
    let mut site = Site::new(usize::MAX);
    site.publish(1, 20, "one");
    site.publish(2, 20, "two");
    let mut workers = [site.worker(), site.worker()];
    let mut used_bytes = 0;
    for (query, is_new) in [
        ("", true),
        ("&limit=10000", false),
        ("&include=variants", true),
        ("&include=variants&limit=1000", false),
        ("&since=1", true),
        ("&since=1&wait=1", false),
        ("&since=2", true),
        ("&since=7", true),
        ("&since=8", false),
        ("&since=1&include=variants", true),
    ] {
        let (head, body) = get(&mut workers[0], query, "");
        let is_larger = site.lists.used_bytes() > used_bytes;
        assert_eq!(is_larger, is_new, "{query}");
        used_bytes = site.lists.used_bytes();
        for worker in &mut workers {
            assert_eq!(get(worker, query, ""), (head.clone(), body.clone()), "{query}");
            assert_eq!(get(worker, query, GZIP).1, body, "{query}");
        }
        assert_eq!(site.lists.used_bytes(), used_bytes, "{query}");
    }
}

#[test]
fn a_list_that_a_client_can_choose_freely_is_not_kept() {
    let mut site = Site::new(usize::MAX);
    site.publish(1, 20, "one");
    let mut worker = site.worker();
    let next = cursor(&get(&mut worker, "&limit=1", "").1);
    for query in
        ["&prefix=/", "&prefix=/00001", "&limit=9999", "&limit=1", "&include=variants&limit=999", &next]
    {
        assert!(get(&mut worker, query, GZIP).0.starts_with("HTTP/1.1 200 "), "{query}");
        assert_eq!(site.lists.used_bytes(), 0, "{query}");
    }
}

#[test]
fn each_page_of_a_long_list_is_prepared_but_not_one_from_another_place() {
    let mut site = Site::new(usize::MAX);
    site.publish(1, 6_000, "one");
    let mut worker = site.worker();
    // The cursor of an unknown version has its number.
    let unknown = get(&mut worker, "&since=7", "").1;
    assert_eq!(site.lists.used_bytes(), 0);
    let first = get(&mut worker, "", "").1;
    let used_bytes = site.lists.used_bytes();
    assert!(first.len() > 1024 * 1024 && used_bytes > first.len(), "{used_bytes}");
    let elsewhere = cursor(&get(&mut worker, "&limit=1", "").1);
    get(&mut worker, &elsewhere, "");
    get(&mut worker, &format!("&since=7{}", cursor(&unknown)), "");
    assert_eq!(site.lists.used_bytes(), used_bytes);
    let second = get(&mut worker, &cursor(&first), "");
    assert!(site.lists.used_bytes() >= used_bytes + second.1.len());
    let used_bytes = site.lists.used_bytes();
    assert_eq!(get(&mut site.worker(), &cursor(&first), ""), second);
    assert_eq!(site.lists.used_bytes(), used_bytes);
}

#[test]
fn prepared_lists_are_those_of_a_server_that_keeps_none() {
    let (mut keeping, mut forgetful) = (Site::new(usize::MAX), Site::new(0));
    let (mut with, mut without) = (keeping.worker(), forgetful.worker());
    for (version, count, text) in
        [(1, 3, "one"), (2, 40, "two"), (3, 40, "three"), (2, 40, "two"), (4, 0, "")]
    {
        keeping.publish(version, count, text);
        forgetful.publish(version, count, text);
        for query in ["", "&include=variants", "&since=1", "&since=2", "&since=3", "&since=9", "&prefix=/0"] {
            let etag = get(&mut without, query, "").0;
            let etag = etag.lines().find_map(|line| line.strip_prefix("ETag: ")).expect("a tag").to_owned();
            let condition = format!("If-None-Match: {etag}\r\n");
            for fields in ["", GZIP, &condition, "Connection: close\r\n"] {
                let expected = get(&mut without, query, fields);
                for _ in 0..2 {
                    assert_eq!(
                        get(&mut with, query, fields),
                        expected,
                        "version {version}, {query}, {fields}"
                    );
                }
            }
        }
        assert_eq!(forgetful.lists.used_bytes(), 0);
    }
}

fn list(text_bytes: usize, gzip_bytes: usize) -> Arc<PreparedList> {
    let zeros = |count: usize| vec![0; count].into_boxed_slice();
    Arc::new(PreparedList { text: zeros(text_bytes), gzip: zeros(gzip_bytes), next_key: None })
}

#[test]
fn the_lists_take_at_most_their_memory_and_the_longest_unused_is_dropped() {
    const PART: usize = 10_000;
    for (last_bytes, dropped) in [(PART - 1, false), (PART, false), (PART + 1, true)] {
        let lists = PreparedLists::new(3 * PART);
        lists.insert(1, list(PART - 500, 500));
        lists.insert(2, list(PART, 0));
        assert!(lists.get(1).is_some());
        lists.insert(3, list(last_bytes, 0));
        let kept = [1, 2, 3].map(|key| lists.get(key).is_some());
        assert_eq!(kept, [true, !dropped, true], "{last_bytes}");
        assert_eq!(lists.used_bytes(), last_bytes + if dropped { PART } else { 2 * PART });
    }
}

#[test]
fn a_small_list_counts_4_kib_and_a_replaced_one_counts_no_longer() {
    let lists = PreparedLists::new(usize::MAX);
    for (bytes, counted) in [(0, 4096), (4095, 4096), (4096, 4096), (4097, 4097)] {
        lists.insert(1, list(bytes, 0));
        assert_eq!((lists.used_bytes(), LIST_BYTES_MIN), (counted, 4096));
    }
    let lists = PreparedLists::new(10);
    lists.insert(1, list(11, 0));
    assert_eq!(
        (lists.used_bytes(), lists.get(1).is_some()),
        (0, false),
        "a list that never fits is not kept"
    );
}
