//! Visitor tokens: their keys, the requests that get one, and the programs that open one.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use parallax::testing::clock;
use parallax::testing::config::key_file::read_visitor_keys;
use parallax::testing::limits::{
    VISITOR_KEY_CHARS_MAX, VISITOR_KEY_CHARS_MIN, VISITOR_KEY_ID_CHARS_MAX, VISITOR_KEYS_BYTES_MAX,
    VISITOR_KEYS_MAX, VISITOR_TOKEN_CHARS_MAX, VISITOR_TOKEN_S_MAX, VISITOR_TOKEN_SKEW_S_MAX,
};
use parallax::testing::record::IdKind;
use parallax::testing::site::snapshot::open::{Snapshot, SnapshotBudget};
use parallax::testing::site::snapshot::rule_facts::RuleFacts;
use parallax::testing::visitor_keys::{SiteKeys, VisitorKeys};
use parallax::testing::visitor_token::{TokenError, TokenOwner, open};
use parallax::testing::visitors::profile::profile::Profile;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Response, Server, snapshot, temporary_directory};

const FIRST: &str = "0123456789abcdef0123456789abcdef";
const SECOND: &str = "ffffffffffffffffffffffffffffffff";
const CRAWLER: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

/// A directory with the file `keys`.
static KEYS: LazyLock<TempDir> = LazyLock::new(|| {
    let directory = temporary_directory();
    write_keys(&directory, &format!("b {SECOND}\na {FIRST}\n"), 0o600);
    directory
});

/// A site that reads an event, a page, a trait and a touch.
static SITE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    site(
        "acme",
        1,
        &json!({ "events.Ordered.count": { "$gte": 1 },
    "pages./docs/*.count": { "$gte": 1 }, "traits.plan.tier": "pro", "firstTouch.source": "news" }),
    )
});

fn site(id: &str, version: u64, condition: &Value) -> Vec<u8> {
    let site = json!({ "site": id, "trackingId": format!("track_{id}"), "name": id, "localDecisions": true });
    let zone = json!({ "default": [], "variants": { "known": [] }, "rules": [{ "when": condition, "variant": "known" }] });
    let page = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": { "hero": zone } } });
    snapshot(&[("site.json", &site.to_string()), ("routes/index.json", &page.to_string())], version)
}

fn write_keys(directory: &TempDir, text: &str, mode: u32) -> PathBuf {
    let path = directory.path().join("keys");
    let _ = fs::remove_file(&path);
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(mode)).expect("the mode is set");
    path
}

fn start(flags: &[&str]) -> Server {
    Server::start(&[("acme.snapshot", &SITE)], flags)
}

fn start_with_keys() -> Server {
    let path = KEYS.path().join("keys");
    start(&["--visitor-keys", path.to_str().expect("UTF-8")])
}

fn now_s() -> u64 {
    clock::now_ms().unsigned_abs() / 1_000
}

/// Returns the hash of the facts of a compiled site.
fn facts_hash(compiled: &[u8]) -> u64 {
    let directory = temporary_directory();
    let path = directory.path().join("site.snapshot");
    fs::write(&path, compiled).expect("written");
    let opened = Snapshot::open(&path, &SnapshotBudget::new(u64::MAX)).expect("the snapshot opens");
    RuleFacts::of(opened.site()).hash()
}

/// Opens a token of an anonymous visitor of the site `acme`, so many seconds from now.
fn open_at(token: &str, id: &str, after_s: u64) -> Result<Vec<u8>, TokenError> {
    let keys = read_visitor_keys(&KEYS.path().join("keys")).expect("the file is valid").of_site("acme");
    let owner = TokenOwner { site: "acme", id_kind: IdKind::Anon, id };
    open(&keys, owner, facts_hash(&SITE), token, now_s() + after_s)
}

fn track(server: &Server, query: &str, event: &Value) -> Response {
    server.post(&format!("/v1/track?site=acme{query}"), &[], event.to_string().as_bytes())
}

fn token_of(response: &Response) -> String {
    let body = response.json();
    body["visitorToken"].as_str().unwrap_or_else(|| panic!("no token: {body}")).to_owned()
}

