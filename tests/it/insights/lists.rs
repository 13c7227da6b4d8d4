//! Lists of values: the rows and the bytes that they end at.

use serde_json::{Value, json};

use parallax::testing::insights::{
    Answer, CountedLog, LIMIT_MAX, LIST_BYTES_MAX, Limits, Query, Question, Subject, answer_over,
};

use super::oracle::{NOW_MS, site};
use super::{Event, columns};

/// The memory of unsent responses that the admin address has.
const UNSENT_BYTES_MAX: usize = 4 * 1024 * 1024;
const PATH_BYTES: usize = 1024;

/// Returns a page event of one minute ago. Its path has this length. Path and visitor are those of the number alone.
fn page(number: usize, bytes: usize) -> Event {
    let path = format!("/{number:06}").into_bytes();
    let path = &*String::from_utf8([path, vec![b'x'; bytes - 7]].concat()).expect("UTF-8").leak();
    Event { path: Some(path), anon_id: Some(path), ..Event::page(NOW_MS - 60_000) }
}

/// Asks for the longest list. Little memory counts the values in several parts.
fn ask(subject: Subject, events: &[Event], memory_bytes: u64) -> Answer {
    let files = columns(events, &[events.len() / 2]);
    let limit = LIMIT_MAX.to_string();
    let params = [("of", "page"), ("limit", &limit)];
    let site = site();
    let query =
        Query::Views(Question::parse(subject, params.into_iter(), &site.zone, NOW_MS).expect("valid"));
    let limits = Limits { memory_bytes, is_over: &|| false };
    let files: Vec<_> = files.iter().collect();
    answer_over(&files, CountedLog::alone(events.len() as u64), &query, &site, NOW_MS, &limits)
        .expect("an answer")
}

fn rows_and_more<'a>(answer: &'a Answer, rows: &str) -> (usize, &'a Value) {
    (answer.document[rows].as_array().expect("rows").len(), &answer.document["more"])
}

#[test]
fn a_list_ends_at_the_bytes_of_its_values() {
    let full = LIST_BYTES_MAX / PATH_BYTES;
    let all_but_one: Vec<Event> = (1..full).map(|number| page(number, PATH_BYTES)).collect();
    for (last_bytes, expected) in [
        (PATH_BYTES - 1, (full, json!(0))),
        (PATH_BYTES, (full, json!(0))),
        (PATH_BYTES + 1, (full - 1, json!(1))),
    ] {
        let events = [&all_but_one[..], &[page(full, last_bytes)]].concat();
        for (subject, rows) in [(Subject::Top, "rows"), (Subject::Live, "pages")] {
            for memory_bytes in [1 << 20, 1 << 30] {
                let answer = ask(subject, &events, memory_bytes);
                assert_eq!(
                    rows_and_more(&answer, rows),
                    (expected.0, &expected.1),
                    "{rows}, {last_bytes} bytes, {memory_bytes}"
                );
            }
        }
    }
}

#[test]
fn a_list_has_as_many_rows_as_it_may_and_fits_the_unsent_responses() {
    for pages in [LIMIT_MAX - 1, LIMIT_MAX, LIMIT_MAX + 1] {
        let events: Vec<Event> = (0..pages).map(|number| page(number, LIST_BYTES_MAX / LIMIT_MAX)).collect();
        let answer = ask(Subject::Top, &events, 1 << 30);
        let more = json!(pages.saturating_sub(LIMIT_MAX));
        assert_eq!(rows_and_more(&answer, "rows"), (pages.min(LIMIT_MAX), &more));
        let csv = answer.to_csv();
        assert_eq!(csv.lines().count(), 1 + pages.min(LIMIT_MAX));
        let sizes = [answer.document.to_string().len(), csv.len()];
        assert!(sizes.iter().all(|bytes| *bytes < UNSENT_BYTES_MAX * 3 / 4), "{sizes:?}");
    }
}
