//! The fold reads columns and fold inputs, and never a payload.

use parallax::testing::log::Request;
use parallax::testing::record::{IdKind, Record};
use serde_json::json;

use super::{NOW_MS, RecordKind, SITE, SentEvent, World};
use crate::dice::Dice;
use crate::folded::with_fold_input;

/// Returns an event of one of a few visitors, of every kind that changes a profile.
fn event(dice: &mut Dice, number: i64) -> SentEvent {
    let at_ms = NOW_MS + number;
    let (name, value) =
        (format!("trait {}", dice.below(4)), json!([dice.below(9), null, {"a": "é\u{1}"}, 1.5e-7]));
    let sent = match dice.below(6) {
        0 => SentEvent::page("/landing", at_ms).with(json!({
            "properties": {"url": "https://acme.example/?utm_source=mail", "referrer": "https://search.example/"}
        })),
        1 => SentEvent::identify(&json!({ (name): value }), at_ms),
        2 => SentEvent::profile(json!({"setOnce": {(name.clone()): value}, "unset": ["trait 1"]}), at_ms),
        3 => SentEvent::profile(json!({"increment": {"n": dice.below(5)}, "append": {"l": [1, "x"]}}), at_ms),
        4 => SentEvent::profile(json!({"union": {"l": ["x", true]}, "remove": {"l": [1]}}), at_ms),
        _ => SentEvent::alias(&format!("v{}", dice.below(4)), at_ms),
    };
    let sent =
        if sent.kind == RecordKind::Alias { sent } else { sent.of_anon(&format!("v{}", dice.below(4))) };
    if dice.below(3) == 0 || sent.kind == RecordKind::Alias {
        return sent.of_user(&format!("u{}", dice.below(2)));
    }
    sent
}

#[test]
fn a_crawler_changes_a_profile_only_if_the_site_keeps_its_events() {
    for (is_folded_bot, is_known) in [(false, false), (true, true)] {
        let mut world = World::new();
        let page = Record {
            bot: true,
            is_folded_bot,
            site: Some(SITE),
            anon_id: Some("v"),
            ..Record::new(RecordKind::Page)
        };
        world.updater.apply(&mut world.table, &page, u64::MAX, &mut world.counts);
        assert_eq!(world.view_anon("v").is_some(), is_known);
    }
}

#[test]
fn profiles_are_the_same_if_no_payload_is_json() {
    let mut dice = Dice(11);
    let (mut world, mut blind) = (World::new(), World::new());
    let mut changed = 0;
    for number in 0..2_000 {
        let sent = event(&mut dice, number);
        world.send(&sent);
        let payload = sent.payload.to_string();
        let record = Record {
            timestamp_ms: sent.at_ms,
            site: Some(SITE),
            anon_id: sent.anon_id.as_deref(),
            user_id: sent.user_id.as_deref(),
            path: sent.path.as_deref(),
            payload: "no JSON",
            ..Record::new(sent.kind)
        };
        // Through the encoding of the log, as recovery reads it.
        let mut request = Request::new(0);
        with_fold_input(sent.kind, &payload, |fold_input| request.push(&Record { fold_input, ..record }))
            .expect("the record is within all limits");
        let World { table, updater, counts, .. } = &mut blind;
        for record in request.records() {
            changed += usize::from(record.fold_input.length() > 0);
            updater.apply(table, &record, u64::MAX, counts);
        }
    }
    assert!(changed > 1_000, "{changed}");
    assert_eq!(blind.counts, world.counts);
    for (kind, ids) in [(IdKind::Anon, ["v0", "v1", "v2", "v3"]), (IdKind::User, ["u0", "u1", "", ""])] {
        for id in ids {
            let key = world.key(kind, id);
            assert_eq!(blind.table.get(key), world.table.get(key), "{id}");
        }
    }
    assert!(world.view_user("u0").expect("a profile").traits.len() > 2);
}
