//! An export that is imported and exported again is equal except for the seqs, and gives the same profiles.

use std::path::Path;

use serde_json::{Value, json};

use super::{assert_sound, lines, run, send, site, stop, text};
use crate::harness::{Client, Server, temporary_directory};

const CHROME: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36";
const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1";
const CRAWLER: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

/// Starts a server for two sites: `acme` records truncated addresses, `keeping` keeps crawlers and whole addresses.
fn start(data: &Path) -> Server {
    let acme = json!({ "privacy": { "ip": "truncated" }, "hosts": ["www.acme.example"], "ignoredReferrers": ["pay.example"], "cookie": "vid" });
    let keeping = json!({ "bots": "keep", "privacy": { "ip": "full" } });
    let snapshots =
        [("acme.snapshot", &*site("acme", &acme)), ("keeping.snapshot", &*site("keeping", &keeping))];
    Server::start_with_data(
        data,
        &snapshots,
        &["--admin-token", "open", "--trusted-proxy", "127.0.0.0/8", "--segment-bytes", "65536"],
    )
}

/// The header fields of a browser.
const BROWSER: [(&str, &str); 3] =
    [("User-Agent", CHROME), ("Accept-Language", "de-DE,de;q=0.9"), ("X-Forwarded-For", "203.0.113.77")];

/// Sends events of all kinds with all columns.
fn send_all(server: &Server) {
    send_events_of_visit(server);
    send_changes_of_profiles(server);
    send_events_of_crawlers(server);
    send_batch(server);
}

fn send_events_of_visit(server: &Server) {
    let acme = |kind: &str, fields: &[(&str, &str)], event: Value| {
        send(server, &format!("/v1/{kind}?site=acme"), fields, &event)
    };
    acme(
        "page",
        &BROWSER,
        json!({ "anonId": "v1", "messageId": "m-1", "properties": { "url": "https://www.acme.example/Ärger/?utm_source=news&utm_medium=mail&utm_term=x%20y", "referrer": "https://www.Search.example/q?a=ü" } }),
    );
    acme(
        "page",
        &[
            ("User-Agent", IPHONE),
            ("Referer", "https://www.acme.example/tents?utm_campaign=fall&utm_content=b"),
        ],
        json!({ "anonId": "v1", "variants": "hero:a,promo:b", "experiments": "cta:~" }),
    );
    acme(
        "page",
        &BROWSER,
        json!({ "anonId": "v2", "name": "Start 🏔", "properties": { "path": "/pay", "referrer": "https://pay.example/done" } }),
    );
    acme("page", &[("Cookie", "vid=v-cookie")], json!({}));
    acme(
        "screen",
        &[("Cookie", "vid=v-cookie")],
        json!({ "name": "Home", "context": { "device": { "type": "ios", "name": "iPad" }, "os": { "name": "iPadOS" }, "locale": "fr-CA", "location": { "country": "Canada" } } }),
    );
    acme(
        "track",
        &[("Sec-GPC", "1")],
        json!({ "anonId": "v1", "event": "Ordered \"x\"\n\u{2028}", "properties": { "n": 12345678901234567890u64, "f": 1.50, "deep": [{ "ä": null }] } }),
    );
    acme(
        "track",
        &[],
        json!({ "anonId": "v1", "event": "Late", "timestamp": "2026-01-05T10:00:00.123Z", "sentAt": "2026-01-05T11:00:00Z" }),
    );
    acme("track", &[], json!({ "anonId": "v1", "event": "Own clock", "sentAt": 1_790_000_000 }));
    acme("track", &[], json!({ "anonId": "v1", "event": "Stated", "timestamp": "2099-01-05T10:00:00Z" }));
    acme(
        "track",
        &[],
        json!({ "userId": "server-user", "event": "By a server", "context": { "ip": "198.51.100.9", "country": "at" } }),
    );
    acme(
        "track",
        &BROWSER,
        json!({ "anonId": "v2", "event": "Experiment Viewed", "properties": { "experiment_id": "cta-colour", "variation_id": "b" } }),
    );
}

fn send_changes_of_profiles(server: &Server) {
    let acme = |kind: &str, fields: &[(&str, &str)], event: Value| {
        send(server, &format!("/v1/{kind}?site=acme"), fields, &event)
    };
    acme(
        "identify",
        &BROWSER,
        json!({ "anonId": "v1", "userId": "ana@example.com", "traits": { "plan": "member", "tags": ["a", 1, null], "ä": { "b": false } } }),
    );
    acme(
        "track",
        &[],
        json!({ "type": "profile", "anonId": "v1", "increment": { "orders": 2 }, "set": { "city": "Graz" }, "append": { "seen": "x" } }),
    );
    acme("group", &[], json!({ "anonId": "v1", "groupId": "g", "traits": { "size": 3 } }));
    acme("alias", &[], json!({ "userId": "ana@example.com", "previousId": "v-old" }));
}

