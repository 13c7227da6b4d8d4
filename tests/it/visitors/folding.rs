//! Events into one profile, against lists of everything that happened.

use serde_json::json;

use super::model::Person;
use super::{DAY_MS, Dice, MINUTE_MS, NOW_MS, Sent, World, rounds, shuffle};
use parallax::visitors::log::Kind;

/// An event of visitor `v`, at a time that no other of the stream has.
fn any(dice: &mut Dice, at_ms: i64) -> Sent {
    const NAMES: [&str; 5] = ["Viewed", "Added", "Paid", "Left", "screen"];
    const PATHS: [&str; 5] = ["/", "/pricing", "/docs/a", "/docs/b", "/ende"];
    let sent = match dice.below(10) {
        0..4 => {
            let page = Sent::page(dice.of::<&str>(&PATHS), at_ms);
            let source = format!("source {at_ms}");
            let campaign = json!({"context": {"campaign": {"source": source}}});
            if dice.below(3) == 0 { page.with(campaign) } else { page }
        }
        4..7 => Sent::track(dice.of::<&str>(&NAMES), at_ms),
        7 => Sent::identify(&json!({ (*dice.of(&["plan", "city"])): at_ms }), at_ms),
        8 => Sent::profile(json!({"set": { (*dice.of(&["plan", "city"])): {"at": [at_ms]} }}), at_ms),
        _ => Sent::profile(json!({"unset": [*dice.of(&["plan", "city"])]}), at_ms),
    };
    sent.of("v")
}

/// Ascending times: some in a visit, at most so many visits.
fn times(dice: &mut Dice, count: usize, visits_max: usize) -> Vec<i64> {
    let mut at_ms = NOW_MS - 100 * DAY_MS;
    let mut visits = 1;
    (0..count)
        .map(|_| {
            let begins = visits < visits_max && dice.below(4) == 0;
            visits += usize::from(begins);
            at_ms += match begins {
                true => 30 * MINUTE_MS + 1 + dice.below(DAY_MS as usize) as i64,
                false => 1 + dice.below(29 * MINUTE_MS as usize) as i64,
            };
            at_ms
        })
        .collect()
}

/// How many visits there can be at once while these come in any order: so many lie more than 30 minutes apart.
fn apart(times: &[i64]) -> usize {
    let mut last_ms = i64::MIN;
    let is_apart = |at_ms: &&i64| {
        let is_apart = **at_ms > last_ms.saturating_add(30 * MINUTE_MS);
        last_ms = if is_apart { **at_ms } else { last_ms };
        is_apart
    };
    times.iter().filter(is_apart).count()
}

fn check(seed: u64, sent: &[Sent]) {
    let mut person = Person::anonymous("v");
    person.sent = sent.to_vec();
    let mut world = World::after(sent);
    assert_eq!(world.shown_anon("v"), Some(person.shown()), "seed {seed}: {sent:#?}");
}

#[test]
fn a_profile_says_what_a_list_of_all_events_says_in_whatever_order_they_come() {
    for seed in 0..rounds(300) {
        let mut dice = Dice(seed);
        let count = 1 + dice.below(60);
        let times = times(&mut dice, count, 5);
        let may_be_visits = apart(&times);
        let mut sent: Vec<Sent> = times.into_iter().map(|at_ms| any(&mut dice, at_ms)).collect();
        if may_be_visits <= 16 {
            shuffle(&mut dice, &mut sent);
        }
        check(seed, &sent);
    }
}

#[test]
fn any_number_of_visits_is_counted_where_events_come_in_order() {
    for seed in 0..rounds(50) {
        let mut dice = Dice(seed);
        let times = times(&mut dice, 300, usize::MAX);
        let sent: Vec<Sent> = times.into_iter().map(|at_ms| any(&mut dice, at_ms)).collect();
        check(seed, &sent);
    }
}

