//! `since`: the differences between the caller's version and the served version.

use std::fs;
use std::path::Path;

use parallax::testing::site::catalog::versions_file::decode;
use serde_json::{Value, json};

use super::{acme, site};
use crate::harness::{Server, eventually, snapshot};

/// Compiles site `acme` with these pages (path and text), and a redirect from `/moved` if `moved` is given.
fn pages(version: u64, pages: &[(&str, &str)], moved: Option<&str>) -> Vec<u8> {
    let about = r#"{"site":"acme","trackingId":"track_acme","name":"Acme"}"#;
    let mut files = vec![("site.json".to_owned(), about.to_owned())];
    for (i, (path, text)) in pages.iter().enumerate() {
        let page = json!({ "path": path, "layout": { "root": { "props": { "title": text } }, "zones": {} } });
        files.push((format!("routes/{i}.json"), page.to_string()));
    }
    if let Some(to) = moved {
        let moved = json!({ "path": "/moved", "redirect": { "to": to, "status": 308 } });
        files.push(("routes/moved.json".to_owned(), moved.to_string()));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    snapshot(&files, version)
}

impl Server {
    fn publish_and_wait(&self, bytes: &[u8], version: &str) {
        self.publish("acme.snapshot", bytes);
        eventually("the version is served", || {
            (self.get("/v1/routes?site=acme").field("x-version") == Some(version)).then_some(())
        });
    }

    /// Returns `[since, paths, redirects, removed]` of the route list since a version.
    fn since(&self, since: u64) -> Value {
        let list = self.get(&format!("/v1/routes?site=acme&since={since}")).json();
        let members = |name: &str, member: &str| -> Vec<Value> {
            list[name].as_array().expect("a list").iter().map(|entry| entry[member].clone()).collect()
        };
        json!([list["since"], members("routes", "path"), members("redirects", "from"), list["removed"]])
    }
}

#[test]
fn since_lists_the_differences_in_either_direction() {
    let server = Server::start(&[], &[]);
    server.publish_and_wait(&pages(1, &[("/", "a"), ("/gone", "b"), ("/same", "c")], None), "1");
    server.publish_and_wait(&pages(2, &[("/", "A"), ("/new", "d"), ("/same", "c")], Some("/new")), "2");
    assert_eq!(server.since(1), json!(["1", ["/", "/new"], ["/moved"], ["/gone"]]));
    assert_eq!(server.since(2), json!(["2", [], [], []]));
    assert_eq!(server.since(3), json!([null, ["/", "/new", "/same"], ["/moved"], []]));
    server.publish_and_wait(&pages(3, &[("/", "A"), ("/new", "d"), ("/same", "c")], Some("/")), "3");
    assert_eq!(server.since(2), json!(["2", [], ["/moved"], []]));
    assert_eq!(server.since(1), json!(["1", ["/", "/new"], ["/moved"], ["/gone"]]));
    // After the rollback the caller has the newer version.
    server.publish_and_wait(&pages(1, &[("/", "a"), ("/gone", "b"), ("/same", "c")], None), "1");
    assert_eq!(server.since(3), json!(["3", ["/", "/gone"], [], ["/moved", "/new"]]));
}

#[test]
fn a_version_served_with_two_contents_is_unknown() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "one"))], &[]);
    assert_eq!(server.since(1)[0], "1");
    server.publish("acme.snapshot", &acme(1, "one, changed"));
    server.wait_until_served("acme", Some("one, changed"));
    assert_eq!(server.since(1), json!([null, ["/", "/fixed"], [], []]));
    server.publish_and_wait(&acme(2, "two"), "2");
    assert_eq!(server.since(1)[0], Value::Null);
    assert_eq!(server.since(2)[0], "2");
}

/// Waits until the file in the data directory has `version` as the newest one of acme.
fn wait_until_saved(data: &Path, version: u64) {
    eventually("the version is saved", || {
        let sites = decode(&fs::read(data.join("versions")).ok()?).expect("a sound file");
        (sites.get("acme")?.iter().last()?.version == version).then_some(())
    });
}

/// Returns the bytes of the response to `since`.
fn list_since(server: &Server, since: u64) -> String {
    server.get(&format!("/v1/routes?site=acme&since={since}")).text().to_owned()
}

#[test]
fn a_republished_site_knows_its_versions_also_after_a_restart() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "one"))], &[]);
    fs::remove_file(server.path("acme.snapshot")).expect("removed");
    server.wait_until_served("acme", None);
    server.publish("other.snapshot", &site("other", "track_other", 1, "other"));
    server.publish_and_wait(&acme(2, "two"), "2");
    assert_eq!(server.since(1), json!(["1", ["/"], [], []]));
    wait_until_saved(server.data(), 2);
    let before = [1, 2, 3].map(|version| list_since(&server, version));
    let server = server.restart(&[]);
    assert_eq!([1, 2, 3].map(|version| list_since(&server, version)), before);
    // A version that is published while no server runs is compared with the one before it.
    fs::write(server.path("acme.snapshot"), acme(3, "three")).expect("written");
    let server = server.restart(&[]);
    assert_eq!(server.since(1), json!(["1", ["/"], [], []]));
    wait_until_saved(server.data(), 3);
}

