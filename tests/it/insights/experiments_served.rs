//! The endpoints about experiments of a server, and the command.

use std::process::Command;

use serde_json::{Value, json};

use super::served::{ask, send, without_time};
use crate::harness::{Client, Server, eventually, snapshot};

fn exposure(visitor: &str, experiments: &str) -> Value {
    json!({"type": "page", "anonId": visitor, "experiments": experiments, "properties": {"path": "/"}})
}

/// Returns a server of the demo site with 60 visitors of one arm of `slow-front`, of whom one has ordered.
fn server() -> Server {
    let server = Server::demo();
    let mut edge = Client::to(server.edge);
    let mut events: Vec<Value> =
        (0..60).map(|number| exposure(&format!("v{number}"), "slow-front:slow")).collect();
    for number in 0..10 {
        let visitor = format!("both{number}");
        events.extend([exposure(&visitor, "slow-front:slow"), exposure(&visitor, "slow-front:default")]);
    }
    events.push(
        json!({"type": "track", "anonId": "v1", "event": "Order Placed", "properties": {"revenue": 12.5}}),
    );
    send(&mut edge, &events);
    server
}

#[test]
fn an_experiment_is_answered_with_its_published_metrics_since_its_newest_phase() {
    let server = server();
    let answer = ask(&server, "experiment?site=fjell&key=slow-front");
    assert_eq!([&answer["published"], &answer["exploratory"]], [&json!(true), &json!(false)]);
    assert_eq!(answer["alarms"], json!(["srm", "both_arms"]));
    let arms = json!([{"key": "default", "weight": 0.5, "exposed": 0}, {"key": "slow", "weight": 0.5, "exposed": 60}]);
    assert_eq!(answer["arms"], arms);
    assert_eq!(
        (&answer["from"], answer["phases"].as_array().map(Vec::len)),
        (&answer["phases"][0]["from"], Some(1))
    );
    let roles: Vec<&Value> =
        answer["metrics"].as_array().expect("metrics").iter().map(|one| &one["role"]).collect();
    assert_eq!(roles, ["goal", "value", "guardrail"]);
    assert_eq!(answer["metrics"][1]["arms"][1]["sum"], json!(12.5));
    let exposed = answer["series"]["exposed"]["slow"].as_array().expect("a series");
    assert_eq!(exposed.iter().filter_map(Value::as_u64).sum::<u64>(), 60);
}

#[test]
fn the_list_has_the_published_experiments_with_their_places() {
    let server = server();
    let answer = ask(&server, "experiments?site=fjell");
    let list = answer["experiments"].as_array().expect("a list");
    let slow = list.iter().find(|one| one["key"] == "slow-front").expect("the experiment");
    assert_eq!([&slow["routes"], &slow["moreRoutes"]], [&json!(["/"]), &json!(0)]);
    assert_eq!(slow["goal"], "Order Placed");
    assert_eq!([&slow["exposed"], &slow["both"]], [&json!(60), &json!(10)]);
    assert_eq!(slow["alarms"], json!(["srm", "both_arms"]));
    assert!(slow["phase"].is_string() && slow["firstExposure"].is_string());
    let csv = Client::to(server.admin).request(
        "GET",
        "/insights/experiments?site=fjell",
        &[("Accept", "text/csv")],
    );
    let lines: Vec<&str> = csv.text().lines().collect();
    assert_eq!(lines[0], "key,published,phase,firstExposure,lastExposure,exposed,both,alarms");
    let line = lines.iter().find(|line| line.starts_with("slow-front,true,")).expect("the line");
    assert!(line.ends_with(",60,10,srm both_arms"), "{line}");
}

