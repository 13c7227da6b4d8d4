//! `since`: the differences between the caller's version and the served version.

use std::fs;

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

#[test]
fn a_republished_site_knows_its_versions_until_a_restart() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "one"))], &[]);
    fs::remove_file(server.path("acme.snapshot")).expect("removed");
    server.wait_until_served("acme", None);
    server.publish("other.snapshot", &site("other", "track_other", 1, "other"));
    server.publish_and_wait(&acme(2, "two"), "2");
    assert_eq!(server.since(1), json!(["1", ["/"], [], []]));
    let server = server.restart(&[]);
    assert_eq!(server.since(1)[0], Value::Null);
    assert_eq!(server.since(2)[0], "2");
}
