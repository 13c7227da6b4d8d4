//! Eviction from a full table: the order of eviction, and that equal records lead to equal tables.

use std::collections::BTreeMap;

use parallax::testing::record::IdKind;
use parallax::testing::visitors::store::table::{ENTRY_COST, Key};
use serde_json::json;

use super::{DAY_MS, Dice, NOW_MS, SentEvent, World, rounds};

fn page(id: &str, days: i64) -> SentEvent {
    SentEvent::page("/", NOW_MS + days * DAY_MS).of_anon(id)
}

/// Returns the cost of a visitor with a one-letter ID and one visit.
fn cost_of_one() -> u64 {
    World::after(&[page("a", 0)]).table.cost()
}

#[test]
fn one_visitor_is_evicted_above_the_bound_and_none_at_it() {
    for (room, kept) in [(-1, 1), (0, 2), (1, 2)] {
        let mut world = World::bounded((2 * cost_of_one()).saturating_add_signed(room));
        ["a", "b"].iter().for_each(|id| world.send(&page(id, 0)));
        let known = ["a", "b"].map(|id| world.profile_of_anon(id).is_some());
        assert_eq!(known, [kept == 2, true]);
        assert_eq!(world.counts.visitors_evicted, 2 - kept);
    }
}

#[test]
fn the_oldest_single_visit_visitor_is_evicted_first() {
    let mut world = World::bounded(4 * cost_of_one() + 50);
    let known = |world: &mut World| -> String {
        ["a", "b", "c", "d", "e", "f"].into_iter().filter(|id| world.profile_of_anon(id).is_some()).collect()
    };
    for (id, days) in [("a", 0), ("a", 1), ("b", 1), ("b", 2), ("c", 2), ("d", 2)] {
        world.send(&page(id, days));
    }
    assert_eq!(known(&mut world), "abcd");
    world.send(&page("e", 3));
    assert_eq!(known(&mut world), "abde");
    world.send(&page("d", 4));
    world.send(&page("e", 4));
    assert_eq!(known(&mut world), "abde");
    // All others have two visits, so the new single-visit visitor is evicted itself.
    world.send(&page("f", 4));
    assert_eq!(known(&mut world), "abde");
}

#[test]
fn a_storm_of_single_visit_ids_evicts_no_returning_visitor() {
    let mut world = World::bounded(100 * cost_of_one());
    let real: Vec<String> = (0..50).map(|i| format!("real {i}")).collect();
    for days in [0, 1] {
        real.iter().for_each(|id| world.send(&page(id, days)));
    }
    (0..2000).for_each(|i| world.send(&page(&format!("storm {i}"), 2)));
    assert!(real.iter().all(|id| world.profile_of_anon(id).is_some()));
    assert!(world.counts.visitors_evicted > 1900);
}

#[test]
fn a_user_is_evicted_together_with_its_ids() {
    let mut world = World::bounded(10 * cost_of_one());
    for id in ["v", "w"] {
        world.send(&SentEvent::identify(&json!({}), NOW_MS).of_anon(id).of_user("u"));
    }
    assert!(world.profile_of_anon("v").is_some());
    (0..20).for_each(|i| world.send(&page(&format!("{i}"), 0)));
    for (kind, id) in [(IdKind::User, "u"), (IdKind::Anon, "v"), (IdKind::Anon, "w")] {
        let key = world.key(kind, id);
        assert_eq!(world.table.get(key), None);
    }
}

#[test]
fn a_bound_below_one_visitor_keeps_none() {
    let mut world = World::bounded(ENTRY_COST);
    world.send(&page("a", 0));
    world.send(&SentEvent::identify(&json!({}), NOW_MS).of_anon("a").of_user("u"));
    assert_eq!((world.table.cost(), world.counts.visitors_evicted), (0, 2));
}

/// Returns the entries of all IDs that occur in these streams, by ID.
fn all_entries(world: &mut World) -> BTreeMap<String, Option<Vec<u8>>> {
    let ids =
        (0..12).flat_map(|i| [(IdKind::Anon, format!("device {i}")), (IdKind::User, format!("user {i}"))]);
    let mut value = |(kind, id): (IdKind, String)| {
        let key: Key = world.key(kind, &id);
        (id, world.table.get(key).map(<[u8]>::to_vec))
    };
    ids.map(&mut value).collect()
}

#[test]
fn the_bound_holds_after_each_record_and_equal_records_evict_equally() {
    for seed in 0..rounds(60) {
        let mut dice = Dice(seed);
        let cost_max = 300 + dice.below(4000) as u64;
        let sent: Vec<SentEvent> = (0..200)
            .map(|i| {
                let id = format!("device {}", dice.below(12));
                match dice.below(4) {
                    0 => SentEvent::identify(&json!({"n": i}), NOW_MS + i)
                        .of_anon(&id)
                        .of_user(&format!("user {}", dice.below(12))),
                    _ => page(&id, dice.below(5) as i64),
                }
            })
            .collect();
        let (mut one, mut two) = (World::bounded(cost_max), World::bounded(cost_max));
        for (number, sent) in sent.iter().enumerate() {
            one.send(sent);
            two.send(sent);
            assert!(one.table.cost() <= cost_max, "seed {seed}, event {number}");
            assert_links_agree(&mut one, &format!("seed {seed}, event {number}"));
        }
        assert_eq!(all_entries(&mut one), all_entries(&mut two), "seed {seed}");
        let cost: u64 =
            all_entries(&mut one).values().flatten().map(|value| ENTRY_COST + value.len() as u64).sum();
        assert_eq!(one.table.cost(), cost, "seed {seed}: the table has no other entry");
    }
}

/// Asserts that each alias leads to a user's profile that lists the ID, and that each listed ID leads back.
fn assert_links_agree(world: &mut World, context: &str) {
    for i in 0..12 {
        let id = format!("device {i}");
        let key = world.key(IdKind::Anon, &id);
        if world.table.get(key).is_some() {
            let profile = world.profile_of_anon(&id);
            assert!(
                profile.is_some_and(|profile| profile.anon_ids().any(|linked| linked == id)),
                "{context}"
            );
        }
        let ids = world.view_user(&format!("user {i}")).map(|user| user.anon_ids).unwrap_or_default();
        for id in ids {
            let user = world.profile_of_anon(&id).and_then(|profile| profile.user_id().map(str::to_owned));
            assert_eq!(user, Some(format!("user {i}")), "{context}");
        }
    }
}
