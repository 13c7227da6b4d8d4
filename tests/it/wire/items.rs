//! `$item`: values of an item in the page of its path.

use serde_json::{Value, json};

use super::{page, resolve_target, site_file};
use crate::command_line::Workspace;
use crate::harness::{Server, eventually, snapshot};

const POSTS: &str = r#"[
  {"id":"p1","type":"post","fields":{"slug":"one","title":"Ärger & \"Eis\" \\ <b>","n":1.50,"big":12345678901234567890,
    "on":true,"off":false,"none":null,"tags":["a",2,{"x":[]}],"author":{"name":"Ina","links":["https://a.example"]},"brace":"{$item.id}"}},
  {"id":"p2","type":"note","fields":{"slug":"two","title":"Two","n":-2e3,"big":0,"on":false,"off":true,"none":{"a":1},
    "tags":[],"author":{"name":"Bo","links":["b"]},"brace":"} {"}}
]"#;

/// Returns the route of the posts with this layout.
fn post_route(layout: &Value) -> String {
    json!({ "path": "/posts/:slug", "each": { "collection": "posts", "slug": "fields.slug" }, "layout": layout })
        .to_string()
}

fn compile_posts(posts: &str, routes: &[&str], version: u64) -> Vec<u8> {
    let site = site_file("acme", json!({}));
    let names: Vec<String> = (0..routes.len()).map(|i| format!("routes/{i}.json")).collect();
    let mut files = vec![("site.json", &*site), ("content/posts.json", posts)];
    files.extend(names.iter().map(String::as_str).zip(routes.iter().copied()));
    snapshot(&files, version)
}

/// Returns a layout whose root and only node have these props.
fn layout_with(props: &Value) -> Value {
    json!({ "root": { "props": props }, "zones": { "main": [{ "id": "n", "type": "Post", "props": props }] } })
}

/// Returns the text of the props of the only node, as the response has it.
fn props_text(server: &Server, path: &str) -> String {
    let body = server.get(&resolve_target(path, "&variants="));
    let text = body.text().to_owned();
    let from =
        text.find("\"type\":\"Post\",\"props\":").expect("the node") + "\"type\":\"Post\",\"props\":".len();
    let props = text[from..].trim_end_matches("}]}}}").to_owned();
    assert!(text.contains(&format!("\"root\":{{\"props\":{props}}}")), "{text}");
    props
}

#[test]
fn a_whole_value_is_the_value_of_the_item_as_authored() {
    let whole = |path: &str| json!({ "$item": path });
    let props = json!({ "id": whole("id"), "type": whole("type"), "title": whole("fields.title"), "n": whole("fields.n"),
        "big": whole("fields.big"), "on": whole("fields.on"), "off": whole("fields.off"), "none": whole("fields.none"),
        "tags": whole("fields.tags"), "deep": [{ "a": [whole("fields.author.name"), whole("fields.author.links.0")] }] });
    let route = post_route(&layout_with(&props));
    let server = Server::start(&[("acme.snapshot", &compile_posts(POSTS, &[&route], 1))], &[]);
    let expected = r#"{"id":"p1","type":"post","title":"Ärger & \"Eis\" \\ <b>","n":1.50,"big":12345678901234567890,"on":true,"off":false,"none":null,"tags":["a",2,{"x":[]}],"deep":[{"a":["Ina","https://a.example"]}]}"#;
    assert_eq!(props_text(&server, "/posts/one"), expected);
    let expected = r#"{"id":"p2","type":"note","title":"Two","n":-2e3,"big":0,"on":false,"off":true,"none":{"a":1},"tags":[],"deep":[{"a":["Bo","b"]}]}"#;
    assert_eq!(props_text(&server, "/posts/two"), expected);
}

#[test]
fn a_text_contains_the_values_of_the_item() {
    let props = json!({ "a": "{$item.fields.title} – {$item.fields.n}{$item.fields.on}", "b": "x{$item.id}",
        "c": "{$item.fields.brace}", "d": "{ \"plain\" }" });
    let route = post_route(&layout_with(&props));
    let server = Server::start(&[("acme.snapshot", &compile_posts(POSTS, &[&route], 1))], &[]);
    let expected =
        r#"{"a":"Ärger & \"Eis\" \\ <b> – 1.50true","b":"xp1","c":"{$item.id}","d":"{ \"plain\" }"}"#;
    assert_eq!(props_text(&server, "/posts/one"), expected);
    assert_eq!(
        props_text(&server, "/posts/two"),
        r#"{"a":"Two – -2e3false","b":"xp2","c":"} {","d":"{ \"plain\" }"}"#
    );
}

