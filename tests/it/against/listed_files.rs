//! `POST /insights/changes` with `file`: the changes that a file of the snapshots directory would make.

use serde_json::{Value, json};

use super::enrolments::{TestSite, after, before, start_with_enrolments};
use super::on_server::{TOKEN, WITH_TOKEN, refusal};
use crate::harness::{Client, Response, Server, eventually};

const AT: &str = "at=2026-03-10T00:00:00Z";

/// Asks for the changes that a file makes in site `acme`. `query` has the parameters after `site` and `at`.
fn ask(server: &Server, query: &str, body: &[u8]) -> Response {
    let target = format!("/insights/changes?site=acme&{AT}&{query}");
    Client::to(server.admin).post(&target, &[TOKEN], body)
}

fn changes_of_file(server: &Server, name: &str) -> Value {
    let response = ask(server, &format!("file={name}"), b"");
    assert_eq!(response.status, 200, "{name}: {}", response.text());
    response.json()
}

/// Publishes a file and waits until it has this state.
fn publish(server: &Server, name: &str, bytes: &[u8], state: &str) {
    server.publish(name, bytes);
    eventually("the file has its state", || {
        let sites = Client::to(server.admin).request("GET", "/sites", &[TOKEN]).json();
        let mut files = sites["files"].as_array()?.iter();
        files.any(|file| file["name"] == name && file["state"] == state).then_some(())
    });
}

/// Starts a server that serves version 2 of `acme`, which is [`after`]. `acme.snapshot` has the superseded version 1.
fn start_with_superseded_file() -> Server {
    let server = start_with_enrolments(&WITH_TOKEN);
    publish(&server, "acme-2.snapshot", &after().snapshot_of_version(2), "served");
    server
}

#[test]
fn a_superseded_file_gets_the_answer_of_its_upload() {
    let server = start_with_superseded_file();
    let listed = changes_of_file(&server, "acme.snapshot");
    let uploaded = ask(&server, "offset=0", &before().snapshot());
    assert_eq!(listed, uploaded.json());
    assert_eq!((&listed["version"], &listed["against"]), (&json!("1"), &json!({ "version": "2" })));
    let texts: Vec<&Value> =
        listed["experiments"].as_array().expect("experiments").iter().map(|one| &one["text"]).collect();
    let begin = "new phase (`weights` [0.4, 0.6] -> [0.5, 0.5]); 0 enrolled IDs start again";
    assert_eq!(
        texts,
        [
            &*format!("{begin}; enrolled in this phase by an earlier publication: 4"),
            "new (`coverage` 1); 3 enrolled IDs get their arms again",
            "ramped (`coverage` 0.5 -> 1); 1 enrolled ID keeps its arm",
            "rescheduled (`to` 2026-01-01T00:00:00Z -> none), resumed; 0 enrolled IDs get their arms again",
        ]
    );
    assert_eq!(listed["profiles"], 4);
    // The server goes on to serve the newer version.
    publish(
        &server,
        "other-2.snapshot",
        &TestSite { id: "other", ..before() }.snapshot_of_version(2),
        "served",
    );
    assert_eq!(changes_of_file(&server, "acme.snapshot")["against"], json!({ "version": "2" }));
}

#[test]
fn the_served_file_changes_nothing() {
    let server = start_with_superseded_file();
    let document = changes_of_file(&server, "acme-2.snapshot");
    let lists = ["experiments", "zones", "audiences"].map(|name| &document[name]);
    assert_eq!(lists, [&json!([]); 3]);
    assert_eq!((&document["unchanged"], &document["holdout"]), (&json!(3), &Value::Null));
}

#[test]
fn only_a_name_that_the_server_lists_is_a_file() {
    let server = start_with_superseded_file();
    let bytes = before().snapshot();
    std::fs::create_dir(server.path("sub")).expect("created");
    let unlisted = ["sub/a.snapshot", ".hidden.snapshot", "acme.removed"];
    unlisted.iter().for_each(|name| std::fs::write(server.path(name), &bytes).expect("written"));
    let directory = server.snapshots_directory();
    let parent = directory.file_name().expect("a name").to_string_lossy();
    let paths = [format!("../{parent}/acme.snapshot"), format!("{}/acme.snapshot", directory.display())];
    assert!(std::fs::exists(server.path(&paths[0])).expect("a path"));
    let others = ["", "none.snapshot", "acme", "ACME.snapshot", "./acme.snapshot", "sub/../acme.snapshot"];
    for name in paths.iter().map(String::as_str).chain(unlisted).chain(others) {
        // Both forms are the same name.
        for written in [name.to_owned(), name.replace('/', "%2F").replace('.', "%2E")] {
            let response = ask(&server, &format!("file={written}"), b"");
            assert_eq!(refusal(&response), (400, "invalid_param".to_owned()), "{written}");
            assert_eq!(response.json()["param"], "file", "{written}");
        }
    }
    assert_eq!(ask(&server, "file=acme%2Esnapshot", b"").status, 200);
}

