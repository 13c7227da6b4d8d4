//! Who is who: several devices, several users, against lists that move.

use std::collections::BTreeMap;

use parallax::visitors::log::Kind;
use serde_json::json;

use super::model::Person;
use super::{DAY_MS, Dice, MINUTE_MS, NOW_MS, Sent, World, rounds, shuffle};

/// Everybody, by the laws as they are written.
#[derive(Default)]
struct Everybody {
    anonymous: BTreeMap<String, Person>,
    users: BTreeMap<String, Person>,
    tied: BTreeMap<String, String>,
}

impl Everybody {
    fn send(&mut self, sent: &Sent) {
        let previous = sent.payload.get("previousId").and_then(|id| id.as_str());
        match (sent.kind, &sent.anon_id, &sent.user_id, previous) {
            (Kind::Alias, _, Some(user), Some(previous)) if self.is_free(previous) => {
                self.tie(previous, user);
                self.user(user).sent.push(sent.clone());
            }
            (Kind::Alias, ..) => {}
            (Kind::Identify, Some(anon), Some(user), _) => {
                self.tie(anon, user);
                self.user(user).sent.push(sent.clone());
            }
            (_, Some(anon), ..) => self.of(anon).sent.push(sent.clone()),
            (_, None, Some(user), _) => self.user(user).sent.push(sent.clone()),
            _ => {}
        }
    }

    /// Whether an id is no user's, nor has one.
    fn is_free(&self, id: &str) -> bool {
        !self.tied.contains_key(id) && !self.users.contains_key(id)
    }

    fn user(&mut self, id: &str) -> &mut Person {
        self.users.entry(id.to_owned()).or_insert_with(|| Person::user(id))
    }

    fn of(&mut self, anon: &str) -> &mut Person {
        match self.tied.get(anon).cloned() {
            Some(user) => self.user(&user),
            None => self.anonymous.entry(anon.to_owned()).or_insert_with(|| Person::anonymous(anon)),
        }
    }

    fn tie(&mut self, anon: &str, user: &str) {
        self.users.values_mut().for_each(|person| person.anon_ids.retain(|id| id != anon));
        self.tied.insert(anon.to_owned(), user.to_owned());
        let own = self.anonymous.remove(anon);
        let person = self.user(user);
        person.anon_ids.push(anon.to_owned());
        own.into_iter().for_each(|own| person.merge(own));
    }

    fn check(&self, world: &mut World, context: &str) {
        for (id, person) in &self.anonymous {
            assert_eq!(world.shown_anon(id), Some(person.shown()), "{id}: {context}");
        }
        for (id, person) in &self.users {
            assert_eq!(world.shown_user(id), Some(person.shown()), "{id}: {context}");
        }
        for (id, user) in &self.tied {
            let found = world.of_anon(id).and_then(|profile| profile.user_id().map(str::to_owned));
            assert_eq!(found.as_ref(), Some(user), "{id}: {context}");
        }
    }
}

/// One of four devices, one of three users; each event has a time of its own within six hours.
fn any(dice: &mut Dice, number: usize) -> Sent {
    let at_ms = NOW_MS + 1000 * dice.below(6 * 3600) as i64 + number as i64;
    let anon = format!("device-{}", dice.below(4));
    let user = format!("user-{}", dice.below(3));
    match dice.below(12) {
        0..3 => {
            let campaign = json!({"context": {"campaign": {"source": format!("{at_ms}")}}});
            Sent::page("/a", at_ms).of(&anon).with(campaign)
        }
        3..5 => Sent::track("Paid", at_ms).of(&anon),
        // The user beside an event only names the visitor.
        5 => Sent::track("Viewed", at_ms).of(&anon).by(&user),
        6 => Sent::page("/b", at_ms).by(&user),
        7..9 => Sent::identify(&json!({"plan": at_ms}), at_ms).of(&anon).by(&user),
        9 => Sent::identify(&json!({"city": at_ms}), at_ms).of(&anon),
        10 => Sent::profile(json!({"unset": ["plan"]}), at_ms).by(&user),
        _ => Sent::alias(dice.of::<&str>(&[anon.as_str(), user.as_str(), "stranger"]), at_ms).by(&user),
    }
}

