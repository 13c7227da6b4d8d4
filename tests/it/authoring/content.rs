//! Diagnostics for queries, for nodes that embed them, and for pages with a path for each item.

use parallax::testing::site::compile::compile;
use parallax::testing::site::source::read::read;
use serde_json::{Value, json};

use super::{SITE, files, line};

const POSTS: &str = r#"[{"id":"p1","type":"post","fields":{"slug":"a","title":"A","n":1,"meta":{"x":1}}},
{"id":"p2","type":"post","fields":{"slug":"b","title":"B"}}]"#;

/// A valid site: a query with parameters of two types, a page that embeds it, a page for each post.
struct Site {
    query: Value,
    node: Value,
    path: &'static str,
    each: Value,
    posts: String,
}

impl Site {
    fn new() -> Self {
        let query = json!({
            "collection": "posts",
            "params": {
                "slug": { "type": "string" },
                "kind": { "type": "string", "enum": ["news", "guides"], "optional": true },
                "most": { "type": "number", "minimum": 1, "maximum": 9, "optional": true },
            },
            "where": { "slug": { "$param": "slug" }, "title": { "$param": "kind" }, "n": { "$lte": { "$param": "most" } } },
            "orderBy": ["-n"],
        });
        Self {
            query,
            node: json!({ "id": "latest", "params": { "slug": "a" } }),
            path: "/blog/:slug",
            each: json!({ "collection": "posts", "slug": "fields.slug" }),
            posts: POSTS.to_owned(),
        }
    }

    /// Returns the errors. Returns the warnings only if there are no errors.
    fn errors_and_warnings(&self) -> (Vec<String>, Vec<String>) {
        let queries = json!({ "latest": self.query, "other": { "collection": "posts" } }).to_string();
        let zones = json!({ "main": [{ "id": "q", "type": "List", "props": {}, "query": self.node }] });
        let layout = json!({ "root": { "props": {} }, "zones": {} });
        let page = json!({ "path": "/topics/:topic", "layout": { "root": { "props": {} }, "zones": zones } })
            .to_string();
        let each = json!({ "path": self.path, "each": self.each, "layout": layout }).to_string();
        let files = files(&[
            SITE,
            ("queries.json", &queries),
            ("content/posts.json", &self.posts),
            ("routes/each.json", &each),
            ("routes/page.json", &page),
        ]);
        let (source, diagnostics) = read(&files, &|_, _| {});
        let lines = |placed: Vec<_>| placed.iter().map(line).map(|line| without_place(&line)).collect();
        match compile(&source, diagnostics, 1, &|_, _| {}) {
            Ok(compiled) => (vec![], lines(compiled.warnings.report(&files).diagnostics)),
            Err(diagnostics) => (lines(diagnostics.report(&files).diagnostics), vec![]),
        }
    }
}

/// Formats a diagnostic as `file pointer | ...`. The texts are generated, so lines and columns mean nothing.
fn without_place(line: &str) -> String {
    let (file, rest) = line.split_once(':').expect("a line");
    let (_, rest) = rest.split_once(' ').expect("a pointer");
    format!("{file} {rest}")
}

/// Asserts that the changed site has one error, which begins with `expected`.
#[track_caller]
fn assert_error(change: impl Fn(&mut Site), expected: &str) {
    let mut site = Site::new();
    change(&mut site);
    let (errors, _) = site.errors_and_warnings();
    assert!(errors.len() == 1 && errors[0].starts_with(expected), "{errors:#?}\nexpected {expected}");
}

/// Asserts that the changed site has one warning, which begins with `expected`.
#[track_caller]
fn assert_warning(change: impl Fn(&mut Site), expected: &str) {
    let mut site = Site::new();
    change(&mut site);
    let (errors, warnings) = site.errors_and_warnings();
    assert_eq!(errors, [""; 0]);
    assert!(warnings.len() == 1 && warnings[0].starts_with(expected), "{warnings:#?}\nexpected {expected}");
}

#[test]
fn the_unchanged_site_has_no_diagnostics() {
    assert_eq!(Site::new().errors_and_warnings(), (vec![], vec![]));
}

