//! `parallax lint --against --data`: the known visitors who get another variant of a zone.

use std::collections::BTreeSet;

use parallax::testing::limits::POSSIBLE_DECISIONS_MAX;
use serde_json::{Value, json};

use crate::command_line::Workspace;
use crate::harness::{Server, eventually, snapshot};

const FIELDS: (&str, &str) = ("Content-Type", "application/json");

/// A version of site `acme`: the members of `site.json` beside those of every site, and the pages by path.
struct Version {
    site: Value,
    audiences: Value,
    pages: Vec<(&'static str, Value)>,
}

impl Version {
    /// Returns a version of one page with these zones.
    fn of(zones: Value) -> Self {
        Self { site: json!({}), audiences: json!({}), pages: vec![("/", zones)] }
    }

    fn files(&self) -> Vec<(String, String)> {
        let mut site = json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme" });
        site.as_object_mut().expect("an object").extend(self.site.as_object().expect("an object").clone());
        let pages = self.pages.iter().enumerate().map(|(index, (path, zones))| {
            let page = json!({ "path": path, "layout": { "root": { "props": {} }, "zones": zones } });
            (format!("routes/{index}.json"), page.to_string())
        });
        let files = [
            ("site.json".to_owned(), site.to_string()),
            ("audiences.json".to_owned(), self.audiences.to_string()),
        ];
        files.into_iter().chain(pages).collect()
    }

    fn snapshot(&self, version: u64) -> Vec<u8> {
        let files = self.files();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
        snapshot(&files, version)
    }

