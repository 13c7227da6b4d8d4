//! Heartbeats, logs, digests, and the list of erasures.

use parallax::testing::cluster::audit::{Difference, MARKS_KEPT, MARKS_SENT, Marks, was_away_too_long};
use parallax::testing::cluster::era::{Era, EraId};
use parallax::testing::cluster::filter::{NoEffect, Step};
use parallax::testing::cluster::message::{Sender, StreamMessage};
use parallax::testing::cluster::nodes::{ERASURE_KEPT_MS, ERASURES_KEPT_MAX, Erasure, SILENCE_MS_MAX};
use parallax::testing::cluster::old_records::first_allowed_seq;
use parallax::testing::cluster::order::order;
use parallax::testing::cluster::payloads::{Forget, Heartbeat, Hex, Mark, MemberSummary};
use parallax::testing::cluster::producer::{Predecessor, Producer, ProducerId};
use parallax::testing::cluster::saved;
use parallax::testing::cluster::seal::{SealKey, open, owner, payload_again, payloads};
use parallax::testing::cluster::state::PRODUCERS_MAX;
use parallax::testing::log::{LogId, VisitorIds};
use parallax::testing::record::{IdTag, Record, RecordKind};
use parallax::testing::visitors::store::table::Key;

use crate::rules::{Cluster, NOW_MS, id, node, record};

fn producer(number: u8, predecessors: &[u8]) -> Producer {
    let predecessor = |number: &u8| Predecessor { id: id(*number), base_seq: 1, changed_ms: NOW_MS };
    let predecessors = predecessors.iter().map(predecessor).collect();
    Producer { predecessors, ..Producer::first(LogId([number; 16])) }
}

/// Returns the heartbeat of a node whose instance and session have the byte of its name.
pub fn heartbeat(name: &str, erased_to: u64, oldest: u64) -> Heartbeat {
    let bits = Hex([name.as_bytes()[0]; 16]);
    Heartbeat {
        node: name.to_owned(),
        instance: bits,
        session: bits,
        position: 7,
        marks: vec![Mark { position: 3, chain: Hex([1; 16]), digest: Hex([2; 16]) }],
        erased_to,
        oldest,
        first_seq: 1,
        unreturned: 3,
        members: vec![MemberSummary { name: name.to_owned(), instance: bits, heard_ms: NOW_MS }],
    }
}

impl Cluster {
    /// Appends a heartbeat of a node at a time.
    pub fn beat(&mut self, from: &Producer, heartbeat: &Heartbeat, now_ms: i64) -> Step {
        let (header, payload) = heartbeat.to_message(self.state.era.id, from, now_ms);
        let bytes = self.encoder.encode(&header, &payload).expect("memory");
        self.step_from(node(&heartbeat.node), bytes, now_ms)
    }

    pub fn forget(&mut self, name: &str, now_ms: i64) -> Step {
        let forget = Forget { node: name.to_owned() };
        let (header, payload) = forget.to_message(self.state.era.id, now_ms);
        let bytes = self.encoder.encode(&header, &payload).expect("memory");
        self.step_from(Sender::Control, bytes, now_ms)
    }
}

fn tombstone(key: u128) -> Vec<u8> {
    let record = Record {
        received_ms: NOW_MS,
        key,
        payload: "{\"digests\":[]}",
        ..Record::new(RecordKind::Tombstone)
    };
    let mut bytes = Vec::new();
    record.encode(&mut bytes).expect("a small record");
    bytes
}

#[test]
fn a_heartbeat_survives_its_message_and_changes_the_state() {
    let mut cluster = Cluster::new();
    let (own, sent) = (producer(1, &[]), heartbeat("a", 5, 90));
    let Step::Heartbeat(from, read) = cluster.beat(&own, &sent, NOW_MS + 5) else { panic!("a heartbeat") };
    assert_eq!((from, &read), (id(1), &sent));
    let member = &cluster.state.nodes.members.0["a"];
    assert_eq!((member.producer, member.erased_to, member.oldest), (id(1), 5, 90));
    assert_eq!((member.since, member.heard_ms, cluster.state.position), (2, NOW_MS + 5, 2));
    assert_eq!(cluster.state.nodes.logs[&id(1)].first_seq, 1);
    assert!(cluster.state.producers.is_empty(), "a heartbeat accepts no record");
    let (header, _) = sent.to_message(cluster.state.era.id, &own, NOW_MS);
    let bytes = cluster.encoder.encode(&header, b"{\"node\":1}").expect("memory");
    assert!(matches!(cluster.step(bytes, NOW_MS), Step::NoEffect(NoEffect::Malformed)));
}

