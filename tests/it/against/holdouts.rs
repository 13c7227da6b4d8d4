//! The change of the holdout of a site.

use serde_json::{Value, json};

use crate::command_line::Workspace;

/// A comparison of two holdouts.
struct Compared {
    /// The line about the holdout, and the change in the JSON document. `None` and null if nothing changes.
    line: Option<String>,
    change: Value,
    /// The number of warnings in the document.
    warnings: Value,
}

fn compare(before: &Value, after: &Value, experiment: &Value) -> Compared {
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
    let line = text.lines().find(|line| line.starts_with("holdout of the site: ")).map(str::to_owned);
    let document = workspace.run(&["lint", "after", "--against", "before", "--format", "json"]).out;
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let warnings = document["warningCount"].clone();
    assert!(
        text.ends_with(&format!(" {warnings} warning\n"))
            || text.ends_with(&format!(" {warnings} warnings\n")),
        "{text}"
    );
    Compared { line, change: document["holdout"].clone(), warnings }
}

#[test]
fn each_change_of_the_holdout_is_a_line_and_warns_if_an_experiment_runs() {
    let small = json!({ "share": 0.05, "seed": "q1" });
    let running = json!({ "key": "e", "variants": ["default", "b"], "goal": "page:/" });
    let mut later = running.clone();
    later["from"] = json!("2999-01-01T00:00:00Z");
    let into = "; warning: 1 experiment runs, and more visitors are held out of it";
    let out_of = "; warning: 1 experiment runs, and visitors of the holdout move into it";
    let both = "; warning: 1 experiment runs, and visitors move into it and out of it";
    let with = |member: &str, value: Value| {
        let mut holdout = small.clone();
        holdout[member] = value;
        holdout
    };
    for (before, after, kind, line, warning) in [
        (&Value::Null, &small, "new", "new (`share` 0.05, `seed` q1, `rules` false)", into),
        (&small, &Value::Null, "removed", "removed (`share` 0.05, `seed` q1, `rules` false)", out_of),
        (&small, &with("share", json!(0.1)), "new_phase", "new phase (`share` 0.05 -> 0.1)", into),
        (&small, &with("share", json!(0.01)), "new_phase", "new phase (`share` 0.05 -> 0.01)", out_of),
        (&small, &with("seed", json!("q2")), "new_phase", "new phase (`seed` q1 -> q2)", both),
        (&small, &with("rules", json!(true)), "rules", "other rules (`rules` false -> true)", ""),
    ] {
        for (experiment, running) in [(&running, 1), (&later, 0)] {
            let compared = compare(before, after, experiment);
            let warning = if running > 0 { warning } else { "" };
            assert_eq!(compared.line, Some(format!("holdout of the site: {line}{warning}")));
            assert_eq!(
                [&compared.change["change"], &compared.change["running"]],
                [&json!(kind), &json!(running)]
            );
            let warns = usize::from(!warning.is_empty());
            assert_eq!(compared.warnings, warns, "{line}");
            assert_eq!(compared.change["warning"].is_string(), warns > 0);
        }
    }
    let same = compare(&small, &small, &running);
    assert_eq!((same.line, same.change, same.warnings), (None, Value::Null, json!(0)));
}
