//! The change of the holdout of a site.

use serde_json::{Value, json};

use crate::command_line::Workspace;

/// Returns the lines of the comparison between the first and the last one, and the change in the JSON document.
fn compare(before: &Value, after: &Value, experiment: &Value) -> (Vec<String>, Value) {
    let workspace = Workspace::new();
    let rules = json!([{ "experiment": experiment }]);
    let zone = json!({ "default": [], "variants": { "b": [] }, "rules": rules });
    let layout = json!({ "root": { "props": {} }, "zones": { "hero": zone } });
    let page = json!({ "path": "/", "layout": layout }).to_string();
    for (side, holdout) in [("before", before), ("after", after)] {
        let mut site = json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme" });
        if !holdout.is_null() {
            site["holdout"] = holdout.clone();
        }
        workspace.write(&format!("{side}/site.json"), &site.to_string());
        workspace.write(&format!("{side}/routes/index.json"), &page);
    }
    let text = workspace.run(&["lint", "after", "--against", "before"]).out;
    let lines: Vec<String> = text.lines().skip(2).map(str::to_owned).collect();
    let document = workspace.run(&["lint", "after", "--against", "before", "--format", "json"]).out;
    let document: Value = serde_json::from_str(&document).expect("JSON");
    (lines[..lines.len() - 1].to_vec(), document["holdout"].clone())
}

#[test]
fn each_change_of_the_holdout_is_a_line_and_warns_if_an_experiment_runs() {
    let small = json!({ "share": 0.05, "seed": "q1" });
    let running = json!({ "key": "e", "variants": ["default", "b"], "goal": "page:/" });
    let mut later = running.clone();
    later["from"] = json!("2999-01-01T00:00:00Z");
    let warning = "; warning: 1 experiment runs, and visitors move into it or out of it";
    for (before, after, kind, line, warns) in [
        (Value::Null, small.clone(), "new", "new (`share` 0.05, `seed` q1, `rules` false)", true),
        (small.clone(), Value::Null, "removed", "removed (`share` 0.05, `seed` q1, `rules` false)", true),
        (
            small.clone(),
            json!({ "share": 0.1, "seed": "q1" }),
            "new_phase",
            "new phase (`share` 0.05 -> 0.1)",
            true,
        ),
        (
            small.clone(),
            json!({ "share": 0.05, "seed": "q2" }),
            "new_phase",
            "new phase (`seed` q1 -> q2)",
            true,
        ),
        (
            small.clone(),
            json!({ "share": 0.05, "seed": "q1", "rules": true }),
            "rules",
            "other rules (`rules` false -> true)",
            false,
        ),
    ] {
        for (experiment, count) in [(&running, 1), (&later, 0)] {
            let (lines, document) = compare(&before, &after, experiment);
            let warning = if warns && count > 0 { warning } else { "" };
            assert_eq!(lines, [format!("holdout of the site: {line}{warning}")]);
            assert_eq!([&document["change"], &document["running"]], [&json!(kind), &json!(count)]);
        }
    }
    let (lines, document) = compare(&small, &small, &running);
    assert_eq!((lines, document), (Vec::new(), Value::Null));
}
