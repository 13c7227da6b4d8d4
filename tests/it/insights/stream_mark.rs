//! The place in the stream of a cluster, in each answer of a node.

use parallax::testing::insights::{
    Columns, CountedLog, ExperimentsQuestion, Limits, Places, Query, Question, Subject, Zone, ZonesQuestion,
    answer_over,
};
use parallax::testing::log::StreamMark;
use serde_json::{Value, json};

use super::experiments::{HOUR_MS, START_MS, columns, parse_known, site};
use super::split::{MEMORY_BYTES, exposures, halves, known};

const NOW_MS: i64 = START_MS + 20 * 24 * HOUR_MS;

/// Returns one question of each kind.
fn questions() -> Vec<Query> {
    let views = |subject| {
        let params = [("of", "page")].into_iter().filter(|_| subject != Subject::Overview);
        Query::Views(Question::parse(subject, params, &Zone::utc(), NOW_MS).expect("a question"))
    };
    let zones = ZonesQuestion::parse([("page", "/")].into_iter(), |_| Vec::new(), &Zone::utc(), NOW_MS);
    let experiment = parse_known("key=cta", |_| known(vec![halves(0)])).expect("a question");
    let listed = vec![(known(vec![halves(0)]), Places::default())];
    let experiments = ExperimentsQuestion::parse([].into_iter(), &Zone::utc(), NOW_MS, listed, false);
    vec![
        views(Subject::Overview),
        views(Subject::Top),
        views(Subject::Live),
        Query::Zones(zones.expect("a question")),
        Query::Experiment(Box::new(experiment)),
        Query::Experiments(experiments.expect("a question")),
    ]
}

#[test]
fn every_answer_of_a_node_names_its_place_in_the_stream() {
    let files = columns(&exposures(1, &[("cta:default", 5), ("cta:b", 5)]), 1_000);
    let files: Vec<&Columns> = files.iter().collect();
    let limits = Limits { memory_bytes: MEMORY_BYTES, is_over: &|| false };
    for query in questions() {
        let answer = |mark| {
            let log = CountedLog { last_seq: 9, mark };
            answer_over(&files, log, &query, &site(), NOW_MS, &limits).expect("an answer").document
        };
        let mark = StreamMark { chain: 0x00ab_12ef, erased_to: 1 << 60 };
        let (of_node, of_alone) = (answer(Some(mark)), answer(None));
        let members = ["seq", "chain", "erasedTo"].map(|name| of_node[name].clone());
        assert_eq!(members, [json!("9"), json!("00ab12ef"), json!("1152921504606846976")], "{query:?}");
        let members = ["chain", "erasedTo"].map(|name| of_alone.get(name).cloned());
        assert_eq!(members, [None::<Value>, None], "{query:?}");
    }
}
