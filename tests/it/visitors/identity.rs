//! Identity: several devices and several users, compared with a model made of lists.

use std::collections::BTreeMap;

use parallax::testing::checksum::{COPIED_BYTES_MAX, hash128, hash128_parts};
use parallax::testing::record::RecordKind;
use serde_json::json;

use super::model::Person;
use super::{DAY_MS, Dice, MINUTE_MS, NOW_MS, SentEvent, World, rounds, shuffle};

/// A model of all visitors that follows the written rules literally.
#[derive(Default)]
struct VisitorModel {
    anonymous: BTreeMap<String, Person>,
    users: BTreeMap<String, Person>,
    linked: BTreeMap<String, String>,
}

impl VisitorModel {
    fn send(&mut self, sent: &SentEvent) {
        let previous = sent.payload.get("previousId").and_then(|id| id.as_str());
        match (sent.kind, &sent.anon_id, &sent.user_id, previous) {
            (RecordKind::Alias, _, Some(user), Some(previous)) if self.is_free(previous) => {
                self.link(previous, user);
                self.user(user).sent.push(sent.clone());
            }
            (RecordKind::Alias, ..) => {}
            (RecordKind::Identify, Some(anon), Some(user), _) => {
                self.link(anon, user);
                self.user(user).sent.push(sent.clone());
            }
            (_, Some(anon), Some(user), _) if self.linked.get(anon).is_some_and(|linked| linked != user) => {
                self.user(user).sent.push(sent.clone());
            }
            (_, Some(anon), ..) => self.owner_of(anon).sent.push(sent.clone()),
            (_, None, Some(user), _) => self.user(user).sent.push(sent.clone()),
            _ => {}
        }
    }

    /// Returns whether an ID is linked to no user.
    fn is_free(&self, id: &str) -> bool {
        !self.linked.contains_key(id)
    }

    fn user(&mut self, id: &str) -> &mut Person {
        self.users.entry(id.to_owned()).or_insert_with(|| Person::user(id))
    }

    fn owner_of(&mut self, anon: &str) -> &mut Person {
        match self.linked.get(anon).cloned() {
            Some(user) => self.user(&user),
            None => self.anonymous.entry(anon.to_owned()).or_insert_with(|| Person::anonymous(anon)),
        }
    }

    fn link(&mut self, anon: &str, user: &str) {
        self.users.values_mut().for_each(|person| person.anon_ids.retain(|id| id != anon));
        self.linked.insert(anon.to_owned(), user.to_owned());
        let own = self.anonymous.remove(anon);
        let person = self.user(user);
        person.anon_ids.push(anon.to_owned());
        own.into_iter().for_each(|own| person.merge(own));
    }

    fn check(&self, world: &mut World, context: &str) {
        for (id, person) in &self.anonymous {
            assert_eq!(world.view_anon(id), Some(person.view()), "{id}: {context}");
        }
        for (id, person) in &self.users {
            assert_eq!(world.view_user(id), Some(person.view()), "{id}: {context}");
        }
        for (id, user) in &self.linked {
            let found = world.profile_of_anon(id).and_then(|profile| profile.user_id().map(str::to_owned));
            assert_eq!(found.as_ref(), Some(user), "{id}: {context}");
        }
    }
}

/// Returns an event of one of four devices and one of three users. Each event has its own time within six
/// hours.
fn random_event(dice: &mut Dice, number: usize) -> SentEvent {
    let at_ms = NOW_MS + 1000 * dice.below(6 * 3600) as i64 + number as i64;
    let anon = format!("device-{}", dice.below(4));
    let user = format!("user-{}", dice.below(3));
    match dice.below(12) {
        0..3 => {
            let country = *dice.pick(&["DE", "NO"]);
            let campaign =
                json!({"context": {"campaign": {"source": format!("{at_ms}")}, "country": country}});
            SentEvent::page("/a", at_ms).of_anon(&anon).with(campaign)
        }
        3..5 => SentEvent::track("Paid", at_ms).of_anon(&anon),
        // The user ID of such an event links nothing. It is the owner if the device has another user.
        5 => SentEvent::track("Viewed", at_ms).of_anon(&anon).of_user(&user),
        // The context of a server's event describes the server.
        6 if dice.below(2) == 0 => {
            SentEvent::track("Paid", at_ms).of_user(&user).with(json!({"context": {"country": "US"}}))
        }
        6 => SentEvent::page("/b", at_ms).of_user(&user),
        7..9 => SentEvent::identify(&json!({"plan": at_ms}), at_ms).of_anon(&anon).of_user(&user),
        9 => SentEvent::identify(&json!({"city": at_ms}), at_ms).of_anon(&anon),
        10 => SentEvent::profile(json!({"unset": ["plan"]}), at_ms).of_user(&user),
        _ => SentEvent::alias(dice.pick::<&str>(&[anon.as_str(), user.as_str(), "stranger"]), at_ms)
            .of_user(&user),
    }
}

