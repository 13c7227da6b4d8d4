//! Too many visitors: who goes, and that it is the same whenever the same was recorded.

use std::collections::BTreeMap;

use parallax::visitors::log::bloom::Whose;
use parallax::visitors::store::table::{ENTRY_COST, Key};
use serde_json::json;

use super::{DAY_MS, Dice, NOW_MS, Sent, World, rounds};

fn page(id: &str, days: i64) -> Sent {
    Sent::page("/", NOW_MS + days * DAY_MS).of(id)
}

/// What one visitor with an id of one letter and one visit costs.
fn cost_of_one() -> u64 {
    World::after(&[page("a", 0)]).table.cost()
}

#[test]
fn nobody_goes_at_the_bound_and_one_goes_above_it() {
    for (room, kept) in [(-1, 1), (0, 2), (1, 2)] {
        let mut world = World::bounded((2 * cost_of_one()).saturating_add_signed(room));
        ["a", "b"].iter().for_each(|id| world.send(&page(id, 0)));
        let there = ["a", "b"].map(|id| world.of_anon(id).is_some());
        assert_eq!(there, [kept == 2, true]);
        assert_eq!(world.counted.visitors_evicted, 2 - kept);
    }
}

#[test]
fn who_came_once_goes_first_then_who_was_seen_least_recently() {
    let mut world = World::bounded(4 * cost_of_one() + 50);
    let there = |world: &mut World| -> String {
        ["a", "b", "c", "d", "e", "f"].into_iter().filter(|id| world.of_anon(id).is_some()).collect()
    };
    for (id, days) in [("a", 0), ("a", 1), ("b", 1), ("b", 2), ("c", 2), ("d", 2)] {
        world.send(&page(id, days));
    }
    assert_eq!(there(&mut world), "abcd");
    world.send(&page("e", 3));
    assert_eq!(there(&mut world), "abde");
    world.send(&page("d", 4));
    world.send(&page("e", 4));
    assert_eq!(there(&mut world), "abde");
    // All came twice: of these the one seen least recently.
    world.send(&page("f", 4));
    assert_eq!(there(&mut world), "abde");
}

#[test]
fn a_storm_of_ids_that_come_once_evicts_nobody_real() {
    let mut world = World::bounded(100 * cost_of_one());
    let real: Vec<String> = (0..50).map(|i| format!("real {i}")).collect();
    for days in [0, 1] {
        real.iter().for_each(|id| world.send(&page(id, days)));
    }
    (0..2000).for_each(|i| world.send(&page(&format!("storm {i}"), 2)));
    assert!(real.iter().all(|id| world.of_anon(id).is_some()));
    assert!(world.counted.visitors_evicted > 1900);
}

#[test]
fn a_user_goes_with_its_ids() {
    let mut world = World::bounded(10 * cost_of_one());
    for id in ["v", "w"] {
        world.send(&Sent::identify(&json!({}), NOW_MS).of(id).by("u"));
    }
    assert!(world.of_anon("v").is_some());
    (0..20).for_each(|i| world.send(&page(&format!("{i}"), 0)));
    for (whose, id) in [(Whose::User, "u"), (Whose::Anon, "v"), (Whose::Anon, "w")] {
        let key = world.key(whose, id);
        assert_eq!(world.table.get(key), None);
    }
}

#[test]
fn a_bound_below_one_visitor_keeps_none() {
    let mut world = World::bounded(ENTRY_COST);
    world.send(&page("a", 0));
    world.send(&Sent::identify(&json!({}), NOW_MS).of("a").by("u"));
    assert_eq!((world.table.cost(), world.counted.visitors_evicted), (0, 2));
}

/// Everything that may stand in the table of these streams.
fn all(world: &mut World) -> BTreeMap<String, Option<Vec<u8>>> {
    let ids =
        (0..12).flat_map(|i| [(Whose::Anon, format!("device {i}")), (Whose::User, format!("user {i}"))]);
    let mut value = |(whose, id): (Whose, String)| {
        let key: Key = world.key(whose, &id);
        (id, world.table.get(key).map(<[u8]>::to_vec))
    };
    ids.map(&mut value).collect()
}

#[test]
fn the_bound_holds_after_each_record_and_the_same_records_make_the_same_table() {
    for seed in 0..rounds(60) {
        let mut dice = Dice(seed);
        let cost_max = 300 + dice.below(4000) as u64;
        let sent: Vec<Sent> = (0..200)
            .map(|i| {
                let id = format!("device {}", dice.below(12));
                match dice.below(4) {
                    0 => Sent::identify(&json!({"n": i}), NOW_MS + i)
                        .of(&id)
                        .by(&format!("user {}", dice.below(12))),
                    _ => page(&id, dice.below(5) as i64),
                }
            })
            .collect();
        let (mut one, mut two) = (World::bounded(cost_max), World::bounded(cost_max));
        for (number, sent) in sent.iter().enumerate() {
            one.send(sent);
            two.send(sent);
            assert!(one.table.cost() <= cost_max, "seed {seed}, event {number}");
            leads_somewhere(&mut one, &format!("seed {seed}, event {number}"));
        }
        assert_eq!(all(&mut one), all(&mut two), "seed {seed}");
        let cost: u64 = all(&mut one).values().flatten().map(|value| ENTRY_COST + value.len() as u64).sum();
        assert_eq!(one.table.cost(), cost, "seed {seed}: nothing else stands there");
    }
}

/// An alias leads to a user's profile that names the id, and the other way round.
fn leads_somewhere(world: &mut World, context: &str) {
    for i in 0..12 {
        let id = format!("device {i}");
        let key = world.key(Whose::Anon, &id);
        if world.table.get(key).is_some() {
            let profile = world.of_anon(&id);
            assert!(profile.is_some_and(|profile| profile.anon_ids().any(|tied| tied == id)), "{context}");
        }
        let ids = world.shown_user(&format!("user {i}")).map(|user| user.anon_ids).unwrap_or_default();
        for id in ids {
            let user = world.of_anon(&id).and_then(|profile| profile.user_id().map(str::to_owned));
            assert_eq!(user, Some(format!("user {i}")), "{context}");
        }
    }
}
