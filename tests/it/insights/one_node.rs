//! The answers over the log of one node of a cluster. Other nodes have events that it lacks.

use std::process::{Command, Output};

use parallax::testing::insights::{
    Answer, Columns, CountedLog, ExperimentsQuestion, Limits, Places, Query, Question, Subject, Zone,
    ZonesQuestion, answer_over,
};
use parallax::testing::scope::Scope;
use serde_json::{Value, json};

use super::Event;
use super::experiments::{HOUR_MS, START_MS, columns, order, parse_known, site, visitors};
use super::served::{page, send};
use super::split::{MEMORY_BYTES, exposures, halves, known};
use crate::harness::{Client, Server, eventually};

const NOW_MS: i64 = START_MS + 20 * 24 * HOUR_MS;
const ALONE: Scope = Scope::All;

/// Returns the events of an experiment whose arm `b` is better, and harms nothing.
fn better_arm() -> Vec<Event> {
    let mut events = exposures(1, &[("cta:default", 500), ("cta:b", 500)]);
    for (arm, buyers) in [("cta:default", 150), ("cta:b", 300)] {
        events.extend(visitors(arm, buyers).into_iter().map(|visitor| order(Some(visitor), None, 2, "10")));
        let refund = |visitor| Event { event: Some("Refund"), ..order(Some(visitor), None, 2, "0") };
        events.extend(visitors(arm, 50).into_iter().map(refund));
    }
    events
}

fn ask(events: &[Event], query: &Query, scope: Scope) -> Answer {
    let files = columns(events, 1_000);
    let files: Vec<&Columns> = files.iter().collect();
    let limits = Limits { memory_bytes: MEMORY_BYTES, is_over: &|| false };
    answer_over(&files, CountedLog { last_seq: 9, scope }, query, &site(), NOW_MS, &limits)
        .expect("an answer")
}

fn experiment() -> Query {
    let question = parse_known("key=cta", |_| known(vec![halves(0)])).expect("a question");
    Query::Experiment(Box::new(question))
}

fn experiments() -> Query {
    let known = vec![(known(vec![halves(0)]), Places::default())];
    let question = ExperimentsQuestion::parse([].into_iter(), &Zone::utc(), NOW_MS, known, false);
    Query::Experiments(question.expect("a question"))
}

/// Returns one question of each kind.
fn questions() -> Vec<Query> {
    let views = |subject| {
        let params = [("of", "page")].into_iter().filter(|_| subject != Subject::Overview);
        Query::Views(Question::parse(subject, params, &Zone::utc(), NOW_MS).expect("a question"))
    };
    let zones = ZonesQuestion::parse([("page", "/")].into_iter(), |_| Vec::new(), &Zone::utc(), NOW_MS);
    vec![
        views(Subject::Overview),
        views(Subject::Top),
        views(Subject::Live),
        Query::Zones(zones.expect("a question")),
        experiment(),
        experiments(),
    ]
}

/// Returns the verdicts of all arms in all metrics, and those in the CSV.
fn verdicts(answer: &Answer) -> (Vec<Value>, Vec<String>) {
    let metrics = answer.document["metrics"].as_array().expect("metrics");
    let verdicts = metrics.iter().flat_map(|metric| metric["against"].as_array().expect("arms"));
    let csv = answer.to_csv();
    let lines = csv.lines().skip(1).filter(|line| line.contains(",b,"));
    // Behind the verdict are the dimension and the value of a segment.
    let verdict_cells = lines.map(|line| line.rsplit(',').nth(2).unwrap_or_default().to_owned());
    (verdicts.map(|arm| arm["verdict"].clone()).collect(), verdict_cells.collect())
}

#[test]
fn every_answer_names_its_scope_and_the_number_of_nodes() {
    let events = better_arm();
    for query in questions() {
        let members = |scope| {
            let document = ask(&events, &query, scope).document;
            (document.get("scope").cloned(), document.get("nodes").cloned())
        };
        assert_eq!(members(ALONE), (None, None), "{query:?}");
        assert_eq!(members(Scope::of_node(3)), (Some(json!("node")), Some(json!(3))), "{query:?}");
        assert_eq!(members(Scope::of_node(1)), (Some(json!("node")), Some(json!(1))), "{query:?}");
        assert_eq!(members(Scope::of_node(0)), (Some(json!("node")), Some(Value::Null)), "{query:?}");
    }
}

