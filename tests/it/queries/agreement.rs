//! Responses equal a naive evaluation, whichever execution plan found the items.

use std::cell::Cell;

use parallax::testing::site::snapshot::format::ArchivedQuery;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use serde_json::{Map, Value as Json, json};

use super::collections::{Case, QueryRequest, case};
use super::{PublishedSite, item, oracle};
use crate::harness::times;

const LIMIT_DEFAULT: usize = 20;

/// Counts how often each execution plan and each kind of result was tested.
#[derive(Debug, Default)]
struct Coverage {
    indexed: Cell<usize>,
    partially_indexed: Cell<usize>,
    scanned: Cell<usize>,
    by_range: Cell<usize>,
    refused: Cell<usize>,
    partial_results: Cell<usize>,
    next_pages: Cell<usize>,
}

impl Coverage {
    fn record_plan(&self, query: &ArchivedQuery) {
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

    fn minimum(&self) -> usize {
        let coverage = [
            &self.indexed,
            &self.partially_indexed,
            &self.scanned,
            &self.by_range,
            &self.refused,
            &self.partial_results,
            &self.next_pages,
        ];
        coverage.into_iter().map(Cell::get).min().unwrap_or(0)
    }
}

fn count(times: &Cell<usize>) {
    times.set(times.get() + 1);
}

#[test]
fn queries_find_the_same_items_as_a_naive_evaluation() {
    let cases = times(1_000, 100_000);
    let coverage = Coverage::default();
    let config =
        ProptestConfig { cases: cases as u32, failure_persistence: None, ..ProptestConfig::default() };
    let run = TestRunner::new(config).run(&case(), |case| check_case(&case, &coverage));
    run.unwrap_or_else(|error| panic!("{error}"));
    assert!(coverage.minimum() > cases / 5, "{cases} cases: {coverage:?}");
}

fn check_case(case: &Case, coverage: &Coverage) -> TestCaseResult {
    let mut published = PublishedSite::new(&json!(case.items), &json!(case.queries));
    case.queries.keys().for_each(|key| coverage.record_plan(published.query(key)));
    for request in &case.requests {
        let query = &case.queries[&request.query];
        let declared = query["params"].as_object().expect("an object");
        match oracle::complete_params(declared, &request.params) {
            Some(values) => walk(&mut published, request, &values, case, coverage)?,
            None => {
                let answer = published.post(&request.query, json!({ "params": request.params }));
                prop_assert_eq!(answer.refusal(), (400, "invalid_param"), "{} of {:?}", query, request);
                count(&coverage.refused);
            }
        }
    }
    Ok(())
}

/// Requests page after page, by POST and by GET, and compares each page with the naive evaluation.
fn walk(
    published: &mut PublishedSite,
    request: &QueryRequest,
    values: &Map<String, Json>,
    case: &Case,
    coverage: &Coverage,
) -> TestCaseResult {
    let (key, query) = (&request.query, &case.queries[&request.query]);
    let expected: Vec<Json> = oracle::matching_items(query, values, &case.items)
        .into_iter()
        .map(|item| selected(item, query))
        .collect();
    let own = query["limit"].as_u64().map_or(LIMIT_DEFAULT, |limit| limit as usize);
    let limit = request.limit.unwrap_or(own);
    let (mut from, mut cursor) = (0, Json::Null);
    loop {
        let members = json!({ "params": request.params, "limit": request.limit, "cursor": cursor });
        let answer = published.post(key, members.clone());
        let to = expected.len().min(from + limit);
        prop_assert_eq!(answer.status, 200, "{:?}", answer);
        prop_assert_eq!(&answer.body["items"], &json!(expected[from..to]), "{} of {:?}", query, request);
        prop_assert_eq!(&answer.body["total"], &json!(expected.len()));
        prop_assert_eq!(answer.body["nextCursor"].is_null(), to == expected.len());
        prop_assert_eq!(&answer, &published.get(key, &members));
        cursor = answer.body["nextCursor"].clone();
        from = to;
        if cursor.is_null() {
            break;
        }
        count(&coverage.next_pages);
    }
    if (1..case.items.len()).contains(&expected.len()) {
        count(&coverage.partial_results);
    }
    Ok(())
}

/// Returns an item with only the fields that the query selects.
fn selected(item: &Json, query: &Json) -> Json {
    let mut item = item.clone();
    if let Some(names) = query["select"].as_array() {
        item["fields"].as_object_mut().expect("an object").retain(|name, _| names.contains(&json!(name)));
    }
    item
}

/// A column of numbers contains no item without a number. Such an item still matches if no bound is given.
#[test]
fn an_omitted_bound_excludes_no_item() {
    let items =
        json!([item("1", json!({ "n": 1 })), item("2", json!({ "n": [] })), item("3", json!({ "n": "x" }))]);
    let number = json!({ "type": "number", "optional": true });
    let queries = json!({ "q": {
        "collection": "c", "params": { "from": number, "to": number },
        "where": { "n": { "$gte": { "$param": "from" }, "$lte": { "$param": "to" } } },
    } });
    let mut published = PublishedSite::new(&items, &queries);
    assert_eq!(published.post("q", json!({})).ids(), ["1", "2", "3"]);
    assert_eq!(published.post("q", json!({ "params": { "to": 5 } })).ids(), ["1"]);
    assert_eq!(published.post("q", json!({ "params": { "from": 1, "to": 0 } })).ids(), [""; 0]);
}