#[test]
fn variants_and_nested_zones_have_item_values() {
    let node = |id: &str, title: Value| json!({ "id": id, "type": "Text", "props": { "title": title } });
    let inner = json!({ "id": "box", "type": "Box", "props": {}, "zones": { "inner": {
        "default": [node("inner", json!("plain"))], "variants": { "v": [node("inner", json!({ "$item": "fields.title" }))] },
        "rules": [{ "when": { "country": "DE" }, "variant": "v" }] } } });
    let zones = json!({ "hero": { "default": [node("hero", json!({ "$item": "id" }))],
            "variants": { "big": [inner] }, "rules": [{ "when": { "device.type": "mobile" }, "variant": "big" }] },
        "main": [node("main", json!("same for all"))] });
    let route = post_route(&json!({ "root": { "props": {} }, "zones": zones }));
    let server = Server::start(&[("acme.snapshot", &compile_posts(POSTS, &[&route], 1))], &[]);
    let forced = |path: &str, variants: &str| {
        server.get(&resolve_target(path, &format!("&variants={variants}"))).json()["layout"]["zones"].clone()
    };
    for (path, id, title) in [("/posts/one", "p1", "Ärger & \"Eis\" \\ <b>"), ("/posts/two", "p2", "Two")] {
        assert_eq!(forced(path, "")["hero"][0]["props"]["title"], id);
        let big = forced(path, "hero:big,inner:v");
        assert_eq!(big["hero"][0]["zones"]["inner"][0]["props"]["title"], title);
        assert_eq!(big["main"][0]["props"]["title"], "same for all");
    }
}

#[test]
fn only_the_pages_of_changed_items_get_another_hash() {
    let shown = layout_with(&json!({ "title": { "$item": "fields.title" } }));
    let (route, other) = (post_route(&shown), page("/other", json!({})));
    let compiled = |posts: &str, version| compile_posts(posts, &[&route, &other], version);
    let server = Server::start(&[("acme.snapshot", &compiled(POSTS, 1))], &[]);
    // The page does not show the number.
    server.publish("acme.snapshot", &compiled(&POSTS.replace("\"Two\"", "\"Zwei\"").replace("1.50", "7"), 2));
    let changed = eventually("version 2 is served", || {
        let list = server.get("/v1/routes?site=acme&since=1");
        (list.field("x-version") == Some("2")).then(|| list.json()["routes"].clone())
    });
    let paths: Vec<&str> =
        changed.as_array().expect("an array").iter().filter_map(|route| route["path"].as_str()).collect();
    assert_eq!(paths, ["/posts/two"]);
    assert_eq!(props_text(&server, "/posts/two"), r#"{"title":"Zwei"}"#);
}

#[test]
fn an_experiment_on_the_pages_of_items_names_their_route_once() {
    let zones = json!({ "cta": { "default": [{ "id": "a", "type": "Text", "props": { "t": { "$item": "id" } } }],
        "variants": { "b": [] }, "rules": [{ "experiment": { "key": "cta", "variants": ["default", "b"] } }] } });
    let route = post_route(&json!({ "root": { "props": {} }, "zones": zones }));
    let server = Server::start(&[("acme.snapshot", &compile_posts(POSTS, &[&route], 1))], &[]);
    let list = server.admin_get("/insights/experiments?site=acme").json();
    assert_eq!(list["experiments"][0]["routes"], json!(["/posts/:slug"]), "{list}");
}

#[test]
fn the_starter_shows_each_post_on_its_page() {
    let workspace = Workspace::new();
    workspace.run(&["init", "blog"]).assert_exit(0, &[]);
    workspace.run(&["compile", "blog", "-o", "blog.snapshot"]).assert_exit(0, &[]);
    let bytes = std::fs::read(workspace.path("blog.snapshot")).expect("a snapshot");
    let server = Server::start(&[("blog.snapshot", &bytes)], &[]);
    for (slug, title) in [("hello", "Hello"), ("first-steps", "First steps")] {
        let layout =
            server.get(&format!("/v1/resolve?site=blog&route=/posts/{slug}")).json()["layout"].clone();
        assert_eq!(layout["zones"]["main"][0]["props"]["title"], title);
        assert_eq!(layout["root"]["props"]["title"], format!("{title} – My site"));
    }
}