#[test]
fn one_node_of_several_gives_no_verdict_and_has_an_alarm() {
    let events = better_arm();
    let alone = ask(&events, &experiment(), ALONE);
    assert_eq!(alone.document["decision"]["action"], "choose");
    let (of_alone, of_csv) = verdicts(&alone);
    assert_eq!(of_alone, ["better", "better", "not_told_apart"]);
    assert_eq!(of_csv, ["better", "better", "not_told_apart"]);
    for (nodes, is_part) in [(0, true), (1, false), (2, true), (3, true)] {
        let answer = ask(&events, &experiment(), Scope::of_node(nodes));
        let document = &answer.document;
        let alarms = if is_part { json!(["one_node"]) } else { json!([]) };
        assert_eq!(document["alarms"], alarms, "{nodes}");
        assert_eq!(
            ask(&events, &experiments(), Scope::of_node(nodes)).document["experiments"][0]["alarms"],
            alarms
        );
        if !is_part {
            assert_eq!(document["decision"], alone.document["decision"]);
            assert_eq!(document["metrics"], alone.document["metrics"]);
            continue;
        }
        let decision = &document["decision"];
        let facts = ["action", "reason", "arm", "days"].map(|name| &decision[name]);
        assert_eq!(facts, [&json!("cannot_decide"), &json!("alarm"), &Value::Null, &Value::Null]);
        assert!(decision["sentence"].as_str().is_some_and(|text| text.contains("one_node")), "{decision}");
        assert_eq!(verdicts(&answer), (vec![Value::Null; 3], vec![String::new(); 3]));
        // The numbers stay.
        let goal = |answer: &Answer| answer.document["metrics"][0]["against"][0]["estimate"].clone();
        assert_eq!(goal(&answer), goal(&alone));
    }
}

#[test]
fn the_alarm_of_one_node_is_beside_the_others() {
    let events = exposures(1, &[("cta:default", 300), ("cta:b", 500)]);
    let alarms = |scope| ask(&events, &experiment(), scope).document["alarms"].clone();
    assert_eq!(alarms(ALONE), json!(["srm"]));
    assert_eq!(alarms(Scope::of_node(2)), json!(["srm", "one_node"]));
}

#[test]
fn a_scope_has_members_and_a_header_value() {
    let members =
        |scope: Scope| scope.members().map(|(name, value)| format!("{name}:{value}")).collect::<Vec<_>>();
    for (scope, expected_members, value) in [
        (ALONE, vec![], None),
        (ALONE.of_profiles(), vec![], None),
        (Scope::of_node(0), vec!["scope:\"node\"", "nodes:null"], Some("node")),
        (Scope::of_node(3), vec!["scope:\"node\"", "nodes:3"], Some("node; nodes=3")),
        (Scope::of_node(0).of_profiles(), vec!["scope:\"cluster\"", "nodes:null"], Some("cluster")),
        (Scope::of_node(3).of_profiles(), vec!["scope:\"cluster\"", "nodes:3"], Some("cluster; nodes=3")),
    ] {
        assert_eq!(members(scope), expected_members);
        assert_eq!(scope.field_value().as_deref(), value);
    }
    assert!(!Scope::of_node(3).of_profiles().is_part(), "the profiles of a node have the events of all");
}

#[test]
fn a_command_over_the_directory_of_a_node_says_so() {
    let server = Server::demo();
    send(&mut Client::to(server.edge), &[page("a", "/")]);
    let run = |args: &[&str]| -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
        command.arg(args[0]).arg(server.data()).args(&args[1..]).output().expect("the program runs")
    };
    let insights = ["insights", "experiment", "site=fjell", "key=slow-front", "--format", "json"];
    let warning =
        "is the directory of a node of a cluster, and has only the events that this node acknowledged";
    let export = eventually("the record is on disk", || {
        let output = run(&["export"]);
        (!output.stdout.is_empty()).then_some(output)
    });
    let snapshots = server.snapshots_directory().to_str().expect("UTF-8");
    let ask = || run(&[&insights[..], &["--snapshots", snapshots]].concat());
    let says = |output: &Output| String::from_utf8_lossy(&output.stderr).contains(warning);
    let of_alone = ask();
    assert!(!says(&export) && !says(&of_alone));
    let document = |output: &Output| serde_json::from_slice::<Value>(&output.stdout).expect("JSON");
    assert_eq!(document(&of_alone).get("scope"), None);
    std::fs::write(server.data().join("producer"), "x").expect("written");
    let (export_of_node, of_node) = (run(&["export"]), ask());
    assert!(says(&export_of_node) && says(&of_node));
    assert_eq!(export_of_node.stdout, export.stdout, "the lines are the same");
    assert_eq!([export_of_node.status.code(), of_node.status.code()], [Some(0); 2]);
    let document = document(&of_node);
    let members = ["scope", "nodes", "alarms"].map(|name| document.get(name));
    assert_eq!(members, [Some(&json!("node")), Some(&Value::Null), Some(&json!(["one_node"]))]);
}
