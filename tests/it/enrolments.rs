//! Enrolments over the wire: a visitor with a recorded exposure keeps the arm at any coverage.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use parallax::testing::clock::now_ms;
use parallax::testing::condition::{bucket_ranges, choose_variation, hash, in_namespace};
use parallax::testing::limits::ENROLMENTS_MAX;
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::harness::{Client, Response, Server, eventually, snapshot, temporary_directory};

const ZONE: &str = "z";
const FLAGS: [&str; 2] = ["--admin-token", "open"];
/// An iPhone, as a browser names itself.
const BROWSER: (&str, &str) = ("User-Agent", "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X)");
const CRAWLER: (&str, &str) = ("User-Agent", "Googlebot/2.1 (+http://www.google.com/bot.html)");

/// Compiles site `acme` with one zone for each experiment, on one page.
fn compile(version: u64, experiments: &[Value]) -> Vec<u8> {
    let zone = |experiment: &Value| json!({ "default": [], "variants": { "b": [], "c": [] }, "rules": [{ "experiment": experiment }] });
    let zones: serde_json::Map<String, Value> =
        experiments.iter().enumerate().map(|(index, e)| (format!("{ZONE}{index}"), zone(e))).collect();
    let page = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": zones } }).to_string();
    let site = r#"{"site":"acme","trackingId":"track_acme","name":"Acme"}"#;
    snapshot(&[("site.json", site), ("routes/index.json", &page)], version)
}

/// Returns an experiment with the arms `b` and `c`.
fn experiment(key: &str, more: Value) -> Value {
    let mut experiment = json!({ "key": key, "variants": ["b", "c"] });
    experiment.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    experiment
}

/// A server with the site `acme`, whose experiments a test changes.
struct Site {
    server: Server,
    version: u64,
}

impl Site {
    fn new(experiments: &[Value]) -> Self {
        Self { server: Server::start(&[("acme.snapshot", &compile(1, experiments))], &FLAGS), version: 1 }
    }

    fn publish(&mut self, experiments: &[Value]) {
        self.version += 1;
        self.server.publish("acme.snapshot", &compile(self.version, experiments));
        let version = self.version.to_string();
        eventually("the version is served", || {
            let response = self.server.get("/v1/routes?site=acme");
            (response.field("x-version") == Some(version.as_str())).then_some(())
        });
    }

    /// Returns `experiments` of the page for a visitor.
    fn shown(&self, id: &str) -> String {
        let response = self.server.get_with(&format!("/v1/resolve?site=acme&route=/&{id}"), &[BROWSER]);
        response.json()["experiments"].as_str().expect("a decided page").to_owned()
    }

    /// Records a page view with this `experiments`.
    fn record(&self, ids: &Value, experiments: &str, agent: (&str, &str)) {
        let mut event = json!({ "properties": { "path": "/" }, "experiments": experiments });
        event.as_object_mut().expect("an object").extend(ids.as_object().expect("an object").clone());
        let fields = [("Content-Type", "application/json"), agent];
        let response = self.server.post("/v1/page?site=acme", &fields, event.to_string().as_bytes());
        assert_eq!(response.status, 200, "{}", response.text());
    }

    /// Shows the page to an anonymous visitor and records the view. Returns `experiments`.
    fn visit(&self, anon_id: &str) -> String {
        let shown = self.shown(&format!("anonId={anon_id}"));
        self.record(&json!({ "anonId": anon_id }), &shown, BROWSER);
        shown
    }

    fn send(&self, event: &Value) {
        let body = json!({ "trackingId": "track_acme", "batch": [event] }).to_string();
        let fields = [("Content-Type", "application/json"), BROWSER];
        let response = self.server.post("/v1/batch", &fields, body.as_bytes());
        assert_eq!(response.status, 200, "{}", response.text());
    }

    fn admin(&self, method: &str, target: &str) -> Response {
        let token = [("Authorization", "Bearer open")];
        let response = Client::to(self.server.admin).request(method, target, &token);
        assert_eq!(response.status, 200, "{}", response.text());
        response
    }
}

fn at(coverage: f64) -> [Value; 1] {
    [experiment("e", json!({ "coverage": coverage }))]
}

