//! `userId`: the profile and the arms of a user, for a request without an anonymous ID.

use parallax::testing::condition::hash;
use serde_json::{Value, json};

use super::{SharedServer, page, percent_encode, problem, snapshot, zone};
use crate::harness::{Response, Server};

static SERVER: SharedServer = SharedServer::new(|| {
    let halves = json!([{ "experiment": { "key": "half", "variants": ["default", "b"] } }]);
    let plan = json!([{ "when": { "traits.plan": "pro" }, "variant": "pro" }]);
    let route = page("/", json!({ "half": zone(&["b"], halves), "plan": zone(&["pro"], plan) }));
    let queries = json!({ "all": { "collection": "posts" } }).to_string();
    let site = super::site_file("acme", json!({}));
    let files = [
        ("site.json", &*site),
        ("routes/index.json", &*route),
        ("queries.json", &*queries),
        ("content/posts.json", "[]"),
    ];
    let server = Server::start(&[("acme.snapshot", &snapshot(&files, 1))], &[]);
    let event = json!({ "anonId": "device", "userId": "pro user", "traits": { "plan": "pro" } });
    let receipt = server.post("/v1/track?site=acme", &[], event.to_string().as_bytes());
    assert_eq!(receipt.json()["accepted"], 1, "{}", receipt.text());
    server
});

fn decide(query: &str) -> Response {
    SERVER.get().get(&format!("/v1/variants?site=acme&route=/{query}"))
}

fn visitor(query: &str) -> Value {
    let target = format!("/v1/resolve?site=acme&route=/&explain=1{query}");
    SERVER.get().admin_get(&target).json()["visitor"].clone()
}

/// Returns the arm of this ID.
fn arm(id: &str) -> &'static str {
    if hash(&["half"], id, 2).expect("version 2 hashes") < 0.5 { "default" } else { "b" }
}

#[test]
fn without_an_anon_id_the_profile_is_that_of_the_user() {
    for query in ["&userId=pro+user", "&userId=pro%20user", "&userId=pro+user&anonId=null"] {
        let answer = decide(query).json();
        assert_eq!(answer["selected"]["plan"], "pro", "{query}");
        let visitor = visitor(query);
        assert_eq!((&visitor["anonId"], &visitor["visitor"]["userId"]), (&json!(null), &json!("pro user")));
    }
    assert_eq!(decide("&userId=nobody").json()["selected"]["plan"], "default");
    let new = visitor("&userId=nobody");
    assert_eq!((&new["visitor"]["userId"], &new["visitor"]["isNew"]), (&json!("nobody"), &json!(true)));
}

#[test]
fn an_anon_id_wins_for_the_profile_and_for_experiments() {
    for n in 0..20 {
        let (anon_id, user_id) = (format!("a{n}"), format!("u{n}"));
        let both = decide(&format!("&anonId={anon_id}&userId={user_id}"));
        assert_eq!(both.field("x-experiments"), Some(&*format!("half:{}", arm(&anon_id))));
        let user = decide(&format!("&userId={user_id}"));
        assert_eq!(user.field("x-experiments"), Some(&*format!("half:{}", arm(&user_id))));
        assert_eq!(user.json()["selected"]["half"], arm(&user_id));
    }
    assert_eq!(decide("&anonId=stranger&userId=pro+user").json()["selected"]["plan"], "default");
    let target = "/v1/variants?site=acme&route=/&userId=pro+user";
    for fields in [[("X-Anon-Id", "stranger")], [("Cookie", "anon_id=stranger")]] {
        assert_eq!(SERVER.get().get_with(target, &fields).json()["selected"]["plan"], "default");
    }
}

#[test]
fn a_user_id_has_1_to_256_bytes_of_text() {
    for length in [1, 255, 256] {
        let id = "u".repeat(length);
        assert_eq!(visitor(&format!("&userId={id}"))["visitor"]["userId"], *id);
    }
    let umlauts = "ü".repeat(128);
    assert_eq!(visitor(&format!("&userId={}", percent_encode(&umlauts)))["visitor"]["userId"], *umlauts);
    for long in ["u".repeat(257), format!("{umlauts}u")] {
        for (endpoint, more) in [("resolve", ""), ("variants", ""), ("resolve", "&anonId=v1")] {
            let target = format!("/v1/{endpoint}?site=acme&route=/&userId={}{more}", percent_encode(&long));
            let response = SERVER.get().get(&target);
            assert_eq!(problem(&response), (400, "invalid_param".into()), "{target}");
            assert_eq!(response.json()["param"], "userId");
        }
    }
}

#[test]
fn a_placeholder_user_id_counts_as_no_id() {
    for placeholder in ["null", "anonymous", "[object Object]", "UNDEFINED", ""] {
        let query = format!("&userId={}", percent_encode(placeholder));
        assert_eq!(decide(&query).field("x-experiments"), Some(""), "{placeholder}");
        assert_eq!(visitor(&query)["visitor"]["userId"], json!(null), "{placeholder}");
    }
}

#[test]
fn the_user_id_changes_no_public_response_and_no_query() {
    let target = "/v1/resolve?site=acme&route=/&variants=half:b";
    let plain = super::comparable(SERVER.get().get(target));
    let long = "u".repeat(257);
    assert_eq!(super::comparable(SERVER.get().get(&format!("{target}&userId={long}"))), plain);
    let query = |more: &str| {
        let body = format!(r#"{{"site":"acme","query":"all"{more}}}"#);
        let response = SERVER.get().post("/v1/query", &[], body.as_bytes());
        assert_eq!(response.status, 200, "{}", response.text());
        response.body
    };
    for more in [r#","userId":"u1""#, r#","userId":7"#, r#","userId":null"#] {
        assert_eq!(query(more), query(""), "{more}");
    }
}