#[test]
fn a_file_has_one_to_four_keys_with_ids_of_their_own() {
    let line = |id: &str, chars: usize| format!("{id} {}\n", "k".repeat(chars));
    let lines = |count: usize| -> String {
        (0..count).map(|id| line(&id.to_string(), VISITOR_KEY_CHARS_MIN)).collect()
    };
    for valid in [
        format!("# keys\n\n{}", line("a", VISITOR_KEY_CHARS_MIN)),
        line("A9", VISITOR_KEY_CHARS_MIN + 1),
        line("a", VISITOR_KEY_CHARS_MAX - 1),
        line("a", VISITOR_KEY_CHARS_MAX),
        line(&"i".repeat(VISITOR_KEY_ID_CHARS_MAX - 1), VISITOR_KEY_CHARS_MIN),
        line(&"i".repeat(VISITOR_KEY_ID_CHARS_MAX), VISITOR_KEY_CHARS_MIN),
        lines(VISITOR_KEYS_MAX - 1),
        lines(VISITOR_KEYS_MAX),
    ] {
        VisitorKeys::parse(&valid).unwrap_or_else(|error| panic!("{valid}: {error}"));
    }
    for (invalid, expected) in [
        (String::new(), " has no key; write a line with the ID of a key, a blank, and the key"),
        ("# a\n".to_owned(), " has no key; write a line with the ID of a key, a blank, and the key"),
        (FIRST.to_owned(), ":1: expected the ID of a key, a blank, and the key"),
        (line("a", VISITOR_KEY_CHARS_MIN - 1), ":1: the key has 31 characters, expected 32 to 256"),
        (line("a", VISITOR_KEY_CHARS_MAX + 1), ":1: the key has 257 characters, expected 32 to 256"),
        (
            line(&"i".repeat(VISITOR_KEY_ID_CHARS_MAX + 1), VISITOR_KEY_CHARS_MIN),
            "is not 1 to 8 letters or digits",
        ),
        (line("a.b", VISITOR_KEY_CHARS_MIN), ":1: the key ID \"a.b\" is not 1 to 8 letters or digits"),
        (format!("{0}{0}", line("a", VISITOR_KEY_CHARS_MIN)), ":2: another line has the key ID a"),
        (lines(VISITOR_KEYS_MAX + 1), ":5: the file has more than 4 keys"),
    ] {
        let error = VisitorKeys::parse(&invalid).expect_err("refused");
        assert!(error.contains(expected) && !error.contains(&"k".repeat(31)), "{error}");
    }
}

#[test]
fn a_file_that_others_may_read_or_that_is_too_large_is_refused() {
    let directory = temporary_directory();
    let text = format!("a {FIRST}\n");
    let error = read_visitor_keys(&write_keys(&directory, &text, 0o644)).expect_err("refused");
    assert!(error.contains("has the mode 644") && error.starts_with("--visitor-keys "), "{error}");
    let of_length = |length: usize| {
        let padded = format!("{text}#{}", "x".repeat(length - text.len() - 1));
        assert_eq!(padded.len(), length);
        read_visitor_keys(&write_keys(&directory, &padded, 0o600)).map(|_| ())
    };
    of_length(VISITOR_KEYS_BYTES_MAX - 1).expect("one below");
    of_length(VISITOR_KEYS_BYTES_MAX).expect("at the limit");
    assert!(
        of_length(VISITOR_KEYS_BYTES_MAX + 1).expect_err("one above").contains("has more than 16384 bytes")
    );
}

