//! The order of the records of all inputs, and their duplicates, compared with a naive import in memory.

use std::collections::BTreeSet;

use parallax::testing::events::time;
use serde_json::{Value, json};

use super::{assert_sound, column, event_line, lines, run, text, write_lines};
use crate::dice::Dice;
use crate::harness::{temporary_directory, times};

/// A time at which the lines of these tests were received: 1 January 2026.
const BASE_MS: i64 = 1_767_225_600_000;

fn time_text(ms: i64) -> String {
    let mut text = Vec::new();
    time::write(&mut text, ms);
    String::from_utf8(text).expect("ASCII")
}

/// A line, as the naive import sees it.
struct Plain {
    received_ms: i64,
    message_id: String,
    anon_id: String,
}

/// Returns the anonymous IDs in the order of an import: stable by the time of receipt, the first of each message ID.
fn naive_import(inputs: &[Vec<Plain>]) -> Vec<String> {
    let mut all: Vec<&Plain> = inputs.iter().flatten().collect();
    all.sort_by_key(|line| line.received_ms);
    let mut seen = BTreeSet::new();
    all.retain(|line| seen.insert(&line.message_id));
    all.into_iter().map(|line| line.anon_id.clone()).collect()
}

/// Returns lines with times and message IDs that repeat within and across the inputs.
fn random_inputs(dice: &mut Dice, line_count: usize) -> Vec<Vec<Plain>> {
    let input = |input: usize, dice: &mut Dice| {
        let line = |line: usize| Plain {
            received_ms: BASE_MS + dice.below(line_count) as i64 * 60_000,
            message_id: format!("m{}", dice.below(line_count * 2)),
            anon_id: format!("v{input}-{line}"),
        };
        (0..line_count).map(line).collect()
    };
    (0..3).map(|number| input(number, dice)).collect()
}

#[test]
fn the_order_and_the_duplicates_are_those_of_a_naive_import() {
    for round in 0..times(4, 100) {
        let mut dice = Dice(round as u64);
        // The last rounds have more runs than one merge reads.
        let line_count = if round % 4 == 3 { 2_000 } else { dice.below(80) + 1 };
        let inputs = random_inputs(&mut dice, line_count);
        let expected = naive_import(&inputs);
        let parent = temporary_directory();
        let directory_first = dice.below(2) == 0;
        let mut args = vec!["import".to_owned()];
        for (number, input) in inputs.iter().enumerate() {
            let line =
                |line: &Plain| event_line(&time_text(line.received_ms), &line.message_id, &line.anon_id);
            let lines: Vec<Value> = input.iter().map(line).collect();
            let file = write_lines(&parent.path().join(format!("{number}.ndjson")), &lines);
            let is_directory = number == 0 && directory_first;
            if is_directory {
                // Directories come before files.
                let data = parent.path().join("first");
                run(&["import", text(&file), "-o", text(&data)]).assert(0, &[]);
                args.extend(["--merge".to_owned(), text(&data).to_owned()]);
            } else {
                args.push(text(&file).to_owned());
            }
        }
        let target = parent.path().join("data");
        let settings = ["-o", text(&target), "--sort-memory", "4096", "--segment-bytes", "65536"];
        args.extend(settings.map(str::to_owned));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let duplicates = inputs.iter().map(Vec::len).sum::<usize>() - expected.len();
        let import = run(&args);
        import.assert(0, &[&format!("imported {} record", expected.len())]);
        if !directory_first {
            import.assert(0, &[&format!("left out {duplicates} duplicate")]);
        }
        assert_eq!(column(&target, "anonId"), expected, "round {round}");
        assert_sound(&target);
    }
}

#[test]
fn a_line_without_a_receipt_is_ordered_by_its_sending() {
    let parent = temporary_directory();
    let mut sent = event_line("", "m2", "sent");
    sent.as_object_mut().expect("an object").remove("receivedAt");
    sent["sentAt"] = json!("2026-01-02T00:00:00.000Z");
    let lines = [
        event_line("2026-01-03T00:00:00Z", "m1", "third"),
        sent,
        event_line("2026-01-01T00:00:00Z", "m3", "first"),
    ];
    let file = write_lines(&parent.path().join("events"), &lines);
    let target = parent.path().join("data");
    run(&["import", text(&file), "-o", text(&target)]).assert(0, &[]);
    assert_eq!(column(&target, "anonId"), ["first", "sent", "third"]);
    assert_eq!(column(&target, "receivedAt")[1], "2026-01-02T00:00:00.000Z");
}

#[test]
fn lines_of_one_log_keep_its_order_unless_the_clock_was_wrong() {
    let parent = temporary_directory();
    let line = |seq: u64, ms: i64, anon_id: &str| {
        let mut line = event_line(&time_text(BASE_MS + ms), &format!("m{anon_id}"), anon_id);
        line["seq"] = json!(seq.to_string());
        line
    };
    let hour_ms = 3_600_000;
    let lines_of_log = [
        line(1, 500, "a"),
        line(2, 400, "b"),
        line(5, 600, "c"),
        line(6, 3 * hour_ms, "late"),
        line(7, 700, "d"),
        line(3, 100, "early"),
    ];
    let file = write_lines(&parent.path().join("events"), &lines_of_log);
    let target = parent.path().join("data");
    run(&["import", text(&file), "-o", text(&target)]).assert(0, &[]);
    assert_eq!(column(&target, "anonId"), ["early", "a", "b", "c", "d", "late"]);
    assert_eq!(lines(&target).len(), 6);
}