fn send_events_of_crawlers(server: &Server) {
    let acme = |kind: &str, fields: &[(&str, &str)], event: Value| {
        send(server, &format!("/v1/{kind}?site=acme"), fields, &event)
    };
    acme("track", &[("User-Agent", CRAWLER)], json!({ "anonId": "bot-1", "event": "Crawled" }));
    acme("identify", &[("User-Agent", CRAWLER)], json!({ "anonId": "bot-1", "userId": "bot-user" }));
    let keeping = |kind: &str, fields: &[(&str, &str)], event: Value| {
        send(server, &format!("/v1/{kind}?site=keeping"), fields, &event)
    };
    keeping(
        "page",
        &[("User-Agent", CRAWLER), ("X-Forwarded-For", "2001:db8::7")],
        json!({ "anonId": "bot-2", "properties": { "path": "/" } }),
    );
    keeping(
        "identify",
        &[("User-Agent", CRAWLER)],
        json!({ "anonId": "bot-2", "userId": "bot-user", "traits": { "a": 1 } }),
    );
    keeping("track", &BROWSER, json!({ "anonId": "v9", "event": "Kept" }));
}

fn send_batch(server: &Server) {
    let batch = json!({ "sentAt": "2026-02-03T04:05:06Z", "context": { "campaign": { "source": "batch" }, "page": { "path": "/b" } }, "batch": [
        { "type": "page", "anonId": "v3", "context": { "page": { "title": "T" } } }, { "type": "track", "event": "In a batch", "anonymousId": "v3", "trackingId": "track_acme" },
    ] });
    let response = server.post("/v1/batch?site=acme", &BROWSER, batch.to_string().as_bytes());
    assert_eq!(response.json()["accepted"], 2, "{}", response.text());
}

/// Sends the events of a shared device, and erases one of its users. The referrer of the redacted page is a host alone, because an export
/// of the record has no more of it.
fn send_shared_device(server: &Server) {
    let acme = |kind: &str, event: Value| {
        send(server, &format!("/v1/{kind}?site=acme"), &[("User-Agent", CHROME)], &event)
    };
    acme(
        "page",
        json!({ "anonId": "shared", "properties": { "path": "/one", "referrer": "https://other.example/path", "url": "https://www.acme.example/one" } }),
    );
    acme("identify", json!({ "anonId": "shared", "userId": "first", "messageId": "tie-1" }));
    acme("track", json!({ "anonId": "shared", "event": "By the first" }));
    acme("identify", json!({ "anonId": "shared", "userId": "second", "messageId": "tie-2" }));
    acme(
        "page",
        json!({ "anonId": "shared", "userId": "first", "messageId": "of-client", "variants": "hero:a", "properties": { "path": "/two", "url": "https://www.acme.example/two?utm_source=s", "referrer": "https://other.example/" } }),
    );
    acme("track", json!({ "anonId": "shared", "event": "By the second" }));
    let target = "/visitors?site=acme&userId=second";
    let erased = Client::to(server.admin).request("DELETE", target, &[("Authorization", "Bearer open")]);
    assert_eq!(erased.status, 200, "{}", erased.text());
    acme("track", json!({ "anonId": "v1", "event": "After the erasure" }));
}

/// Returns the profiles of all visitors. The seq of a profile is that of its last record.
fn profiles(server: &Server) -> Vec<Value> {
    let visitors = [
        "site=acme&anonId=v1",
        "site=acme&anonId=v2",
        "site=acme&anonId=v3",
        "site=acme&anonId=v-cookie",
        "site=acme&anonId=v-old",
        "site=acme&userId=server-user",
        "site=acme&userId=ana%40example.com",
        "site=acme&anonId=bot-1",
        "site=acme&userId=bot-user",
        "site=keeping&anonId=bot-2",
        "site=keeping&userId=bot-user",
        "site=keeping&anonId=v9",
        "site=acme&anonId=shared",
        "site=acme&userId=first",
        "site=acme&userId=second",
    ];
    let profile = |visitor: &&str| {
        let fields = [("Authorization", "Bearer open")];
        let response = Client::to(server.admin).request("GET", &format!("/visitors?{visitor}"), &fields);
        let mut profile = response.json();
        profile.as_object_mut().expect("an object").remove("seq");
        profile
    };
    visitors.iter().map(profile).collect()
}