#[test]
fn the_command_prints_the_keys_of_a_site_and_those_of_another_site_differ() {
    let keys_of = |site: &str| {
        let path = KEYS.path().join("keys");
        let output =
            Command::new(env!("CARGO_BIN_EXE_parallax")).arg("visitor-keys").arg(path).arg(site).output();
        let output = output.expect("the program runs");
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    };
    let (acme, shop) = (keys_of("acme"), keys_of("shop"));
    assert_ne!(acme, shop);
    let ids: Vec<&str> = acme.split(',').map(|key| key.split(':').next().expect("an ID")).collect();
    assert_eq!(ids, ["b", "a"]);
    assert_eq!(SiteKeys::parse(&acme).expect("the keys are valid").to_string(), acme);
    assert!(SiteKeys::parse("").is_ok());
    for wrong in ["a", "a:", "a:00", &acme[1..], &format!("{acme}0")] {
        assert!(SiteKeys::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_receipt_and_a_decision_have_the_facts_that_the_rules_read() {
    let server = start_with_keys();
    let event =
        |name: &str| json!({ "anonId": "v1", "event": name, "properties": { "secret": "not in a token" } });
    let receipt = track(&server, "&visitor=1", &event("Ordered"));
    assert_eq!(receipt.json()["accepted"], 1);
    let traits = json!({ "anonId": "v1", "type": "identify", "userId": "u1", "traits": { "plan": { "tier": "pro" }, "email": "a@b.example" } });
    track(&server, "", &traits);
    track(&server, "", &event("Other"));
    for path in ["/docs/a", "/about"] {
        let body = json!({ "anonId": "v1", "properties": { "path": path }, "context": { "referrer": "https://news.example/" } });
        server.post("/v1/page?site=acme", &[], body.to_string().as_bytes());
    }
    let decided = server.get("/v1/variants?site=acme&route=/&anonId=v1&visitor=1");
    assert_eq!(decided.field("cache-control"), Some("no-store"));
    for (token, has_all) in [(token_of(&receipt), false), (token_of(&decided), true)] {
        let opened = open_at(&token, "v1", 0).expect("the token opens");
        let profile = Profile::decode(&opened).expect("a profile");
        assert!(profile.event_history("Ordered").is_some() && profile.event_history("Other").is_none());
        assert_eq!(profile.page_history("/docs/a").is_some(), has_all);
        assert!(profile.page_history("/about").is_none() && profile.trait_value("email").is_none());
        assert_eq!(profile.trait_value("plan").is_some(), has_all);
        assert_eq!((profile.user_id(), profile.site(), profile.anon_ids().count()), (None, "", 0));
        assert!(profile.last_touch() == profile.first_touch());
    }
}

#[test]
fn a_visitor_without_a_profile_has_a_token_without_one() {
    let server = start_with_keys();
    let token = token_of(&server.get("/v1/variants?site=acme&route=/&anonId=new&visitor=1"));
    assert_eq!(open_at(&token, "new", 0), Ok(Vec::new()));
}

#[test]
fn a_request_that_refuses_personalization_or_names_no_single_visitor_gets_no_token() {
    let server = start_with_keys();
    let decided = |query: &str, agent: &str| {
        let target = format!("/v1/variants?site=acme&route=/&visitor=1{query}");
        server.get_with(&target, &[("User-Agent", agent)]).json()["visitorToken"].clone()
    };
    assert_eq!(decided("&anonId=v1&personalize=0", ""), Value::Null);
    assert_eq!(decided("", ""), Value::Null);
    assert_eq!(decided("&anonId=v1", CRAWLER), Value::Null);
    assert!(decided("&anonId=v1", "Mozilla/5.0").is_string());
    let one = json!({ "anonId": "v1", "event": "Ordered" });
    let other = json!({ "anonId": "v2", "event": "Ordered" });
    let batch = |events: &[&Value], query: &str| {
        let body = json!({ "batch": events }).to_string();
        server.post(&format!("/v1/batch?site=acme&visitor=1{query}"), &[], body.as_bytes()).json()["visitorToken"].clone()
    };
    assert!(batch(&[&one, &one], "").is_string());
    assert_eq!(batch(&[&one, &other], ""), Value::Null);
    assert_eq!(batch(&[&one], "&personalize=0"), Value::Null);
    assert_eq!(batch(&[&one], "&dryRun=1"), Value::Null);
    let minimal = server.post(
        "/v1/track?site=acme&visitor=1",
        &[("Prefer", "return=minimal")],
        one.to_string().as_bytes(),
    );
    assert!(minimal.json()["visitorToken"].is_string());
    assert_eq!(track(&server, "&personalize=x", &one).json()["accepted"], 1, "read only with visitor=1");
    let without = track(&server, "", &one).json();
    assert_eq!(without.get("visitorToken"), None);
    assert_eq!(server.get("/v1/variants?site=acme&route=/&anonId=v1").json().get("visitorToken"), None);
    assert_eq!(server.get("/v1/variants?site=acme&route=/&visitor=2").status, 400);
}

#[test]
fn without_keys_no_request_gets_a_token() {
    let server = start(&[]);
    let decided = server.get("/v1/variants?site=acme&route=/&anonId=v1&visitor=1").json();
    assert_eq!(decided["visitorToken"], Value::Null);
    let receipt = track(&server, "&visitor=1", &json!({ "anonId": "v1", "event": "Ordered" })).json();
    assert_eq!((&receipt["accepted"], &receipt["visitorToken"]), (&json!(1), &Value::Null));
}

#[test]
fn a_token_counts_for_its_visitor_its_site_and_24_hours() {
    let server = start_with_keys();
    let token = token_of(&server.get("/v1/variants?site=acme&route=/&anonId=v1&visitor=1"));
    assert_eq!(open_at(&token, "v2", 0), Err(TokenError::Invalid));
    assert!(open_at(&token, "v1", VISITOR_TOKEN_S_MAX - 5).is_ok());
    assert_eq!(open_at(&token, "v1", VISITOR_TOKEN_S_MAX + 1), Err(TokenError::Expired));
    let keys = |id: &str, secret: &str, site: &str| {
        VisitorKeys::parse(&format!("{id} {secret}")).expect("valid").of_site(site)
    };
    let open_as = |keys: &SiteKeys, owner: TokenOwner<'_>, hash: u64, now_s: u64| {
        open(keys, owner, hash, &token, now_s).map(|_| ())
    };
    let (hash, now_s) = (facts_hash(&SITE), now_s());
    let owner = TokenOwner { site: "acme", id_kind: IdKind::Anon, id: "v1" };
    let right = keys("b", SECOND, "acme");
    assert_eq!(open_as(&right, owner, hash, now_s), Ok(()));
    assert_eq!(open_as(&right, TokenOwner { site: "shop", ..owner }, hash, now_s), Err(TokenError::Invalid));
    assert_eq!(
        open_as(&right, TokenOwner { id_kind: IdKind::User, ..owner }, hash, now_s),
        Err(TokenError::Invalid)
    );
    assert_eq!(open_as(&keys("b", FIRST, "acme"), owner, hash, now_s), Err(TokenError::Invalid));
    assert_eq!(open_as(&keys("b", SECOND, "shop"), owner, hash, now_s), Err(TokenError::Invalid));
    assert_eq!(open_as(&keys("a", SECOND, "acme"), owner, hash, now_s), Err(TokenError::UnknownKey));
    assert_eq!(open_as(&right, owner, hash ^ 1, now_s), Err(TokenError::Outdated));
    assert_eq!(open_as(&right, owner, hash, now_s - VISITOR_TOKEN_SKEW_S_MAX - 5), Err(TokenError::Invalid));
    assert_eq!(open_as(&right, owner, hash, now_s - VISITOR_TOKEN_SKEW_S_MAX + 5), Ok(()));
}

#[test]
fn a_changed_or_shortened_token_is_never_believed() {
    let server = start_with_keys();
    track(&server, "", &json!({ "anonId": "v1", "event": "Ordered" }));
    let token = token_of(&server.get("/v1/variants?site=acme&route=/&anonId=v1&visitor=1"));
    let keys = read_visitor_keys(&KEYS.path().join("keys")).expect("the file is valid").of_site("acme");
    let owner = TokenOwner { site: "acme", id_kind: IdKind::Anon, id: "v1" };
    let (hash, now_s) = (facts_hash(&SITE), now_s());
    let opens = |text: &str| open(&keys, owner, hash, text, now_s).is_ok();
    assert!(opens(&token));
    for end in 0..token.len() {
        assert!(!opens(&token[..end]), "{end}");
    }
    for at in 0..token.len() {
        for other in ["A", "_", ".", "~", "=", " ", "é"] {
            let changed = format!("{}{other}{}", &token[..at], &token[at + 1..]);
            assert!(changed == token || !opens(&changed), "{changed}");
        }
    }
    assert!(!opens(&format!("{token}A")) && !opens(&"1.b.".repeat(VISITOR_TOKEN_CHARS_MAX)));
}

#[test]
fn a_past_that_makes_a_longer_token_gets_none() {
    let condition = json!({ "traits.first": "a", "traits.second": "b" });
    let path = KEYS.path().join("keys");
    let flags = ["--visitor-keys", path.to_str().expect("UTF-8")];
    let server = Server::start(&[("acme.snapshot", &site("acme", 1, &condition))], &flags);
    let text = |chars: usize| "x".repeat(chars);
    let length_with = |chars: usize| {
        let traits = json!({ "first": text(500), "second": text(chars) });
        let event = json!({ "anonId": "v1", "type": "identify", "traits": traits });
        let receipt = track(&server, "&visitor=1", &event).json();
        receipt["visitorToken"].as_str().map(str::len)
    };
    // Three bytes of the profile are four characters of the token.
    let base = length_with(200).expect("a token");
    let chars = 200 + (VISITOR_TOKEN_CHARS_MAX - base) / 4 * 3;
    let lengths: Vec<Option<usize>> = (chars - 4..=chars + 4).map(length_with).collect();
    assert_eq!(lengths.iter().flatten().max(), Some(&VISITOR_TOKEN_CHARS_MAX), "{lengths:?}");
    assert!(lengths[0].is_some() && lengths[8].is_none(), "{lengths:?}");
}

#[test]
fn a_publication_that_reads_other_facts_outdates_a_token_and_another_one_does_not() {
    let condition = json!({ "events.Ordered.count": { "$gte": 1 } });
    let first = facts_hash(&site("acme", 1, &condition));
    assert_eq!(facts_hash(&site("acme", 2, &json!({ "events.Ordered.count": { "$lt": 5 } }))), first);
    let others = [
        json!({ "events.Other.count": { "$gte": 1 } }),
        json!({ "pages./.count": { "$gte": 1 } }),
        json!({ "events.Ordered.count": { "$gte": 1 }, "visitor.userId": "u" }),
        json!({ "events.Ordered.count": { "$gte": 1 }, "firstTouch.source": "a" }),
        json!({ "events.Ordered.count": { "$gte": 1 }, "lastTouch.source": "a" }),
        json!({ "events.Ordered*.count": { "$gte": 1 } }),
    ];
    for other in others {
        assert_ne!(facts_hash(&site("acme", 2, &other)), first, "{other}");
    }
}

#[test]
fn after_sighup_the_first_key_of_the_file_seals_and_a_fault_keeps_the_keys_in_use() {
    let directory = temporary_directory();
    let path = write_keys(&directory, &format!("a {FIRST}\n"), 0o600);
    let server = start(&["--visitor-keys", path.to_str().expect("UTF-8")]);
    let key_id = || {
        let token = token_of(&server.get("/v1/variants?site=acme&route=/&anonId=v1&visitor=1"));
        token.split('.').nth(1).expect("the ID of a key").to_owned()
    };
    let reload = |text: &str, line: &str| {
        write_keys(&directory, text, 0o600);
        server.signal("HUP");
        server.wait_for_log(line);
    };
    assert_eq!(key_id(), "a");
    reload(&format!("b {SECOND}\na {FIRST}\n"), "read the visitor keys again");
    assert_eq!(key_id(), "b");
    reload("c short\n", "the visitor keys in use stay");
    assert_eq!(key_id(), "b");
}

#[test]
fn a_start_with_a_wrong_file_of_keys_names_its_line() {
    let directory = temporary_directory();
    let path = write_keys(&directory, "a short\n", 0o600);
    let output = Command::new(env!("CARGO_BIN_EXE_parallax"))
        .args(["serve", "--visitor-keys"])
        .arg(&path)
        .current_dir(directory.path())
        .output()
        .expect("the program runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("keys:1: the key has 5 characters, expected 32 to 256"), "{text}");
}

#[test]
fn a_resolved_page_and_a_user_without_an_anonymous_id_have_tokens_too() {
    let server = start_with_keys();
    track(&server, "", &json!({ "userId": "u1", "event": "Ordered" }));
    let token = token_of(&server.get("/v1/resolve?site=acme&route=/&userId=u1&visitor=1"));
    let keys = read_visitor_keys(&KEYS.path().join("keys")).expect("the file is valid").of_site("acme");
    let owner = TokenOwner { site: "acme", id_kind: IdKind::User, id: "u1" };
    let opened = open(&keys, owner, facts_hash(&SITE), &token, now_s()).expect("the token opens");
    assert!(Profile::decode(&opened).is_some_and(|profile| profile.event_history("Ordered").is_some()));
    let forced = server.get("/v1/resolve?site=acme&route=/&userId=u1&visitor=1&variants=");
    assert_eq!((forced.status, forced.json().get("visitorToken")), (200, None));
}