#[test]
fn a_damaged_or_missing_file_makes_older_versions_unknown() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "one"))], &[]);
    server.publish_and_wait(&acme(2, "two"), "2");
    wait_until_saved(server.data(), 2);
    let path = server.data().join("versions");
    let sound = fs::read(&path).expect("a file");
    let mut flipped = sound.clone();
    flipped[70] ^= 1;
    let mut server = server;
    for damaged in [&sound[..20], &sound[..sound.len() - 1], &flipped, b"", b"versions"] {
        fs::write(&path, damaged).expect("written");
        server = server.restart(&[]);
        server.wait_for_log("cannot read the served versions");
        assert_eq!((&server.since(1)[0], &server.since(2)[0]), (&Value::Null, &json!("2")));
        // The server replaces the damaged file.
        wait_until_saved(server.data(), 2);
    }
    fs::remove_file(&path).expect("removed");
    let server = server.restart(&[]);
    assert_eq!((&server.since(1)[0], &server.since(2)[0]), (&Value::Null, &json!("2")));
    assert!(!server.log().contains("cannot read the served versions"), "{}", server.log());
}

#[test]
fn a_file_that_cannot_be_written_does_not_stop_publishing() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "one"))], &[]);
    wait_until_saved(server.data(), 1);
    // A directory of this name cannot be replaced, also not by a privileged user.
    let path = server.data().join("versions");
    fs::remove_file(&path).expect("removed");
    fs::create_dir(&path).expect("created");
    server.publish_and_wait(&acme(2, "two"), "2");
    server.publish_and_wait(&acme(3, "three"), "3");
    assert_eq!(server.since(1), json!(["1", ["/"], [], []]));
    eventually("the error is logged", || {
        (server.log_count("cannot save the served versions") == 1).then_some(())
    });
    fs::remove_dir(&path).expect("removed");
    wait_until_saved(server.data(), 3);
    eventually("the server says so", || {
        (server.log_count("the served versions can be saved again") == 1).then_some(())
    });
    assert_eq!(server.log_count("cannot save the served versions"), 1);
}

/// Compiles site `acme` with these queries (ID and condition) over a collection of two items.
fn with_queries(version: u64, title: &str, queries: &[(&str, Value)]) -> Vec<u8> {
    let query = |condition: &Value| json!({ "collection": "posts", "where": condition });
    let queries: serde_json::Map<String, Value> =
        queries.iter().map(|(id, condition)| ((*id).to_owned(), query(condition))).collect();
    let post = |id: &str, title: &str| json!({ "id": id, "type": "post", "fields": { "title": title } });
    let files = [
        ("site.json", r#"{"site":"acme","trackingId":"track_acme","name":"Acme"}"#.to_owned()),
        ("queries.json", Value::Object(queries).to_string()),
        ("content/posts.json", json!([post("a", title), post("b", "fixed")]).to_string()),
    ];
    snapshot(&files.each_ref().map(|(path, text)| (*path, text.as_str())), version)
}

#[test]
fn since_lists_new_changed_and_removed_queries() {
    let all = ("all", json!({}));
    let fixed = ("fixed", json!({ "title": "fixed" }));
    let server = Server::start(&[], &[]);
    server.publish_and_wait(&with_queries(1, "one", &[all.clone(), fixed.clone(), ("old", json!({}))]), "1");
    let whole = server.get("/v1/routes?site=acme").json();
    let hash = whole["queries"][1]["hash"].as_str().expect("a hash");
    assert!(hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()), "{whole}");
    let fixed_entry = json!({ "id": "fixed", "hash": hash });
    let ids = |list: &Value| -> Vec<String> {
        let queries = list["queries"].as_array().expect("a list").iter();
        queries.map(|query| query["id"].as_str().expect("an ID").to_owned()).collect()
    };
    assert_eq!(
        (ids(&whole), &whole["removedQueries"]),
        (["all", "fixed", "old"].map(str::to_owned).into(), &json!([]))
    );
    // An item of `all` changes. `fixed` cannot return it.
    server.publish_and_wait(&with_queries(2, "two", &[all.clone(), fixed.clone(), ("new", json!({}))]), "2");
    let list = |query: &str| server.get(&format!("/v1/routes?site=acme{query}")).json();
    let since = list("&since=1&prefix=/nothing");
    assert_eq!(
        (ids(&since), &since["removedQueries"]),
        (["all", "new"].map(str::to_owned).into(), &json!(["old"]))
    );
    let whole = list("");
    assert_eq!((&whole["queries"][1], ids(&whole).len()), (&fixed_entry, 3));
    let same = list("&since=2");
    assert_eq!((&same["queries"], &same["removedQueries"]), (&json!([]), &json!([])));
    let unknown = list("&since=9");
    assert_eq!(
        (ids(&unknown).len(), &unknown["removedQueries"], &unknown["since"]),
        (3, &json!([]), &Value::Null)
    );
    // The declaration changes.
    server.publish_and_wait(
        &with_queries(3, "two", &[all, ("fixed", json!({ "title": { "$eq": "fixed" } }))]),
        "3",
    );
    let since = list("&since=2");
    assert_eq!(
        (ids(&since), &since["removedQueries"]),
        (["fixed"].map(str::to_owned).into(), &json!(["new"]))
    );
    // The versions and their queries survive a restart.
    wait_until_saved(server.data(), 3);
    let before = list_since(&server, 1);
    let server = server.restart(&[]);
    assert_eq!(list_since(&server, 1), before);
}
