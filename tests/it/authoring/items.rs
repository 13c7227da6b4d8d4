//! Errors in references to the item of a page.

use parallax::testing::site::compile::compile;
use parallax::testing::site::source::read::read;
use serde_json::{Value, json};

use super::{SITE, files, line};

const POSTS: &str = r#"[{"id":"p1","type":"post","fields":{"slug":"a","title":"A","tags":["x"]}},
{"id":"p2","type":"post","fields":{"slug":"b","title":"B","tags":["y"],"sub":"S","mixed":1}},
{"id":"p3","type":"post","fields":{"slug":"c","title":"C","tags":[],"mixed":[1],"draft":true}}]"#;

/// Returns the errors of a route with these props. It has `each` unless `has_each` is false.
fn errors(props: &Value, has_each: bool) -> Vec<String> {
    let mut route = json!({ "path": "/p/:slug", "layout": { "root": { "props": {} }, "zones": {
        "m": [{ "id": "n", "type": "Post", "props": props }] } } });
    if has_each {
        let published = json!({ "draft": { "$ne": true } });
        route["each"] = json!({ "collection": "posts", "slug": "fields.slug", "where": published });
    }
    let files = files(&[SITE, ("content/posts.json", POSTS), ("routes/r.json", &route.to_string())]);
    let (source, diagnostics) = read(&files, &|_, _| {});
    let Err(diagnostics) = compile(&source, diagnostics, 1, &|_, _| {}) else { return Vec::new() };
    let titled = |placed: &_| {
        let (place, rest) =
            line(placed).split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())).expect("a place");
        let file = place.split(':').next().expect("a file").to_owned();
        let parallax::testing::site::source::diagnostics::LocatedDiagnostic { diagnostic, .. } = placed;
        format!("{file} {} | {rest}", diagnostic.title.clone().unwrap_or_default())
    };
    diagnostics.report(&files).diagnostics.iter().map(titled).collect()
}

#[track_caller]
fn assert_error(props: Value, has_each: bool, expected: &str) {
    let errors = errors(&props, has_each);
    assert!(errors.len() == 1 && errors[0].starts_with(expected), "{errors:#?}\nexpected {expected}");
}

#[test]
fn an_item_without_each_is_an_error() {
    let expected = "routes/r.json `$item` needs a route with `each` | /layout/zones/m/0/props/a";
    assert_error(json!({ "a": { "$item": "fields.title" } }), false, expected);
    assert_error(json!({ "a": "The {$item.fields.title}" }), false, expected);
    // Other texts are plain texts there.
    assert_eq!(errors(&json!({ "a": "about $item", "b": "{{$item.x", "c": "\u{24}items" }), false), [""; 0]);
}

#[test]
fn a_field_that_no_item_of_the_route_has_is_an_error_with_the_nearest_name() {
    let props = json!({ "a/b": [{ "$item": "fields.titel" }, "x {$item.fields.titel}", { "$item": "fields.author.name" }] });
    let found = errors(&props, true);
    let expected = [
        "routes/r.json unknown field `fields.titel` | /layout/zones/m/0/props/a~1b/0 | a field that an item of this route has | `fields.titel` | fields.title",
        "routes/r.json unknown field `fields.titel` | /layout/zones/m/0/props/a~1b/1 | a field that an item of this route has | `fields.titel` | fields.title",
        "routes/r.json unknown field `fields.author.name` | /layout/zones/m/0/props/a~1b/2 | a field that an item of this route has | `fields.author.name`",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_field_that_one_item_lacks_is_an_error_at_that_item() {
    let expected = "content/posts.json item \"p1\" has no `fields.sub` | /0 | `fields.sub`, which the page \"/p/a\" shows | none";
    assert_error(json!({ "a": { "$item": "fields.sub" } }), true, expected);
    assert_error(json!({ "a": "{$item.fields.sub}" }), true, expected);
    // The third item has no page, so its values do not matter.
    assert_error(
        json!({ "a": "{$item.fields.mixed}" }),
        true,
        "content/posts.json item \"p1\" has no `fields.mixed`",
    );
}

#[test]
fn a_list_inside_a_text_is_an_error() {
    let found = errors(&json!({ "a": "Tags: {$item.fields.tags}" }), true);
    assert_eq!(found.len(), 2);
    let expected = "content/posts.json `fields.tags` of item \"p1\" cannot be part of a text | /0 | \
        a string, a number, true or false in `fields.tags`, which is a part of a text | [\"x\"]";
    assert_eq!(found[0], expected);
}

#[test]
fn a_reference_in_another_form_is_an_error() {
    for value in [
        json!("$item.fields.title"),
        json!("{{$item.fields.title}}"),
        json!("{ $item.fields.title }"),
        json!("{$item.title}"),
        json!("{$item}"),
        json!("{$item.fields.title"),
        json!("{$item.fields.title} and $item.id"),
        json!({ "$item": "title" }),
        json!({ "$item": 1 }),
        json!({ "$item": "id", "more": 1 }),
    ] {
        let expected = "routes/r.json invalid reference to `$item` | /layout/zones/m/0/props/a | `{\"$item\": \"fields.title\"}` as a whole value";
        assert_error(json!({ "a": value }), true, expected);
    }
}
