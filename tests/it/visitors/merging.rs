//! Two profiles into one: the laws.

use parallax::visitors::profile::builder::Draft;
use parallax::visitors::profile::profile::Profile;
use serde_json::json;

use super::shown::Shown;
use super::{DAY_MS, Dice, MINUTE_MS, NOW_MS, Sent, World, rounds};

fn value(world: &mut World) -> Vec<u8> {
    world.value_of_anon("v").expect("a profile").to_vec()
}

fn merged(into: &[u8], from: &[u8]) -> Shown {
    let mut draft = Draft::read(into).expect("a profile");
    draft.merge(Draft::read(from).expect("a profile"));
    let mut value = Vec::new();
    draft.write(&mut value);
    Shown::of(&Profile::read(&value).expect("a profile"))
}

/// A profile of some 40 events, with times that are odd or even.
fn any(dice: &mut Dice, parity: i64) -> Vec<u8> {
    let mut world = World::new();
    for _ in 0..1 + dice.below(40) {
        let at_ms = NOW_MS + 2 * dice.below(20 * DAY_MS as usize) as i64 + parity;
        let source = json!({"context": {"campaign": {"source": at_ms.to_string()}}});
        let sent = match dice.below(4) {
            0 => Sent::page(dice.of::<&str>(&["/", "/a"]), at_ms).with(source),
            1 => Sent::track(dice.of::<&str>(&["Paid", "Viewed"]), at_ms),
            2 => Sent::identify(&json!({(*dice.of(&["plan", "city"])): at_ms}), at_ms),
            _ => Sent::profile(json!({"unset": ["plan"]}), at_ms),
        };
        world.send(&sent.of("v"));
    }
    value(&mut world)
}

#[test]
fn counts_add_the_newest_times_stay_the_touches_go_outward_and_the_newest_writes_stand() {
    for seed in 0..rounds(200) {
        let mut dice = Dice(seed);
        let (one, two) = (any(&mut dice, 0), any(&mut dice, 1));
        let shown = |value: &[u8]| Shown::of(&Profile::read(value).expect("a profile"));
        let (a, b, both) = (shown(&one), shown(&two), merged(&one, &two));
        assert_eq!(both.visits, a.visits + b.visits, "seed {seed}");
        assert_eq!(both.page_views, a.page_views + b.page_views, "seed {seed}");
        assert_eq!(both.events, a.events + b.events, "seed {seed}");
        for name in a.names.keys().chain(b.names.keys()) {
            let each: Vec<_> = [&a, &b].into_iter().filter_map(|one| one.names.get(name)).collect();
            let mut times: Vec<i64> = each.iter().flat_map(|one| one.times.clone()).collect();
            times.sort_unstable_by_key(|time| std::cmp::Reverse(*time));
            times.truncate(16);
            let found = &both.names[name];
            assert_eq!(found.count, each.iter().map(|one| one.count).sum::<u64>(), "seed {seed}");
            assert_eq!(Some(found.first_ms), each.iter().map(|one| one.first_ms).min(), "seed {seed}");
            assert_eq!((found.last_ms, &found.times), (times[0], &times), "seed {seed}");
        }
        let first = [&a, &b].into_iter().filter_map(|one| one.first_touch.clone()).min_by_key(|t| t.1);
        let last = [&a, &b].into_iter().filter_map(|one| one.last_touch.clone()).max_by_key(|t| t.1);
        assert_eq!((&both.first_touch, &both.last_touch), (&first, &last), "seed {seed}");
        assert_eq!(merged(&two, &one), both, "seed {seed}: which goes into which makes no difference");
    }
}

#[test]
fn the_first_time_is_known_though_it_is_not_among_those_that_are_kept() {
    let pages = |count: i64, from_ms: i64| -> Vec<u8> {
        value_of(&(0..count).map(|i| Sent::page("/", from_ms + i).of("v")).collect::<Vec<_>>())
    };
    let (early, late) = (pages(17, NOW_MS), pages(20, NOW_MS + 100));
    for both in [merged(&early, &late), merged(&late, &early)] {
        let page = &both.pages["/"];
        assert_eq!((page.count, page.first_ms, page.last_ms), (37, NOW_MS, NOW_MS + 119));
    }
}

#[test]
fn of_two_writes_of_one_time_what_the_user_has_stands() {
    let traits = |value: &str| {
        let sent = Sent::identify(&json!({ "plan": value }), NOW_MS).of("v");
        value_of(&[sent])
    };
    let (user, anon) = (traits("user's"), traits("other"));
    assert_eq!(merged(&user, &anon).traits["plan"], json!("user's"));
}

#[test]
fn an_unset_is_a_write_to_a_merge_too() {
    let set = value_of(&[Sent::profile(json!({"set": {"plan": 1}}), NOW_MS).of("v")]);
    let unset = value_of(&[Sent::profile(json!({"unset": ["plan"]}), NOW_MS + 1).of("v")]);
    assert!(merged(&set, &unset).traits.is_empty());
    assert!(merged(&unset, &set).traits.is_empty());
}

#[test]
fn visits_that_meet_are_one_span_and_stay_two() {
    let page = |minutes: i64| Sent::page("/", NOW_MS + minutes * MINUTE_MS).of("v");
    let one = value_of(&[page(0), page(120)]);
    let two = value_of(&[page(25), page(60)]);
    assert_eq!(merged(&one, &two).visits, 4);
    let mut world = World::after(&[
        page(0),
        page(120),
        Sent { anon_id: None, ..page(25) }.by("u"),
        Sent { anon_id: None, ..page(60) }.by("u"),
        Sent::identify(&json!({}), NOW_MS).of("v").by("u"),
    ]);
    // Minutes 0 to 25, 60 and 120: what lies between the last two joins them, and they are one less.
    assert_eq!(world.of_user("u").expect("a profile").visits(), 4);
    world.send(&page(90));
    assert_eq!(world.of_user("u").expect("a profile").visits(), 3);
}

fn value_of(sent: &[Sent]) -> Vec<u8> {
    value(&mut World::after(sent))
}
