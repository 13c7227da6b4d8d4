//! The result of reading a valid site.

use std::cell::RefCell;

use parallax::testing::site::source::files::Files;
use parallax::testing::site::source::read::read;
use parallax::testing::site::source::types::{Bots, CacheTimes, IpPolicy, Route, Rule, Zone};

use super::{SITE, files, read_files, read_texts, report_lines_of};

#[test]
fn the_example_site_is_read_without_diagnostics() {
    let Some(directory) = crate::harness::example_site() else { return };
    let files = Files::from_directory(&directory).expect("the example site can be read");
    let (source, report) = read_files(&files);

    assert_eq!(report.diagnostics, []);
    let paths: Vec<(&str, &str)> =
        source.routes.iter().map(|(file, route)| (file.as_str(), route.path())).collect();
    let expected = [
        ("routes/blog/post.json", "/blog/:slug"),
        ("routes/index.json", "/"),
        ("routes/old.json", "/prices"),
        ("routes/pricing.json", "/pricing"),
    ];
    assert_eq!(paths, expected);
    assert_eq!(source.audiences.expect("read").len(), 3);
    let posts = source.content["posts"].items.as_ref().expect("read");
    assert_eq!(posts.len(), 5);
}

#[test]
fn a_site_with_only_its_required_members_has_the_documented_defaults() {
    let (source, report) = read_texts(&[]);
    assert_eq!(report.diagnostics, []);
    let site = source.site.expect("read");
    assert_eq!((&*site.site, &*site.tracking_id), ("acme", "track_acme"));
    assert_eq!((site.version, site.origins.len()), (None, 0));
    assert_eq!((&*site.time_zone, &*site.cookie), ("UTC", "anon_id"));
    assert_eq!(site.cache.resolve(), times(300, 3600, 86_400));
    assert_eq!(site.cache.query(), times(60, 3600, 86_400));
    assert_eq!(site.cache.routes(), times(60, 600, 86_400));
    assert!(!site.privacy.honor_gpc);
    assert_eq!(site.privacy.ip, IpPolicy::None);
    assert_eq!(site.bots, Bots::Flag);
}

#[test]
fn omitted_cache_times_keep_the_default_of_their_endpoint() {
    let text = r#"{"site":"a","trackingId":"track_a","name":"A",
        "cache":{"query":{"staleWhileRevalidate":7},"resolve":{"sMaxAge":0}}}"#;
    let (source, _) = read_files(&files(&[("site.json", text)]));
    let cache = source.site.expect("read").cache;
    assert_eq!(cache.query(), times(60, 7, 86_400));
    assert_eq!(cache.resolve(), times(0, 3600, 86_400));
}

fn times(s_max_age: u32, stale_while_revalidate: u32, stale_if_error: u32) -> CacheTimes {
    CacheTimes { s_max_age, stale_while_revalidate, stale_if_error }
}

#[test]
fn props_keep_their_exact_text_and_zones_keep_their_order() {
    let route = r#"{"path":"/","layout":{"root":{"props":{"n": 1.50e0,  "s":"\u00e9"}},
        "zones":{"z":[{"id":"n","type":"T","props":{"b":1,"a":1.0}}],"a":[],"m":{"default":[],"variants":{},"rules":[]}}}}"#;
    let (source, report) = read_texts(&[("routes/a.json", route)]);
    assert_eq!(report.diagnostics, []);
    let Route::Page(page) = &source.routes[0].1 else { panic!("a page") };
    assert_eq!(page.layout.root.props.get(), r#"{"n": 1.50e0,  "s":"\u00e9"}"#);
    let zones = &page.layout.zones.0;
    let names: Vec<&str> = zones.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["z", "a", "m"]);
    let Zone::Plain(nodes) = &zones[0].1 else { panic!("a plain zone") };
    assert_eq!(nodes[0].props.get(), r#"{"b":1,"a":1.0}"#);
    assert!(matches!(zones[2].1, Zone::Personalized(_)));
}