    fn write(&self, workspace: &Workspace, directory: &str) {
        self.files().iter().for_each(|(path, text)| workspace.write(&format!("{directory}/{path}"), text));
    }
}

/// Returns a zone with the variants `b` and `c` and these rules.
fn zone(rules: Value) -> Value {
    json!({ "default": [], "variants": { "b": [], "c": [] }, "rules": rules })
}

fn when(condition: Value, variant: &str) -> Value {
    json!({ "when": condition, "variant": variant })
}

fn views(least: u64) -> Value {
    json!({ "visitor.pageViews": { "$gte": least } })
}

/// Records page views of an ID, which was exposed to these experiments.
fn record(server: &Server, id: &str, count: usize, experiments: Option<&str>) {
    let mut event = json!({ "anonId": id, "properties": { "path": "/" } });
    if let Some(experiments) = experiments {
        event["experiments"] = json!(experiments);
    }
    for _ in 0..count {
        let response = server.post("/v1/page?site=acme", &[FIELDS], event.to_string().as_bytes());
        assert_eq!(response.status, 200, "{}", response.text());
    }
}

fn tie(server: &Server, anon_id: &str, user_id: &str) {
    let event = json!({ "trackingId": "track_acme", "anonId": anon_id, "userId": user_id });
    let response = server.post("/v1/identify", &[FIELDS], event.to_string().as_bytes());
    assert_eq!(response.status, 200, "{}", response.text());
}

/// Returns the lines about zones of a comparison with the profiles of the server.
fn zone_lines(before: &Version, after: &Version, server: &Server) -> Vec<String> {
    let workspace = Workspace::new();
    before.write(&workspace, "before");
    after.write(&workspace, "after");
    let data = server.data().to_string_lossy().into_owned();
    let compared = workspace.run(&["lint", "after", "--against", "before", "--data", &data]);
    compared.assert_exit(0, &[]);
    let lines = compared.out.lines().filter_map(|line| line.strip_prefix("zone "));
    lines.map(str::to_owned).collect()
}

/// Returns the variant of each zone of page `/` that an ID gets. A nested zone that is absent has none.
fn shown(server: &Server, id: &str) -> BTreeSet<String> {
    variants_of(&server.get(&format!("/v1/resolve?site=acme&route=/&anonId={id}")).json())
}

fn variants_of(page: &Value) -> BTreeSet<String> {
    let variants = page["variants"].as_str().expect("a text").split(',').filter(|pair| !pair.is_empty());
    variants.map(str::to_owned).collect()
}

/// Returns the variant of a zone, after its name. `None` if the zone is absent or shows `default`.
fn in_zone(variants: &BTreeSet<String>, zone: &str) -> Option<String> {
    variants.iter().find(|pair| pair.starts_with(&format!("{zone}:"))).cloned()
}

fn wait_for_version_2(server: &Server) {
    eventually("version 2", || {
        (server.admin_get("/sites").json()["sites"][0]["version"] == "2").then_some(())
    });
}

/// Returns the two versions of a site whose decisions do not depend on the request. The newer one has this holdout.
fn closed_versions(holdout: Value) -> [Version; 2] {
    let experiment =
        |weights: Value| json!({ "experiment": { "key": "e", "variants": ["b", "c"], "weights": weights } });
    let ramp = |coverage: f64, when: Value| json!({ "experiment": { "key": "f", "variants": ["default", "b"], "coverage": coverage }, "when": when });
    let moved = |from: f64, to: f64| json!({ "experiment": { "key": "m", "variants": ["b", "c"], "namespace": ["n", from, to] } });
    let ended = |more: Value| {
        let mut experiment = json!({ "key": "g", "variants": ["default", "b"] });
        experiment.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({ "experiment": experiment })
    };
    let content = |rules: Value| {
        let inner = json!({ "inner": zone(rules) });
        json!([{ "id": "box", "type": "Box", "props": {}, "zones": inner }])
    };
    let outer = |least: u64, rules: Value| json!({ "default": [], "variants": { "b": content(rules) }, "rules": [when(views(least), "b")] });
    let before = json!({
        "audience": zone(json!([{ "audience": "fans", "variant": "b" }])),
        "decided": zone(json!([ended(json!({}))])),
        "moved": zone(json!([moved(0.0, 0.5)])),
        "outer": outer(2, json!([when(views(3), "c")])),
        "ramped": zone(json!([ramp(0.1, json!({}))])),
        "same": zone(json!([when(views(2), "b"), when(views(3), "c")])),
        "tested": zone(json!([experiment(json!([0.5, 0.5]))])),
        "gone": zone(json!([when(views(2), "c")])),
    });
    let after = json!({
        "audience": zone(json!([{ "audience": "fans", "variant": "b" }])),
        "decided": zone(json!([ended(json!({ "to": "2026-01-01T00:00:00Z", "winner": "b" }))])),
        "moved": zone(json!([moved(0.3, 0.8)])),
        "outer": outer(3, json!([when(views(2), "c")])),
        "ramped": zone(json!([when(views(3), "c"), ramp(0.6, views(2))])),
        "same": zone(json!([when(views(2), "b"), when(views(3), "c")])),
        "tested": zone(json!([experiment(json!([0.2, 0.8]))])),
        "gone": zone(json!([])),
        "new": zone(json!([when(views(3), "b")])),
    });
    let [mut before, mut after] = [before, after].map(Version::of);
    before.audiences = json!({ "fans": { "when": views(3) } });
    after.audiences = json!({ "fans": { "when": views(2) } });
    after.site = json!({ "holdout": holdout });
    [before, after]
}

#[test]
fn the_number_of_changed_visitors_is_that_of_the_pages_which_a_server_gives_them() {
    let zones = ["audience", "decided", "gone", "inner", "moved", "new", "outer", "ramped", "tested"];
    assert_numbers_of_server(json!({ "share": 0.2 }), &zones);
    let with_same = [&zones[..7], &["ramped", "same", "tested"]].concat();
    assert_numbers_of_server(json!({ "share": 0.2, "rules": true }), &with_same);
}

/// Checks the numbers for these zones against the variants that a server gives before and after a publication.
fn assert_numbers_of_server(holdout: Value, zones: &[&str]) {
    let [before, after] = closed_versions(holdout);
    let server = Server::start(&[("acme.snapshot", &before.snapshot(1))], &[]);
    let ids: Vec<String> = (0..60).map(|number| format!("v{number}")).collect();
    for (number, id) in ids.iter().enumerate() {
        // Some are enrolled, and keep their arm at any coverage.
        let enrolled = (number % 4 == 0).then_some("f:default,m:b");
        record(&server, id, 1 + number % 3, enrolled);
    }
    let lines = zone_lines(&before, &after, &server);
    let older: Vec<_> = ids.iter().map(|id| shown(&server, id)).collect();
    server.publish("acme.snapshot", &after.snapshot(2));
    wait_for_version_2(&server);
    let newer: Vec<_> = ids.iter().map(|id| shown(&server, id)).collect();
    let is_outer_shown = |variants: &BTreeSet<String>| in_zone(variants, "outer").is_some();
    let changed = |zone: &str| {
        let pairs = older.iter().zip(&newer);
        let differs = |(older, newer): &(&BTreeSet<String>, &BTreeSet<String>)| {
            // `variants` has neither an absent zone nor one that shows `default`.
            in_zone(older, zone) != in_zone(newer, zone)
                || zone == "inner" && is_outer_shown(older) != is_outer_shown(newer)
        };
        pairs.filter(differs).count()
    };
    let line = |zone: &str, kind: &str| {
        let count = changed(zone);
        assert!(count > 0, "{zone}");
        format!("{zone} of /: {kind}; {count} of 60 known visitors get another variant")
    };
    let expected = zones.iter().map(|zone| match *zone {
        "gone" => line(zone, "removed"),
        "new" => line(zone, "new"),
        zone => line(zone, "changed"),
    });
    let expected: Vec<String> = expected.collect();
    assert_eq!(lines, expected);
}

#[test]
fn a_zone_without_rules_that_moves_between_a_variant_and_the_page_is_counted() {
    let content = json!([{ "id": "box", "type": "Box", "props": {}, "zones": { "inner": zone(json!([])) } }]);
    let outer = |content: Value| json!({ "default": [], "variants": { "b": content }, "rules": [when(views(3), "b")] });
    let nested = Version::of(json!({ "outer": outer(content) }));
    let beside = Version::of(json!({ "inner": zone(json!([])), "outer": outer(json!([])) }));
    let without = Version::of(json!({ "outer": outer(json!([])) }));
    let server = Server::start(&[("acme.snapshot", &nested.snapshot(1))], &[]);
    for (id, count) in [("v1", 1), ("v2", 2), ("v3", 3)] {
        record(&server, id, count, None);
    }
    let lines = |before: &Version, after: &Version| zone_lines(before, after, &server);
    // Those who do not get the variant have no such zone before.
    let line = |kind: &str| format!("inner of /: {kind}; 2 of 3 known visitors get another variant");
    assert_eq!(lines(&nested, &beside), [line("removed")]);
    assert_eq!(lines(&beside, &nested), [line("new")]);
    assert_eq!(lines(&beside, &without), [""; 0]);
    let absent = "inner of /: removed; 1 of 3 known visitors get another variant";
    assert_eq!(lines(&nested, &without), [absent]);
}

#[test]
fn a_rule_that_reads_the_request_makes_the_number_a_range() {
    let promotion = || when(json!({ "url.query.utm": "sale" }), "c");
    let country = |country: &str| when(json!({ "country": country }), "b");
    let before = Version::of(json!({
        "before-it": zone(json!([promotion(), when(views(2), "b")])),
        "country": zone(json!([country("DE")])),
        "moved": zone(json!([promotion(), country("DE")])),
        "replaced": zone(json!([when(json!({ "url.query.utm": "sale" }), "b")])),
        "same": zone(json!([promotion(), when(views(2), "b")])),
    }));
    let after = Version::of(json!({
        "before-it": zone(json!([promotion(), when(views(3), "b")])),
        "country": zone(json!([when(json!({ "$not": { "country": "SE" } }), "b")])),
        "moved": zone(json!([country("DE"), promotion()])),
        "replaced": zone(json!([when(json!({}), "c")])),
        "same": zone(json!([promotion(), when(views(2), "b")])),
    }));
    let server = Server::start(&[("acme.snapshot", &before.snapshot(1))], &["--country-header", "x-country"]);
    for (id, count) in [("v1", 1), ("v2", 2), ("v3", 3), ("v4", 4)] {
        record(&server, id, count, None);
    }
    let lines = zone_lines(&before, &after, &server);
    assert_eq!(
        lines,
        [
            // With the campaign v2 gets `c` before and after. The rule is the same, so the others get no other variant.
            "before-it of /: changed; 0 to 1 of 4 known visitors get another variant",
            "country of /: changed; 0 to 4 of 4 known visitors get another variant",
            // A request of the campaign from this country.
            "moved of /: changed; 0 to 4 of 4 known visitors get another variant",
            // `c` differs from both possible variants: that of the rule, and the default.
            "replaced of /: changed; 4 of 4 known visitors get another variant",
        ]
    );
    // With each request, the number of visitors whose page changes is in the range.
    let requests = ["", "?utm=sale"].map(|query| ["DE", "FR", "SE"].map(|country| (query, country)));
    let pages = |server: &Server| {
        let page = |id: &str, (query, country): (&str, &str)| {
            let target =
                format!("/v1/resolve?site=acme&route=/&anonId={id}&url=https://acme.example/{query}");
            variants_of(&server.get_with(&target, &[("x-country", country)]).json())
        };
        let of_request = |request| ["v1", "v2", "v3", "v4"].map(|id| page(id, request));
        requests.concat().into_iter().map(of_request).collect::<Vec<_>>()
    };
    let older = pages(&server);
    server.publish("acme.snapshot", &after.snapshot(2));
    wait_for_version_2(&server);
    let newer = pages(&server);
    for (zone, range) in
        [("before-it", 0..=1), ("country", 0..=4), ("moved", 0..=4), ("replaced", 4..=4), ("same", 0..=0)]
    {
        let count = |(older, newer): (&[BTreeSet<String>; 4], &[BTreeSet<String>; 4])| {
            let pairs = older.iter().zip(newer);
            pairs.filter(|(older, newer)| in_zone(older, zone) != in_zone(newer, zone)).count()
        };
        let counts: Vec<usize> = older.iter().zip(&newer).map(count).collect();
        assert!(counts.iter().all(|count| range.contains(count)), "{zone}: {counts:?}");
        // Both ends occur.
        let ends = [counts.iter().min(), counts.iter().max()];
        assert_eq!(ends, [Some(range.start()), Some(range.end())], "{zone}: {counts:?}");
    }
}

#[test]
fn a_user_changes_for_sure_if_each_id_does_and_a_page_of_one_version_is_not_compared() {
    let rule = |weights: Value| json!({ "experiment": { "key": "e", "variants": ["default", "b"], "weights": weights } });
    let zones = |weights: Value| json!({ "hero": zone(json!([rule(weights)])) });
    let version = |weights: Value, path: &'static str| {
        let mut version = Version::of(zones(weights.clone()));
        version.pages.extend([
            ("/a", zones(weights.clone())),
            ("/b", zones(weights.clone())),
            (path, zones(weights)),
        ]);
        version
    };
    let [before, after] = [version(json!([1, 0]), "/old"), version(json!([0.5, 0.5]), "/new")];
    let server = Server::start(&[("acme.snapshot", &after.snapshot(1))], &[]);
    let mut devices = [Vec::new(), Vec::new()];
    for id in (0..40).map(|number| format!("d{number}")) {
        devices[usize::from(!shown(&server, &id).is_empty())].push(id);
    }
    let [staying, moving] = devices;
    // Each user is an ID too, which decides with a request that has no other one.
    let users = (0..40).map(|number| format!("user{number}"));
    let moves = |id: &String| {
        let page = server.get(&format!("/v1/resolve?site=acme&route=/&userId={id}")).json();
        page["variants"] != ""
    };
    let [moving_users, staying_users]: [Vec<String>; 2] = users.partition::<Vec<_>, _>(moves).into();
    for (device, user) in [
        (&moving[0], &moving_users[0]),
        (&moving[1], &moving_users[0]),
        (&moving[2], &staying_users[0]),
        (&staying[0], &moving_users[1]),
        (&staying[1], &staying_users[1]),
    ] {
        record(&server, device, 1, None);
        tie(&server, device, user);
    }
    record(&server, &moving[3], 1, None);
    let range = "2 to 4 of 5 known visitors get another variant";
    assert_eq!(
        zone_lines(&before, &after, &server),
        [format!("hero of / and 2 more pages: changed; {range}")]
    );
}