/// Returns the number of exposed visitors in the arms of a result.
fn exposed_of(result: &Value) -> u64 {
    let arms = result["arms"].as_array().expect("arms").iter();
    arms.map(|arm| arm["exposed"].as_u64().expect("a number")).sum()
}

/// Returns the arm of an ID in `e`, at full coverage.
fn arm(id: &str) -> &'static str {
    let ranges = bucket_ranges(2, 1.0, None);
    let arm =
        choose_variation(hash(&["e"], id, 2).expect("version 2 hashes"), ranges).expect("all are covered");
    ["e:b", "e:c"][arm]
}

#[test]
fn an_exposed_visitor_keeps_the_arm_at_each_coverage_and_a_new_one_follows_the_coverage() {
    let mut site = Site::new(&at(1.0));
    let exposed: Vec<String> = (0..40).map(|number| format!("v{number}")).collect();
    for id in &exposed {
        assert_eq!(site.visit(id), arm(id));
    }
    for coverage in [0.3, 0.0, 0.01, 1.0, 0.5] {
        site.publish(&at(coverage));
        for id in &exposed {
            assert_eq!(site.visit(id), arm(id), "{id} at {coverage}");
        }
        let new: Vec<String> = (0..40).map(|number| format!("new{number}")).collect();
        for id in &new {
            let ranges = bucket_ranges(2, coverage, None);
            let is_in = choose_variation(hash(&["e"], id, 2).expect("version 2 hashes"), ranges).is_some();
            assert_eq!(site.shown(&format!("anonId={id}")), if is_in { arm(id) } else { "" });
        }
    }
    let phases: Value = site.admin("GET", "/insights/experiment?site=acme&key=e&goal=x").json();
    assert_eq!(phases["phases"].as_array().map(Vec::len), Some(1), "{phases}");
    let shares: Vec<&Value> = phases["phases"][0]["coverages"]
        .as_array()
        .expect("coverages")
        .iter()
        .map(|one| &one["share"])
        .collect();
    assert_eq!(shares, [1.0, 0.3, 0.0, 0.01, 1.0, 0.5]);
    assert_eq!(phases["alarms"], json!([]));
}

#[test]
fn a_month_with_a_ramp_a_pause_and_sign_ins_shows_no_id_two_arms_and_is_one_phase() {
    let mut dice = Dice(44);
    let mut site = Site::new(&at(0.01));
    let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for coverage in [0.01, 0.1, 0.5, 0.0, 1.0] {
        site.publish(&at(coverage));
        for number in 0..150 {
            let id = format!("v{number}");
            match dice.below(4) {
                0 => {}
                1 => site.send(&json!({ "type": "identify", "anonId": id, "userId": format!("u{number}") })),
                _ => drop(seen.entry(id.clone()).or_default().insert(site.visit(&id))),
            }
        }
    }
    for (id, shown) in &mut seen {
        shown.remove("");
        assert!(shown.is_empty() || *shown == BTreeSet::from([arm(id).to_owned()]), "{id}: {shown:?}");
    }
    let result = site.admin("GET", "/insights/experiment?site=acme&key=e&goal=x").json();
    assert_eq!(exposed_of(&result) as usize, seen.values().filter(|shown| !shown.is_empty()).count());
    assert_eq!([&result["both"], &result["earlier"], &result["otherArms"]["exposed"]], [0, 0, 0]);
    assert_eq!((result["phases"].as_array().map(Vec::len), &result["alarms"]), (Some(1), &json!([])));
}

#[test]
fn another_definition_begins_with_nobody_enrolled() {
    for changed in [
        json!({ "weights": [0.4, 0.6] }),
        json!({ "seed": "t" }),
        json!({ "holdout": 0.01 }),
        json!({ "variants": ["c", "b"] }),
    ] {
        let mut site = Site::new(&at(1.0));
        assert_eq!(site.visit("v"), arm("v"));
        let mut closed = experiment("e", json!({ "coverage": 0 }));
        closed.as_object_mut().expect("an object").extend(changed.as_object().expect("an object").clone());
        site.publish(&[closed]);
        assert_eq!(site.shown("anonId=v"), "", "{changed}");
        // The phase before goes on where it was.
        site.publish(&at(0.0));
        assert_eq!(site.shown("anonId=v"), arm("v"), "{changed}");
    }
}

