//! The example site on a running server: compiled, published, replaced and removed with the command line.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::harness::{Response, Server, eventually, example_site};

fn compile(site: &Path, output: &Path) {
    let program = Command::new(env!("CARGO_BIN_EXE_parallax"))
        .args(["compile".as_ref(), site.as_os_str(), "-o".as_ref(), output.as_os_str()])
        .output()
        .expect("the compiler runs");
    assert!(program.status.success(), "{}", String::from_utf8_lossy(&program.stderr));
}

/// Copies the example site, so that a test can change its texts.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target),
            false => fs::write(&target, fs::read(entry.path()).expect("read")).expect("written"),
        }
    }
}

fn home(server: &Server, more: &str) -> Response {
    server.get(&format!("/v1/resolve?trackingId=track_acme&route=/{more}"))
}

#[test]
fn the_example_site_is_published_replaced_and_removed() {
    let Some(source) = example_site() else { return };
    let directory = crate::harness::temporary_directory();
    let site = directory.path().join("acme");
    copy(&source, &site);
    let server = Server::demo();
    let file = server.path("acme.snapshot");
    compile(&site, &file);
    let wait_for = |message: &str, text: &str| {
        eventually(message, || {
            Some(home(&server, "&variants=hero:pro,promo:b")).filter(|r| r.body_contains(text))
        })
    };
    let forced = wait_for("the example site is published", "Your pro desk");
    assert!(forced.body_contains("10 % off tents"), "{}", forced.text());
    assert_eq!(forced.field("x-variants"), Some("hero:pro,promo:b"));

    let other_order = home(&server, "&variants=promo:b,hero:pro");
    assert_eq!((&other_order.body, other_order.field("etag")), (&forced.body, forced.field("etag")));

    let unknown = home(&server, "&variants=hero:nope");
    assert!(unknown.body_contains("Gear for the long way round"), "{}", unknown.text());
    assert_eq!(unknown.json()["warnings"][0]["key"], "nope");
    assert_eq!(unknown.field("cache-control"), Some("public, max-age=0, s-maxage=5"));
    let canonical = "/v1/resolve?trackingId=track_acme&route=/&variants=";
    assert_eq!(unknown.field("content-location"), Some(canonical));

    let index = site.join("routes/index.json");
    let text = fs::read_to_string(&index).expect("read");
    fs::write(&index, text.replace("Your pro desk", "A desk of your own")).expect("written");
    compile(&site, &file);
    wait_for("the same version with another text is served", "A desk of your own");

    fs::remove_file(&file).expect("removed");
    eventually("the site is unpublished", || (home(&server, "").status == 404).then_some(()));
    assert_eq!(home(&server, "").code(), "site_not_found");
}

/// Returns `"items":[...]` of a response or a node, as text.
fn items(text: &str) -> &str {
    let from = text.find("\"items\":[").expect("items");
    &text[from..from + text[from..].find("}}]").expect("the end of the items") + 3]
}

#[test]
fn the_query_endpoint_and_the_home_page_show_the_same_posts() {
    let Some(source) = example_site() else { return };
    let directory = crate::harness::temporary_directory();
    let file = directory.path().join("acme.snapshot");
    compile(&source, &file);
    let server = Server::start(&[("acme.snapshot", &fs::read(file).expect("a snapshot"))], &[]);
    let found = |more: &str| {
        let response = server.get(&format!("/v1/query?trackingId=track_acme&query=latest-posts{more}"));
        assert_eq!(response.status, 200, "{}", response.text());
        let answer = response.json();
        let posts = answer["items"].as_array().expect("a list").iter();
        let titles: Vec<String> =
            posts.map(|post| post["fields"]["title"].as_str().expect("text").to_owned()).collect();
        (titles, answer["total"].clone(), answer["nextCursor"].clone(), response)
    };
    let (titles, total, next, first) = found("&params.category=guides");
    assert_eq!((titles, total), (vec!["Packing light".to_owned(), "Wet feet".to_owned()], json!(3)));
    let more = format!("&params.category=guides&cursor={}", next.as_str().expect("a cursor"));
    let (titles, total, last, rest) = found(&more);
    assert_eq!((titles, total, last), (vec!["Stoves".to_owned()], json!(3), json!(null)));
    let (_, total, _, all) = found("&limit=100");
    assert_eq!(total, 4);

    let shown = home(&server, "&variants=");
    let node = format!("{},\"total\":3,\"nextCursor\":{next}", items(first.text()));
    assert!(shown.body_contains(&node), "{} has no {node}", shown.text());
    let routes = server.get("/v1/routes?site=acme&include=variants");
    let post = server.get("/v1/resolve?site=acme&route=/blog/wet-feet");
    for answer in [&first, &rest, &all, &shown, &routes, &post, &home(&server, "")] {
        assert!(!answer.body_contains("Not yet") && !answer.body_contains("not-yet"), "{}", answer.text());
    }
}
