//! Each bound of a profile: one below, at it, above.

use parallax::limits::{PROFILE_BYTES_MAX, TRAIT_BYTES_MAX};
use parallax::visitors::log::bloom::Whose;
use serde_json::json;

use super::{Counted, MINUTE_MS, NOW_MS, Sent, World};

fn after(count: i64, sent: impl Fn(i64) -> Sent) -> World {
    World::after(&(0..count).map(|i| sent(i).of("v")).collect::<Vec<_>>())
}

#[test]
fn of_more_than_64_names_the_least_recent_goes() {
    let kept = |count: i64, late: i64| {
        // Of two that are equally recent the one whose name comes first.
        let at_ms = |i: i64| NOW_MS + i.max(late) * 1000;
        let mut world = after(count, |i| Sent::track(&format!("event {i:02}"), at_ms(i)));
        let shown = world.shown_anon("v").expect("a profile");
        assert_eq!(shown.events, count as u64);
        (shown.names.len(), shown.names.into_keys().next())
    };
    assert_eq!(kept(63, 0), (63, Some("event 00".to_owned())));
    assert_eq!(kept(64, 0), (64, Some("event 00".to_owned())));
    assert_eq!(kept(65, 0), (64, Some("event 01".to_owned())));
    assert_eq!(kept(66, 9), (64, Some("event 02".to_owned())));
}

#[test]
fn of_more_than_64_pages_the_least_recent_goes() {
    let kept = |count: i64| {
        let mut world = after(count, |i| Sent::page(&format!("/{i:02}"), NOW_MS - i));
        let shown = world.shown_anon("v").expect("a profile");
        assert_eq!(shown.page_views, count as u64);
        (shown.pages.len(), shown.pages.into_keys().next_back())
    };
    assert_eq!(kept(63), (63, Some("/62".to_owned())));
    assert_eq!(kept(64), (64, Some("/63".to_owned())));
    // What comes late is the least recent itself.
    assert_eq!(kept(65), (64, Some("/63".to_owned())));
}

#[test]
fn of_more_than_16_times_the_newest_stay_and_the_first_is_known() {
    for count in [15, 16, 17, 40] {
        let mut world = after(count, |i| Sent::page("/", NOW_MS + i));
        let history = &world.shown_anon("v").expect("a profile").pages["/"];
        assert_eq!((history.count, history.times.len()), (count as u64, count.min(16) as usize));
        assert_eq!((history.first_ms, history.last_ms), (NOW_MS, NOW_MS + count - 1));
    }
}

#[test]
fn a_path_of_more_than_256_bytes_is_known_by_its_hash() {
    for (bytes, listed) in [(255, true), (256, true), (257, false)] {
        let path = format!("/{}", "x".repeat(bytes - 1));
        let mut world = after(2, |i| Sent::page(&path, NOW_MS + i));
        let profile = world.of_anon("v").expect("a profile");
        assert_eq!(profile.page(&path).expect("a page").count, 2);
        assert!(profile.page(&format!("{path}y")).is_none());
        let paths: Vec<_> = profile.pages().map(|(path, _)| path).collect();
        assert_eq!(paths, [listed.then_some(path.as_str())]);
    }
}

#[test]
fn a_trait_of_more_than_1_kib_is_skipped_and_counted() {
    // A text takes a byte for what it is, and four for its length.
    for (bytes, kept) in [(TRAIT_BYTES_MAX - 1, true), (TRAIT_BYTES_MAX, true), (TRAIT_BYTES_MAX + 1, false)]
    {
        let text = "x".repeat(bytes - 5);
        let mut world = after(1, |_| Sent::identify(&json!({"a": "before", "b": 1}), NOW_MS));
        world.send(&Sent::identify(&json!({"a": text}), NOW_MS).of("v"));
        let traits = world.shown_anon("v").expect("a profile").traits;
        assert_eq!(traits["a"], json!(if kept { &text } else { "before" }));
        assert_eq!(world.counted, Counted { traits_too_large: u64::from(!kept), ..Counted::default() });
    }
}

