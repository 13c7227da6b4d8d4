//! `parallax lint --against --data`: the known visitors who enter or leave an audience.

use serde_json::{Value, json};

use crate::command_line::Workspace;
use crate::harness::{Server, snapshot};

const SITE: &str = r#"{"site":"acme","trackingId":"track_acme","name":"Acme"}"#;
const PAGE: &str = r#"{"path":"/","layout":{"root":{"props":{}},"zones":{}}}"#;

fn before() -> Value {
    json!({
        "a-country": { "when": { "country": "DE" } },
        "gone": { "when": { "visitor.pageViews": { "$gte": 2 } } },
        "named": { "when": { "$not": { "$audience": "views" } } },
        "same": { "when": { "country": "NO" } },
        "views": { "when": { "visitor.pageViews": { "$gte": 2 } } },
        "wider": { "when": { "$or": [{ "visitor.pageViews": 1 }, { "country": "DE" }] } },
    })
}

fn after() -> Value {
    json!({
        "a-country": { "when": { "country": "AT" } },
        "added": { "when": { "visitor.pageViews": 1 } },
        "named": { "when": { "$not": { "$audience": "views" } } },
        "same": { "when": { "country": "NO" } },
        "views": { "when": { "visitor.pageViews": { "$gte": 3 } } },
        "wider": { "when": { "$or": [{ "visitor.pageViews": { "$lt": 3 } }, { "country": "DE" }] } },
    })
}

fn write(workspace: &Workspace, directory: &str, audiences: &Value) {
    workspace.write(&format!("{directory}/site.json"), SITE);
    workspace.write(&format!("{directory}/audiences.json"), &audiences.to_string());
    workspace.write(&format!("{directory}/routes/index.json"), PAGE);
}

/// Starts a server whose visitors have 1, 2 and 3 page views and no country.
fn start() -> Server {
    let acme = snapshot(
        &[("site.json", SITE), ("audiences.json", &before().to_string()), ("routes/index.json", PAGE)],
        1,
    );
    let other = snapshot(&[("site.json", &SITE.replace("acme", "other")), ("routes/index.json", PAGE)], 1);
    let server = Server::start(&[("acme.snapshot", &acme), ("other.snapshot", &other)], &[]);
    let view = |id: &str| json!({ "type": "page", "anonId": id, "properties": { "path": "/" } });
    let events: Vec<Value> = ["v1", "v2", "v2", "v3", "v3", "v3"].map(view).to_vec();
    for (site, events) in [("acme", events), ("other", vec![view("v1")])] {
        let body = json!({ "batch": events }).to_string();
        let response = server.post(&format!("/v1/batch?site={site}"), &[], body.as_bytes());
        assert_eq!(response.json()["accepted"], events.len(), "{}", response.text());
    }
    server
}

#[test]
fn the_known_visitors_who_enter_or_leave_an_audience_are_counted() {
    let workspace = Workspace::new();
    write(&workspace, "before", &before());
    write(&workspace, "after", &after());
    let server = start();
    let data = server.data().to_string_lossy().into_owned();
    let compared = workspace.run(&["lint", "after", "--against", "before", "--data", &data]);
    compared.assert_exit(0, &[]);
    let lines: Vec<&str> = compared.out.lines().filter(|line| line.starts_with("audience ")).collect();
    assert_eq!(
        lines,
        [
            // A request can be of any country.
            "audience a-country: changed; 0 to 3 of 3 known visitors enter or leave it",
            "audience added: new; 1 of 3 known visitors enter or leave it",
            "audience gone: removed; 2 of 3 known visitors enter or leave it",
            "audience named: changed; 1 of 3 known visitors enter or leave it",
            "audience views: changed; 1 of 3 known visitors enter or leave it",
            // v1 stays, v2 can enter, and v3 can be in either.
            "audience wider: changed; 0 to 2 of 3 known visitors enter or leave it",
        ]
    );
    let arguments = ["lint", "after", "--against", "before", "--data", &data, "--format", "json"];
    let document: Value = serde_json::from_str(&workspace.run(&arguments).out).expect("JSON");
    assert_eq!(document["profiles"], 3);
    let expected = json!({ "name": "a-country", "change": "changed", "atLeast": 0, "atMost": 3 });
    assert_eq!(document["audiences"][0], expected);
}
