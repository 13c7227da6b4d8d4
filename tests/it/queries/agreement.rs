//! What is answered is what an obvious evaluation finds, whichever way it was found.

use std::cell::Cell;

use parallax::site::snapshot::format::ArchivedQuery;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use serde_json::{Map, Value as Json, json};

use super::collections::{Case, Question, case};
use super::{Published, item, oracle};
use crate::harness::times;

const LIMIT_DEFAULT: usize = 20;

/// How often each way of finding was taken, so that none goes untested.
#[derive(Debug, Default)]
struct Ways {
    indexed: Cell<usize>,
    partially_indexed: Cell<usize>,
    scanned: Cell<usize>,
    by_range: Cell<usize>,
    refused: Cell<usize>,
    finding_some_but_not_all: Cell<usize>,
    over_pages: Cell<usize>,
}

impl Ways {
    fn note(&self, query: &ArchivedQuery) {
        match (query.scan.as_ref(), query.index.params.is_empty()) {
            (None, false) => count(&self.indexed),
            (None, true) => {}
            (Some(_), false) => count(&self.partially_indexed),
            (Some(_), true) => count(&self.scanned),
        }
        if query.scan.as_ref().is_some_and(|scan| !scan.columns.is_empty()) {
            count(&self.by_range);
        }
    }

    fn least(&self) -> usize {
        let ways = [
            &self.indexed,
            &self.partially_indexed,
            &self.scanned,
            &self.by_range,
            &self.refused,
            &self.finding_some_but_not_all,
            &self.over_pages,
        ];
        ways.into_iter().map(Cell::get).min().unwrap_or(0)
    }
}

fn count(times: &Cell<usize>) {
    times.set(times.get() + 1);
}

#[test]
fn queries_find_what_an_obvious_evaluation_finds() {
    let cases = times(1_000, 100_000);
    let ways = Ways::default();
    let config =
        ProptestConfig { cases: cases as u32, failure_persistence: None, ..ProptestConfig::default() };
    let run = TestRunner::new(config).run(&case(), |case| agrees(&case, &ways));
    run.unwrap_or_else(|error| panic!("{error}"));
    assert!(ways.least() > cases / 5, "{cases} cases: {ways:?}");
}

fn agrees(case: &Case, ways: &Ways) -> TestCaseResult {
    let mut published = Published::new(&json!(case.items), &json!(case.queries));
    case.queries.keys().for_each(|key| ways.note(published.query(key)));
    for question in &case.questions {
        let query = &case.queries[&question.query];
        let declared = query["params"].as_object().expect("an object");
        match oracle::completed(declared, &question.params) {
            Some(values) => walk(&mut published, question, &values, case, ways)?,
            None => {
                let answer = published.post(&question.query, json!({ "params": question.params }));
                prop_assert_eq!(answer.refusal(), (400, "invalid_param"), "{} of {:?}", query, question);
                count(&ways.refused);
            }
        }
    }
    Ok(())
}

/// Page after page, by POST and by GET.
fn walk(
    published: &mut Published,
    question: &Question,
    values: &Map<String, Json>,
    case: &Case,
    ways: &Ways,
) -> TestCaseResult {
    let (key, query) = (&question.query, &case.queries[&question.query]);
    let expected: Vec<Json> =
        oracle::found(query, values, &case.items).into_iter().map(|item| selected(item, query)).collect();
    let own = query["limit"].as_u64().map_or(LIMIT_DEFAULT, |limit| limit as usize);
    let limit = question.limit.unwrap_or(own);
    let (mut from, mut cursor) = (0, Json::Null);
    loop {
        let members = json!({ "params": question.params, "limit": question.limit, "cursor": cursor });
        let answer = published.post(key, members.clone());
        let to = expected.len().min(from + limit);
        prop_assert_eq!(answer.status, 200, "{:?}", answer);
        prop_assert_eq!(&answer.body["items"], &json!(expected[from..to]), "{} of {:?}", query, question);
        prop_assert_eq!(&answer.body["total"], &json!(expected.len()));
        prop_assert_eq!(answer.body["nextCursor"].is_null(), to == expected.len());
        prop_assert_eq!(&answer, &published.get(key, &members));
        cursor = answer.body["nextCursor"].clone();
        from = to;
        if cursor.is_null() {
            break;
        }
        count(&ways.over_pages);
    }
    if (1..case.items.len()).contains(&expected.len()) {
        count(&ways.finding_some_but_not_all);
    }
    Ok(())
}

/// An item with the fields that the query answers.
fn selected(item: &Json, query: &Json) -> Json {
    let mut item = item.clone();
    if let Some(names) = query["select"].as_array() {
        item["fields"].as_object_mut().expect("an object").retain(|name, _| names.contains(&json!(name)));
    }
    item
}

/// What has no number has no place in a column of numbers.
#[test]
fn a_bound_that_is_not_given_leaves_out_no_item() {
    let items =
        json!([item("1", json!({ "n": 1 })), item("2", json!({ "n": [] })), item("3", json!({ "n": "x" }))]);
    let number = json!({ "type": "number", "optional": true });
    let queries = json!({ "q": {
        "collection": "c", "params": { "from": number, "to": number },
        "where": { "n": { "$gte": { "$param": "from" }, "$lte": { "$param": "to" } } },
    } });
    let mut published = Published::new(&items, &queries);
    assert_eq!(published.post("q", json!({})).ids(), ["1", "2", "3"]);
    assert_eq!(published.post("q", json!({ "params": { "to": 5 } })).ids(), ["1"]);
    assert_eq!(published.post("q", json!({ "params": { "from": 1, "to": 0 } })).ids(), [""; 0]);
}