#[test]
fn a_log_leaves_the_state_after_30_days_of_silence_unless_a_member_sends_under_it() {
    let mut cluster = Cluster::new();
    cluster.fold(id(1), 1, &[record(1, 2)], NOW_MS);
    cluster.fold(id(2), 1, &[record(2, 2)], NOW_MS);
    cluster.beat(&producer(2, &[]), &heartbeat("a", 0, 0), NOW_MS);
    // The clock of the state moves with the greatest time of sender and stream.
    cluster.state.clock_ms = NOW_MS + SILENCE_MS_MAX - 1;
    cluster.beat(&producer(3, &[]), &heartbeat("c", 0, 0), NOW_MS);
    assert!(cluster.state.producers.contains_key(&id(1)));
    cluster.state.clock_ms = NOW_MS + SILENCE_MS_MAX;
    cluster.beat(&producer(3, &[]), &heartbeat("c", 0, 0), NOW_MS);
    assert_eq!(cluster.state.producers.keys().collect::<Vec<_>>(), [&id(2)], "the log of a member stays");
    assert_eq!(cluster.state.nodes.logs.keys().collect::<Vec<_>>(), [&id(2), &id(3)]);
    let away = Producer { returned_seq: 1, returned_ms: NOW_MS - 1, ..producer(1, &[]) };
    assert!(was_away_too_long(&away, &cluster.state), "its entry has left the state");
    let recent = Producer { returned_ms: NOW_MS, ..away };
    assert!(!was_away_too_long(&recent, &cluster.state), "the stream has lost its messages");
}

#[test]
fn an_erasure_leaves_the_list_when_each_member_has_confirmed_it() {
    let mut cluster = Cluster::new();
    for (number, name) in [(1, "a"), (2, "b"), (3, "c")] {
        cluster.beat(&producer(number, &[]), &heartbeat(name, 0, 0), NOW_MS);
    }
    cluster.fold(id(1), 1, &[tombstone(77), tombstone(77), tombstone(79)], NOW_MS);
    let ids = |cluster: &Cluster| cluster.state.nodes.erasures.iter().map(|one| one.id).collect::<Vec<_>>();
    assert_eq!(ids(&cluster), [77, 79], "one that arrives twice takes effect once");
    let position = cluster.state.position;
    cluster.beat(&producer(1, &[]), &heartbeat("a", position, 0), NOW_MS);
    cluster.beat(&producer(2, &[]), &heartbeat("b", position - 1, 0), NOW_MS);
    cluster.beat(&producer(3, &[]), &heartbeat("c", position, 0), NOW_MS);
    assert_eq!(ids(&cluster).len(), 2, "one node has not confirmed");
    let saved = cluster.state.save();
    assert_eq!(saved::decode(&saved::encode(&saved)).as_ref(), Some(&saved), "checkpoints have the list");
    let message = StreamMessage { position: 1, stream_ms: NOW_MS, sender: Sender::Control, bytes: [0; 0] };
    let founded = saved.founded(Era { id: EraId([9; 16]), ..saved.era.clone() }, &message).nodes;
    assert!(founded.erasures.iter().all(|one| one.position == 1), "positions are of the new era");
    assert!(
        founded.members.0.values().all(|one| (one.erased_to, one.since) == (0, 1)),
        "each node confirms again"
    );
    let unconfirmed = |cluster: &Cluster| {
        let nodes = &cluster.state.nodes;
        nodes.erasures.iter().map(|one| nodes.unconfirmed(one)).collect::<Vec<_>>()
    };
    assert_eq!(unconfirmed(&cluster), [["b"], ["b"]]);
    cluster.forget("b", NOW_MS);
    assert_eq!(unconfirmed(&cluster), [[""; 0], [""; 0]], "a removed member need not confirm");
}