#[test]
fn an_unknown_name_is_reported_with_the_nearest_known_name() {
    assert_error(
        |site| site.query["collection"] = json!("post"),
        r#"queries.json /latest/collection | a collection: the name of a file in `content/` | "post" | posts"#,
    );
    assert_error(
        |site| site.each["collection"] = json!("pots"),
        r#"routes/each.json /each/collection | a collection: the name of a file in `content/` | "pots" | posts"#,
    );
    assert_error(
        |site| site.node["id"] = json!("latst"),
        r#"routes/page.json /layout/zones/main/0/query/id | a query of `queries.json` | "latst" | latest"#,
    );
    assert_error(
        |site| site.node["params"]["sulg"] = json!("a"),
        "routes/page.json /layout/zones/main/0/query/params/sulg | one of kind, most, slug | `sulg` | slug",
    );
    assert_error(
        |site| site.query["where"]["slug"] = json!({ "$param": "slig" }),
        "queries.json /latest/where/slug/$param | a parameter of the query | slig | slug",
    );
    assert_error(
        |site| site.node["params"]["slug"] = json!({ "$route": "topik" }),
        r#"routes/page.json /layout/zones/main/0/query/params/slug/$route | a parameter of the path: one of topic | "topik" | topic"#,
    );
}

#[test]
fn a_parameter_must_be_the_whole_compared_value() {
    let param = || json!({ "$param": "slug" });
    for (written, at) in [
        (json!([param()]), "/latest/where/slug"),
        (json!({ "$in": ["a", param()] }), "/latest/where/slug/$in"),
        (json!({ "$nin": [param()] }), "/latest/where/slug/$nin"),
        (json!({ "$in": param() }), "/latest/where/slug/$in"),
        (json!({ "$regex": param() }), "/latest/where/slug/$regex"),
        (json!({ "$exists": param() }), "/latest/where/slug/$exists"),
        (json!({ "$inGroup": param() }), "/latest/where/slug/$inGroup"),
        (json!({ "$eq": { "x": param() } }), "/latest/where/slug/$eq"),
        (json!({ "$param": ["slug"] }), "/latest/where/slug/$param"),
    ] {
        let mut site = Site::new();
        site.query["where"]["slug"] = written.clone();
        let (errors, _) = site.errors_and_warnings();
        let first = errors.first().unwrap_or_else(|| panic!("{written} has no error"));
        assert!(first.starts_with(&format!("queries.json {at}")), "{written}: {errors:#?}");
    }
}

