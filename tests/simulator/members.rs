//! The rules of members at their bounds, and the messages that their senders may not send.

use parallax::testing::cluster::era::{Era, EraId};
use parallax::testing::cluster::filter::{NoEffect, Step};
use parallax::testing::cluster::identity::{Identity, InstanceId, SessionId};
use parallax::testing::cluster::members::{MEMBERS_MAX, Membership, REACHABLE_MS, Standing};
use parallax::testing::cluster::message::{Header, Kind, Sender};
use parallax::testing::cluster::payloads::{Heartbeat, Hex, STATUS_REQUEST, control_header};
use parallax::testing::cluster::producer::{Producer, ProducerId};
use parallax::testing::cluster::saved;
use parallax::testing::log::LogId;

use crate::audit::heartbeat;
use crate::rules::{Cluster, Log, NOW_MS, id, node, producer, record};

/// Returns a heartbeat of the node `a` with this instance and session, from a state at `position`.
fn beat_of(instance: u8, session: u8, position: u64) -> Heartbeat {
    Heartbeat { instance: Hex([instance; 16]), session: Hex([session; 16]), position, ..heartbeat("a", 0, 0) }
}

fn sender_of(number: u8) -> Producer {
    Producer::first(LogId([number; 16]))
}

fn identity(name: &str, instance: u8, session: u8) -> Identity {
    let random = [[instance; 16], [session; 16]];
    Identity::of_start(None, name, random)
}

#[test]
fn another_instance_takes_a_name_after_30_s_of_silence() {
    for (silence_ms, takes) in [(REACHABLE_MS - 1, false), (REACHABLE_MS, true), (REACHABLE_MS + 1, true)] {
        let mut cluster = Cluster::new();
        cluster.beat(&sender_of(1), &beat_of(1, 1, 1), NOW_MS);
        let step = cluster.beat(&sender_of(2), &beat_of(2, 2, 9), NOW_MS + silence_ms);
        let member = &cluster.state.nodes.members.0["a"];
        assert_eq!(matches!(step, Step::Heartbeat(..)), takes, "{silence_ms}: {step:?}");
        assert_eq!(member.instance == InstanceId([2; 16]), takes, "{silence_ms}");
        assert_eq!(member.producer == id(2), takes, "{silence_ms}");
        assert!(takes || matches!(step, Step::NoEffect(NoEffect::NameInUse)));
    }
}

#[test]
fn a_restart_takes_its_name_at_once_and_keeps_the_confirmed_erasures() {
    let mut cluster = Cluster::new();
    let confirmed = Heartbeat { erased_to: 5, oldest: 70, ..beat_of(1, 1, 1) };
    cluster.beat(&sender_of(1), &confirmed, NOW_MS);
    cluster.beat(&sender_of(1), &beat_of(1, 2, 9), NOW_MS + 1);
    let member = cluster.state.nodes.members.0["a"].clone();
    assert_eq!((member.session, member.since), (SessionId([2; 16]), 3));
    assert_eq!((member.erased_to, member.oldest), (5, 70));
    cluster.beat(&sender_of(1), &beat_of(1, 2, 9), NOW_MS + 2);
    assert_eq!(cluster.state.nodes.members.0["a"].since, 3, "the session goes on");
    cluster.beat(&sender_of(2), &beat_of(2, 3, 9), NOW_MS + 2 + REACHABLE_MS);
    let other = &cluster.state.nodes.members.0["a"];
    assert_eq!((other.erased_to, other.oldest), (0, 0), "another disk confirms again");
}

#[test]
fn a_late_heartbeat_of_an_earlier_session_has_no_effect() {
    let mut cluster = Cluster::new();
    cluster.beat(&sender_of(1), &beat_of(1, 1, 1), NOW_MS);
    cluster.beat(&sender_of(1), &beat_of(1, 2, 2), NOW_MS);
    let since = cluster.state.nodes.members.0["a"].since;
    for (position, takes) in [(since - 1, false), (since, true)] {
        let mut later = Cluster::new();
        later.state = cluster.state.save().restore(1);
        let step = later.beat(&sender_of(1), &beat_of(1, 1, position), NOW_MS);
        assert_eq!(matches!(step, Step::Heartbeat(..)), takes, "{position}: {step:?}");
        assert!(takes || matches!(step, Step::NoEffect(NoEffect::EarlierSession)));
    }
}