#[test]
fn weights_coverage_holdout_and_ranges_print_as_written() {
    let experiment = |key: &str, weights: &str| {
        let arms = &["default", "b", "c"][..weights.split(',').count()];
        format!(
            r#"{{"experiment":{{"key":"{key}","variants":{},"weights":[{weights}],"coverage":0.1,"holdout":0.05}}}}"#,
            json!(arms)
        )
    };
    let rules = [experiment("small", "0.95,0.05"), experiment("three", "0.1,0.2,0.7")].join(",");
    let zone = format!(r#"{{"default":[],"variants":{{"b":[],"c":[]}},"rules":[{rules}]}}"#);
    let route = format!(r#"{{"path":"/","layout":{{"root":{{"props":{{}}}},"zones":{{"z":{zone}}}}}}}"#);
    let site = r#"{"site":"acme","trackingId":"track_acme","name":"Acme"}"#;
    let bytes = snapshot(&[("site.json", site), ("routes/index.json", &route)], 1);
    let server = Server::start(&[("acme.snapshot", &bytes)], &[]);
    let list = server.admin_get("/insights/experiments?site=acme");
    for part in [
        r#"[{"key":"default","weight":0.95},{"key":"b","weight":0.05}],"coverage":0.1,"holdout":0.05"#,
        r#"[{"key":"default","weight":0.1},{"key":"b","weight":0.2},{"key":"c","weight":0.7}],"coverage":0.1"#,
    ] {
        assert!(list.body_contains(part), "{}", list.text());
    }
    let one = server.admin_get("/insights/experiment?site=acme&key=small&goal=Order+Placed");
    let arms =
        r#""arms":[{"key":"default","weight":0.95,"exposed":0},{"key":"b","weight":0.05,"exposed":0}]"#;
    assert!(one.body_contains(arms), "{}", one.text());
    let ranges = "[[0.0,0.01],[0.1,0.12],[0.3,0.37]]";
    let explained = server.admin_get("/v1/resolve?site=acme&route=/&explain=1&anonId=v");
    assert!(explained.body_contains(ranges), "{}", explained.text());
    let inspect = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
        command.arg("inspect").args(flags).arg(server.snapshots_directory().join("acme.snapshot"));
        String::from_utf8(command.output().expect("the program runs").stdout).expect("UTF-8")
    };
    let text = inspect(&[]);
    assert!(text.contains("experiment   small  default 0.95, b 0.05; coverage 0.1\n"), "{text}");
    assert!(text.contains("experiment   three  default 0.1, b 0.2, c 0.7; coverage 0.1\n"), "{text}");
    let json = inspect(&["--json"]).split_whitespace().collect::<String>();
    assert!(json.contains(r#""weights":[0.1,0.2,0.7],"coverages":[{"from":null,"share":0.1}]"#), "{json}");
}

#[test]
fn wrong_questions_about_experiments_are_refused_with_their_codes() {
    let server = server();
    let mut admin = Client::to(server.admin);
    for (query, status, code) in [
        ("experiment?site=fjell", 400, "invalid_param"),
        ("experiment?site=fjell&key=nobody", 400, "invalid_param"),
        ("experiment?site=fjell&key=slow-front&event=Order+Placed", 400, "invalid_param"),
        ("experiment?site=fjell&key=slow-front&key=x", 400, "repeated_param"),
        ("experiments?site=fjell&bots=yes", 400, "invalid_param"),
        ("experiments", 400, "missing_site"),
    ] {
        let response = admin.request("GET", &format!("/insights/{query}"), &[]);
        assert_eq!((response.status, response.json()["code"].as_str()), (status, Some(code)), "{query}");
    }
    let unknown = admin.request("GET", "/insights/experiment?site=fjell&key=nobody", &[]).json();
    assert_eq!(unknown["param"], "key");
}

#[test]
fn the_command_gives_the_same_answers_about_experiments() {
    let server = server();
    let run = |params: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
        command.args(["insights"]).arg(server.data()).args(params).args(["site=fjell", "--snapshots"]);
        command.arg(server.snapshots_directory()).output().expect("the program runs")
    };
    for (question, params) in [
        ("experiments?", vec!["experiments"]),
        ("experiment?key=slow-front&lift=0.1", vec!["experiment", "key=slow-front", "lift=0.1"]),
    ] {
        let printed = eventually("the command reads the same records and phases", || {
            let served = without_time(ask(&server, &format!("{question}&site=fjell")));
            let output = run(&[&params[..], &["--format", "json"]].concat());
            let printed = serde_json::from_slice(&output.stdout).ok().map(without_time);
            printed.filter(|printed| *printed == served)
        });
        assert_eq!(printed["alarms"].is_array(), question.starts_with("experiment?"));
    }
    let table = run(&["experiments"]);
    assert!(String::from_utf8_lossy(&table.stdout).starts_with("key "), "{table:?}");
    let unknown = run(&["experiment", "key=nobody"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&unknown.stderr).contains("key: expected the key of an experiment"),
        "{unknown:?}"
    );
}
