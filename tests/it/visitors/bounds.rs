//! Each bound of a profile, one below it, at it and one above it.

use parallax::testing::limits::{PROFILE_BYTES_MAX, TRAIT_BYTES_MAX};
use parallax::testing::record::{IdKind, Record, RecordKind};
use serde_json::json;

use super::{FoldCounts, MINUTE_MS, NOW_MS, SentEvent, World};

fn after(count: i64, sent: impl Fn(i64) -> SentEvent) -> World {
    World::after(&(0..count).map(|i| sent(i).of_anon("v")).collect::<Vec<_>>())
}

#[test]
fn the_least_recent_of_more_than_64_names_is_dropped() {
    let kept = |count: i64, late: i64| {
        // Of equally recent names, the alphabetically first is dropped first.
        let at_ms = |i: i64| NOW_MS + i.max(late) * 1000;
        let mut world = after(count, |i| SentEvent::track(&format!("event {i:02}"), at_ms(i)));
        let view = world.view_anon("v").expect("a profile");
        assert_eq!(view.events, count as u64);
        (view.names.len(), view.names.into_keys().next())
    };
    assert_eq!(kept(63, 0), (63, Some("event 00".to_owned())));
    assert_eq!(kept(64, 0), (64, Some("event 00".to_owned())));
    assert_eq!(kept(65, 0), (64, Some("event 01".to_owned())));
    assert_eq!(kept(66, 9), (64, Some("event 02".to_owned())));
}

#[test]
fn the_least_recent_of_more_than_64_pages_is_dropped() {
    let kept = |count: i64| {
        let mut world = after(count, |i| SentEvent::page(&format!("/{i:02}"), NOW_MS - i));
        let view = world.view_anon("v").expect("a profile");
        assert_eq!(view.page_views, count as u64);
        (view.pages.len(), view.pages.into_keys().next_back())
    };
    assert_eq!(kept(63), (63, Some("/62".to_owned())));
    assert_eq!(kept(64), (64, Some("/63".to_owned())));
    // A page that arrives last with the oldest time is the least recent one itself.
    assert_eq!(kept(65), (64, Some("/63".to_owned())));
}

#[test]
fn a_history_keeps_the_newest_16_times_and_the_first() {
    for count in [15, 16, 17, 40] {
        let mut world = after(count, |i| SentEvent::page("/", NOW_MS + i));
        let history = &world.view_anon("v").expect("a profile").pages["/"];
        assert_eq!((history.count, history.times.len()), (count as u64, count.min(16) as usize));
        assert_eq!((history.first_ms, history.last_ms), (NOW_MS, NOW_MS + count - 1));
    }
}

#[test]
fn a_path_longer_than_256_bytes_is_stored_as_a_hash() {
    for (bytes, listed) in [(255, true), (256, true), (257, false)] {
        let path = format!("/{}", "x".repeat(bytes - 1));
        let mut world = after(2, |i| SentEvent::page(&path, NOW_MS + i));
        let profile = world.profile_of_anon("v").expect("a profile");
        assert_eq!(profile.page_history(&path).expect("a page").count, 2);
        assert!(profile.page_history(&format!("{path}y")).is_none());
        let paths: Vec<_> = profile.page_histories().map(|(path, _)| path).collect();
        assert_eq!(paths, [listed.then_some(path.as_str())]);
    }
}

#[test]
fn a_trait_larger_than_1_kib_is_skipped_and_counted() {
    // An encoded text takes one byte for its type and four bytes for its length.
    for (bytes, kept) in [(TRAIT_BYTES_MAX - 1, true), (TRAIT_BYTES_MAX, true), (TRAIT_BYTES_MAX + 1, false)]
    {
        let text = "x".repeat(bytes - 5);
        let mut world = after(1, |_| SentEvent::identify(&json!({"a": "before", "b": 1}), NOW_MS));
        world.send(&SentEvent::identify(&json!({"a": text}), NOW_MS).of_anon("v"));
        let traits = world.view_anon("v").expect("a profile").traits;
        assert_eq!(traits["a"], json!(if kept { &text } else { "before" }));
        assert_eq!(world.counts, FoldCounts { traits_too_large: u64::from(!kept), ..FoldCounts::default() });
    }
}