#[test]
fn a_confirmed_erasure_stays_in_the_list_for_90_days() {
    let mut cluster = Cluster::new();
    cluster.beat(&producer(1, &[]), &heartbeat("a", 0, 0), NOW_MS);
    cluster.fold(id(1), 1, &[tombstone(77)], NOW_MS);
    let erased_ms = cluster.state.nodes.erasures[0].erased_ms;
    assert_eq!(erased_ms, NOW_MS);
    let position = cluster.state.position;
    for (age_ms, is_listed) in
        [(ERASURE_KEPT_MS - 1, true), (ERASURE_KEPT_MS, false), (ERASURE_KEPT_MS + 1, false)]
    {
        let mut later = Cluster::new();
        later.state = cluster.state.save().restore(1);
        later.state.clock_ms = NOW_MS + age_ms;
        later.beat(&producer(1, &[]), &heartbeat("a", position - 1, 0), NOW_MS);
        assert_eq!(later.state.nodes.erasures.len(), 1, "one that is not confirmed stays");
        later.beat(&producer(1, &[]), &heartbeat("a", position, 0), NOW_MS);
        assert_eq!(later.state.nodes.erasures.len(), usize::from(is_listed), "{age_ms}");
    }
}

#[test]
fn the_list_keeps_9000_confirmed_erasures() {
    for (confirmed, oldest) in [(8_999, 1), (9_000, 1), (9_001, 2)] {
        let mut cluster = Cluster::new();
        let new = |position: u64| Erasure {
            id: position.into(),
            position,
            order: order(position, 0),
            erased_ms: NOW_MS,
            site: String::new(),
            payload: String::new(),
        };
        cluster.state.nodes.erasures = (1..=confirmed + 5).map(new).collect();
        cluster.beat(&producer(1, &[]), &heartbeat("a", confirmed, 0), NOW_MS);
        let erasures = &cluster.state.nodes.erasures;
        assert_eq!(erasures[0].id, oldest, "{confirmed}");
        assert_eq!(erasures.last().map(|last| last.position), Some(confirmed + 5));
        assert_eq!(erasures.len(), ERASURES_KEPT_MAX.min(confirmed as usize) + 5);
    }
}

#[test]
fn the_floor_is_the_least_oldest_order_and_never_falls() {
    let mut cluster = Cluster::new();
    cluster.fold(id(1), 1, &[record(1, 2)], NOW_MS);
    assert_eq!(cluster.state.nodes.floor(), 0, "no member");
    cluster.beat(&producer(1, &[]), &heartbeat("a", 0, order(1, 4)), NOW_MS);
    cluster.beat(&producer(2, &[]), &heartbeat("b", 0, u64::MAX), NOW_MS);
    assert_eq!(cluster.state.nodes.floor(), order(1, 4));
    cluster.beat(&producer(1, &[]), &heartbeat("a", 0, order(1, 2)), NOW_MS);
    assert_eq!(cluster.state.nodes.floor(), order(1, 4), "a lower value has no effect");
    cluster.beat(&producer(1, &[]), &heartbeat("a", 0, u64::MAX), NOW_MS);
    assert_eq!(cluster.state.nodes.floor(), order(4, 0), "the heartbeat of a node without records");
}

#[test]
fn a_restored_log_may_not_begin_before_the_first_seq_of_its_heartbeats() {
    let mut cluster = Cluster::new();
    let (first, second) = (producer(1, &[]), producer(2, &[1]));
    let beat = |first_seq| Heartbeat { first_seq, ..heartbeat("a", 0, 0) };
    assert_eq!(first_allowed_seq(&first, &cluster.state.nodes), 0, "no heartbeat");
    cluster.beat(&first, &beat(300), NOW_MS);
    cluster.beat(&first, &beat(200), NOW_MS);
    let saved = cluster.state.save();
    assert_eq!(saved::decode(&saved::encode(&saved)).as_ref(), Some(&saved), "checkpoints have it");
    let allowed = |producer: &Producer, cluster: &Cluster| first_allowed_seq(producer, &cluster.state.nodes);
    assert_eq!(allowed(&first, &cluster), 300, "it never falls");
    // The backup ended at seq 100. What follows under the new ID was never told.
    for (base_seq, expected) in [(101, 101), (299, 299), (300, 300), (301, 300), (900, 300)] {
        let restored = Producer { base_seq, ..second.clone() };
        assert_eq!(allowed(&restored, &cluster), expected, "{base_seq}");
    }
    cluster.beat(&Producer { base_seq: 101, ..second.clone() }, &beat(150), NOW_MS);
    assert_eq!(allowed(&Producer { base_seq: 101, ..second }, &cluster), 150, "its own heartbeat counts");
    assert_eq!(allowed(&producer(3, &[]), &cluster), 0, "that of another node does not");
}

