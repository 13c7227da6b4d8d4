//! Sites that verify user IDs: an ID without its hash is no oracle and no write handle.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::LazyLock;

use data_encoding::HEXLOWER;
use parallax::testing::checksum::hmac_sha256;
use parallax::testing::events::endpoint::PATHS;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{SharedServer, comparable, compile_site, page, site_file, zone};
use crate::harness::{Response, Server, temporary_directory};

const ACME_KEY: &str = "0123456789abcdef0123456789abcdef";
const SHOP_KEY: &str = "ffffffffffffffffffffffffffffffff";

/// A directory with the file `keys`.
static KEYS: LazyLock<TempDir> = LazyLock::new(|| {
    let directory = temporary_directory();
    let path = directory.path().join("keys");
    fs::write(&path, format!("acme {ACME_KEY}\nshop {SHOP_KEY}\n")).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("the mode is set");
    directory
});

/// Compiles a site that shows another hero to users of the plan `pro`, and splits visitors into halves.
fn site(id: &str, members: Value) -> Vec<u8> {
    let pro = json!([{ "when": { "traits.plan": "pro" }, "variant": "pro" }]);
    let halves = json!([{ "experiment": { "key": "half", "variants": ["default", "b"] } }]);
    let route = page("/", json!({ "hero": zone(&["pro"], pro), "half": zone(&["b"], halves) }));
    compile_site(&site_file(id, members), &[route], 1)
}

/// Returns the hash of a user ID.
fn hash(key: &str, user_id: &str) -> String {
    let key = key.as_bytes().try_into().expect("a key of 32 characters");
    HEXLOWER.encode(&hmac_sha256(key, &[user_id.as_bytes()]))
}

static SERVER: SharedServer = SharedServer::new(|| {
    let signed = || json!({ "identity": { "verify": "signed" } });
    let sites = [
        ("acme.snapshot", site("acme", signed())),
        ("shop.snapshot", site("shop", signed())),
        ("open.snapshot", site("open", json!({ "identity": { "verify": "none" } }))),
        ("keyless.snapshot", site("keyless", signed())),
    ];
    let keys = KEYS.path().join("keys");
    let flags = ["--identity-keys", keys.to_str().expect("UTF-8"), "--explain", "--access-log"];
    let server = Server::start(&sites.each_ref().map(|(name, bytes)| (*name, bytes.as_slice())), &flags);
    for (site, key) in [("acme", Some(ACME_KEY)), ("shop", Some(SHOP_KEY)), ("open", None)] {
        let context = json!({ "userHash": key.map(|key| hash(key, "ana")) });
        let event =
            json!({ "anonId": "device", "userId": "ana", "traits": { "plan": "pro" }, "context": context });
        send(&server, &format!("/v1/identify?site={site}"), &[], &event);
    }
    server
});

/// Sends an event that is recorded, and returns its receipt.
fn send(server: &Server, target: &str, fields: &[(&str, &str)], event: &Value) -> Value {
    let receipt = server.post(target, fields, event.to_string().as_bytes());
    assert_eq!(receipt.json()["accepted"], 1, "{}", receipt.text());
    receipt.json()
}

fn decide(site: &str, more: &str, fields: &[(&str, &str)]) -> Response {
    SERVER.get().get_with(&format!("/v1/variants?site={site}&route=/{more}"), fields)
}

/// Returns whether the page of the user `ana` is that of her plan.
fn is_known(site: &str, fields: &[(&str, &str)]) -> bool {
    decide(site, "&userId=ana", fields).json()["selected"]["hero"] == "pro"
}

#[test]
fn the_profile_of_a_user_needs_the_hash_with_a_key_of_its_site() {
    let (acme, shop) = (hash(ACME_KEY, "ana"), hash(SHOP_KEY, "ana"));
    for (site, user_hash, known) in [
        ("acme", Some(&acme), true),
        ("acme", Some(&shop), false),
        ("acme", Some(&hash(ACME_KEY, "ben")), false),
        ("acme", None, false),
        ("shop", Some(&shop), true),
        ("shop", Some(&acme), false),
        ("open", None, true),
        ("open", Some(&shop), true),
        ("keyless", Some(&acme), false),
    ] {
        let fields: Vec<_> = user_hash.iter().map(|hash| ("X-User-Hash", hash.as_str())).collect();
        assert_eq!(is_known(site, &fields), known, "{site} {user_hash:?}");
    }
    let in_query = format!("&userId=ana&userHash={acme}&user_hash={acme}");
    assert_eq!(decide("acme", &in_query, &[]).json()["selected"]["hero"], "default", "a URL is in every log");
}