#[test]
fn the_data_of_a_visitor_has_the_enrolments_of_its_id() {
    let mut site = Site::new(&at(1.0));
    let shown = |site: &Site, id: &str| {
        site.admin("GET", &format!("/visitors?site=acme&{id}")).json()["enrolments"].clone()
    };
    assert_eq!(shown(&site, "anonId=v1"), json!([]));
    site.visit("v1");
    site.send(&json!({ "type": "identify", "anonymousId": "v1", "userId": "ann" }));
    let enrolments = shown(&site, "anonId=v1");
    assert_eq!(enrolments[0]["experiment"], "e", "{enrolments}");
    let last = enrolments[0]["lastExposure"].as_str().and_then(|text| text.strip_suffix(":00:00.000Z"));
    assert!(last.is_some_and(|hour| hour.len() == "2026-01-01T00".len()), "{enrolments}");
    assert_eq!(shown(&site, "userId=ann"), json!([]), "the enrolment belongs to the device");
    // The phase stays known when the experiment is not published any more.
    site.publish(&[]);
    let later = shown(&site, "anonId=v1");
    assert_eq!((&later[0]["experiment"], &later[0]["phase"]), (&Value::Null, &enrolments[0]["phase"]));
}

#[test]
fn only_a_published_pair_enrols_and_a_forged_arm_changes_no_arm() {
    let mut site = Site::new(&at(1.0));
    for forged in ["e:~", "e:d", "f:b", "x:y,e:default"] {
        site.record(&json!({ "anonId": "v" }), forged, BROWSER);
    }
    site.publish(&at(0.0));
    assert_eq!(site.shown("anonId=v"), "");
    let other = if arm("v") == "e:b" { "e:c" } else { "e:b" };
    site.record(&json!({ "anonId": "v" }), other, BROWSER);
    assert_eq!(site.shown("anonId=v"), arm("v"));
}

#[test]
fn a_visitor_of_the_holdout_does_not_leave_it_by_a_forged_pair() {
    let held = [experiment("e", json!({ "holdout": 1 }))];
    let site = Site::new(&held);
    site.record(&json!({ "anonId": "v" }), "e:b", BROWSER);
    assert_eq!(site.shown("anonId=v"), "e:~");
}

#[test]
fn an_exposure_of_another_sdk_enrols_and_a_crawler_does_not() {
    let mut site = Site::new(&at(1.0));
    site.record(&json!({ "anonId": "crawler" }), "e:b", CRAWLER);
    let properties = json!({ "experiment_id": "e", "variation_id": "b" });
    site.send(
        &json!({ "type": "track", "event": "Experiment Viewed", "anonId": "v", "properties": properties }),
    );
    site.publish(&at(0.0));
    assert_eq!([site.shown("anonId=crawler"), site.shown("anonId=v")], ["", arm("v")]);
}

#[test]
fn an_enrolment_survives_ties_and_is_not_shared_with_other_ids() {
    let mut site = Site::new(&at(1.0));
    site.visit("phone");
    let identify =
        |anon: &str, user: &str| site.send(&json!({ "type": "identify", "anonId": anon, "userId": user }));
    identify("phone", "ana");
    identify("laptop", "ana");
    identify("phone", "bo");
    site.record(&json!({ "userId": "cy" }), "e:b", BROWSER);
    site.publish(&at(0.0));
    assert_eq!(site.shown("anonId=phone"), arm("phone"));
    for other in ["anonId=laptop", "userId=ana", "userId=bo"] {
        assert_eq!(site.shown(other), "", "{other}");
    }
    assert_eq!(site.shown("userId=cy"), arm("cy"));
}

/// Removes the checkpoints of a stopped server, so that its next start folds the whole log.
fn remove_checkpoints(server: &Server) {
    let entries = fs::read_dir(server.data()).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_checkpoint = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "checkpoint");
    let removed = paths.filter(is_checkpoint).map(fs::remove_file).filter(Result::is_ok).count();
    assert!(removed > 0, "a stopped server has written a checkpoint");
}

