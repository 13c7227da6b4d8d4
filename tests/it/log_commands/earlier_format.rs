//! A data directory with segments of log format 2, as an earlier program wrote it.

use std::path::Path;

use serde_json::Value;

use super::{as_arg, run, segments};
use crate::harness::{Server, copy_of_golden};

/// Events of the directory `tests/golden/log-2`.
const EVENTS: usize = 13;

fn exported(data: &Path) -> Vec<Value> {
    let output = run(&["export", as_arg(data)]);
    output.out.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

#[test]
fn a_server_starts_on_log_format_2_and_exports_all_events_as_they_are() {
    let directory = copy_of_golden("log-2");
    let before = exported(directory.path());
    assert_eq!(before.len(), EVENTS);
    let old = directory.path().join("00000000000000000001.segment");
    run(&["inspect", as_arg(&old)]).assert_exit(0, &["format 2, first seq 1"]);

    let server = Server::start_with_data(directory.path(), &[], &[]);
    let records = server.admin_get("/metrics");
    assert!(records.body_contains("parallax_log_"), "the server runs");
    drop(server);

    let after = exported(directory.path());
    assert_eq!(after, before);
    for (i, line) in after.iter().enumerate() {
        assert_eq!(line["seq"], (i + 1).to_string());
        assert!(line["timestamp"].is_string() && line["payload"].is_object(), "{line}");
        assert_eq!((&line["clientTimestamp"], &line["sentAt"]), (&Value::Null, &Value::Null));
    }
    run(&["inspect", as_arg(&old)]).assert_exit(0, &["format 2, first seq 1"]);
    let newest = segments(directory.path()).pop().expect("a segment");
    run(&["inspect", as_arg(&newest)]).assert_exit(0, &["format 4, first seq"]);
}