#[test]
fn an_unverified_user_id_decides_byte_for_byte_as_the_anonymous_visitor() {
    for endpoint in ["variants", "resolve"] {
        for (fields, more) in [
            (vec![], ""),
            (vec![("Accept-Encoding", "gzip")], "&locale=de"),
            (vec![("Origin", "https://a.example")], "&override=hero:pro"),
            (vec![("X-Anon-Id", "someone")], ""),
            (vec![("Cookie", "anon_id=device")], ""),
        ] {
            let ask = |user: &str, hash: Option<&str>| {
                let target = format!("/v1/{endpoint}?site=acme&route=/{more}{user}");
                let hash = hash.map(|hash| ("X-User-Hash", hash));
                let fields: Vec<_> = fields.iter().copied().chain(hash).collect();
                comparable(SERVER.get().get_with(&target, &fields))
            };
            let anonymous = ask("", None);
            assert_eq!(anonymous.field("cache-control"), Some("private, no-store"));
            for hash in [None, Some("x"), Some(&*hash(SHOP_KEY, "ana"))] {
                assert_eq!(ask("&userId=ana", hash), anonymous, "{endpoint} {more} {hash:?}");
            }
        }
    }
}

#[test]
fn an_unverified_event_changes_and_ties_nothing_of_the_user() {
    let server = SERVER.get();
    let event = json!({ "anonId": "thief", "userId": "ana", "traits": { "plan": "free" } });
    let receipt = send(&server, "/v1/identify?site=acme", &[], &event);
    let warning = &receipt["warnings"][0];
    assert_eq!((&warning["code"], &warning["pointer"]), (&json!("unverified_user"), &json!("/userId")));
    let alone = json!({ "userId": "ana", "set": { "plan": "free" } }).to_string();
    let refused = server.post("/v1/track?site=acme", &[], alone.as_bytes());
    assert_eq!((refused.status, refused.code().as_str()), (403, "unverified_user"));
    let right = hash(ACME_KEY, "ana");
    assert!(is_known("acme", &[("X-User-Hash", &right)]), "the plan of the user is the same");
    let hero = |id| decide("acme", &format!("&anonId={id}"), &[]).json()["selected"]["hero"].clone();
    assert_eq!((hero("thief"), hero("device")), (json!("default"), json!("pro")));
    // The header counts for events too.
    let event = json!({ "anonId": "tablet", "userId": "ana" });
    let receipt = send(&server, "/v1/identify?site=acme", &[("X-User-Hash", &right)], &event);
    assert_eq!((receipt.get("warnings"), hero("tablet")), (None, json!("pro")));
}

#[test]
fn every_event_path_refuses_an_unverified_user_without_an_anonymous_id() {
    let server = SERVER.get();
    for (path, _) in PATHS {
        let types = ["page", "track", "identify", "profile", "screen", "group", "alias"];
        let event = |kind: &&str| {
            json!({ "type": kind, "userId": "ana", "event": "e", "previousId": "device",
            "set": { "plan": "free" } })
        };
        let batch = json!({ "batch": types.iter().map(event).collect::<Vec<_>>(), "writeKey": "track_acme" });
        let refused = server.post(path, &[("Content-Type", "text/plain")], batch.to_string().as_bytes());
        let errors = refused.json()["errors"].as_array().cloned().unwrap_or_default();
        assert_eq!((refused.status, errors.len()), (400, types.len()), "{path}: {}", refused.text());
        assert!(errors.iter().all(|error| error["code"] == "unverified_user"), "{path}: {}", refused.text());
    }
}

#[test]
fn an_operator_needs_no_hash() {
    let target = "/v1/resolve?site=acme&route=/&explain=1&userId=ana";
    let visitor = SERVER.get().admin_get(target).json()["visitor"].clone();
    assert_eq!((&visitor["visitor"]["userId"], &visitor["traits"]["plan"]), (&json!("ana"), &json!("pro")));
    assert_eq!(visitor["visitor"].get("userIdVerified"), None);
}

