//! What an author is told of queries, of nodes that embed them, and of pages with a path for each item.

use parallax::site::compile::compile;
use parallax::site::source::read::read;
use serde_json::{Value, json};

use super::{SITE, files, line};

const POSTS: &str = r#"[{"id":"p1","type":"post","fields":{"slug":"a","title":"A","n":1,"meta":{"x":1}}},
{"id":"p2","type":"post","fields":{"slug":"b","title":"B"}}]"#;

/// A site that is sound: a query with a parameter of each type, a page that embeds it, a page for each post.
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

    /// What is told of it: mistakes, or else warnings.
    fn told(&self) -> (Vec<String>, Vec<String>) {
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
        let (source, mistakes) = read(&files, &|_, _| {});
        let lines = |placed: Vec<_>| placed.iter().map(line).map(|line| without_place(&line)).collect();
        match compile(&source, mistakes, 1, &|_, _| {}) {
            Ok(compiled) => (vec![], lines(compiled.warnings.report(&files).shown)),
            Err(mistakes) => (lines(mistakes.report(&files).shown), vec![]),
        }
    }
}

/// `file pointer | ...`: the texts above are made, and their lines and columns say nothing.
fn without_place(line: &str) -> String {
    let (file, rest) = line.split_once(':').expect("a line");
    let (_, rest) = rest.split_once(' ').expect("a pointer");
    format!("{file} {rest}")
}

/// Asserts that the site with this change has one mistake, which begins like this.
#[track_caller]
fn wrong(change: impl Fn(&mut Site), expected: &str) {
    let mut site = Site::new();
    change(&mut site);
    let (mistakes, _) = site.told();
    assert!(mistakes.len() == 1 && mistakes[0].starts_with(expected), "{mistakes:#?}\nexpected {expected}");
}

/// The same of a warning.
#[track_caller]
fn warned(change: impl Fn(&mut Site), expected: &str) {
    let mut site = Site::new();
    change(&mut site);
    let (mistakes, warnings) = site.told();
    assert_eq!(mistakes, [""; 0]);
    assert!(warnings.len() == 1 && warnings[0].starts_with(expected), "{warnings:#?}\nexpected {expected}");
}

#[test]
fn the_site_above_is_sound() {
    assert_eq!(Site::new().told(), (vec![], vec![]));
}

#[test]
fn a_name_that_is_not_there_is_told_with_the_nearest() {
    wrong(
        |site| site.query["collection"] = json!("post"),
        r#"queries.json /latest/collection | a collection: the name of a file in `content/` | "post" | posts"#,
    );
    wrong(
        |site| site.each["collection"] = json!("pots"),
        r#"routes/each.json /each/collection | a collection: the name of a file in `content/` | "pots" | posts"#,
    );
    wrong(
        |site| site.node["id"] = json!("latst"),
        r#"routes/page.json /layout/zones/main/0/query/id | a query of `queries.json` | "latst" | latest"#,
    );
    wrong(
        |site| site.node["params"]["sulg"] = json!("a"),
        "routes/page.json /layout/zones/main/0/query/params/sulg | one of kind, most, slug | `sulg` | slug",
    );
    wrong(
        |site| site.query["where"]["slug"] = json!({ "$param": "slig" }),
        "queries.json /latest/where/slug/$param | a parameter of the query | slig | slug",
    );
    wrong(
        |site| site.node["params"]["slug"] = json!({ "$route": "topik" }),
        r#"routes/page.json /layout/zones/main/0/query/params/slug/$route | a parameter of the path: one of topic | "topik" | topic"#,
    );
}

#[test]
fn a_parameter_stands_as_a_whole_value_where_values_are_compared() {
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
        let (mistakes, _) = site.told();
        let first = mistakes.first().unwrap_or_else(|| panic!("{written} is no mistake"));
        assert!(first.starts_with(&format!("queries.json {at}")), "{written}: {mistakes:#?}");
    }
}