#[test]
fn a_visit_ends_after_more_than_thirty_minutes_of_silence() {
    let visits = |silence_ms: i64| {
        let mut world =
            World::after(&[Sent::page("/", NOW_MS).of("v"), Sent::page("/", NOW_MS + silence_ms).of("v")]);
        world.of_anon("v").expect("a profile").visits()
    };
    assert_eq!(visits(30 * MINUTE_MS - 1), 1);
    assert_eq!(visits(30 * MINUTE_MS), 1);
    assert_eq!(visits(30 * MINUTE_MS + 1), 2);
}

#[test]
fn the_visit_that_begins_now_counts_where_nothing_was_recorded_for_thirty_minutes() {
    let mut world = World::after(&[Sent::page("/", NOW_MS).of("v")]);
    let profile = world.of_anon("v").expect("a profile");
    assert_eq!(profile.visits_at(NOW_MS - DAY_MS), 1);
    assert_eq!(profile.visits_at(NOW_MS), 1);
    assert_eq!(profile.visits_at(NOW_MS + 30 * MINUTE_MS), 1);
    assert_eq!(profile.visits_at(NOW_MS + 30 * MINUTE_MS + 1), 2);
}

#[test]
fn a_profile_event_is_neither_a_visit_nor_seen() {
    let mut world = World::after(&[Sent::profile(json!({"set": {"plan": "gold"}}), NOW_MS).by("u")]);
    let profile = world.of_user("u").expect("a profile");
    assert_eq!((profile.visits(), profile.first_seen(), profile.last_seen()), (0, None, None));
    assert_eq!(profile.visits_at(NOW_MS), 1);
}

#[test]
fn an_event_that_comes_late_joins_two_visits() {
    let page = |minutes: i64| Sent::page("/", NOW_MS + minutes * MINUTE_MS).of("v");
    let mut world = World::after(&[page(0), page(50)]);
    assert_eq!(world.of_anon("v").expect("a profile").visits(), 2);
    world.send(&page(25));
    assert_eq!(world.of_anon("v").expect("a profile").visits(), 1);
}

#[test]
fn of_what_happened_before_all_visits_that_are_kept_no_visit_is_made_once_earlier_ones_are_only_counted() {
    let page = |days: i64| Sent::page("/", NOW_MS + days * DAY_MS).of("v");
    let days: Vec<Sent> = (0..16).map(page).collect();
    let mut world = World::after(&days);
    let mut visits = |days: i64| {
        world.send(&page(days));
        world.of_anon("v").expect("a profile").visits()
    };
    // The seventeenth is known to be one; it is forgotten at once, being the oldest.
    assert_eq!(visits(-1), 17);
    assert_eq!(visits(-2), 17);
    assert_eq!(visits(16), 18);
    let profile = world.of_anon("v").expect("a profile");
    assert_eq!((profile.page_views(), profile.first_seen()), (19, Some(NOW_MS - 2 * DAY_MS)));
}

#[test]
fn a_flagged_crawler_a_group_an_alias_and_what_was_erased_change_nothing() {
    let user = |kind: Kind| Sent::new(kind, NOW_MS).of("v").by("u");
    let mut world = World::after(&[
        Sent { bot: true, ..Sent::page("/", NOW_MS).of("v") },
        user(Kind::Group),
        user(Kind::Alias),
        user(Kind::Void),
        user(Kind::Tombstone),
    ]);
    assert!(world.of_anon("v").is_none() && world.of_user("u").is_none());
    assert_eq!(world.table.cost(), 0);
}

#[test]
fn a_payload_that_cannot_be_read_leaves_what_the_columns_say() {
    let mut world = World::after(&[Sent::page("/", NOW_MS).of("v").with(json!([]))]);
    assert_eq!(world.of_anon("v").expect("a profile").page_views(), 1);
}

#[test]
fn what_one_site_records_another_does_not_know() {
    let mut world = World::new();
    world.send_to("other", &Sent::page("/", NOW_MS).of("v"));
    assert!(world.of_anon("v").is_none());
}