#[test]
fn counts_add_nothing_tied_is_lost_and_two_users_never_become_one() {
    for seed in 0..rounds(40) {
        let mut dice = Dice(seed);
        let (mut world, mut everybody) = (World::new(), Everybody::default());
        let sent: Vec<Sent> = (0..dice.below(60)).map(|number| any(&mut dice, number)).collect();
        for (number, one) in sent.iter().enumerate() {
            world.send(one);
            everybody.send(one);
            everybody.check(&mut world, &format!("seed {seed}, event {number} of {sent:#?}"));
        }
        let pages = sent.iter().filter(|sent| sent.kind == Kind::Page).count() as u64;
        let people = everybody.users.values().chain(everybody.anonymous.values());
        assert_eq!(people.map(|person| person.shown().page_views).sum::<u64>(), pages, "seed {seed}");
    }
}

#[test]
fn when_the_devices_of_one_user_identify_makes_no_difference() {
    for seed in 0..rounds(100) {
        let mut dice = Dice(seed);
        let mut sent = Vec::new();
        for device in 0..1 + dice.below(3) {
            let anon = format!("device-{device}");
            // Each device on a day of its own: visits at one time on two devices are two. Two hours and a half, so that in no
            // order more than 16 visits are known at once.
            let day_ms = NOW_MS + device as i64 * DAY_MS;
            let at_ms = |dice: &mut Dice, number: i64| day_ms + dice.below(150) as i64 * MINUTE_MS + number;
            for number in 0..dice.below(10) as i64 {
                sent.push(Sent::page("/a", at_ms(&mut dice, 3 * number)).of(&anon));
                let traits = json!({"plan": number});
                sent.push(Sent::identify(&traits, at_ms(&mut dice, 3 * number + 1)).of(&anon));
            }
            sent.push(Sent::identify(&json!({}), at_ms(&mut dice, 100)).of(&anon).by("u"));
        }
        let shown = |sent: &[Sent]| {
            let mut shown = World::after(sent).shown_user("u").expect("a profile");
            // In the order in which they were tied.
            shown.anon_ids.sort();
            shown
        };
        let first = shown(&sent);
        shuffle(&mut dice, &mut sent);
        assert_eq!(shown(&sent), first, "seed {seed}");
    }
}

#[test]
fn visits_at_one_time_on_two_devices_are_two() {
    let mut world = World::after(&[
        Sent::page("/", NOW_MS).by("u"),
        Sent::page("/", NOW_MS).of("v"),
        Sent::identify(&json!({}), NOW_MS).of("v").by("u"),
    ]);
    assert_eq!(world.of_user("u").expect("a profile").visits(), 2);
}

#[test]
fn an_id_that_identifies_as_another_user_belongs_to_that_one_and_its_history_stays() {
    let identify = |user: &str| Sent::identify(&json!({}), NOW_MS).of("v").by(user);
    let page = |minutes: i64| Sent::page("/", NOW_MS + minutes * MINUTE_MS).of("v");
    let mut world = World::after(&[page(0), identify("one"), page(1), identify("two"), page(2)]);
    let one = world.shown_user("one").expect("a profile");
    assert_eq!((one.page_views, one.anon_ids), (2, vec![]));
    let two = world.shown_user("two").expect("a profile");
    assert_eq!((two.page_views, two.anon_ids), (1, vec!["v".to_owned()]));
}

#[test]
fn only_an_identify_with_both_ids_ties() {
    let mut world = World::after(&[
        Sent::page("/", NOW_MS).of("v").by("u"),
        Sent::track("Paid", NOW_MS).of("v").by("u"),
        Sent::profile(json!({"set": {"a": 1}}), NOW_MS).of("v").by("u"),
        Sent::identify(&json!({}), NOW_MS).of("v"),
        Sent::identify(&json!({}), NOW_MS).by("u"),
    ]);
    assert_eq!(world.of_anon("v").expect("a profile").user_id(), None);
    let user = world.shown_user("u").expect("a profile");
    assert_eq!((user.page_views, user.anon_ids), (0, vec![]));
}

#[test]
fn an_alias_of_what_is_no_anonymous_id_ties_nothing() {
    for previous in ["", "anonymous", "zwei wörter", &"x".repeat(129)] {
        let mut world = World::after(&[Sent::alias(previous, NOW_MS).by("u")]);
        assert!(world.of_user("u").is_none(), "{previous}");
    }
    let mut world = World::after(&[Sent::alias(&"x".repeat(128), NOW_MS).by("u")]);
    assert_eq!(world.of_user("u").expect("a profile").anon_ids().count(), 1);
}

#[test]
fn an_anonymous_id_and_a_user_id_of_one_text_are_two() {
    let mut world = World::after(&[Sent::page("/", NOW_MS).of("x"), Sent::page("/", NOW_MS).by("x")]);
    assert_eq!(world.of_anon("x").expect("a profile").page_views(), 1);
    assert_eq!(world.of_user("x").expect("a profile").page_views(), 1);
}
