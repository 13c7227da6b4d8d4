//! The rules for merging two profiles into one.

use parallax::testing::visitors::profile::builder::ProfileBuilder;
use parallax::testing::visitors::profile::profile::Profile;
use serde_json::json;

use super::shown::ProfileView;
use super::{DAY_MS, Dice, MINUTE_MS, NOW_MS, SentEvent, World, rounds};

fn encoded(world: &mut World) -> Vec<u8> {
    world.value_of_anon("v").expect("a profile").to_vec()
}

fn merged(into: &[u8], from: &[u8]) -> ProfileView {
    let mut builder = ProfileBuilder::decode(into).expect("a profile");
    builder.merge(ProfileBuilder::decode(from).expect("a profile"));
    let mut value = Vec::new();
    builder.write(&mut value);
    ProfileView::of(&Profile::decode(&value).expect("a profile"))
}

/// Returns a profile of 1 to 40 events. All times are even if `parity` is 0, and odd if it is 1.
fn random_profile(dice: &mut Dice, parity: i64) -> Vec<u8> {
    let mut world = World::new();
    for _ in 0..1 + dice.below(40) {
        let at_ms = NOW_MS + 2 * dice.below(20 * DAY_MS as usize) as i64 + parity;
        let country = *dice.pick(&["DE", "NO"]);
        let source = json!({"context": {"campaign": {"source": at_ms.to_string()}, "country": country}});
        let sent = match dice.below(4) {
            0 => SentEvent::page(dice.pick::<&str>(&["/", "/a"]), at_ms).with(source),
            1 => SentEvent::track(dice.pick::<&str>(&["Paid", "Viewed"]), at_ms),
            2 => SentEvent::identify(&json!({(*dice.pick(&["plan", "city"])): at_ms}), at_ms),
            _ => SentEvent::profile(json!({"unset": ["plan"]}), at_ms),
        };
        world.send(&sent.of_anon("v"));
    }
    encoded(&mut world)
}

#[test]
fn a_merge_adds_counts_and_keeps_newest_times_and_outermost_touches() {
    for seed in 0..rounds(200) {
        let mut dice = Dice(seed);
        let (one, two) = (random_profile(&mut dice, 0), random_profile(&mut dice, 1));
        let view = |value: &[u8]| ProfileView::of(&Profile::decode(value).expect("a profile"));
        let (a, b, both) = (view(&one), view(&two), merged(&one, &two));
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
        assert_eq!(both.context, a.context.max(b.context), "seed {seed}");
        assert_eq!(merged(&two, &one), both, "seed {seed}: the direction of the merge makes no difference");
    }
}

#[test]
fn a_merge_keeps_the_first_time_even_if_it_is_not_listed() {
    let pages = |count: i64, from_ms: i64| -> Vec<u8> {
        encoded_after(&(0..count).map(|i| SentEvent::page("/", from_ms + i).of_anon("v")).collect::<Vec<_>>())
    };
    let (early, late) = (pages(17, NOW_MS), pages(20, NOW_MS + 100));
    for both in [merged(&early, &late), merged(&late, &early)] {
        let page = &both.pages["/"];
        assert_eq!((page.count, page.first_ms, page.last_ms), (37, NOW_MS, NOW_MS + 119));
    }
}

#[test]
fn of_two_simultaneous_writes_the_user_profile_wins() {
    let traits = |value: &str| {
        let sent = SentEvent::identify(&json!({ "plan": value }), NOW_MS).of_anon("v");
        encoded_after(&[sent])
    };
    let (user, anon) = (traits("user's"), traits("other"));
    assert_eq!(merged(&user, &anon).traits["plan"], json!("user's"));
}

#[test]
fn of_two_simultaneous_contexts_that_of_the_user_stays() {
    let page = |country: &str| {
        let context = json!({ "context": { "country": country } });
        encoded_after(&[SentEvent::page("/", NOW_MS).of_anon("v").with(context)])
    };
    assert_eq!(merged(&page("DE"), &page("NO")).context, Some((NOW_MS, *b"DE")));
    let nowhere = encoded_after(&[SentEvent::page("/", NOW_MS + 1).of_anon("v")]);
    for both in [merged(&page("DE"), &nowhere), merged(&nowhere, &page("DE"))] {
        assert_eq!(both.context, Some((NOW_MS, *b"DE")), "an event without a context changes none");
    }
}

#[test]
fn a_merge_treats_an_unset_as_a_write() {
    let set = encoded_after(&[SentEvent::profile(json!({"set": {"plan": 1}}), NOW_MS).of_anon("v")]);
    let unset = encoded_after(&[SentEvent::profile(json!({"unset": ["plan"]}), NOW_MS + 1).of_anon("v")]);
    assert!(merged(&set, &unset).traits.is_empty());
    assert!(merged(&unset, &set).traits.is_empty());
}

#[test]
fn overlapping_visits_of_two_profiles_still_count_as_two() {
    let page = |minutes: i64| SentEvent::page("/", NOW_MS + minutes * MINUTE_MS).of_anon("v");
    let one = encoded_after(&[page(0), page(120)]);
    let two = encoded_after(&[page(25), page(60)]);
    assert_eq!(merged(&one, &two).visits, 4);
    let mut world = World::after(&[
        page(0),
        page(120),
        page(25).of_anon("w"),
        page(60).of_anon("w"),
        SentEvent::identify(&json!({}), NOW_MS).of_anon("w").of_user("u"),
        SentEvent::identify(&json!({}), NOW_MS).of_anon("v").of_user("u"),
    ]);
    // The visits are at minutes 0 to 25, 60 and 120. An event between the last two joins them: one visit
    // less.
    assert_eq!(world.profile_of_user("u").expect("a profile").visits(), 4);
    world.send(&page(90));
    assert_eq!(world.profile_of_user("u").expect("a profile").visits(), 3);
}

fn encoded_after(sent: &[SentEvent]) -> Vec<u8> {
    encoded(&mut World::after(sent))
}
