//! Folding of events into one profile, compared with lists of all events.

use serde_json::json;

use super::model::Person;
use super::{DAY_MS, Dice, MINUTE_MS, NOW_MS, SentEvent, World, rounds, shuffle};
use parallax::testing::record::RecordKind;

/// Returns a random event of visitor `v`. The callers pass each time once.
fn random_event(dice: &mut Dice, at_ms: i64) -> SentEvent {
    const NAMES: [&str; 5] = ["Viewed", "Added", "Paid", "Left", "screen"];
    const PATHS: [&str; 5] = ["/", "/pricing", "/docs/a", "/docs/b", "/ende"];
    let sent = match dice.below(10) {
        0..4 => {
            let page = SentEvent::page(dice.pick::<&str>(&PATHS), at_ms);
            let source = format!("source {at_ms}");
            let campaign =
                json!({"context": {"campaign": {"source": source}, "country": *dice.pick(&["DE", "NO"])}});
            if dice.below(3) == 0 { page.with(campaign) } else { page }
        }
        4 => SentEvent::track("Abroad", at_ms).with(json!({"context": {"country": "SE"}})),
        5..7 => SentEvent::track(dice.pick::<&str>(&NAMES), at_ms),
        7 => SentEvent::identify(&json!({ (*dice.pick(&["plan", "city"])): at_ms }), at_ms),
        8 => SentEvent::profile(json!({"set": { (*dice.pick(&["plan", "city"])): {"at": [at_ms]} }}), at_ms),
        _ => SentEvent::profile(json!({"unset": [*dice.pick(&["plan", "city"])]}), at_ms),
    };
    sent.of_anon("v")
}

/// Returns ascending times that form at most `visits_max` visits.
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

/// Returns how many separate visits can exist while these times arrive in any order: the number of times that
/// are more than 30 minutes count_apart.
fn count_apart(times: &[i64]) -> usize {
    let mut last_ms = i64::MIN;
    let is_apart = |at_ms: &&i64| {
        let is_apart = **at_ms > last_ms.saturating_add(30 * MINUTE_MS);
        last_ms = if is_apart { **at_ms } else { last_ms };
        is_apart
    };
    times.iter().filter(is_apart).count()
}

fn check(seed: u64, sent: &[SentEvent]) {
    let mut person = Person::anonymous("v");
    person.sent = sent.to_vec();
    let mut world = World::after(sent);
    assert_eq!(world.view_anon("v"), Some(person.view()), "seed {seed}: {sent:#?}");
}

#[test]
fn a_profile_matches_a_list_of_all_events_in_any_order() {
    for seed in 0..rounds(300) {
        let mut dice = Dice(seed);
        let count = 1 + dice.below(60);
        let times = times(&mut dice, count, 5);
        let visits_max = count_apart(&times);
        let mut sent: Vec<SentEvent> =
            times.into_iter().map(|at_ms| random_event(&mut dice, at_ms)).collect();
        if visits_max <= 16 {
            shuffle(&mut dice, &mut sent);
        }
        check(seed, &sent);
    }
}

#[test]
fn all_visits_are_counted_if_events_arrive_in_order() {
    for seed in 0..rounds(50) {
        let mut dice = Dice(seed);
        let times = times(&mut dice, 300, usize::MAX);
        let sent: Vec<SentEvent> = times.into_iter().map(|at_ms| random_event(&mut dice, at_ms)).collect();
        check(seed, &sent);
    }
}

#[test]
fn a_visit_ends_after_more_than_thirty_minutes_of_silence() {
    let visits = |silence_ms: i64| {
        let mut world = World::after(&[
            SentEvent::page("/", NOW_MS).of_anon("v"),
            SentEvent::page("/", NOW_MS + silence_ms).of_anon("v"),
        ]);
        world.profile_of_anon("v").expect("a profile").visits()
    };
    assert_eq!(visits(30 * MINUTE_MS - 1), 1);
    assert_eq!(visits(30 * MINUTE_MS), 1);
    assert_eq!(visits(30 * MINUTE_MS + 1), 2);
}

#[test]
fn a_new_visit_is_counted_after_thirty_minutes_of_silence() {
    let mut world = World::after(&[SentEvent::page("/", NOW_MS).of_anon("v")]);
    let profile = world.profile_of_anon("v").expect("a profile");
    assert_eq!(profile.visits_at(NOW_MS - DAY_MS), 1);
    assert_eq!(profile.visits_at(NOW_MS), 1);
    assert_eq!(profile.visits_at(NOW_MS + 30 * MINUTE_MS), 1);
    assert_eq!(profile.visits_at(NOW_MS + 30 * MINUTE_MS + 1), 2);
}

#[test]
fn a_profile_event_is_neither_a_visit_nor_activity() {
    let mut world =
        World::after(&[SentEvent::profile(json!({"set": {"plan": "gold"}}), NOW_MS).of_user("u")]);
    let profile = world.profile_of_user("u").expect("a profile");
    assert_eq!((profile.visits(), profile.first_seen_ms(), profile.last_seen_ms()), (0, None, None));
    assert_eq!(profile.visits_at(NOW_MS), 1);
}

#[test]
fn a_late_event_joins_two_visits() {
    let page = |minutes: i64| SentEvent::page("/", NOW_MS + minutes * MINUTE_MS).of_anon("v");
    let mut world = World::after(&[page(0), page(50)]);
    assert_eq!(world.profile_of_anon("v").expect("a profile").visits(), 2);
    world.send(&page(25));
    assert_eq!(world.profile_of_anon("v").expect("a profile").visits(), 1);
}

#[test]
fn an_event_before_all_kept_visits_makes_no_visit_once_some_are_dropped() {
    let page = |days: i64| SentEvent::page("/", NOW_MS + days * DAY_MS).of_anon("v");
    let days: Vec<SentEvent> = (0..16).map(page).collect();
    let mut world = World::after(&days);
    let mut visits = |days: i64| {
        world.send(&page(days));
        world.profile_of_anon("v").expect("a profile").visits()
    };
    // The seventeenth visit is counted and then dropped at once, because it is the oldest.
    assert_eq!(visits(-1), 17);
    assert_eq!(visits(-2), 17);
    assert_eq!(visits(16), 18);
    let profile = world.profile_of_anon("v").expect("a profile");
    assert_eq!((profile.page_views(), profile.first_seen_ms()), (19, Some(NOW_MS - 2 * DAY_MS)));
}

#[test]
fn crawler_group_alias_and_erased_records_change_no_profile() {
    let user = |kind: RecordKind| SentEvent::new(kind, NOW_MS).of_anon("v").of_user("u");
    let mut world = World::after(&[
        SentEvent { bot: true, ..SentEvent::page("/", NOW_MS).of_anon("v") },
        user(RecordKind::Group),
        user(RecordKind::Alias),
        user(RecordKind::Void),
        user(RecordKind::Tombstone),
    ]);
    assert!(world.profile_of_anon("v").is_none() && world.profile_of_user("u").is_none());
    assert_eq!(world.table.cost(), 0);
}

#[test]
fn sites_do_not_share_visitors() {
    let mut world = World::new();
    world.send_to("other", &SentEvent::page("/", NOW_MS).of_anon("v"));
    assert!(world.profile_of_anon("v").is_none());
}
