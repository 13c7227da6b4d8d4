//! `GET /insights/funnel`, `/insights/retention`, `/insights/paths` and `/insights/engagement`.

use serde_json::{Value, json};

use super::problem;
use crate::harness::{Client, Server};

/// Two visitors that go from the front page to the contact page, and one of them to an order.
fn server() -> Server {
    let server = Server::demo();
    let page = |visitor: &str, path: &str| json!({ "type": "page", "anonId": visitor, "properties": { "path": path } });
    let order = json!({ "type": "track", "anonId": "a", "event": "=Order" });
    let events = [page("a", "/"), page("b", "/"), page("a", "/kontakt"), page("b", "/kontakt"), order];
    let body = json!({ "batch": events }).to_string();
    let response = server.post("/v1/batch?site=fjell", &[], body.as_bytes());
    assert_eq!(response.json()["accepted"], 5, "{}", response.text());
    server
}

fn ask(server: &Server, target: &str) -> Value {
    let response = server.admin_get(&format!("/insights/{target}"));
    assert_eq!(response.status, 200, "{}", response.text());
    let answer = response.json();
    assert!(answer["sql"].as_str().is_some_and(|sql| sql.starts_with("with recorded as")), "{answer}");
    assert_eq!(answer["seq"], "5");
    answer
}

fn csv(server: &Server, target: &str) -> Vec<String> {
    let headers = [("Accept", "text/csv")];
    let response = Client::to(server.admin).request("GET", &format!("/insights/{target}"), &headers);
    assert_eq!(response.field("content-type"), Some("text/csv; charset=utf-8"));
    response.text().split_terminator("\r\n").map(str::to_owned).collect()
}

#[test]
fn a_funnel_has_its_steps_and_the_next_pages_of_those_that_left() {
    let server = server();
    let target = "funnel?site=fjell&step=page:/&step=%3DOrder&step=page:/kontakt&by=country";
    let answer = ask(&server, target);
    let reached: Vec<_> = (0..3).map(|step| answer["steps"][step]["reached"].clone()).collect();
    assert_eq!(reached, [2, 1, 0]);
    let left = json!({ "count": 1, "exits": 0, "next": [{ "value": "/kontakt", "count": 1 }], "more": 0 });
    assert_eq!(answer["steps"][0]["left"], left);
    assert_eq!(answer["steps"][1]["ofFirst"], 0.5);
    assert_eq!(answer["rows"][0]["value"], Value::Null);
    let lines = csv(&server, target);
    assert_eq!(lines[0], "value,number,step,reached,ofFirst,ofBefore,medianMs");
    assert!(lines[2].starts_with(",2,'=Order,1,0.5,0.5,"), "{lines:?}");
    assert_eq!(lines[3], ",3,page:/kontakt,0,0,0,");
}

#[test]
fn a_funnel_by_experiment_has_the_arms_of_exposed_visitors() {
    let server = Server::demo();
    let page = |visitor: &str, path: &str, experiments: Option<&str>| {
        let mut page = json!({ "type": "page", "anonId": visitor, "properties": { "path": path } });
        page["experiments"] = json!(experiments);
        page
    };
    let arms = [("a", "default"), ("b", "slow"), ("c", "slow"), ("d", "slow"), ("d", "default"), ("e", "~")];
    let mut events: Vec<Value> = arms
        .into_iter()
        .map(|(visitor, arm)| page(visitor, "/", Some(&format!("slow-front:{arm}"))))
        .collect();
    // The step of `f` is before its exposure, and `b` is the only one that reaches the second step after it.
    events.push(page("f", "/", None));
    events.push(page("f", "/kontakt", Some("slow-front:default")));
    events.push(page("b", "/kontakt", None));
    events.push(page("d", "/kontakt", None));
    let body = json!({ "batch": events }).to_string();
    assert_eq!(server.post("/v1/batch?site=fjell", &[], body.as_bytes()).json()["accepted"], 10);
    let target = "funnel?site=fjell&step=page:/&step=page:/kontakt&by=experiment:slow-front";
    let answer = server.admin_get(&format!("/insights/{target}")).json();
    assert_eq!(answer["by"], "experiment:slow-front");
    let reached = |steps: &Value| [steps[0]["reached"].clone(), steps[1]["reached"].clone()];
    assert_eq!(reached(&answer["steps"]), [6, 3]);
    let rows = answer["rows"].as_array().expect("rows").iter();
    let rows: Vec<_> = rows.map(|row| (row["value"].as_str(), reached(&row["steps"]))).collect();
    let numbers = |first: u64, second: u64| [json!(first), json!(second)];
    let expected =
        [(Some("slow"), numbers(2, 1)), (Some("default"), numbers(1, 0)), (Some("~"), numbers(1, 0))];
    assert_eq!(rows, expected);
    assert_eq!(csv(&server, target)[1], "slow,1,page:/,2,1,,");
}