#[test]
fn an_enrolment_survives_a_restart_a_kill_and_a_fold_of_the_whole_log() {
    let mut site = Site::new(&at(1.0));
    let ids: Vec<String> = (0..8).map(|number| format!("v{number}")).collect();
    ids.iter().for_each(|id| drop(site.visit(id)));
    site.send(&json!({ "type": "identify", "anonId": "v0", "userId": "ana" }));
    site.publish(&at(0.0));
    let Site { mut server, version } = site;
    for step in ["kill", "stop", "fold", "kill"] {
        if step != "kill" {
            server.signal("TERM");
            server.exit_code();
        }
        if step == "fold" {
            remove_checkpoints(&server);
        }
        server = server.restart(&FLAGS);
        let site = Site { server, version };
        for id in &ids {
            assert_eq!(site.shown(&format!("anonId={id}")), arm(id), "{id} after {step}");
        }
        assert_eq!(site.shown("anonId=stranger"), "");
        server = site.server;
    }
}

#[test]
fn an_enrolment_is_in_a_restored_backup() {
    let mut site = Site::new(&at(1.0));
    site.visit("v");
    site.publish(&at(0.0));
    let Site { mut server, version } = site;
    server.signal("TERM");
    server.exit_code();
    let parent = temporary_directory();
    let restored = parent.path().join("restored");
    let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
    let output = command.arg("restore").arg(server.data()).arg(&restored).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let snapshots = [("acme.snapshot", &compile(version, &at(0.0))[..])];
    let site = Site { server: Server::start_with_data(&restored, &snapshots, &FLAGS), version };
    assert_eq!([site.shown("anonId=v").as_str(), &site.shown("anonId=stranger")], [arm("v"), ""]);
}

#[test]
fn an_erased_visitor_is_new_and_the_others_keep_their_arms() {
    let mut site = Site::new(&at(1.0));
    ["v0", "v1", "v2"].iter().for_each(|id| drop(site.visit(id)));
    for id in ["v1", "v2"] {
        site.send(&json!({ "type": "identify", "anonId": id, "userId": "ana" }));
    }
    site.publish(&at(0.0));
    site.admin("DELETE", "/visitors?site=acme&anonId=v1");
    let expect = |site: &Site, kept: &[&str], gone: &[&str]| {
        kept.iter().for_each(|id| assert_eq!(site.shown(&format!("anonId={id}")), arm(id), "{id}"));
        gone.iter().for_each(|id| assert_eq!(site.shown(&format!("anonId={id}")), "", "{id}"));
    };
    // The erasure of an ID of a user erases the user.
    expect(&site, &["v0"], &["v1", "v2"]);
    let Site { server, version } = site;
    let site = Site { server: server.restart(&FLAGS), version };
    expect(&site, &["v0"], &["v1", "v2"]);
}

#[test]
fn a_record_that_loses_its_erased_anon_id_enrols_nobody() {
    let mut site = Site::new(&at(1.0));
    site.send(&json!({ "type": "identify", "anonId": "kiosk", "userId": "ana" }));
    // The record belongs to bo, and enrols the device.
    site.record(&json!({ "anonId": "kiosk", "userId": "bo" }), "e:b", BROWSER);
    site.publish(&at(0.0));
    assert_eq!([site.shown("anonId=kiosk").as_str(), &site.shown("userId=bo")], [arm("kiosk"), ""]);
    site.admin("DELETE", "/visitors?site=acme&userId=ana");
    let Site { mut server, version } = site;
    server.signal("TERM");
    server.exit_code();
    remove_checkpoints(&server);
    let site = Site { server: server.restart(&FLAGS), version };
    let known = site.admin("GET", "/visitors?site=acme&userId=bo").json();
    assert_eq!(known["profile"]["visitor"]["pageViews"], 1, "the record of bo stays: {known}");
    assert_eq!([site.shown("anonId=kiosk").as_str(), &site.shown("userId=bo")], ["", ""]);
}