#[test]
fn a_node_gives_what_its_query_takes() {
    let at = "routes/page.json /layout/zones/main/0/query";
    wrong(
        |site| drop(site.node.as_object_mut().expect("an object").remove("params")),
        &format!("{at} | the parameter `slug`, a string | none"),
    );
    wrong(|site| site.node["params"] = json!({}), &format!("{at} | the parameter `slug`, a string | none"));
    for (name, value, expected) in [
        ("slug", json!(1), "a string | 1"),
        ("slug", json!(null), "a string | null"),
        ("slug", json!({ "$ruote": "topic" }), r#"a string | {"$ruote":"topic"}"#),
        ("kind", json!("sports"), r#"one of "news", "guides" | "sports""#),
        ("kind", json!(""), r#"one of "news", "guides" | """#),
        ("most", json!("5"), r#"a number from 1 to 9 | "5""#),
        ("most", json!(0.99), "a number from 1 to 9 | 0.99"),
        ("most", json!(9.5), "a number from 1 to 9 | 9.5"),
        ("most", json!([5]), "a number from 1 to 9 | [5]"),
    ] {
        let expected = format!("{at}/params/{name} | {expected}");
        wrong(|site| site.node["params"][name] = value.clone(), &expected);
    }
}

#[test]
fn a_page_without_parameters_has_no_part_of_a_path_to_give() {
    let mut site = Site::new();
    (site.path, site.node["params"]["slug"]) = ("/blog/:slug", json!({ "$route": "topic" }));
    assert_eq!(site.told(), (vec![], vec![]));
    let page = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": { "main": [
        { "id": "q", "type": "List", "props": {}, "query": { "id": "latest", "params": { "slug": { "$route": "slug" } } } }] } } });
    let (queries, page) = (json!({ "latest": site.query }).to_string(), page.to_string());
    let files =
        files(&[SITE, ("queries.json", &queries), ("content/posts.json", POSTS), ("routes/a.json", &page)]);
    let (source, mistakes) = read(&files, &|_, _| {});
    let mistakes = compile(&source, mistakes, 1, &|_, _| {}).expect_err("a mistake").report(&files).shown;
    let told: Vec<String> = mistakes.iter().map(|placed| without_place(&line(placed))).collect();
    let at = "routes/a.json /layout/zones/main/0/query/params/slug/$route";
    assert_eq!(told, [format!(r#"{at} | a value: this path has no parameters | "slug""#)]);
}

#[test]
fn each_names_every_parameter_of_its_path_and_nothing_else() {
    wrong(
        |site| site.path = "/blog/:slug/:year",
        "routes/each.json /each | the member `year`, which says what of an item `:year` is | none",
    );
    wrong(
        |site| site.path = "/blog/:slug/*",
        "routes/each.json /each | the member `*`, which says what of an item `*` is | none",
    );
    wrong(
        |site| site.each["slog"] = json!("fields.slug"),
        "routes/each.json /each/slog | `collection`, `where`, or a parameter of the path | `slog` | slug",
    );
    wrong(
        |site| (site.path, site.each) = ("/blog", json!({ "collection": "posts" })),
        r#"routes/each.json /path | a path with parameters, such as `/blog/:slug` | "/blog""#,
    );
    wrong(
        |site| site.each["slug"] = json!("slug"),
        "routes/each.json /each/slug | `id`, `type`, or a field such as `fields.slug`",
    );
    wrong(
        |site| site.each["where"] = json!({ "n": { "$gtt": 1 } }),
        "routes/each.json /each/where/n/$gtt | an operator | $gtt | $gt",
    );
    wrong(
        |site| site.each["where"] = json!({ "n": { "$param": "slug" } }),
        "routes/each.json /each/where/n/$param",
    );
}

#[test]
fn an_item_s_value_can_stand_in_a_path() {
    let at = |pointer: &str| {
        format!("content/posts.json {pointer} | a text or a whole number that can stand in a path")
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
        wrong(slug(text), &at("/1/fields/slug"));
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
        assert_eq!(site.told().0, [""; 0], "{text}");
    }
    let missing = |path: &str| {
        format!("content/posts.json /1 | `{path}`: a text or a whole number that can stand in a path")
    };
    wrong(slug(r#""slog":"b""#), &missing("fields.slug"));
    wrong(|site| site.each["slug"] = json!("fields.meta.x"), &missing("fields.meta.x"));
    let mut object = Site::new();
    slug(r#""slug":{"x":[1]}"#)(&mut object);
    let (mistakes, _) = object.told();
    assert!(mistakes[0].ends_with(r#"| {"x":[1]}"#), "{mistakes:?}");
    wrong(
        slug(r#""slug":"a""#),
        r#"content/posts.json /1 | values that make a path which no other item makes of `/blog/:slug` | "/blog/a", which the item "p1" makes as well"#,
    );
    for text in
        [r#""slug":"b/""#, r#""slug":"/b""#, r#""slug":"b//c""#, r#""slug":"b/*""#, r#""slug":"b/:c""#]
    {
        let rest = |site: &mut Site| {
            slug(text)(site);
            (site.path, site.each) = ("/blog/*", json!({ "collection": "posts", "*": "fields.slug" }));
        };
        wrong(rest, &at("/1/fields/slug"));
    }
}

#[test]
fn an_order_names_each_field_once_and_eight_at_most() {
    let order = |fields: &[&str]| {
        let fields = json!(fields);
        move |site: &mut Site| site.query["orderBy"] = fields.clone()
    };
    wrong(order(&["n", "title", "-n"]), r#"queries.json /latest/orderBy/2 | a field, each once | "-n""#);
    wrong(order(&["-"]), r#"queries.json /latest/orderBy/0 | a field, each once | "-""#);
    wrong(order(&["id", "-id"]), r#"queries.json /latest/orderBy/1 | a field, each once | "-id""#);
    let seven = ["n", "title", "slug", "meta.a", "meta.b", "meta.c", "meta.x"];
    let mut site = Site::new();
    order(&seven)(&mut site);
    assert_eq!(site.told(), (vec![], vec![]));
    let eight = [&seven[..], &["meta.d"]].concat();
    wrong(order(&eight), "queries.json /latest/orderBy | at most 8 fields, `id` included | 9");
}

#[test]
fn names_that_no_item_has_are_warned_of() {
    let expected = "a field that some item of `posts` has";
    warned(
        |site| site.query["where"]["tilte"] = json!("x"),
        &format!(r#"queries.json /latest/where | {expected} | "tilte" | title"#),
    );
    warned(
        |site| site.query["orderBy"] = json!(["title", "-m.x"]),
        &format!(r#"queries.json /latest/orderBy/1 | {expected} | "m""#),
    );
    warned(
        |site| site.query["select"] = json!(["slug", "titel"]),
        &format!(r#"queries.json /latest/select/1 | {expected} | "titel" | title"#),
    );
    let mut empty = Site::new();
    empty.posts = "[]".to_owned();
    assert_eq!(empty.told(), (vec![], vec![]), "of an empty collection nothing is known");
}

#[test]
fn a_parameter_that_changes_nothing_is_warned_of() {
    warned(
        |site| site.query["params"]["more"] = json!({ "type": "boolean", "optional": true }),
        r#"queries.json /latest/params/more | {"$param": "more"} somewhere in `where` | a parameter that changes nothing"#,
    );
    warned(
        |site| drop(site.query["where"].as_object_mut().expect("an object").remove("title")),
        r#"queries.json /latest/params/kind | {"$param": "kind"} somewhere in `where`"#,
    );
    let mut without = Site::new();
    without.query = json!({ "collection": "posts", "params": { "slug": { "type": "string" } } });
    let (mistakes, warnings) = without.told();
    assert_eq!((mistakes.len(), warnings.len()), (0, 1), "{warnings:?}");
}

/// `count` posts whose `n` bounds are asked for, of which none is alike.
fn many(count: usize) -> String {
    let item = |i: usize| json!({ "id": i.to_string(), "type": "t", "fields": { "slug": i, "title": "t", "n": i, "meta": {} } });
    (0..count).map(item).collect::<Value>().to_string()
}

#[test]
fn a_query_that_may_look_at_more_than_ten_thousand_items_is_warned_of() {
    let of = |count: usize, node: Value| {
        let mut site = Site::new();
        (site.posts, site.node) = (many(count), node);
        site.query["where"].as_object_mut().expect("an object").remove("slug");
        site.query["params"].as_object_mut().expect("an object").remove("slug");
        site.told()
    };
    let bounded = json!({ "id": "latest", "params": { "most": 3 } });
    assert_eq!(of(10_000, bounded.clone()), (vec![], vec![]));
    let (mistakes, warnings) = of(10_001, bounded);
    assert_eq!((mistakes.len(), warnings.len()), (0, 1), "{mistakes:?} {warnings:?}");
    assert!(
        warnings[0].starts_with("queries.json /latest/where | a condition whose answers are known ahead")
    );
    assert!(warnings[0].ends_with("| one that may look at 10001 items"), "{warnings:?}");
    // A node for which that many would have to be looked at is a mistake: a page cannot answer 422.
    let by_route = json!({ "id": "latest", "params": { "most": { "$route": "topic" } } });
    assert_eq!(of(10_000, by_route.clone()), (vec![], vec![]));
    let (mistakes, _) = of(10_001, by_route);
    assert_eq!(mistakes.len(), 1, "{mistakes:?}");
    assert!(
        mistakes[0].starts_with(
            "routes/page.json /layout/zones/main/0/query | queries whose answers are known ahead"
        )
    );
}
