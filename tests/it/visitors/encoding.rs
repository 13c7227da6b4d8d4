//! The encoding of a profile: small, equal for equal profiles, and harmless if it is damaged.

use parallax::testing::record::IdKind;
use parallax::testing::visitors::profile::builder::ProfileBuilder;
use parallax::testing::visitors::profile::profile::{Profile, TableEntry};
use parallax::testing::visitors::store::table::EvictionClass;
use serde_json::json;

use super::shown::touch_view;
use super::{DAY_MS, Dice, MINUTE_MS, NOW_MS, SentEvent, World, rounds};

const UUID: &str = "507f191e-810c-4972-9de8-60ea00000000";

/// Returns the events of a typical visitor: three pages, two event names, two visits and a campaign.
fn typical() -> Vec<SentEvent> {
    let url = "https://acme.example/?utm_source=newsletter&utm_medium=email&utm_campaign=spring";
    vec![
        SentEvent::page("/", NOW_MS).with(json!({"properties": {"url": url}})),
        SentEvent::page("/pricing", NOW_MS + MINUTE_MS),
        SentEvent::track("Product Viewed", NOW_MS + 2 * MINUTE_MS),
        SentEvent::page("/docs/start", NOW_MS + DAY_MS),
        SentEvent::page("/pricing", NOW_MS + DAY_MS + MINUTE_MS),
        SentEvent::track("Product Viewed", NOW_MS + DAY_MS + 2 * MINUTE_MS),
        SentEvent::track("Signed Up", NOW_MS + DAY_MS + 3 * MINUTE_MS),
    ]
}

#[test]
fn a_typical_profile_takes_at_most_200_bytes() {
    let sent: Vec<SentEvent> = typical().into_iter().map(|sent| sent.of_anon(UUID)).collect();
    let mut world = World::after(&sent);
    let bytes = world.value_of_anon(UUID).expect("a profile").len();
    assert!(bytes <= 200, "{bytes}");
}

/// Returns an encoded profile with members of every kind.
fn full_profile(dice: &mut Dice) -> Vec<u8> {
    let mut world = World::new();
    for _ in 0..dice.below(80) {
        let at_ms = NOW_MS + dice.below(40 * DAY_MS as usize) as i64;
        let sent = match dice.below(5) {
            0 => SentEvent::page(&"/x".repeat(1 + dice.below(150)), at_ms),
            1 => {
                let campaign = json!({"name": "c", "term": "t"});
                SentEvent::page("/", at_ms).with(json!({"context": {"campaign": campaign, "country": "DE"}}))
            }
            2 => SentEvent::track(&format!("event {}", dice.below(70)), at_ms),
            3 => SentEvent::identify(&json!({(format!("t{}", dice.below(70))): [1, {"a": "b"}]}), at_ms),
            _ => SentEvent::profile(json!({"unset": ["t1"], "increment": {"n": 1}}), at_ms),
        };
        world.send(&sent.of_anon(dice.pick::<&str>(&["v", "w"])).of_user("u"));
    }
    world.send(&SentEvent::identify(&json!({}), NOW_MS).of_anon("v").of_user("u"));
    world.value_of_anon("v").expect("a profile").to_vec()
}

#[test]
fn a_decoded_profile_encodes_to_the_same_bytes() {
    for seed in 0..rounds(100) {
        let value = full_profile(&mut Dice(seed));
        let mut encoded = Vec::new();
        ProfileBuilder::decode(&value).expect("a profile").write(&mut encoded);
        assert_eq!(encoded, value, "seed {seed}");
    }
}

/// An event leaves the histories encoded that it does not change, and a merge decodes all of them.
#[test]
fn a_merge_with_an_empty_profile_changes_no_byte() {
    for seed in 0..rounds(300) {
        let value = full_profile(&mut Dice(seed));
        let (mut merged, mut builder) = (Vec::new(), ProfileBuilder::decode(&value).expect("a profile"));
        builder.merge(ProfileBuilder::for_user("acme", "u"));
        builder.write(&mut merged);
        assert_eq!(merged, value, "seed {seed}");
    }
}

#[test]
fn the_encoding_does_not_depend_on_the_order_of_arrival() {
    let mut sent: Vec<SentEvent> = typical().into_iter().map(|sent| sent.of_anon("v")).collect();
    let value = |sent: &[SentEvent]| World::after(sent).value_of_anon("v").expect("a profile").to_vec();
    let in_order = value(&sent);
    sent.reverse();
    assert_eq!(value(&sent), in_order);
}

/// Decodes an entry and reads every member of its profile.
fn read_everything(value: &[u8]) {
    let _ = TableEntry::decode(value);
    let Some(profile) = Profile::decode(value) else { return };
    let numbers = [profile.visits(), profile.page_views(), profile.events(), profile.visits_at(NOW_MS)];
    let texts = (profile.site(), profile.user_id(), profile.anon_ids().count());
    let seen = (profile.first_seen_ms(), profile.last_seen_ms());
    let histories = profile
        .event_histories()
        .map(|(_, history)| history)
        .chain(profile.page_histories().map(|(_, page)| page));
    let times: i64 = histories.flat_map(|history| history.times()).fold(0, i64::wrapping_add);
    let touches = (profile.first_touch().map(touch_view), profile.last_touch().map(touch_view));
    let context = profile.last_context().map(|last| (last.at_ms, last.values.country()));
    let traits = profile.traits().map(|(_, value)| value.to_json()).collect::<Vec<_>>();
    let found = (profile.event_history("event 1").is_some(), profile.page_history("/").is_some());
    std::hint::black_box((
        numbers,
        texts,
        seen,
        times,
        touches,
        context,
        traits,
        found,
        profile.trait_value("t1"),
    ));
}

#[test]
fn damaged_bytes_never_panic() {
    for seed in 0..rounds(60) {
        let mut dice = Dice(seed);
        let value = full_profile(&mut dice);
        let other = full_profile(&mut dice);
        (0..value.len().min(400)).for_each(|end| read_everything(&value[..end]));
        for _ in 0..40 {
            let mut damaged = value.clone();
            for _ in 0..1 + dice.below(4) {
                let at = dice.below(damaged.len());
                damaged[at] = *dice.pick(&[0, 1, 0x7F, 0x80, 0xFF, dice.0 as u8]);
            }
            read_everything(&damaged);
            let Some(mut builder) = ProfileBuilder::decode(&damaged) else { continue };
            builder.merge(ProfileBuilder::decode(&other).expect("a profile"));
            let mut out = Vec::new();
            builder.write(&mut out);
            read_everything(&out);
        }
    }
}

#[test]
fn a_damaged_entry_is_treated_as_absent() {
    for value in [&[][..], &[0], &[1, 2], &[2], &[2, 0, 200], &[1; 17], &[9; 40]] {
        let mut world = World::new();
        for (kind, id) in [(IdKind::Anon, "v"), (IdKind::User, "u")] {
            let key = world.key(kind, id);
            world.table.put(key, value, EvictionClass::Returning);
        }
        world.send(&SentEvent::page("/", NOW_MS).of_anon("v"));
        world.send(&SentEvent::identify(&json!({}), NOW_MS).of_anon("v").of_user("u"));
        let user = world.view_user("u").expect("a profile");
        assert_eq!((user.page_views, user.anon_ids), (1, vec!["v".to_owned()]), "{value:?}");
    }
}