#[test]
fn a_file_of_another_site_is_refused_as_one_that_does_not_exist() {
    let server = start_with_superseded_file();
    let [other, absent] = ["other", "nosuc"].map(|name| {
        let response = ask(&server, &format!("file={name}.snapshot"), b"");
        (refusal(&response), response.json()["detail"].to_string().replace(name, "NAME"))
    });
    assert_eq!(other.0, (400, "invalid_param".to_owned()));
    assert_eq!(other, absent);
}

#[test]
fn a_refused_file_is_compared_if_the_server_can_open_it() {
    let server = start_with_superseded_file();
    // Two files of version 2: the one with the lesser hash is refused, whichever that is.
    let twin = TestSite { text: "twin".to_owned(), ..after() };
    server.publish("twin.snapshot", &twin.snapshot_of_version(2));
    let refused = eventually("one of both is refused", || {
        let sites = Client::to(server.admin).request("GET", "/sites", &[TOKEN]).json();
        let refused = sites["files"].as_array()?.iter().find(|file| file["state"] == "refused")?;
        Some(refused["name"].as_str()?.to_owned())
    });
    assert_eq!(changes_of_file(&server, &refused)["version"], "2");
    let bytes = before().snapshot();
    let mut damaged = bytes.clone();
    *damaged.last_mut().expect("bytes") ^= 1;
    // The name had a valid content before, which is not compared.
    for (name, bytes, reason) in [
        ("acme.snapshot", &damaged[..], "damaged: the content does not match the hash in the header"),
        ("late.snapshot", &bytes[..bytes.len() - 1], "incomplete"),
    ] {
        publish(&server, name, bytes, "refused");
        let response = ask(&server, &format!("file={name}"), b"");
        assert_eq!(refusal(&response), (400, "invalid_snapshot".to_owned()), "{name}");
        assert!(response.text().contains("The server would not serve the snapshot: "), "{}", response.text());
        assert!(response.text().contains(reason), "{name}: {}", response.text());
    }
}

#[test]
fn a_file_of_a_tracking_id_that_another_site_has_is_refused() {
    let server = start_with_superseded_file();
    let site = json!({ "site": "acme", "trackingId": "track_other", "name": "Acme" }).to_string();
    publish(&server, "thief.snapshot", &crate::harness::snapshot(&[("site.json", &site)], 3), "refused");
    let response = ask(&server, "file=thief.snapshot", b"");
    assert_eq!(refusal(&response), (400, "invalid_snapshot".to_owned()));
    let reason = "The tracking ID track_other belongs to another site; change one of them.";
    assert_eq!(response.json()["detail"], reason);
}

#[test]
fn the_name_of_a_file_replaces_the_body_and_needs_the_token() {
    let server = start_with_superseded_file();
    let bytes = before().snapshot();
    for (query, body, code) in [
        ("file=acme.snapshot", &bytes[..], "invalid_param"),
        ("file=acme.snapshot", b"x", "invalid_param"),
        ("file=acme.snapshot&offset=1", b"", "invalid_param"),
        ("file=acme.snapshot&file=acme.snapshot", b"", "repeated_param"),
    ] {
        let response = ask(&server, query, body);
        assert_eq!(refusal(&response), (400, code.to_owned()), "{query}");
        assert_eq!(response.json()["param"], "file", "{query}");
    }
    let target = "/insights/changes?site=acme&file=acme.snapshot";
    assert_eq!(Client::to(server.admin).post(target, &[], b"").status, 401);
    let read = Client::to(server.admin).request("GET", target, &[TOKEN]);
    assert_eq!((read.status, read.field("allow")), (405, Some("POST")));
    // An upload that is not complete goes on after the comparison of a file.
    let (first, second) = bytes.split_at(bytes.len() / 2);
    assert_eq!(ask(&server, "offset=0", first).json()["received"], first.len());
    changes_of_file(&server, "acme.snapshot");
    let rest = ask(&server, &format!("offset={}", first.len()), second);
    assert_eq!(rest.json()["version"], "1", "{}", rest.text());
}