#[test]
fn an_id_that_is_enrolled_in_one_experiment_of_a_namespace_is_new_to_no_other() {
    let share = |key: &str, from: f64, to: f64| experiment(key, json!({ "namespace": ["n", from, to] }));
    let in_range = |id: &str, from, to| in_namespace(id, "n", (from, to));
    let mut site = Site::new(&[share("e", 0.0, 0.5), share("f", 0.5, 1.0)]);
    let ids: Vec<String> = (0..60).map(|number| format!("v{number}")).collect();
    let exposed: Vec<String> = ids.iter().take(30).map(|id| site.visit(id)).collect();
    // The experiments exchange their ranges.
    site.publish(&[share("e", 0.5, 1.0), share("f", 0.0, 0.5)]);
    for (id, before) in ids.iter().zip(&exposed) {
        assert_eq!(site.shown(&format!("anonId={id}")), *before, "{id} keeps the experiment");
    }
    for id in &ids[30..] {
        let shown = site.shown(&format!("anonId={id}"));
        assert_eq!(shown.starts_with("e:"), in_range(id, 0.5, 1.0), "{id}");
    }
    let id = ids.iter().zip(&exposed).find(|(_, shown)| shown.starts_with("e:")).expect("one is in e").0;
    let explained = site.admin("GET", &format!("/v1/resolve?site=acme&route=/&explain=1&anonId={id}"));
    let rules = |zone: usize| explained.json()["decisions"][zone]["rules"][0]["experiment"].clone();
    assert_eq!(
        (&rules(0)["in"], &rules(0)["enrolled"]),
        (&json!("range"), &json!(true)),
        "{}",
        explained.text()
    );
    assert_eq!((&rules(1)["in"], &rules(1)["enrolled"]), (&json!("other_experiment"), &json!(false)));
    // An ended experiment blocks nobody, with and without a winner.
    for end in
        [json!({ "to": "2026-01-01T00:00:00Z" }), json!({ "to": "2026-01-01T00:00:00Z", "winner": "c" })]
    {
        let mut ended = share("e", 0.0, 0.5);
        ended.as_object_mut().expect("an object").extend(end.as_object().expect("an object").clone());
        site.publish(&[ended, share("f", 0.0, 1.0)]);
        for id in &ids {
            let shown = site.shown(&format!("anonId={id}"));
            assert!(shown.starts_with("f:"), "{id} sees {shown:?}");
        }
    }
}

#[test]
fn a_visitor_keeps_the_arms_of_at_most_the_newest_experiments() {
    let count = ENROLMENTS_MAX + 1;
    let all = |coverage: f64| -> Vec<Value> {
        (0..count).map(|n| experiment(&format!("e{n:02}"), json!({ "coverage": coverage }))).collect()
    };
    let mut site = Site::new(&all(1.0));
    assert_eq!(site.visit("v").split(',').count(), count);
    site.publish(&all(0.0));
    assert_eq!(site.shown("anonId=v").split(',').count(), ENROLMENTS_MAX);
}

/// Returns `selected` and `experiments` of the page at a time, and the place of the visitor in the first experiment.
fn decided_at(server: &Server, now: &str, id: &str) -> (String, String, Value) {
    let answer = server.admin_get(&format!("/v1/resolve?site=acme&route=/&explain=1&now={now}&{id}")).json();
    let rule = &answer["decisions"][0]["rules"][0];
    let text = |member: &Value| member.as_str().expect("text").to_owned();
    (text(&answer["selected"]["z0"]), text(&answer["experiments"]), rule["experiment"]["in"].clone())
}

#[test]
fn an_experiment_runs_from_its_begin_to_its_end_and_then_shows_its_winner_to_everyone() {
    let times = json!({ "from": "2026-03-01T00:00:00Z", "to": "2026-04-01T02:00:00+02:00" });
    for (winner, after) in [(Value::Null, ("default", "ended")), (json!("c"), ("c", "decided"))] {
        let mut experiment = experiment("e", times.clone());
        // The winner needs neither coverage nor namespace nor holdout.
        experiment["namespace"] = json!(["n", 0, 1]);
        if !winner.is_null() {
            experiment["winner"] = winner;
        }
        let server = Server::start(&[("acme.snapshot", &compile(1, &[experiment]))], &[]);
        for id in ["anonId=v", "userId=u"] {
            let hashed = &id[id.len() - 1..];
            let at = |now| decided_at(&server, now, id);
            let idle = |place: &str, variant: &str| (variant.to_owned(), String::new(), json!(place));
            assert_eq!(at("2026-02-28T23:59:59.999Z"), idle("not_started", "default"));
            for now in ["2026-03-01T00:00:00Z", "2026-03-31T23:59:59.999Z"] {
                let expected = (arm(hashed)[2..].to_owned(), arm(hashed).to_owned(), json!("range"));
                assert_eq!(at(now), expected, "{now}");
            }
            assert_eq!(at("2026-04-01T00:00:00Z"), idle(after.1, after.0));
        }
        let nobody = decided_at(&server, "2026-04-01T00:00:00Z", "locale=de");
        assert_eq!((nobody.0.as_str(), nobody.1.as_str(), &nobody.2), (after.0, "", &json!(after.1)));
        assert_eq!(decided_at(&server, "2026-03-02T00:00:00Z", "locale=de").2, "no_id");
    }
}

