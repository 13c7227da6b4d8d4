//! The notes of a directory about its erasures: the rules at their bounds, and the file `erased`.

use parallax::testing::cluster::erase::{
    ARRIVAL_MS, Absence, ErasedRecord, ErasureNote, NOTES_MAX, NotedErasures, UNDER_WAY_MAX, absence,
};
use parallax::testing::cluster::erased_file::{from_text, to_text};
use parallax::testing::cluster::message::{RunRecord, dedup_key, push_record};
use parallax::testing::cluster::nodes::Erasure;
use parallax::testing::record::Record;

use crate::event::void;
use crate::rules::{Log, NOW_MS, id, producer, record};

fn note<O>(id: u128, owner: O) -> ErasureNote<O> {
    ErasureNote {
        id,
        last_seq: 9,
        returned: 3,
        tombstone_ms: NOW_MS,
        is_done: true,
        has_too_many_records: false,
        owner: Some(owner),
    }
}

fn records(seqs: impl Iterator<Item = u64>) -> Vec<ErasedRecord> {
    seqs.map(|seq| ErasedRecord { seq, key: u128::from(seq) + 1_000 }).collect()
}

fn run_record(bytes: &[u8]) -> RunRecord<'_> {
    let (record, _) = Record::decode(bytes).expect("a record");
    RunRecord { seq: 1, bytes, record, key: dedup_key(&record) }
}

#[test]
fn an_erased_record_that_takes_effect_later_needs_a_second_tombstone() {
    let content = record(1, 2);
    let voided = void(&content);
    let (sent, void_form) = (run_record(&content), run_record(&voided));
    let erased = || {
        let mut erased = NotedErasures::default();
        erased.add(note(1, "v1"), &[ErasedRecord { seq: 4, key: sent.key }]);
        erased
    };
    let (is_erased, is_not_erased) = (|_: &_| true, |_: &_| false);
    assert_eq!(erased().on_accepted(&sent, true, is_erased), Some("v1"));
    assert_eq!(erased().on_accepted(&sent, false, is_erased), None, "it took effect before the erasure");
    let mut noted = erased();
    assert_eq!(noted.on_accepted(&void_form, true, is_erased), None);
    assert_eq!(noted.on_accepted(&sent, true, is_not_erased), None, "it is read again, before the erasure");
    assert_eq!(noted.on_accepted(&sent, true, is_erased), Some("v1"), "its key has left the window");
    noted = erased();
    noted.forget_returned(3, NOW_MS);
    assert_eq!(noted, erased());
    assert_eq!(
        erased().take_unseen(4, is_erased),
        [("v1", vec![sent.key])],
        "a loaded state hides the order"
    );
    assert!(erased().take_unseen(4, is_not_erased).is_empty(), "it has no tombstone yet");
    noted.forget_returned(4, NOW_MS);
    assert_eq!(noted.on_accepted(&sent, true, is_erased), None, "it has returned");
}

#[test]
fn an_erasure_covers_the_records_before_it_for_a_minute_and_until_all_have_returned() {
    let mut erased = NotedErasures::default();
    erased.add(note(1, "v1"), &[]);
    erased.add(ErasureNote { last_seq: 5, tombstone_ms: NOW_MS + 7, ..note(2, "v2") }, &[]);
    let candidates = |erased: &NotedErasures<&'static str>, seq, received_ms, absence| {
        let bytes = record(0, 2);
        let mut record = RunRecord { seq, ..run_record(&bytes) };
        record.record.received_ms = received_ms;
        erased.candidates(&record, absence).copied().collect::<Vec<_>>()
    };
    let unreadable = |erased: &_, seq| candidates(erased, seq, i64::MAX, Absence::Unreadable);
    assert_eq!(unreadable(&erased, 5), ["v1", "v2"]);
    assert_eq!(unreadable(&erased, 6), ["v1"], "a later record of v2 belongs to a new visitor");
    assert!(unreadable(&erased, 10).is_empty());
    let lost = |received_ms| candidates(&erased, u64::MAX, received_ms, Absence::Lost);
    assert_eq!(lost(NOW_MS), ["v1", "v2"], "the seq of a lost record tells nothing");
    assert_eq!(lost(NOW_MS + 7), ["v2"]);
    assert!(lost(NOW_MS + 8).is_empty());
    let late_ms = NOW_MS + 7 + ARRIVAL_MS;
    erased.forget_returned(8, late_ms);
    assert_eq!((unreadable(&erased, 5), erased.is_settled()), (vec!["v1"], false));
    erased.forget_returned(9, NOW_MS + ARRIVAL_MS - 1);
    assert_eq!(unreadable(&erased, 5), ["v1"], "a message can be on its way");
    erased.forget_returned(9, NOW_MS + ARRIVAL_MS);
    assert_eq!((unreadable(&erased, 5), erased.is_settled()), (Vec::new(), true));
    erased.reopen(2, &"v2");
    assert_eq!(unreadable(&erased, 5), ["v2"], "the tombstone was accepted again");
}

