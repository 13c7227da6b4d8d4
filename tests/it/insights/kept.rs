//! Counts over sealed segments that are kept for the next answer, against a naive count.

use proptest::prelude::*;
use proptest::sample::select;

use parallax::testing::insights::{
    AnswerCache, Columns, CountedLog, Limits, LogColumns, Query, Question, Subject, answer_cached,
};

use super::oracle::{HOUR_MS, MINUTE_MS, NOW_MS, START_MS, any_event, any_params, check, site};
use super::{Event, columns};

#[test]
fn counts_over_sealed_segments_are_used_again_until_a_segment_is_sealed() {
    let page = |minute: i64| Event::page(START_MS + minute * MINUTE_MS);
    let events: Vec<Event> = (0..40).map(page).collect();
    let (site, files) = (site(), columns(&events, &[10, 10]));
    let sealed: Vec<&Columns> = files.iter().collect();
    let mut cache = AnswerCache::default();
    let range = [("from", "2026-01-05"), ("to", "2026-01-06")];
    let question = Question::parse(Subject::Overview, range.into_iter(), &site.zone, NOW_MS).expect("valid");
    let query = Query::Views(question);
    let limits = Limits { memory_bytes: 1 << 30, is_over: &|| false };
    let mut ask = |sealed: &[&Columns], tail: &[Event]| {
        let tail = columns(tail, &[]);
        let files = LogColumns { sealed, tail: tail.last() };
        let answer = answer_cached(files, &mut cache, CountedLog::alone(9), &query, &site, NOW_MS, &limits)
            .expect("an answer");
        (answer.document["totals"]["views"].as_u64(), cache.hits())
    };
    assert_eq!(ask(&sealed[..2], &events[20..25]), (Some(25), 0));
    assert_eq!(ask(&sealed[..2], &events[20..30]), (Some(30), 1));
    assert_eq!(ask(&sealed, &[]), (Some(40), 1));
    assert_eq!(ask(&sealed, &events[..1]), (Some(41), 2));
}

#[test]
fn a_late_event_before_all_others_changes_no_count_twice() {
    let of_user =
        |hour: i64| Event { anon_id: None, user_id: Some("1"), ..Event::page(START_MS + hour * HOUR_MS) };
    let events = [of_user(38), Event::page(START_MS + 38 * HOUR_MS), Event::page(START_MS), of_user(38)];
    let (site, sealed) = (site(), columns(&events[..1], &[]));
    let sealed: Vec<&Columns> = sealed.iter().collect();
    let mut cache = AnswerCache::default();
    let params = [("from", "2026-01-06T02:00"), ("to", "2026-01-07"), ("of", "source")];
    let question = Question::parse(Subject::Top, params.into_iter(), &site.zone, NOW_MS).expect("valid");
    let query = Query::Views(question);
    let limits = Limits { memory_bytes: 1 << 30, is_over: &|| false };
    let mut views = |tail: &[Event]| {
        let tail = columns(tail, &[]);
        let files = LogColumns { sealed: &sealed, tail: tail.last() };
        let answer = answer_cached(files, &mut cache, CountedLog::alone(9), &query, &site, NOW_MS, &limits)
            .expect("an answer");
        answer.document["total"]["views"].as_u64()
    };
    assert_eq!(views(&events[1..2]), Some(2));
    assert_eq!(views(&events[1..]), Some(3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_number_is_right_while_the_tail_grows_and_counts_over_sealed_segments_are_kept(
        events in proptest::collection::vec(any_event(), 0..120),
        lengths in proptest::collection::vec(0..40_usize, 1..4),
        growth in proptest::collection::vec(0..30_usize, 1..4),
        params in any_params(),
        memory_bytes in select(vec![2_000, 60_000, 1 << 30]),
    ) {
        let (site, files) = (site(), columns(&events, &lengths));
        // The last file is the tail.
        let sealed: Vec<&Columns> = files[..files.len() - 1].iter().collect();
        let sealed_events = lengths.iter().sum::<usize>().min(events.len());
        let limits = Limits { memory_bytes, is_over: &|| false };
        let pairs = || params.iter().map(|(name, value)| (*name, value.as_str()));
        let mut cache = AnswerCache::default();
        let mut known = sealed_events;
        for grown in growth {
            known = (known + grown).min(events.len());
            let tail = columns(&events[sealed_events..known], &[]);
            let mut ask = |subject: Subject| {
                let question = Question::parse(subject, pairs(), &site.zone, NOW_MS).expect("valid parameters");
                let query = Query::Views(question.clone());
                let files = LogColumns { sealed: &sealed, tail: tail.last() };
                let answer = answer_cached(files, &mut cache, CountedLog::alone(9), &query, &site, NOW_MS, &limits).expect("an answer");
                (question, answer.document)
            };
            let (_, of) = params.iter().find(|(name, _)| *name == "of").expect("a group");
            check(&events[..known], ask(Subject::Overview), None)?;
            check(&events[..known], ask(Subject::Top), Some(of))?;
        }
    }
}