#[test]
fn a_ramp_changes_the_coverage_at_its_times() {
    let steps = json!([
        { "from": "2026-03-01T00:00:00Z", "share": 0.2 },
        { "from": "2026-03-02T00:00:00Z", "share": 0 },
        { "from": "2026-03-03T00:00:00Z", "share": 1 },
    ]);
    let server = Server::start(
        &[("acme.snapshot", &compile(1, &[experiment("e", json!({ "coverage": steps }))]))],
        &[],
    );
    for (now, coverage) in [
        ("2026-02-28T23:59:59Z", 0.0),
        ("2026-03-01T00:00:00Z", 0.2),
        ("2026-03-01T23:59:59Z", 0.2),
        ("2026-03-02T00:00:00Z", 0.0),
        ("2026-03-03T00:00:00Z", 1.0),
    ] {
        for number in 0..30 {
            let id = format!("v{number}");
            let bucket = hash(&["e"], &id, 2).expect("version 2 hashes");
            let is_in = choose_variation(bucket, bucket_ranges(2, coverage, None)).is_some();
            let (_, experiments, place) = decided_at(&server, now, &format!("anonId={id}"));
            assert_eq!(experiments, if is_in { arm(&id) } else { "" }, "{now} {id}");
            assert_eq!(place, if is_in { "range" } else { "coverage" });
        }
    }
}

#[test]
fn a_decided_experiment_is_marked_and_counts_events_before_its_end() {
    let running = experiment("e", json!({ "goal": "Order Placed" }));
    let mut site = Site::new(std::slice::from_ref(&running));
    ["v0", "v1", "v2"].iter().for_each(|id| drop(site.visit(id)));
    // The end is not before the last exposure.
    let ended_ms = now_ms() + 1;
    let mut decided = running;
    decided["to"] = json!(jiff::Timestamp::from_millisecond(ended_ms).expect("a time").to_string());
    decided["winner"] = json!("c");
    site.publish(std::slice::from_ref(&decided));
    site.record(&json!({ "anonId": "v3" }), "e:b", BROWSER);
    let result = site.admin("GET", "/insights/experiment?site=acme&key=e").json();
    assert_eq!((&result["standing"], &result["exploratory"]), (&json!("decided"), &json!(false)));
    let ended = &result["phases"][0]["to"];
    assert_eq!(result["schedule"], json!({ "from": null, "to": ended, "winner": "c" }));
    let decision = &result["decision"];
    assert_eq!((&decision["action"], &decision["arm"]), (&json!("decided"), &json!("c")), "{decision}");
    assert_eq!((exposed_of(&result), result["phases"].as_array().map(Vec::len)), (3, Some(1)));
    let list = site.admin("GET", "/insights/experiments?site=acme").json();
    let listed = &list["experiments"][0];
    assert_eq!((&listed["standing"], &listed["winner"]), (&json!("decided"), &json!("c")));
    assert_eq!(site.shown("anonId=v0"), "");
    // An end before the first publication leaves out all events.
    decided["to"] = json!("2026-01-01T00:00:00Z");
    site.publish(&[decided]);
    let result = site.admin("GET", "/insights/experiment?site=acme&key=e").json();
    assert_eq!((&result["to"], exposed_of(&result)), (&json!("2026-01-01T00:00:00.000Z"), 0));
}