#[test]
fn what_makes_a_trait_larger_than_1_kib_is_skipped_and_counted() {
    // A list takes nine bytes, a text five and itself.
    let list = |bytes: usize| json!(["x".repeat(bytes - 9 - 5 - 6)]);
    for (bytes, kept) in [(TRAIT_BYTES_MAX, true), (TRAIT_BYTES_MAX + 1, false)] {
        let append = Sent::profile(json!({"append": {"a": "y"}}), NOW_MS).of("v");
        let mut world = after(1, |_| Sent::identify(&json!({"a": list(bytes)}), NOW_MS));
        world.send(&append);
        let traits = world.shown_anon("v").expect("a profile").traits;
        assert_eq!(traits["a"].as_array().map(Vec::len), Some(if kept { 2 } else { 1 }));
        assert_eq!(world.counted.traits_too_large, u64::from(!kept));
    }
}

#[test]
fn a_trait_s_name_of_more_than_256_bytes_is_skipped_and_counted() {
    for (bytes, kept) in [(255, 1), (256, 1), (257, 0)] {
        let traits = json!({ ("n".repeat(bytes)): 1 });
        let mut world = after(1, |_| Sent::identify(&traits, NOW_MS));
        assert_eq!(world.shown_anon("v").expect("a profile").traits.len(), kept);
        assert_eq!(world.counted.traits_too_large, 1 - kept as u64);
    }
}

#[test]
fn a_number_that_no_float_is_is_skipped_and_counted() {
    let payload: Box<serde_json::value::RawValue> =
        serde_json::from_str(r#"{"traits":{"a":1e999,"b":2}}"#).expect("JSON");
    let record = parallax::visitors::log::Record { payload: payload.get(), ..record("v") };
    let mut world = World::new();
    world.applier.apply(&mut world.table, &record, u64::MAX, &mut world.counted);
    assert_eq!(json!(world.shown_anon("v").expect("a profile").traits), json!({"b": 2}));
    assert_eq!(world.counted.traits_too_large, 1);
}

fn record(anon_id: &str) -> parallax::visitors::log::Record<'_> {
    parallax::visitors::log::Record {
        kind: parallax::visitors::log::Kind::Identify,
        bot: false,
        gpc: false,
        received_ms: NOW_MS,
        timestamp_ms: NOW_MS,
        key: 0,
        site: Some(super::SITE),
        message_id: None,
        anon_id: Some(anon_id),
        user_id: None,
        event: None,
        name: None,
        path: None,
        variants: None,
        ip: None,
        payload: "{}",
    }
}

#[test]
fn of_more_than_64_traits_the_one_written_longest_ago_goes_unset_ones_included() {
    let kept = |count: i64| {
        let mut world = after(count, |i| {
            let name = format!("trait {i:02}");
            // The second is one that was unset.
            let operation = if i == 1 { json!({"unset": [name]}) } else { json!({"set": {(name): i}}) };
            Sent::profile(operation, NOW_MS + i)
        });
        let traits = world.shown_anon("v").expect("a profile").traits;
        (traits.len(), traits.into_keys().next())
    };
    assert_eq!(kept(63), (62, Some("trait 00".to_owned())));
    assert_eq!(kept(64), (63, Some("trait 00".to_owned())));
    assert_eq!(kept(65), (63, Some("trait 02".to_owned())));
    assert_eq!(kept(66), (64, Some("trait 02".to_owned())));
}

#[test]
fn a_touch_s_texts_are_cut_at_256_bytes() {
    for (text, kept) in
        [("x".repeat(256), 256), ("x".repeat(257), 256), (format!("{}ü", "x".repeat(255)), 255)]
    {
        let campaign = json!({"context": {"campaign": {"name": text}}});
        let mut world = after(1, |_| Sent::page("/", NOW_MS).with(campaign.clone()));
        let touch = world.of_anon("v").expect("a profile").first_touch().expect("a touch");
        assert_eq!(touch.campaign, Some(&text[..kept]));
    }
}

