//! Enrolments in experiments. A tie to a user leaves them with the ID that experiments hash.

use std::collections::BTreeMap;

use parallax::testing::limits::ENROLMENTS_MAX;
use parallax::testing::record::{FoldInputBuilder, IdKind, Record, RecordKind};
use parallax::testing::visitors::profile::profile::decode_enrolments;

use super::{DAY_MS, Dice, NOW_MS, SITE, SentEvent, World, rounds};

const HOUR_MS: i64 = 3_600_000;
/// The hour of [`NOW_MS`], since 1970.
const NOW_HOURS: u32 = (NOW_MS / HOUR_MS) as u32;

/// The hour of the latest exposure of each phase.
type Hours = BTreeMap<u32, u32>;

impl World {
    /// Folds a page event that exposes its ID to these phases.
    fn expose(&mut self, anon_id: Option<&str>, user_id: Option<&str>, at_ms: i64, phases: &[u32]) {
        let mut builder = FoldInputBuilder::default();
        builder.add_enrolments(phases.iter().copied());
        let record = Record {
            received_ms: NOW_MS,
            timestamp_ms: at_ms,
            site: Some(SITE),
            anon_id,
            user_id,
            path: Some("/"),
            payload: "{}",
            fold_input: builder.finish(),
            ..Record::new(RecordKind::Page)
        };
        self.updater.apply(&mut self.table, &record, self.cost_max, &mut self.counts);
    }

    fn enrolments(&mut self, kind: IdKind, id: &str) -> Hours {
        let key = self.key(kind, id);
        self.table.get(key).map(|value| decode_enrolments(value).iter().collect()).unwrap_or_default()
    }

    fn of_anon(&mut self, id: &str) -> Vec<u32> {
        self.enrolments(IdKind::Anon, id).into_keys().collect()
    }
}

/// The enrolments of each ID, and the user that each anon ID is tied to.
#[derive(Default)]
struct Oracle {
    enrolled: BTreeMap<(bool, usize), Hours>,
    ties: BTreeMap<usize, usize>,
}

impl Oracle {
    fn expose(&mut self, anon: Option<usize>, user: Option<usize>, at_ms: i64, phases: &[u32]) {
        let Some(id) = anon.map(|anon| (false, anon)).or(user.map(|user| (true, user))) else { return };
        let hours = self.enrolled.entry(id).or_default();
        for phase in phases {
            let hour = hours.entry(*phase).or_default();
            *hour = (*hour).max((at_ms / HOUR_MS) as u32);
        }
        while hours.len() > ENROLMENTS_MAX {
            let oldest = hours.iter().min_by_key(|(phase, hour)| (**hour, **phase)).map(|(phase, _)| *phase);
            oldest.and_then(|phase| hours.remove(&phase)).expect("one is the oldest");
        }
    }

    fn erase(&mut self, id: (bool, usize)) {
        self.enrolled.remove(&id);
        if !id.0 {
            self.ties.remove(&id.1);
            return;
        }
        let tied: Vec<usize> =
            self.ties.iter().filter(|(_, user)| **user == id.1).map(|(anon, _)| *anon).collect();
        tied.into_iter().for_each(|anon| self.erase((false, anon)));
    }
}

#[test]
fn each_id_has_exactly_the_enrolments_of_its_own_exposures() {
    for seed in 0..rounds(300) {
        let mut dice = Dice(seed);
        let (mut world, mut oracle) = (World::new(), Oracle::default());
        for _ in 0..60 {
            let (anon, user) = (dice.below(4), dice.below(3));
            let (anon_id, user_id) = (format!("a{anon}"), format!("u{user}"));
            let at_ms = NOW_MS + dice.below(200) as i64 * HOUR_MS / 2;
            match dice.below(10) {
                0 => {
                    let is_user = dice.below(2) == 1;
                    let (kind, id) =
                        if is_user { (IdKind::User, &user_id) } else { (IdKind::Anon, &anon_id) };
                    world.updater.erase(&mut world.table, SITE, kind, id);
                    oracle.erase((is_user, if is_user { user } else { anon }));
                }
                1 | 2 => {
                    let identify = SentEvent::identify(&serde_json::json!({}), at_ms);
                    world.send(&identify.of_anon(&anon_id).of_user(&user_id));
                    oracle.ties.insert(anon, user);
                }
                3 => {
                    world.send(&SentEvent::alias(&anon_id, at_ms).of_user(&user_id));
                    oracle.ties.entry(anon).or_insert(user);
                }
                choice => {
                    let phases: Vec<u32> = (0..1 + dice.below(12)).map(|_| dice.below(40) as u32).collect();
                    let (anon, user) = ((choice != 4).then_some(anon), (choice < 7).then_some(user));
                    let ids = (anon.map(|_| anon_id.as_str()), user.map(|_| user_id.as_str()));
                    world.expose(ids.0, ids.1, at_ms, &phases);
                    oracle.expose(anon, user, at_ms, &phases);
                }
            }
            for (kind, letter, is_user) in [(IdKind::Anon, 'a', false), (IdKind::User, 'u', true)] {
                for id in 0..4 {
                    let expected = oracle.enrolled.get(&(is_user, id)).cloned().unwrap_or_default();
                    assert_eq!(world.enrolments(kind, &format!("{letter}{id}")), expected, "seed {seed}");
                }
            }
        }
    }
}