#[test]
fn the_own_log_does_not_have_damaged_and_lost_records() {
    let log = Log(vec![Some(record(1, 2)), None, Some(record(3, 2))]);
    let own = producer(3, &[(1, 1)]);
    let mut bytes = Vec::new();
    assert!(push_record(&mut bytes, &record(1, 2)));
    let from =
        |name, seq, node| absence(&own, id(name), node, &RunRecord { seq, ..run_record(&bytes) }, &log, "a");
    let of = |name, seq| from(name, seq, if name == 5 { "b" } else { "a" });
    assert_eq!(of(1, 1), None, "the log has it");
    assert_eq!(of(1, 2), Some(Absence::Unreadable));
    assert_eq!(of(1, 3), Some(Absence::Lost), "the present ID carries this seq");
    assert_eq!(of(99, 3), Some(Absence::Lost), "the log has another record");
    assert_eq!(of(99, 4), Some(Absence::Lost), "after the end of the log");
    assert_eq!(of(5, 2), None, "of another node");
    assert_eq!(from(5, 2, "a"), Some(Absence::Lost), "of an earlier disk of this node");
}

#[test]
fn an_erasure_with_too_many_records_under_way_keeps_none_of_them() {
    let mut erased = NotedErasures::default();
    erased.add(note(1, "v1"), &records(1..2));
    let most = UNDER_WAY_MAX as u64;
    erased.add(note(2, "v2"), &records(2..most + 1));
    assert_eq!(
        (erased.get(2).map(|note| note.has_too_many_records), erased.records_of(2).count()),
        (Some(false), UNDER_WAY_MAX - 1)
    );
    erased.add(note(3, "v3"), &records(most + 1..most + 2));
    assert_eq!(
        (erased.get(3).map(|note| note.has_too_many_records), erased.records_of(3).count()),
        (Some(true), 0)
    );
    assert_eq!(erased.records_of(1).count(), 1, "the others keep theirs");
}

#[test]
fn the_oldest_note_is_dropped_at_the_limit() {
    let mut erased = NotedErasures::default();
    for id in 0..NOTES_MAX as u128 {
        erased.add(note(id, "v1"), if id == 0 { &[ErasedRecord { seq: 1, key: 7 }] } else { &[] });
    }
    assert!(erased.get(0).is_some());
    erased.add(note(NOTES_MAX as u128, "v1"), &[]);
    assert!(erased.get(0).is_none() && erased.get(1).is_some());
    assert_eq!((erased.notes().len(), erased.records_of(0).count()), (NOTES_MAX, 0));
}

/// The specified text of three notes: done, interrupted, and done with no record under way.
const TEXT: &str = r#"{"id":"00000000000000000000000000000001","lastSeq":"9","returned":"3","tombstoneMs":"1767607200000","isDone":true,"hasTooManyRecords":false,"erasure":{"position":"7","order":"458752","erasedMs":"1767607200000","site":"acme","payload":"{}"},"records":[["4","000000000000000000000000000003ec"],["5","000000000000000000000000000003ed"]]}
{"id":"ffffffffffffffffffffffffffffffff","lastSeq":"18446744073709551615","returned":"0","tombstoneMs":"1767607200000","isDone":false,"hasTooManyRecords":true,"erasure":{"position":"7","order":"458752","erasedMs":"1767607200000","site":"acme","payload":"{}"},"records":[]}
{"id":"00000000000000000000000000000003","lastSeq":"9","returned":"3","tombstoneMs":"1767607200000","isDone":true,"hasTooManyRecords":false,"erasure":null,"records":[]}
"#;

#[test]
fn the_file_of_a_directory_has_its_erasures() {
    let erasure = |id| Erasure {
        id,
        position: 7,
        order: 7 << 16,
        erased_ms: NOW_MS,
        site: "acme".to_owned(),
        payload: "{}".to_owned(),
    };
    let mut erased = NotedErasures::default();
    erased.add(note(1, erasure(1)), &records(4..6));
    let interrupted = ErasureNote {
        last_seq: u64::MAX,
        returned: 0,
        is_done: false,
        has_too_many_records: true,
        ..note(u128::MAX, erasure(u128::MAX))
    };
    erased.add(interrupted, &records(6..7));
    erased.add(ErasureNote { owner: None, ..note(3, erasure(3)) }, &[]);
    assert_eq!(to_text(&erased), TEXT);
    assert_eq!(from_text(TEXT), erased);
    let damaged = TEXT.replacen("\"isDone\"", "\"isdone\"", 1);
    assert_eq!(from_text(&damaged).notes(), &erased.notes()[1..], "a line that cannot be read is ignored");
    assert!(from_text("").notes().is_empty());
}