#[test]
fn an_append_that_exceeds_1_kib_is_skipped_and_counted() {
    // A list takes nine bytes. A text takes five bytes plus its length. The appended text takes six.
    let list = |bytes: usize| json!(["x".repeat(bytes - 9 - 5 - 6)]);
    for (bytes, kept) in [(TRAIT_BYTES_MAX, true), (TRAIT_BYTES_MAX + 1, false)] {
        let append = SentEvent::profile(json!({"append": {"a": "y"}}), NOW_MS).of_anon("v");
        let mut world = after(1, |_| SentEvent::identify(&json!({"a": list(bytes)}), NOW_MS));
        world.send(&append);
        let traits = world.view_anon("v").expect("a profile").traits;
        assert_eq!(traits["a"].as_array().map(Vec::len), Some(if kept { 2 } else { 1 }));
        assert_eq!(world.counts.traits_too_large, u64::from(!kept));
    }
}

#[test]
fn a_trait_name_longer_than_256_bytes_is_skipped_and_counted() {
    for (bytes, kept) in [(255, 1), (256, 1), (257, 0)] {
        let traits = json!({ ("n".repeat(bytes)): 1 });
        let mut world = after(1, |_| SentEvent::identify(&traits, NOW_MS));
        assert_eq!(world.view_anon("v").expect("a profile").traits.len(), kept);
        assert_eq!(world.counts.traits_too_large, 1 - kept as u64);
    }
}