#[test]
fn an_id_keeps_its_enrolments_when_it_is_tied_and_its_user_and_other_devices_get_none() {
    let mut world = World::new();
    world.expose(Some("phone"), None, NOW_MS, &[7]);
    let identify = |anon: &str, user: &str| {
        SentEvent::identify(&serde_json::json!({}), NOW_MS).of_anon(anon).of_user(user)
    };
    for tie in [identify("phone", "ana"), identify("laptop", "ana"), identify("phone", "bo")] {
        world.send(&tie);
        assert_eq!((world.of_anon("phone"), world.of_anon("laptop")), (vec![7], vec![]));
        assert_eq!(world.enrolments(IdKind::User, "ana"), Hours::new());
        assert_eq!(world.enrolments(IdKind::User, "bo"), Hours::new());
    }
    world.expose(Some("phone"), Some("bo"), NOW_MS + DAY_MS, &[9]);
    assert_eq!((world.of_anon("phone"), world.of_anon("laptop")), (vec![7, 9], vec![]));
}

#[test]
fn an_event_of_another_user_enrols_its_anon_id() {
    let mut world = World::new();
    world.send(&SentEvent::identify(&serde_json::json!({}), NOW_MS).of_anon("phone").of_user("ana"));
    world.expose(Some("phone"), Some("bo"), NOW_MS, &[7]);
    assert_eq!((world.of_anon("phone"), world.enrolments(IdKind::User, "bo")), (vec![7], Hours::new()));
    assert_eq!(world.view_user("bo").expect("a profile").page_views, 1);
}

#[test]
fn over_the_limit_the_oldest_exposure_is_dropped() {
    for count in [ENROLMENTS_MAX - 1, ENROLMENTS_MAX, ENROLMENTS_MAX + 1] {
        let mut world = World::new();
        for phase in 0..count as u32 {
            // The phase with the largest hash was seen first.
            world.expose(Some("a"), None, NOW_MS - i64::from(phase) * HOUR_MS, &[phase]);
        }
        let kept = count.min(ENROLMENTS_MAX) as u32;
        assert_eq!(world.of_anon("a"), (0..kept).collect::<Vec<_>>(), "{count}");
        world.expose(Some("a"), None, NOW_MS + HOUR_MS, &[500]);
        assert!(world.of_anon("a").contains(&500));
        assert_eq!(world.enrolments(IdKind::Anon, "a")[&0], NOW_HOURS);
    }
}

#[test]
fn one_event_adds_at_most_the_limit_and_no_phase_twice() {
    for count in [ENROLMENTS_MAX - 1, ENROLMENTS_MAX, ENROLMENTS_MAX + 1] {
        let mut world = World::new();
        let phases: Vec<u32> = (0..count as u32).flat_map(|phase| [phase, phase]).collect();
        world.expose(Some("a"), None, NOW_MS, &phases);
        assert_eq!(world.of_anon("a").len(), count.min(ENROLMENTS_MAX));
    }
}

#[test]
fn a_profile_without_enrolments_takes_no_byte_for_them() {
    let value_bytes = |phases: &[u32]| {
        let mut world = World::new();
        world.expose(Some("a"), None, NOW_MS, phases);
        world.value_of_anon("a").expect("a profile").len()
    };
    assert_eq!([value_bytes(&[1]), value_bytes(&[1, 2])], [value_bytes(&[]) + 9, value_bytes(&[]) + 17]);
}