#[test]
fn heartbeats_beyond_4096_producer_ids_have_no_effect() {
    let mut cluster = Cluster::new();
    for number in 0..PRODUCERS_MAX as u128 {
        cluster.state.nodes.logs.insert(ProducerId(number.to_be_bytes()), Default::default());
    }
    let beat = cluster.beat(&producer(77, &[]), &heartbeat("x", 0, 0), NOW_MS);
    assert!(matches!(beat, Step::NoEffect(NoEffect::TooManyProducers)), "{beat:?}");
    let known = Producer { id: ProducerId(5u128.to_be_bytes()), ..producer(5, &[]) };
    assert!(matches!(cluster.beat(&known, &heartbeat("x", 0, 0), NOW_MS), Step::Heartbeat(..)));
}

#[test]
fn two_nodes_compare_their_tables_at_equal_positions() {
    let (mut own, mut other) = (Marks::default(), Marks::default());
    for position in 1..=MARKS_KEPT as u64 + 10 {
        own.push(position, [3; 16], 1);
        other.push(position, [3; 16], 1);
    }
    assert_eq!(other.newest().len(), MARKS_SENT);
    assert_eq!(own.first_difference(&other.newest()), None);
    let mark = |position, chain, digest: u128| Mark {
        position,
        chain: Hex([chain; 16]),
        digest: Hex(digest.to_be_bytes()),
    };
    assert_eq!(own.first_difference(&[mark(20, 3, 1), mark(30, 3, 2)]), Some(Difference::Digest(30)));
    assert_eq!(own.first_difference(&[mark(30, 4, 1)]), Some(Difference::Chain(30)), "other content");
    assert_eq!(own.first_difference(&[mark(10, 4, 2), mark(99, 4, 2)]), None, "too old, and not reached");
    own.push(30, [3; 16], 2);
    assert_eq!(own.first_difference(&[mark(31, 3, 7)]), None, "the state was loaded again from 30 on");
}

fn visitor(ids: usize) -> VisitorIds {
    let tag = |number: usize| IdTag(std::array::from_fn(|i| (number >> (8 * (i % 3))) as u8));
    VisitorIds {
        site: "shop".to_owned(),
        owner: tag(ids),
        named: (0..ids).map(tag).collect(),
        hashes: (0..ids as u64).collect(),
        ..VisitorIds::default()
    }
}

#[test]
fn only_the_key_of_the_cluster_opens_the_sealed_part_of_a_tombstone() {
    let (key, other) = (SealKey([1; 32]), SealKey([2; 32]));
    let keys = [Key([1, 2]), Key([u64::MAX, 0])];
    let payloads = payloads(&key, &visitor(2), &keys, || 77);
    let [(77, payload)] = &payloads[..] else { panic!("{payloads:?}") };
    let opened = open(&key, 77, payload).expect("a sealed part");
    assert_eq!((&*opened.keys, &*opened.hashes), (&keys[..], &[0, 1][..]));
    assert_eq!(owner(payload), Some(visitor(2).owner));
    assert_ne!(open(&other, 77, payload), Some(opened.clone()));
    assert_ne!(open(&key, 78, payload), Some(opened.clone()), "each tombstone has another keystream");
    let again = payload_again(&key, 77, payload, 78).expect("a sealed part");
    assert_eq!(open(&key, 78, &again), Some(opened));
    assert_eq!(
        open(&key, 77, r#"{"owner":"00","erased":[]}"#),
        None,
        "a tombstone of a server that was alone"
    );
}

#[test]
fn a_visitor_with_more_than_1024_ids_gets_several_tombstones_and_beyond_8192_no_hashes() {
    let mut ids = 0;
    let mut parts = |count| {
        payloads(&SealKey([1; 32]), &visitor(count), &[], || {
            ids += 1;
            ids
        })
    };
    assert_eq!([1, 1_024, 1_025].map(|count| parts(count).len()), [1, 1, 2]);
    for (count, hashes) in [(8_192, 8_192), (8_193, 0)] {
        for (id, payload) in parts(count) {
            assert_eq!(open(&SealKey([1; 32]), id, &payload).expect("a sealed part").hashes.len(), hashes);
        }
    }
}