#[test]
fn a_user_has_64_anonymous_ids_and_the_one_tied_longest_ago_goes() {
    let identify = |i: i64| Sent::identify(&json!({}), NOW_MS).of(&format!("device {i}")).by("u");
    let ids = |world: &mut World| world.shown_user("u").expect("a profile").anon_ids;
    for count in [63, 64] {
        let mut world = World::after(&(0..count).map(identify).collect::<Vec<_>>());
        assert_eq!(ids(&mut world).len(), count as usize);
    }
    let mut world = World::after(&(0..64).map(identify).collect::<Vec<_>>());
    // Who identifies again is tied anew.
    world.send(&identify(0));
    world.send(&identify(64));
    let ids = ids(&mut world);
    assert_eq!((ids.len(), &*ids[0], &*ids[62], &*ids[63]), (64, "device 2", "device 0", "device 64"));
    let gone = world.key(Whose::Anon, "device 1");
    assert_eq!(world.table.get(gone), None);
    world.send(&Sent::page("/", NOW_MS).of("device 1"));
    assert_eq!(world.of_anon("device 1").expect("a profile").user_id(), None);
}

#[test]
fn sixteen_visits_are_kept_and_all_are_counted() {
    for count in [15, 16, 17, 100] {
        let mut world = after(count, |i| Sent::page("/", NOW_MS + 31 * i * MINUTE_MS));
        assert_eq!(world.of_anon("v").expect("a profile").visits(), count as u64);
    }
}

/// A profile whose traits take all that there is room for, but for the last one, which takes so many bytes.
fn filled(last: usize) -> World {
    after(17, |i| {
        let bytes = if i < 16 { 980 } else { last };
        Sent::profile(json!({"set": {(format!("{i:02}")): "x".repeat(bytes)}}), NOW_MS + i)
    })
}

#[test]
fn a_profile_of_more_than_16_kib_loses_what_is_least_recent_until_it_fits() {
    let size = |last: usize| {
        let mut world = filled(last);
        let bytes = world.value_of_anon("v").expect("a profile").len();
        (bytes, world.shown_anon("v").expect("a profile").traits.len())
    };
    let room = PROFILE_BYTES_MAX - size(300).0;
    assert_eq!(size(300 + room - 1), (PROFILE_BYTES_MAX - 1, 17));
    assert_eq!(size(300 + room), (PROFILE_BYTES_MAX, 17));
    let (bytes, traits) = size(300 + room + 1);
    assert_eq!(traits, 16);
    assert!(bytes < PROFILE_BYTES_MAX && bytes > PROFILE_BYTES_MAX - 1024);
}

#[test]
fn names_pages_and_traits_go_by_their_last_time_together() {
    let room = 3000;
    let mut world = World::new();
    world.send(&Sent::page("/old", NOW_MS - 3).of("v"));
    world.send(&Sent::track("old", NOW_MS - 2).of("v"));
    world.send(&Sent::profile(json!({"set": {"old": "x".repeat(900)}}), NOW_MS - 1).of("v"));
    for i in 0..((PROFILE_BYTES_MAX - room) / 1000) as i64 {
        let name = format!("{i:02}");
        world.send(&Sent::profile(json!({"set": {(name): "x".repeat(980)}}), NOW_MS + i).of("v"));
    }
    let there = |world: &mut World| {
        let shown = world.shown_anon("v").expect("a profile");
        (shown.pages.len(), shown.names.len(), usize::from(shown.traits.contains_key("old")))
    };
    assert_eq!(there(&mut world), (1, 1, 1));
    // Events of long names, more and more of them, until all three have gone.
    let mut went = Vec::new();
    for i in 0..8 {
        let name = format!("{i}{}", "ü".repeat(390));
        world.send(&Sent::track(&name, NOW_MS + 100 + i).of("v"));
        let (pages, names, traits) = there(&mut world);
        went.push((pages, names > i as usize + 1, traits));
    }
    went.dedup();
    // The name is short: it goes with the page, or right behind it.
    assert_eq!(went.first(), Some(&(1, true, 1)));
    assert_eq!(went.last(), Some(&(0, false, 0)));
    assert!(went.iter().all(|(page, name, old)| *page <= usize::from(*name) && usize::from(*name) <= *old));
}