#[test]
fn a_node_must_give_its_query_valid_parameters() {
    let at = "routes/page.json /layout/zones/main/0/query";
    assert_error(
        |site| drop(site.node.as_object_mut().expect("an object").remove("params")),
        &format!("{at} | the parameter `slug`, a string | none"),
    );
    assert_error(
        |site| site.node["params"] = json!({}),
        &format!("{at} | the parameter `slug`, a string | none"),
    );
    for (name, value, expected) in [
        ("slug", json!(1), "a string | 1"),
        ("slug", json!(null), "a string | null"),
        ("slug", json!({ "$ruote": "topic" }), r#"a string | {"$ruote":"topic"}"#),
        ("kind", json!("sports"), r#"one of "news", "guides" | "sports""#),
        ("slug", json!([]), "a string | []"),
        ("most", json!("5"), r#"a number from 1 to 9 | "5""#),
        ("most", json!(0.99), "a number from 1 to 9 | 0.99"),
        ("most", json!(9.5), "a number from 1 to 9 | 9.5"),
        ("most", json!([5]), "a number from 1 to 9 | [5]"),
    ] {
        let expected = format!("{at}/params/{name} | {expected}");
        assert_error(|site| site.node["params"][name] = value.clone(), &expected);
    }
}

#[test]
fn a_path_without_parameters_gives_no_query_parameters() {
    let mut site = Site::new();
    (site.path, site.node["params"]["slug"]) = ("/blog/:slug", json!({ "$route": "topic" }));
    assert_eq!(site.errors_and_warnings(), (vec![], vec![]));
    let page = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": { "main": [
        { "id": "q", "type": "List", "props": {}, "query": { "id": "latest", "params": { "slug": { "$route": "slug" } } } }] } } });
    let (queries, page) = (json!({ "latest": site.query }).to_string(), page.to_string());
    let files =
        files(&[SITE, ("queries.json", &queries), ("content/posts.json", POSTS), ("routes/a.json", &page)]);
    let (source, diagnostics) = read(&files, &|_, _| {});
    let diagnostics =
        compile(&source, diagnostics, 1, &|_, _| {}).expect_err("an error").report(&files).diagnostics;
    let lines: Vec<String> = diagnostics.iter().map(|placed| without_place(&line(placed))).collect();
    let at = "routes/a.json /layout/zones/main/0/query/params/slug/$route";
    assert_eq!(lines, [format!(r#"{at} | a value, because this path has no parameters | "slug""#)]);
}

#[test]
fn each_names_every_parameter_of_its_path_and_nothing_else() {
    assert_error(
        |site| site.path = "/blog/:slug/:year",
        "routes/each.json /each | the member `year` with the item field for `:year` | none",
    );
    assert_error(
        |site| site.path = "/blog/:slug/*",
        "routes/each.json /each | the member `*` with the item field for `*` | none",
    );
    assert_error(
        |site| site.each["slog"] = json!("fields.slug"),
        "routes/each.json /each/slog | `collection`, `where`, or a parameter of the path | `slog` | slug",
    );
    assert_error(
        |site| (site.path, site.each) = ("/blog", json!({ "collection": "posts" })),
        r#"routes/each.json /path | a path with parameters, such as `/blog/:slug` | "/blog""#,
    );
    assert_error(
        |site| site.each["slug"] = json!("slug"),
        "routes/each.json /each/slug | `id`, `type`, or a field such as `fields.slug`",
    );
    assert_error(
        |site| site.each["where"] = json!({ "n": { "$gtt": 1 } }),
        "routes/each.json /each/where/n/$gtt | an operator | $gtt | $gt",
    );
    assert_error(
        |site| site.each["where"] = json!({ "n": { "$param": "slug" } }),
        "routes/each.json /each/where/n/$param",
    );
}

#[test]
fn an_item_value_must_be_valid_in_a_path() {
    let at = |pointer: &str| {
        format!("content/posts.json {pointer} | a text or a whole number that can be part of a path")
    };
    let slug = |text: &'static str| move |site: &mut Site| site.posts = POSTS.replace(r#""slug":"b""#, text);
    for text in [
        r#""slug":"b/c""#,
        r#""slug":"""#,
        r#""slug":"50%""#,
        r##""slug":"#b""##,
        r#""slug":"b?""#,
        r#""slug":"*""#,
        r#""slug":":b""#,
        r#""slug":null"#,
        r#""slug":true"#,
        r#""slug":["b"]"#,
        r#""slug":2.5"#,
    ] {
        assert_error(slug(text), &at("/1/fields/slug"));
    }
    for text in [
        r#""slug":"b c""#,
        r#""slug":"ü+&""#,
        r#""slug":"b:c""#,
        r#""slug":"**""#,
        r#""slug":7"#,
        r#""slug":-2.0"#,
    ] {
        let mut site = Site::new();
        slug(text)(&mut site);
        assert_eq!(site.errors_and_warnings().0, [""; 0], "{text}");
    }
    let missing = |path: &str| {
        format!("content/posts.json /1 | `{path}`: a text or a whole number that can be part of a path")
    };
    assert_error(slug(r#""slog":"b""#), &missing("fields.slug"));
    assert_error(|site| site.each["slug"] = json!("fields.meta.x"), &missing("fields.meta.x"));
    let mut object = Site::new();
    slug(r#""slug":{"x":[1]}"#)(&mut object);
    let (errors, _) = object.errors_and_warnings();
    assert!(errors[0].ends_with(r#"| {"x":[1]}"#), "{errors:?}");
    assert_error(
        slug(r#""slug":"a""#),
        r#"content/posts.json /1 | values that generate a unique path from `/blog/:slug` | "/blog/a", which the item "p1" also generates"#,
    );
    for text in
        [r#""slug":"b/""#, r#""slug":"/b""#, r#""slug":"b//c""#, r#""slug":"b/*""#, r#""slug":"b/:c""#]
    {
        let rest = |site: &mut Site| {
            slug(text)(site);
            (site.path, site.each) = ("/blog/*", json!({ "collection": "posts", "*": "fields.slug" }));
        };
        assert_error(rest, &at("/1/fields/slug"));
    }
}

#[test]
fn an_order_names_each_field_once_and_at_most_eight_fields() {
    let order = |fields: &[&str]| {
        let fields = json!(fields);
        move |site: &mut Site| site.query["orderBy"] = fields.clone()
    };
    assert_error(
        order(&["n", "title", "-n"]),
        r#"queries.json /latest/orderBy/2 | a field name that occurs once | "-n""#,
    );
    assert_error(order(&["-"]), r#"queries.json /latest/orderBy/0 | a field name that occurs once | "-""#);
    assert_error(
        order(&["id", "-id"]),
        r#"queries.json /latest/orderBy/1 | a field name that occurs once | "-id""#,
    );
    let seven = ["n", "title", "slug", "meta.a", "meta.b", "meta.c", "meta.x"];
    let mut site = Site::new();
    order(&seven)(&mut site);
    assert_eq!(site.errors_and_warnings(), (vec![], vec![]));
    let eight = [&seven[..], &["meta.d"]].concat();
    assert_error(order(&eight), "queries.json /latest/orderBy | at most 8 fields, `id` included | 9");
}

#[test]
fn a_field_name_that_no_item_has_is_a_warning() {
    let expected = "a field that some item of `posts` has";
    assert_warning(
        |site| site.query["where"]["tilte"] = json!("x"),
        &format!(r#"queries.json /latest/where | {expected} | "tilte" | title"#),
    );
    assert_warning(
        |site| site.query["orderBy"] = json!(["title", "-m.x"]),
        &format!(r#"queries.json /latest/orderBy/1 | {expected} | "m""#),
    );
    assert_warning(
        |site| site.query["select"] = json!(["slug", "titel"]),
        &format!(r#"queries.json /latest/select/1 | {expected} | "titel" | title"#),
    );
    let mut empty = Site::new();
    empty.posts = "[]".to_owned();
    assert_eq!(
        empty.errors_and_warnings(),
        (vec![], vec![]),
        "the fields of an empty collection are unknown"
    );
}

#[test]
fn an_unused_parameter_is_a_warning() {
    assert_warning(
        |site| site.query["params"]["more"] = json!({ "type": "boolean", "optional": true }),
        r#"queries.json /latest/params/more | {"$param": "more"} somewhere in `where` | none"#,
    );
    assert_warning(
        |site| drop(site.query["where"].as_object_mut().expect("an object").remove("title")),
        r#"queries.json /latest/params/kind | {"$param": "kind"} somewhere in `where`"#,
    );
    let mut without = Site::new();
    without.query = json!({ "collection": "posts", "params": { "slug": { "type": "string" } } });
    let (errors, warnings) = without.errors_and_warnings();
    assert_eq!((errors.len(), warnings.len()), (0, 1), "{warnings:?}");
}

/// Returns `count` posts, each with its own `n`.
fn distinct_posts(count: usize) -> String {
    let item = |i: usize| json!({ "id": i.to_string(), "type": "t", "fields": { "slug": i, "title": "t", "n": i, "meta": {} } });
    (0..count).map(item).collect::<Value>().to_string()
}

#[test]
fn a_query_that_may_evaluate_over_10000_items_is_a_warning() {
    let compile_posts = |count: usize, node: Value| {
        let mut site = Site::new();
        (site.posts, site.node) = (distinct_posts(count), node);
        site.query["where"].as_object_mut().expect("an object").remove("slug");
        site.query["params"].as_object_mut().expect("an object").remove("slug");
        site.errors_and_warnings()
    };
    let bounded = json!({ "id": "latest", "params": { "most": 3 } });
    assert_eq!(compile_posts(10_000, bounded.clone()), (vec![], vec![]));
    let (errors, warnings) = compile_posts(10_001, bounded);
    assert_eq!((errors.len(), warnings.len()), (0, 1), "{errors:?} {warnings:?}");
    assert!(warnings[0].starts_with("queries.json /latest/where | a condition with precomputed results"));
    assert!(warnings[0].ends_with("| one that may evaluate 10001 items"), "{warnings:?}");
    // For a node that embeds the query this is an error: a page cannot answer 422.
    let by_route = json!({ "id": "latest", "params": { "most": { "$route": "topic" } } });
    assert_eq!(compile_posts(10_000, by_route.clone()), (vec![], vec![]));
    let (errors, _) = compile_posts(10_001, by_route);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0]
            .starts_with("routes/page.json /layout/zones/main/0/query | queries with precomputed results")
    );
}
