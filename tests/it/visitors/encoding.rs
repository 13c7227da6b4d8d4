//! A profile's bytes: small, equal for equal profiles, and harmless where they are damaged.

use parallax::visitors::log::bloom::Whose;
use parallax::visitors::profile::builder::Draft;
use parallax::visitors::profile::profile::{Entry, Profile};
use parallax::visitors::store::table::Rank;
use serde_json::json;

use super::shown::brought;
use super::{DAY_MS, Dice, MINUTE_MS, NOW_MS, Sent, World, rounds};

const UUID: &str = "507f191e-810c-4972-9de8-60ea00000000";

/// Three pages, two events, two visits, brought by a campaign.
fn typical() -> Vec<Sent> {
    let url = "https://acme.example/?utm_source=newsletter&utm_medium=email&utm_campaign=spring";
    vec![
        Sent::page("/", NOW_MS).with(json!({"properties": {"url": url}})),
        Sent::page("/pricing", NOW_MS + MINUTE_MS),
        Sent::track("Product Viewed", NOW_MS + 2 * MINUTE_MS),
        Sent::page("/docs/start", NOW_MS + DAY_MS),
        Sent::page("/pricing", NOW_MS + DAY_MS + MINUTE_MS),
        Sent::track("Product Viewed", NOW_MS + DAY_MS + 2 * MINUTE_MS),
        Sent::track("Signed Up", NOW_MS + DAY_MS + 3 * MINUTE_MS),
    ]
}

#[test]
fn a_typical_visitor_takes_under_200_bytes() {
    let sent: Vec<Sent> = typical().into_iter().map(|sent| sent.of(UUID)).collect();
    let mut world = World::after(&sent);
    let bytes = world.value_of_anon(UUID).expect("a profile").len();
    assert!(bytes <= 200, "{bytes}");
}

/// A profile with something of everything.
fn full(dice: &mut Dice) -> Vec<u8> {
    let mut world = World::new();
    for _ in 0..dice.below(80) {
        let at_ms = NOW_MS + dice.below(40 * DAY_MS as usize) as i64;
        let sent = match dice.below(5) {
            0 => Sent::page(&"/x".repeat(1 + dice.below(150)), at_ms),
            1 => Sent::page("/", at_ms).with(json!({"context": {"campaign": {"name": "c", "term": "t"}}})),
            2 => Sent::track(&format!("event {}", dice.below(70)), at_ms),
            3 => Sent::identify(&json!({(format!("t{}", dice.below(70))): [1, {"a": "b"}]}), at_ms),
            _ => Sent::profile(json!({"unset": ["t1"], "increment": {"n": 1}}), at_ms),
        };
        world.send(&sent.of(dice.of::<&str>(&["v", "w"])).by("u"));
    }
    world.send(&Sent::identify(&json!({}), NOW_MS).of("v").by("u"));
    world.value_of_anon("v").expect("a profile").to_vec()
}

#[test]
fn what_is_read_is_written_byte_for_byte() {
    for seed in 0..rounds(100) {
        let value = full(&mut Dice(seed));
        let mut again = Vec::new();
        Draft::read(&value).expect("a profile").write(&mut again);
        assert_eq!(again, value, "seed {seed}");
    }
}

#[test]
fn the_order_of_arrival_leaves_no_trace() {
    let mut sent: Vec<Sent> = typical().into_iter().map(|sent| sent.of("v")).collect();
    let value = |sent: &[Sent]| World::after(sent).value_of_anon("v").expect("a profile").to_vec();
    let there = value(&sent);
    sent.reverse();
    assert_eq!(value(&sent), there);
}

/// Asks everything of a value.
fn look(value: &[u8]) {
    let _ = Entry::read(value);
    let Some(profile) = Profile::read(value) else { return };
    let numbers =
        [profile.visits(), profile.page_views(), profile.events(), profile.visits_at(NOW_MS).into()];
    let texts = (profile.site(), profile.user_id(), profile.anon_ids().count());
    let seen = (profile.first_seen(), profile.last_seen());
    let histories = profile.names().map(|(_, history)| history).chain(profile.pages().map(|(_, page)| page));
    let times: i64 = histories.flat_map(|history| history.times()).fold(0, i64::wrapping_add);
    let touches = (profile.first_touch().map(brought), profile.last_touch().map(brought));
    let traits = profile.traits().map(|(_, value)| value.to_json()).collect::<Vec<_>>();
    let found = (profile.event("event 1").is_some(), profile.page("/").is_some());
    std::hint::black_box((numbers, texts, seen, times, touches, traits, found, profile.trait_value("t1")));
}

#[test]
fn damaged_bytes_say_less_and_never_panic() {
    for seed in 0..rounds(60) {
        let mut dice = Dice(seed);
        let value = full(&mut dice);
        let other = full(&mut dice);
        (0..value.len().min(400)).for_each(|end| look(&value[..end]));
        for _ in 0..40 {
            let mut damaged = value.clone();
            for _ in 0..1 + dice.below(4) {
                let at = dice.below(damaged.len());
                damaged[at] = *dice.of(&[0, 1, 0x7F, 0x80, 0xFF, dice.0 as u8]);
            }
            look(&damaged);
            let Some(mut draft) = Draft::read(&damaged) else { continue };
            draft.merge(Draft::read(&other).expect("a profile"));
            let mut out = Vec::new();
            draft.write(&mut out);
            look(&out);
        }
    }
}

#[test]
fn a_damaged_entry_is_as_if_there_were_none() {
    for value in [&[][..], &[0], &[1, 2], &[2], &[2, 0, 200], &[1; 17], &[9; 40]] {
        let mut world = World::new();
        for (whose, id) in [(Whose::Anon, "v"), (Whose::User, "u")] {
            let key = world.key(whose, id);
            world.table.put(key, value, Rank::Known);
        }
        world.send(&Sent::page("/", NOW_MS).of("v"));
        world.send(&Sent::identify(&json!({}), NOW_MS).of("v").by("u"));
        let user = world.shown_user("u").expect("a profile");
        assert_eq!((user.page_views, user.anon_ids), (1, vec!["v".to_owned()]), "{value:?}");
    }
}