#[test]
fn an_import_of_an_export_has_the_same_records_and_profiles() {
    let parent = temporary_directory();
    let path = |name: &str| parent.path().join(name);
    let (data, export, imported, merged) =
        (path("data"), path("events.ndjson"), path("imported/"), path("merged"));
    let server = start(&data);
    send_all(&server);
    send_shared_device(&server);
    let before = profiles(&server);
    stop(server);
    run(&["export", text(&data), "-o", text(&export)]).assert(0, &[]);
    let original = lines(&data);
    assert!(
        original.len() > 25 && original.iter().any(|line| line.ends_with(r#""payload":{}}"#)),
        "{original:#?}"
    );

    let import = run(&["import", text(&export), "-o", text(&imported), "--keep-bots", "keeping"]);
    import.assert(
        0,
        &[&format!("imported {} records and 0 tombstones; left out 0 duplicates", original.len())],
    );
    assert_eq!(lines(&imported), original);
    assert_sound(&imported);
    assert!(!path("imported.importing").exists() && !path("imported.refused").exists());

    let import = run(&["import", "--merge", text(&data), "-o", text(&merged)]);
    import.assert(0, &[&format!("imported {} records and 1 tombstone", original.len())]);
    assert_eq!(lines(&merged), original);
    assert_sound(&merged);
    let secret = |directory: &Path| std::fs::read(directory.join("secret")).expect("it is there");
    assert_eq!(secret(&merged), secret(&data));
    assert_ne!(secret(&imported), secret(&data));

    for directory in [&imported, &merged] {
        let server = start(directory);
        assert!(!server.log().contains("ERROR"), "{}", server.log());
        assert_eq!(profiles(&server), before, "{directory:?}");
        stop(server);
        assert_eq!(lines(directory), original, "a server has used it");
        assert_sound(directory);
    }
}

#[test]
fn an_import_of_both_a_log_and_its_export_has_each_record_once() {
    let parent = temporary_directory();
    let path = |name: &str| parent.path().join(name);
    let (data, export, imported) = (path("data"), path("events.ndjson"), path("imported"));
    let server = start(&data);
    send_all(&server);
    run(&["export", text(&data), "-o", text(&export)]).assert(0, &[]);
    send_shared_device(&server);
    stop(server);
    let later = path("later.ndjson");
    run(&["export", text(&data), "-o", text(&later)]).assert(0, &[]);
    let args = ["import", text(&export), text(&later), "-o", text(&imported), "--merge", text(&data)];
    run(&args).assert(0, &["1 tombstone"]);
    assert_eq!(lines(&imported), lines(&data));
}

#[test]
fn an_import_of_one_site_has_no_record_of_another() {
    let parent = temporary_directory();
    let path = |name: &str| parent.path().join(name);
    let (data, split, of_lines) = (path("data"), path("split"), path("of-lines"));
    let server = start(&data);
    send_all(&server);
    stop(server);
    let is_keeping = |line: &String| line.contains(r#""site":"keeping""#);
    let kept: Vec<String> = lines(&data).into_iter().filter(is_keeping).collect();
    assert_eq!(kept.len(), 3);
    run(&["import", "--merge", text(&data), "-o", text(&split), "--site", "keeping"])
        .assert(0, &["imported 3 records"]);
    assert_eq!(lines(&split), kept);
    let export = path("events.ndjson");
    run(&["export", text(&data), "-o", text(&export)]).assert(0, &[]);
    run(&["import", text(&export), "-o", text(&of_lines), "--site", "keeping", "--keep-bots", "keeping"])
        .assert(0, &[]);
    assert_eq!(lines(&of_lines), kept);
}

#[test]
fn a_directory_of_a_killed_server_has_all_acknowledged_records() {
    let parent = temporary_directory();
    let path = |name: &str| parent.path().join(name);
    let server = start(&path("data"));
    send_all(&server);
    // The kill is too early for a mark that the last record is durable.
    drop(server);
    run(&["import", "--merge", text(&path("data")), "-o", text(&path("merged"))]).assert(0, &[]);
    assert_eq!(lines(&path("merged")), lines(&path("data")));
    assert!(lines(&path("merged")).iter().any(|line| line.contains("In a batch")));
}