#[test]
fn linked_histories_add_up_and_two_users_never_merge() {
    for seed in 0..rounds(40) {
        let mut dice = Dice(seed);
        let (mut world, mut model) = (World::new(), VisitorModel::default());
        let sent: Vec<SentEvent> =
            (0..dice.below(60)).map(|number| random_event(&mut dice, number)).collect();
        for (number, one) in sent.iter().enumerate() {
            world.send(one);
            model.send(one);
            model.check(&mut world, &format!("seed {seed}, event {number} of {sent:#?}"));
        }
        let pages = sent.iter().filter(|sent| sent.kind == RecordKind::Page).count() as u64;
        let people = model.users.values().chain(model.anonymous.values());
        assert_eq!(people.map(|person| person.view().page_views).sum::<u64>(), pages, "seed {seed}");
    }
}

#[test]
fn the_order_in_which_devices_identify_makes_no_difference() {
    for seed in 0..rounds(100) {
        let mut dice = Dice(seed);
        let mut sent = Vec::new();
        for device in 0..1 + dice.below(3) {
            let anon = format!("device-{device}");
            // Each device has its own day, because simultaneous visits on two devices count as two. All times
            // are within two and a half hours, so that no order of arrival makes more than 16 visits at once.
            let day_ms = NOW_MS + device as i64 * DAY_MS;
            let at_ms = |dice: &mut Dice, number: i64| day_ms + dice.below(150) as i64 * MINUTE_MS + number;
            for number in 0..dice.below(10) as i64 {
                sent.push(SentEvent::page("/a", at_ms(&mut dice, 3 * number)).of_anon(&anon));
                let traits = json!({"plan": number});
                sent.push(SentEvent::identify(&traits, at_ms(&mut dice, 3 * number + 1)).of_anon(&anon));
            }
            sent.push(SentEvent::identify(&json!({}), at_ms(&mut dice, 100)).of_anon(&anon).of_user("u"));
        }
        let view = |sent: &[SentEvent]| {
            let mut view = World::after(sent).view_user("u").expect("a profile");
            // The IDs are in the order in which they were linked.
            view.anon_ids.sort();
            view
        };
        let first = view(&sent);
        shuffle(&mut dice, &mut sent);
        assert_eq!(view(&sent), first, "seed {seed}");
    }
}

#[test]
fn simultaneous_visits_on_two_devices_count_as_two() {
    let mut world = World::after(&[
        SentEvent::page("/", NOW_MS).of_anon("w"),
        SentEvent::page("/", NOW_MS).of_anon("v"),
        SentEvent::identify(&json!({}), NOW_MS).of_anon("w").of_user("u"),
        SentEvent::identify(&json!({}), NOW_MS).of_anon("v").of_user("u"),
    ]);
    assert_eq!(world.profile_of_user("u").expect("a profile").visits(), 2);
}

#[test]
fn a_device_moves_to_its_new_user_and_its_history_stays() {
    let identify = |user: &str| SentEvent::identify(&json!({}), NOW_MS).of_anon("v").of_user(user);
    let page = |minutes: i64| SentEvent::page("/", NOW_MS + minutes * MINUTE_MS).of_anon("v");
    let mut world = World::after(&[page(0), identify("one"), page(1), identify("two"), page(2)]);
    let one = world.view_user("one").expect("a profile");
    assert_eq!((one.page_views, one.anon_ids), (2, vec![]));
    let two = world.view_user("two").expect("a profile");
    assert_eq!((two.page_views, two.anon_ids), (1, vec!["v".to_owned()]));
}