#[test]
fn a_number_beyond_f64_is_skipped_and_counted() {
    let payload: Box<serde_json::value::RawValue> =
        serde_json::from_str(r#"{"traits":{"a":1e999,"b":2}}"#).expect("JSON");
    let mut world = World::new();
    world.fold(&Record {
        site: Some(super::SITE),
        anon_id: Some("v"),
        payload: payload.get(),
        ..Record::new(RecordKind::Identify)
    });
    assert_eq!(json!(world.view_anon("v").expect("a profile").traits), json!({"b": 2}));
    assert_eq!(world.counts.traits_too_large, 1);
}

#[test]
fn the_oldest_of_more_than_64_traits_is_dropped_counting_unset_ones() {
    let kept = |count: i64| {
        let mut world = after(count, |i| {
            let name = format!("trait {i:02}");
            // The second trait is an unset one.
            let operation = if i == 1 { json!({"unset": [name]}) } else { json!({"set": {(name): i}}) };
            SentEvent::profile(operation, NOW_MS + i)
        });
        let traits = world.view_anon("v").expect("a profile").traits;
        (traits.len(), traits.into_keys().next())
    };
    assert_eq!(kept(63), (62, Some("trait 00".to_owned())));
    assert_eq!(kept(64), (63, Some("trait 00".to_owned())));
    assert_eq!(kept(65), (63, Some("trait 02".to_owned())));
    assert_eq!(kept(66), (64, Some("trait 02".to_owned())));
}

#[test]
fn touch_texts_are_truncated_at_256_bytes() {
    for (text, kept) in
        [("x".repeat(256), 256), ("x".repeat(257), 256), (format!("{}ü", "x".repeat(255)), 255)]
    {
        let campaign = json!({"context": {"campaign": {"name": text}}});
        let mut world = after(1, |_| SentEvent::page("/", NOW_MS).with(campaign.clone()));
        let touch = world.profile_of_anon("v").expect("a profile").first_touch().expect("a touch");
        assert_eq!(touch.campaign, Some(&text[..kept]));
    }
}

#[test]
fn a_user_keeps_the_64_most_recently_linked_anonymous_ids() {
    let identify =
        |i: i64| SentEvent::identify(&json!({}), NOW_MS).of_anon(&format!("device {i}")).of_user("u");
    let ids = |world: &mut World| world.view_user("u").expect("a profile").anon_ids;
    for count in [63, 64] {
        let mut world = World::after(&(0..count).map(identify).collect::<Vec<_>>());
        assert_eq!(ids(&mut world).len(), count as usize);
    }
    let mut world = World::after(&(0..64).map(identify).collect::<Vec<_>>());
    // A repeated identify makes the link of this device the most recent.
    world.send(&identify(0));
    world.send(&identify(64));
    let ids = ids(&mut world);
    assert_eq!((ids.len(), &*ids[0], &*ids[62], &*ids[63]), (64, "device 2", "device 0", "device 64"));
    let dropped = world.key(IdKind::Anon, "device 1");
    assert_eq!(world.table.get(dropped), None);
    world.send(&SentEvent::page("/", NOW_MS).of_anon("device 1"));
    assert_eq!(world.profile_of_anon("device 1").expect("a profile").user_id(), None);
}

#[test]
fn visits_are_counted_beyond_the_sixteen_that_are_kept() {
    for count in [15, 16, 17, 100] {
        let mut world = after(count, |i| SentEvent::page("/", NOW_MS + 31 * i * MINUTE_MS));
        assert_eq!(world.profile_of_anon("v").expect("a profile").visits(), count as u64);
    }
}

/// Returns a world whose profile has 16 traits of 980 bytes and a last one of `last` bytes.
fn filled(last: usize) -> World {
    after(17, |i| {
        let bytes = if i < 16 { 980 } else { last };
        SentEvent::profile(json!({"set": {(format!("{i:02}")): "x".repeat(bytes)}}), NOW_MS + i)
    })
}

#[test]
fn a_profile_over_16_kib_drops_its_least_recent_parts() {
    let size = |last: usize| {
        let mut world = filled(last);
        let bytes = world.value_of_anon("v").expect("a profile").len();
        (bytes, world.view_anon("v").expect("a profile").traits.len())
    };
    let room = PROFILE_BYTES_MAX - size(300).0;
    assert_eq!(size(300 + room - 1), (PROFILE_BYTES_MAX - 1, 17));
    assert_eq!(size(300 + room), (PROFILE_BYTES_MAX, 17));
    let (bytes, traits) = size(300 + room + 1);
    assert_eq!(traits, 16);
    assert!(bytes < PROFILE_BYTES_MAX && bytes > PROFILE_BYTES_MAX - 1024);
}

#[test]
fn names_pages_and_traits_are_dropped_in_order_of_recency() {
    let room = 3000;
    let mut world = World::new();
    world.send(&SentEvent::page("/old", NOW_MS - 3).of_anon("v"));
    world.send(&SentEvent::track("old", NOW_MS - 2).of_anon("v"));
    world.send(&SentEvent::profile(json!({"set": {"old": "x".repeat(900)}}), NOW_MS - 1).of_anon("v"));
    for i in 0..((PROFILE_BYTES_MAX - room) / 1000) as i64 {
        let name = format!("{i:02}");
        world.send(&SentEvent::profile(json!({"set": {(name): "x".repeat(980)}}), NOW_MS + i).of_anon("v"));
    }
    let remaining = |world: &mut World| {
        let view = world.view_anon("v").expect("a profile");
        (view.pages.len(), view.names.len(), usize::from(view.traits.contains_key("old")))
    };
    assert_eq!(remaining(&mut world), (1, 1, 1));
    // Adds events with long names until the old page, the old name and the old trait are dropped.
    let mut steps = Vec::new();
    for i in 0..8 {
        let name = format!("{i}{}", "ü".repeat(390));
        world.send(&SentEvent::track(&name, NOW_MS + 100 + i).of_anon("v"));
        let (pages, names, traits) = remaining(&mut world);
        steps.push((pages, names > i as usize + 1, traits));
    }
    steps.dedup();
    // The name is short, so it is dropped together with the page or directly after it.
    assert_eq!(steps.first(), Some(&(1, true, 1)));
    assert_eq!(steps.last(), Some(&(0, false, 0)));
    assert!(steps.iter().all(|(page, name, old)| *page <= usize::from(*name) && usize::from(*name) <= *old));
}