#[test]
fn a_removed_member_is_one_again_with_its_next_heartbeat() {
    let mut cluster = Cluster::new();
    cluster.beat(&sender_of(1), &beat_of(1, 1, 1), NOW_MS);
    cluster.beat(&sender_of(2), &heartbeat("b", 0, 0), NOW_MS);
    assert!(matches!(cluster.forget("a", NOW_MS), Step::Forget(_)));
    assert_eq!(cluster.state.nodes.members.0.keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(cluster.fold(id(1), 1, &[record(1, 2)], NOW_MS), [1], "its records take effect");
    cluster.beat(&sender_of(1), &beat_of(1, 1, 1), NOW_MS);
    assert_eq!(cluster.state.nodes.members.0.len(), 2);
    assert!(matches!(cluster.forget("nobody", NOW_MS), Step::Forget(_)));
}

#[test]
fn a_member_is_reachable_for_30_s_after_its_heartbeat() {
    let mut cluster = Cluster::new();
    cluster.beat(&sender_of(1), &beat_of(1, 1, 1), NOW_MS);
    cluster.beat(&sender_of(2), &heartbeat("b", 0, 0), NOW_MS + 1);
    let members = &cluster.state.nodes.members;
    assert_eq!(members.unreachable(NOW_MS + REACHABLE_MS - 1), [""; 0]);
    assert_eq!(members.unreachable(NOW_MS + REACHABLE_MS), ["a"]);
}

#[test]
fn a_cluster_has_at_most_256_members() {
    let mut cluster = Cluster::new();
    for number in 0..MEMBERS_MAX as u128 {
        let from = Producer { id: ProducerId((number + 1_000).to_be_bytes()), ..sender_of(0) };
        let step = cluster.beat(&from, &heartbeat(&format!("n{number}"), 0, 0), NOW_MS);
        assert!(matches!(step, Step::Heartbeat(..)), "{number}: {step:?}");
    }
    let beyond = cluster.beat(&sender_of(7), &heartbeat("beyond", 0, 0), NOW_MS);
    assert!(matches!(beyond, Step::NoEffect(NoEffect::TooManyMembers)), "{beyond:?}");
    let known = Producer { id: ProducerId(1_005u128.to_be_bytes()), ..sender_of(0) };
    assert!(matches!(cluster.beat(&known, &heartbeat("n5", 0, 0), NOW_MS), Step::Heartbeat(..)));
    let saved = cluster.state.save();
    assert_eq!(saved::decode(&saved::encode(&saved)).as_ref(), Some(&saved), "checkpoints have all of them");
    cluster.forget("n9", NOW_MS);
    assert!(matches!(cluster.beat(&sender_of(7), &heartbeat("beyond", 0, 0), NOW_MS), Step::Heartbeat(..)));
}

#[test]
fn a_process_knows_its_standing() {
    let mut cluster = Cluster::new();
    let mut first = Membership::new(identity("a", 1, 1));
    let mut second = Membership::new(identity("a", 2, 2));
    let standing = |membership: &mut Membership, cluster: &Cluster| {
        membership.standing(&cluster.state.nodes.members, cluster.state.clock_ms)
    };
    assert_eq!(standing(&mut first, &cluster), Standing::Applicant);
    cluster.beat(&sender_of(1), &beat_of(1, 1, 1), NOW_MS);
    assert_eq!(standing(&mut first, &cluster), Standing::Member);
    assert_eq!(standing(&mut second, &cluster), Standing::NameInUse);
    cluster.forget("a", NOW_MS);
    assert_eq!(standing(&mut first, &cluster), Standing::Applicant, "removed, and not banned");
    cluster.beat(&sender_of(1), &beat_of(1, 1, 4), NOW_MS);
    cluster.beat(&sender_of(2), &heartbeat("b", 0, 0), NOW_MS + REACHABLE_MS);
    assert_eq!(standing(&mut second, &cluster), Standing::Applicant, "the other one is silent");
    cluster.beat(&sender_of(2), &beat_of(2, 2, 9), NOW_MS + REACHABLE_MS);
    assert_eq!(standing(&mut second, &cluster), Standing::Member);
    assert_eq!(standing(&mut first, &cluster), Standing::Replaced);
    first.on_loaded();
    assert_eq!(
        standing(&mut first, &cluster),
        Standing::NameInUse,
        "an earlier state can have earlier members"
    );
}

#[test]
fn an_instance_belongs_to_a_directory_and_a_name() {
    let first = Identity { has_joined: true, ..identity("a", 1, 1) };
    let text = first.to_text();
    assert_eq!(
        text,
        format!("{{\"format\":1,\"name\":\"a\",\"instance\":\"{}\",\"hasJoined\":true}}\n", "01".repeat(16))
    );
    let again = Identity::of_start(Some(&text), "a", [[8; 16], [9; 16]]);
    assert_eq!(again, Identity { session: SessionId([9; 16]), ..first });
    let new = |text: &str, name| Identity::of_start(Some(text), name, [[8; 16], [9; 16]]);
    let fresh = Identity {
        name: "a".to_owned(),
        instance: InstanceId([8; 16]),
        session: SessionId([9; 16]),
        has_joined: false,
    };
    assert_eq!(new(&text, "b"), Identity { name: "b".to_owned(), ..fresh.clone() }, "a copied machine");
    for damaged in ["", "{}", &text[..40], &text.replace("\"format\":1", "\"format\":2")] {
        assert_eq!(new(damaged, "a"), fresh, "{damaged}");
    }
}

/// Appends a message of each kind with the rights of each sender. Returns the kinds that have an effect.
#[test]
fn a_kind_has_an_effect_from_its_sender_only() {
    let forged = Era { id: EraId([9; 16]), ..Cluster::new().state.era };
    let messages = |cluster: &mut Cluster| {
        let era_id = cluster.state.era.id;
        let (beat_header, beat) = heartbeat("a", 0, 0).to_message(era_id, &sender_of(1), NOW_MS);
        let (forget_header, forget) =
            parallax::testing::cluster::payloads::Forget { node: "b".to_owned() }.to_message(era_id, NOW_MS);
        let (era_header, era) = forged.to_message(NOW_MS);
        let status = control_header(Kind::StatusRequest, era_id, NOW_MS);
        let mut encode =
            |header: &Header, payload: &[u8]| cluster.encoder.encode(header, payload).expect("memory");
        let mut encoded = vec![
            (Kind::Heartbeat, encode(&beat_header, &beat)),
            (Kind::Forget, encode(&forget_header, &forget)),
            (Kind::Era, encode(&era_header, &era)),
            (Kind::StatusRequest, encode(&status, STATUS_REQUEST)),
        ];
        encoded.push((Kind::Run, cluster.message(id(1), 1, 1, &[record(1, 2)])));
        encoded
    };
    for (sender, allowed) in [
        (node("a"), vec![Kind::Heartbeat, Kind::Run]),
        (Sender::Control, vec![Kind::Forget, Kind::Era, Kind::StatusRequest]),
    ] {
        for (kind, bytes) in messages(&mut Cluster::new()) {
            let mut cluster = Cluster::new();
            cluster.beat(&sender_of(2), &heartbeat("b", 0, 0), NOW_MS);
            let before = cluster.state.save();
            let step = cluster.step_from(sender.clone(), bytes, NOW_MS + 5);
            let is_forbidden = matches!(step, Step::NoEffect(NoEffect::Forbidden(of)) if of == kind);
            assert_eq!(is_forbidden, !allowed.contains(&kind), "{kind:?} of {sender:?}: {step:?}");
            if is_forbidden {
                let after = cluster.state.save();
                assert_eq!((after.nodes, after.producers), (before.nodes, before.producers));
                assert_eq!((after.position, after.clock_ms), (before.position + 1, before.clock_ms));
            }
        }
    }
}

#[test]
fn a_node_sends_in_its_own_name_and_under_its_own_producer_id_only() {
    let mut cluster = Cluster::new();
    cluster.fold(id(1), 1, &[record(1, 2)], NOW_MS);
    assert_eq!(cluster.state.node_of(id(1)), "a");
    let run = cluster.message(id(1), 1, 2, &[record(2, 2)]);
    let step = cluster.step_from(node("b"), run.clone(), NOW_MS);
    assert!(matches!(step, Step::NoEffect(NoEffect::OtherNode)), "{step:?}");
    assert!(matches!(cluster.step_from(node("a"), run, NOW_MS), Step::Accepted(_)));
    let (header, payload) = heartbeat("a", 0, 0).to_message(cluster.state.era.id, &sender_of(5), NOW_MS);
    let bytes = cluster.encoder.encode(&header, &payload).expect("memory");
    let step = cluster.step_from(node("b"), bytes, NOW_MS);
    assert!(matches!(step, Step::NoEffect(NoEffect::OtherNode)), "another name: {step:?}");
    let step = cluster.beat(&sender_of(1), &heartbeat("b", 0, 0), NOW_MS);
    assert!(matches!(step, Step::NoEffect(NoEffect::OtherNode)), "another producer: {step:?}");
    assert!(cluster.state.nodes.members.0.is_empty());
}

#[test]
fn a_copy_under_another_name_sends_the_rest_under_a_producer_id_of_its_own() {
    use parallax::testing::cluster::follow::Follower;
    let mut cluster = Cluster::new();
    let own = Producer { returned_seq: 2, ..sender_of(1) };
    let log = Log::new(1..=4);
    let mut follower = Follower::new(own, true);
    let mut leave = |cluster: &Cluster, name| follower.on_other_node(&cluster.state, &log, name, id(9));
    assert_eq!(leave(&cluster, "b"), None, "nobody sends under the ID");
    cluster.fold(id(1), 1, &[record(1, 2), record(2, 2), record(3, 2)], NOW_MS);
    assert_eq!(leave(&cluster, "a"), None, "the original");
    assert_eq!(leave(&cluster, "b"), Some(2), "seq 3 is not compared yet");
    assert_eq!(leave(&cluster, "b"), None, "once");
    assert_eq!((follower.producer.id, follower.producer.base_seq, follower.is_saved), (id(9), 3, false));
    let restored = Producer { returned_seq: 0, ..producer(3, &[]) };
    let mut other = Follower::new(Producer { id: id(1), ..restored }, true);
    assert_eq!(other.on_other_node(&cluster.state, &log, "b", id(8)), Some(2), "not before its base seq");
}