#[test]
fn only_an_identify_with_both_ids_links_them() {
    let mut world = World::after(&[
        SentEvent::page("/", NOW_MS).of_anon("v").of_user("u"),
        SentEvent::track("Paid", NOW_MS).of_anon("v").of_user("u"),
        SentEvent::profile(json!({"set": {"a": 1}}), NOW_MS).of_anon("v").of_user("u"),
        SentEvent::identify(&json!({}), NOW_MS).of_anon("v"),
        SentEvent::identify(&json!({}), NOW_MS).of_user("u"),
    ]);
    assert_eq!(world.profile_of_anon("v").expect("a profile").user_id(), None);
    let user = world.view_user("u").expect("a profile");
    assert_eq!((user.page_views, user.anon_ids), (0, vec![]));
}

#[test]
fn an_alias_of_an_invalid_anonymous_id_links_nothing() {
    for previous in ["", "anonymous", "zwei wörter", &"x".repeat(129)] {
        let mut world = World::after(&[SentEvent::alias(previous, NOW_MS).of_user("u")]);
        assert!(world.profile_of_user("u").is_none(), "{previous}");
    }
    let mut world = World::after(&[SentEvent::alias(&"x".repeat(128), NOW_MS).of_user("u")]);
    assert_eq!(world.profile_of_user("u").expect("a profile").anon_ids().count(), 1);
}

#[test]
fn equal_anonymous_and_user_ids_are_two_visitors() {
    let mut world =
        World::after(&[SentEvent::page("/", NOW_MS).of_anon("x"), SentEvent::page("/", NOW_MS).of_user("x")]);
    assert_eq!(world.profile_of_anon("x").expect("a profile").page_views(), 1);
    assert_eq!(world.profile_of_user("x").expect("a profile").page_views(), 1);
}

#[test]
fn a_device_that_lost_its_alias_brings_no_history_to_the_next_user() {
    let identify =
        |anon: &str, user: &str| SentEvent::identify(&json!({}), NOW_MS).of_anon(anon).of_user(user);
    let mut sent = vec![identify("first", "ana")];
    // The profile of a user keeps 64 IDs, so the first one loses its alias.
    sent.extend((0..64).map(|device| identify(&format!("device-{device}"), "ana")));
    sent.push(SentEvent::page("/of-ana", NOW_MS).of_anon("first"));
    sent.push(SentEvent::page("/of-ben", NOW_MS).of_anon("first").of_user("ben"));
    let mut world = World::after(&sent);
    assert_eq!(world.profile_of_anon("first").expect("a profile").user_id(), None);
    let ben = world.profile_of_user("ben").expect("the event that names ben is his");
    assert_eq!((ben.page_views(), ben.page_history("/of-ben").is_some()), (1, true));
    world.send(&SentEvent::alias("first", NOW_MS).of_user("ben"));
    assert_eq!(world.profile_of_anon("first").expect("a profile").user_id(), None, "it was tied before");
    world.send(&identify("first", "ben"));
    let ben = world.profile_of_user("ben").expect("a profile");
    assert_eq!((ben.page_views(), ben.page_history("/of-ana").is_none()), (1, true));
    assert_eq!(world.profile_of_anon("first").expect("a profile").user_id(), Some("ben"));
}

#[test]
fn an_event_that_names_another_user_than_its_device_is_folded_into_the_named_user() {
    let identify = SentEvent::identify(&json!({}), NOW_MS).of_anon("v").of_user("ana");
    let page = |user: &str| SentEvent::page(&format!("/{user}"), NOW_MS).of_anon("v").of_user(user);
    let mut world = World::after(&[page("ben"), identify, page("ana"), page("ben")]);
    assert_eq!(world.profile_of_user("ana").expect("a profile").page_views(), 2);
    assert_eq!(world.profile_of_user("ben").expect("a profile").page_views(), 1);
}

#[test]
fn the_hash_of_parts_is_that_of_their_concatenation() {
    let text = [7; COPIED_BYTES_MAX + 1];
    for length in [0, 1, COPIED_BYTES_MAX - 1, COPIED_BYTES_MAX, COPIED_BYTES_MAX + 1] {
        let (before, after) = text[..length].split_at(length / 3);
        assert_eq!(hash128_parts([before, b"", after]), hash128(&text[..length]), "{length}");
    }
}