#[test]
fn retention_paths_and_engagement_answer_as_json_and_csv() {
    let server = server();
    let retention = ask(&server, "retention?site=fjell&by=day&return=page:/k*");
    let cohorts = retention["cohorts"].as_array().expect("cohorts");
    let last = cohorts.last().expect("the present day");
    let visitors: u64 = cohorts.iter().filter_map(|cohort| cohort["visitors"].as_u64()).sum();
    assert_eq!(visitors, 2, "{retention}");
    assert_eq!(last["returned"].as_array().map(Vec::len), Some(1));
    assert_eq!(csv(&server, "retention?site=fjell")[0], "t,time,visitors,period,returned,share");
    let paths = ask(&server, "paths?site=fjell&page=/");
    let order = json!({ "kind": "event", "value": "=Order", "visits": 1, "ofPage": 0.5, "ofBefore": 0.5, "exits": 1, "next": [], "more": 0 });
    let contact = json!({ "kind": "page", "value": "/kontakt", "visits": 2, "ofPage": 1.0, "ofBefore": 1.0, "exits": 1, "next": [order], "more": 0 });
    assert_eq!(paths["next"], json!([contact]));
    let lines = csv(&server, "paths?site=fjell&page=/");
    assert_eq!(
        lines,
        [
            "level,before,kind,value,visits,ofPage,ofBefore",
            "1,,page,/kontakt,2,1,1",
            "2,/kontakt,event,'=Order,1,0.5,0.5"
        ]
    );
    let before = ask(&server, "paths?site=fjell&page=/kontakt&direction=before");
    assert_eq!((&before["entries"], &before["next"][0]["entries"]), (&json!(0), &json!(2)));
    let engagement = ask(&server, "engagement?site=fjell");
    let totals = &engagement["totals"];
    assert_eq!([&totals["visits"], &totals["bounces"], &totals["views"]], [2, 0, 4]);
    assert_eq!(totals["viewsPerVisit"], 2.0);
    assert_eq!(csv(&server, "engagement?site=fjell").len(), 31);
}

#[test]
fn wrong_questions_about_journeys_are_refused() {
    let server = Server::demo();
    for (target, expected, param) in [
        ("funnel?site=fjell&step=page:/", (400, "invalid_param"), Some("step")),
        ("funnel?site=fjell&step=a&step=b&by=experiment:none", (400, "invalid_param"), Some("by")),
        ("funnel?site=fjell&step=a&step=b&limit=101", (400, "invalid_limit"), Some("limit")),
        ("retention?site=fjell&by=month", (400, "invalid_param"), Some("by")),
        ("paths?site=fjell", (400, "invalid_param"), Some("page")),
        ("paths?site=fjell&page=/&page=/a", (400, "repeated_param"), Some("page")),
        ("engagement?site=fjord", (404, "site_not_found"), Some("site")),
    ] {
        let response = server.admin_get(&format!("/insights/{target}"));
        assert_eq!(problem(&response), (expected.0, expected.1.into()), "{target}");
        assert_eq!(response.json()["param"].as_str(), param, "{target}");
    }
}
