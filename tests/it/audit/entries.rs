//! The JSON of a line, and its limits.

use std::net::IpAddr;

use parallax::testing::audit::{Actor, ActorKind, AuditAction, AuditEntry, AuditLine, AuditOutcome, Subject};
use parallax::testing::limits::{AUDIT_DETAIL_BYTES_MAX, AUDIT_NAME_BYTES_MAX, AUDIT_RECORD_BYTES_MAX};
use parallax::testing::record::{IdKind, TombstoneKey, VisitorId};

fn text(entry: &AuditEntry) -> String {
    String::from_utf8(entry.to_json(1_796_010_126_123)).expect("JSON is UTF-8")
}

fn subject(id: &str) -> Subject {
    Subject::of(&TombstoneKey::new([7; 32]), VisitorId { site: "acme", id_kind: IdKind::Anon, id })
}

#[test]
fn a_line_has_its_members_in_a_fixed_order() {
    let client: IpAddr = "203.0.113.7".parse().expect("an address");
    let entry = AuditEntry::new(AuditAction::Erase, Actor::new(ActorKind::Operator), AuditOutcome::Started)
        .from(Some(client))
        .site("acme")
        .subject(subject("device-1"))
        .detail("records=12");
    let digest = TombstoneKey::new([7; 32]).tag("acme", IdKind::Anon, "device-1");
    let expected = format!(
        "{{\"at\":\"2026-11-30T03:42:06.123Z\",\"action\":\"erase\",\"actor\":{{\"kind\":\"operator\"}},\
         \"from\":\"203.0.113.7\",\"site\":\"acme\",\"subject\":\"anonId:{digest}\",\"outcome\":\"started\",\
         \"detail\":\"records=12\"}}"
    );
    assert_eq!(text(&entry), expected);
    let bare = AuditEntry::new(AuditAction::Start, Actor::new(ActorKind::Server), AuditOutcome::Done);
    assert_eq!(
        text(&bare),
        "{\"at\":\"2026-11-30T03:42:06.123Z\",\"action\":\"start\",\"actor\":{\"kind\":\"server\"},\"outcome\":\"done\"}"
    );
}

#[test]
fn an_ipv4_client_of_an_ipv6_socket_has_its_ipv4_address() {
    let client: IpAddr = "::ffff:203.0.113.7".parse().expect("an address");
    let entry = AuditEntry::new(AuditAction::View, Actor::new(ActorKind::None), AuditOutcome::Refused);
    assert!(text(&entry.from(Some(client))).contains("\"from\":\"203.0.113.7\""));
}

#[test]
fn each_action_outcome_and_kind_is_written_by_its_name() {
    let line = |entry: &AuditEntry| AuditLine::parse(&entry.to_json(0)).expect("a line");
    for action in AuditAction::ALL {
        for outcome in AuditOutcome::ALL {
            for kind in ActorKind::ALL {
                let line = line(&AuditEntry::new(*action, Actor::new(*kind), *outcome));
                let found = (&*line.action, &*line.outcome, &*line.actor.kind);
                assert_eq!(found, (action.name(), outcome.name(), kind.name()));
            }
        }
    }
}

#[test]
fn texts_are_cut_at_their_limits_and_at_whole_characters() {
    let parse = |entry: &AuditEntry| AuditLine::parse(&entry.to_json(0)).expect("a line");
    let new = |name: &str| {
        AuditEntry::new(AuditAction::View, Actor::new(ActorKind::User).with_name(name), AuditOutcome::Done)
    };
    for (bytes, left) in [(-1, -1), (0, 0), (1, 0)] {
        let length = |limit: usize, change: i32| limit.checked_add_signed(change as isize).expect("in range");
        let line = parse(
            &new(&"n".repeat(length(AUDIT_NAME_BYTES_MAX, bytes)))
                .site(&"s".repeat(length(AUDIT_NAME_BYTES_MAX, bytes)))
                .detail(&"d".repeat(length(AUDIT_DETAIL_BYTES_MAX, bytes))),
        );
        assert_eq!(line.actor.name.map(|name| name.len()), Some(length(AUDIT_NAME_BYTES_MAX, left)));
        assert_eq!(line.site.map(|site| site.len()), Some(length(AUDIT_NAME_BYTES_MAX, left)));
        assert_eq!(line.detail.len(), length(AUDIT_DETAIL_BYTES_MAX, left));
    }
    let line = parse(&new(&"\u{20ac}".repeat(AUDIT_NAME_BYTES_MAX)));
    assert_eq!(line.actor.name, Some("\u{20ac}".repeat(AUDIT_NAME_BYTES_MAX / 3)));
}

#[test]
fn the_longest_line_fits_a_record() {
    let long = "\u{1}".repeat(1_000);
    let client: IpAddr = "1111:2222:3333:4444:5555:6666:7777:8888".parse().expect("an address");
    let actor = Actor::new(ActorKind::Loopback).with_name(&long);
    let entry = AuditEntry::new(AuditAction::Rollback, actor, AuditOutcome::Refused);
    let entry = entry.from(Some(client)).site(&long).subject(subject("device-1")).detail(&long);
    let bytes = entry.to_json(i64::MAX).len();
    assert!((2_000..=2_400).contains(&bytes), "{bytes}");
    assert!(bytes <= AUDIT_RECORD_BYTES_MAX);
}