/// Returns a site whose zone `inner` has this number of decisions that depend on the request. In the newer version, it also has a rule
/// that never holds.
fn with_decisions(count: usize, is_newer: bool) -> Version {
    /// Decisions of the rules of the inner zone.
    const INNER: usize = 63;
    let param = |zone: &str, number: usize| {
        let mut condition = json!({});
        condition[format!("url.query.{zone}{number}")] = json!("1");
        condition
    };
    let never = is_newer.then(|| when(views(1_000), "c"));
    let inner_rules = (1..INNER).map(|number| when(param("i", number), "b")).chain(never);
    let inner = json!({ "inner": zone(inner_rules.collect()) });
    let content = json!([{ "id": "box", "type": "Box", "props": {}, "zones": inner }]);
    // The last decision of the outer zone is `default`.
    let around = (count - 1) / INNER;
    let elsewhere = count - 1 - around * INNER;
    let outer_rule = |number: usize| when(param("o", number), if number < around { "b" } else { "c" });
    let outer_rules: Vec<Value> = (0..around + elsewhere).map(outer_rule).collect();
    let outer = json!({ "default": [], "variants": { "b": content, "c": [] }, "rules": outer_rules });
    Version::of(json!({ "outer": outer }))
}

#[test]
fn beyond_256_possible_decisions_every_visitor_can_get_another_variant() {
    let server = Server::start(&[("acme.snapshot", &with_decisions(256, false).snapshot(1))], &[]);
    record(&server, "v1", 1, None);
    for (count, range) in [
        (POSSIBLE_DECISIONS_MAX - 1, "0"),
        (POSSIBLE_DECISIONS_MAX, "0"),
        (POSSIBLE_DECISIONS_MAX + 1, "0 to 1"),
    ] {
        let [before, after] = [false, true].map(|is_newer| with_decisions(count, is_newer));
        let line = format!("inner of /: changed; {range} of 1 known visitors get another variant");
        assert_eq!(zone_lines(&before, &after, &server), [line], "{count}");
    }
}