#[test]
fn content_fields_keep_their_text_and_order() {
    let (source, _) = read_texts(&[(
        "content/posts.json",
        r#"[{"id":"p","type":"post","fields":{"z":1.0,"a":{"b": [1]}}}]"#,
    )]);
    let posts = source.content["posts"].items.as_ref().expect("read");
    let fields = posts[0].fields.0.iter();
    let fields: Vec<(&str, &str)> = fields.map(|(name, text)| (&**name, text.get())).collect();
    assert_eq!(fields, [("z", "1.0"), ("a", r#"{"b": [1]}"#)]);
}

#[test]
fn each_form_of_a_rule_has_its_own_type() {
    let rules = r#"[{"audience":"pro","variant":"b"},{"when":{"a":1},"variant":"b"},
        {"experiment":{"key":"k","variants":["default","b"],"namespace":["n",0,0.5]}},
        {"experiment":{"key":"k","variants":["b"],"weights":[1],"coverage":0.5},"when":{}}]"#;
    let (source, report) = read_texts(&[("routes/a.json", &route_with_rules(rules))]);
    assert_eq!(report.diagnostics, []);
    let Route::Page(page) = &source.routes[0].1 else { panic!("a page") };
    let Zone::Personalized(zone) = &page.layout.zones.0[0].1 else { panic!("a personalized zone") };
    let [
        Rule::Audience { audience, .. },
        Rule::When { when, .. },
        Rule::Experiment { experiment: all, when: None },
        Rule::Experiment { experiment: half, when: Some(_) },
    ] = zone.rules.as_slice()
    else {
        panic!("{:?}", zone.rules)
    };
    assert_eq!((&**audience, &when["a"]), ("pro", &1.into()));
    let coverages = [&all.coverage, &half.coverage].map(|coverage| format!("{coverage:?}"));
    assert_eq!(coverages, ["Share(Share(1.0))", "Share(Share(0.5))"]);
    let (name, from, to) = all.namespace.as_ref().expect("a namespace");
    assert_eq!((&**name, from.0, to.0), ("n", 0.0, 0.5));
}

fn route_with_rules(rules: &str) -> String {
    let zone = format!(r#"{{"default":[],"variants":{{"b":[]}},"rules":{rules}}}"#);
    format!(r#"{{"path":"/","layout":{{"root":{{"props":{{}}}},"zones":{{"hero":{zone}}}}}}}"#)
}

#[test]
fn null_counts_as_absent_for_optional_members() {
    let route = r#"{"path":"/a","updatedAt":null,"redirect":{"to":"/b","status":301}}"#;
    assert_eq!(report_lines_of("routes/a.json", route), [""; 0]);
}

#[test]
fn a_missing_optional_file_is_empty_and_an_invalid_one_is_none() {
    let (source, _) = read_texts(&[("groups.json", "[]"), ("content/a.json", "{}")]);
    assert!(source.audiences.expect("empty").is_empty());
    assert!(source.queries.expect("empty").is_empty());
    assert!(source.groups.is_none());
    assert!(source.content["a"].items.is_none());
}

#[test]
fn valid_files_are_read_beside_invalid_files() {
    let sound = r#"{"path":"/a","redirect":{"to":"/b","status":301}}"#;
    let (source, report) = read_texts(&[("routes/a.json", sound), ("routes/b.json", "{")]);
    assert_eq!(report.diagnostics.len(), 1);
    assert_eq!(source.routes.len(), 1);
    assert_eq!(source.routes[0].0, "routes/a.json");
    assert!(source.site.is_some());
}

#[test]
fn progress_is_reported_once_per_file() {
    let reported = RefCell::new(Vec::new());
    let files = files(&[SITE, ("groups.json", "{}"), ("routes/a.json", "")]);
    let _ = read(&files, &|done, all| reported.borrow_mut().push((done, all)));
    assert_eq!(reported.into_inner(), [(1, 3), (2, 3), (3, 3)]);
}