#[test]
fn an_explanation_says_that_the_user_id_is_not_verified() {
    let right = hash(ACME_KEY, "ana");
    let explain = |more: &str, fields: &[(&str, &str)]| {
        let response =
            SERVER.get().get_with(&format!("/v1/resolve?site=acme&route=/&explain=1{more}"), fields);
        assert!(!response.body_contains(&right), "{}", response.text());
        response.json()["visitor"]["visitor"].clone()
    };
    let unverified = explain("&userId=ana", &[("X-User-Hash", &hash(SHOP_KEY, "ana"))]);
    assert_eq!(
        (&unverified["userIdVerified"], &unverified["userId"], &unverified["isNew"]),
        (&json!(false), &Value::Null, &json!(true))
    );
    let verified = explain("&userId=ana", &[("X-User-Hash", &right)]);
    assert_eq!((verified.get("userIdVerified"), &verified["userId"]), (None, &json!("ana")));
    for more in ["", "&anonId=v1&userId=ana", "&userId=ana&personalize=0", "&userId=null"] {
        assert_eq!(explain(more, &[]).get("userIdVerified"), None, "no user ID would count: {more}");
    }
}

#[test]
fn unverified_user_ids_and_keys_are_in_the_metrics() {
    let server = SERVER.get();
    let count = |name: &str| {
        let text = server.admin_get("/metrics").text().to_owned();
        let line =
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<u64>().ok());
        line.unwrap_or_else(|| panic!("{name} is missing: {text}"))
    };
    let before = ["page", "event"]
        .map(|request| count(&format!("parallax_user_ids_unverified_total{{request=\"{request}\"}}")));
    decide("acme", "&userId=eve", &[]);
    let batch = json!({ "batch": [{ "userId": "eve", "event": "e" }, { "userId": "eve", "anonId": "a", "event": "e" }] });
    send(&server, "/v1/batch?site=acme", &[], &batch);
    let after = ["page", "event"]
        .map(|request| count(&format!("parallax_user_ids_unverified_total{{request=\"{request}\"}}")));
    assert!(after[0] > before[0] && after[1] >= before[1] + 2, "{before:?} {after:?}");
    for (site, keys) in [("acme", 1), ("shop", 1), ("keyless", 0)] {
        assert_eq!(count(&format!("parallax_identity_keys{{site=\"{site}\"}}")), keys);
    }
    assert!(!server.admin_get("/metrics").body_contains("parallax_identity_keys{site=\"open\"}"));
}

#[test]
fn no_hash_is_in_the_log_lines_or_in_the_data_directory() {
    let server = SERVER.get();
    let right = hash(ACME_KEY, "zoe");
    let event =
        json!({ "userId": "zoe", "event": "e", "messageId": "zoe-1", "context": { "userHash": right } });
    send(&server, "/v1/track?site=acme", &[], &event);
    send(&server, "/v1/track?site=open", &[], &event);
    send(
        &server,
        "/v1/track?site=shop",
        &[],
        &json!({ "anonId": "z", "userId": "zoe", "event": "e", "context": { "userHash": right } }),
    );
    decide("acme", "&userId=zoe", &[("X-User-Hash", &right)]);
    decide("shop", "&userId=zoe", &[("X-User-Hash", &right)]);
    let contains = |text: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
        command.arg("check").arg(server.data()).args(["--contains", text]);
        String::from_utf8(command.output().expect("the program runs").stdout).expect("UTF-8")
    };
    assert!(contains("zoe-1").contains(".segment: "), "the search finds a record: {}", contains("zoe-1"));
    assert!(!contains(&right).contains(".segment: "), "{}", contains(&right));
    for secret in [&right, ACME_KEY, SHOP_KEY] {
        assert!(!server.log().contains(secret), "{}", server.log());
    }
}

#[test]
fn a_page_of_another_origin_may_send_the_hash() {
    let fields =
        [("Access-Control-Request-Method", "GET"), ("Access-Control-Request-Headers", "x-user-hash,x-own")];
    let response = crate::harness::Client::to(SERVER.get().edge).request("OPTIONS", "/v1/variants", &fields);
    assert_eq!(response.field("access-control-allow-headers"), Some("x-user-hash"));
}
