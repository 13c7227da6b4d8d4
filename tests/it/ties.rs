//! Ownership: the owner of each record, compared with the written rules, and the merge of entries.

use std::collections::BTreeSet;
use std::sync::Arc;

use parallax::testing::events::identity::{NamedIds, Owner};
use parallax::testing::limits::{RECENT_TIES_MAX, SITE_IDS_KNOWN_MAX, TIE_CACHE_ENTRIES_MAX};
use parallax::testing::record::{IdTag, RecordKind};
use parallax::testing::visitors::ties::cache::TieCache;
use parallax::testing::visitors::ties::known::KnownTies;
use parallax::testing::visitors::ties::lost::{LINE_BYTES, LINES, LostAliases};
use parallax::testing::visitors::ties::merge::{DropRule, merge};
use parallax::testing::visitors::ties::recent::RecentTies;
use parallax::testing::visitors::ties::{TIE_BYTES, TieEntry, users_around};

use crate::dice::Dice;
use crate::harness::times;

fn tag(name: &str) -> IdTag {
    let mut tag = IdTag::default();
    tag.0[..name.len()].copy_from_slice(name.as_bytes());
    tag
}

fn tie(anon: &str, seq: u64, user: &str) -> TieEntry {
    TieEntry { anon: tag(anon), seq, user: Some(tag(user)), anon_hash: 1, user_hash: 2 }
}

fn end(anon: &str, seq: u64) -> TieEntry {
    TieEntry { user: None, user_hash: 0, ..tie(anon, seq, "") }
}

/// Returns the IDs of a record that has none.
fn named(kind: RecordKind) -> NamedIds {
    NamedIds { kind, is_folded: true, is_redacted: false, anon: None, user: None }
}

/// Returns the owner of a record. `entries` are those of its anonymous ID.
fn owner_of(entries: &[TieEntry], seq: u64, record: &NamedIds) -> Option<Owner> {
    record.owner(users_around(entries, seq))
}

/// Returns the owner of a track event.
fn owner(entries: &[TieEntry], seq: u64, anon: &str, user: Option<&str>) -> Owner {
    let (anon, user) = (Some(tag(anon)), user.map(tag));
    owner_of(entries, seq, &NamedIds { anon, user, ..named(RecordKind::Track) })
        .expect("the record has an ID")
}

fn user(name: &str) -> Owner {
    Owner::User(tag(name))
}

#[test]
fn a_shared_device_belongs_to_each_user_from_their_tie_on() {
    let entries = [tie("v1", 10, "A"), tie("v1", 20, "B")];
    assert_eq!([5, 10, 19].map(|seq| owner(&entries, seq, "v1", None)), [user("A"); 3]);
    assert_eq!([20, 99].map(|seq| owner(&entries, seq, "v1", None)), [user("B"); 2]);
    // A is erased: the tie of B is the first one. The records below it are void.
    assert_eq!(owner(&entries[1..], 25, "v1", None), user("B"));
    // B is erased after that: nothing names v1 any more.
    let ended = [tie("v1", 20, "B"), end("v1", 30)];
    assert_eq!(owner(&ended, 31, "v1", None), Owner::Anonymous(tag("v1")));
}

#[test]
fn an_ended_id_does_not_return_to_an_earlier_user() {
    let entries = [tie("v1", 10, "A"), tie("v1", 20, "B"), end("v1", 30)];
    assert_eq!(owner(&entries, 40, "v1", None), Owner::Anonymous(tag("v1")));
    let tied_again = [tie("v1", 10, "A"), end("v1", 30), tie("v1", 50, "C")];
    assert_eq!(owner(&tied_again, 40, "v1", None), user("C"), "the next tie takes the history since the end");
    assert_eq!(owner(&tied_again, 29, "v1", None), user("A"));
}

#[test]
fn a_device_that_returns_to_its_first_user_has_three_intervals() {
    let entries = [tie("v1", 10, "A"), tie("v1", 20, "B"), tie("v1", 30, "A")];
    let owners = [5, 15, 20, 29, 30].map(|seq| owner(&entries, seq, "v1", None));
    assert_eq!(owners, [user("A"), user("A"), user("B"), user("B"), user("A")]);
}

#[test]
fn an_event_that_names_another_user_than_the_tie_belongs_to_the_named_user() {
    let entries = [tie("v1", 10, "A")];
    assert_eq!(owner(&entries, 15, "v1", Some("B")), user("B"));
    assert_eq!(owner(&entries, 15, "v1", Some("A")), user("A"));
    assert_eq!(owner(&entries, 5, "v1", Some("B")), user("A"), "v1 has no tie yet");
    assert_eq!(owner(&[], 5, "v1", Some("B")), Owner::Anonymous(tag("v1")));
}

/// The rules of `events/identity.rs`, word by word. `entries` has all entries of all IDs.
fn naive_owner(entries: &[TieEntry], seq: u64, record: &NamedIds) -> Option<Owner> {
    let of_id = || entries.iter().filter(|entry| Some(entry.anon) == record.anon);
    let last_before = of_id().filter(|entry| entry.seq <= seq).max_by_key(|entry| entry.seq);
    let next_after = of_id().filter(|entry| entry.seq > seq).min_by_key(|entry| entry.seq);
    // Rules 1 and 4.
    let ties = record.kind == RecordKind::Identify && record.is_folded && record.anon.is_some();
    if record.user.is_some() && (ties || record.kind == RecordKind::Alias || record.anon.is_none()) {
        return record.user.map(Owner::User);
    }
    let anon = record.anon?;
    match (last_before.and_then(|entry| entry.user), record.user) {
        // Rule 2.
        (Some(tied), Some(named)) if tied != named => Some(Owner::User(named)),
        // Rule 3.
        (Some(tied), _) => Some(Owner::User(tied)),
        (None, _) => {
            let next = next_after.and_then(|entry| entry.user);
            Some(next.map_or(Owner::Anonymous(anon), Owner::User))
        }
    }
}

#[test]
fn the_owner_follows_the_written_rules_whichever_checkpoints_merged_the_entries() {
    const KINDS: [RecordKind; 4] =
        [RecordKind::Track, RecordKind::Identify, RecordKind::Alias, RecordKind::Group];
    for seed in 0..times(500, 50_000) as u64 {
        let mut dice = Dice(seed);
        let (anons, users) = (["v1", "v2", "v3"], ["A", "B", "C"]);
        let mut all = Vec::new();
        let (mut base, mut recent) = (Vec::<TieEntry>::new(), RecentTies::default());
        for seq in 1..=40 {
            let anon = *dice.pick(&anons);
            match dice.below(10) {
                0..4 => all.push(tie(anon, seq, dice.pick::<&str>(&users))),
                4 => all.push(end(anon, seq)),
                5 => {
                    base = merged(&base, &recent.sorted(), &DropRule::default());
                    recent.remove_through(seq);
                }
                _ => continue,
            }
            if let Some(entry) = all.last().filter(|entry| entry.seq == seq) {
                recent.push(*entry);
            }
        }
        let entries = merged(&base, &recent.sorted(), &DropRule::default());
        for seq in 1..=40 {
            let record = NamedIds {
                kind: *dice.pick(&KINDS),
                is_folded: dice.below(5) > 0,
                anon: (dice.below(5) > 0).then(|| tag(dice.pick::<&str>(&anons))),
                user: (dice.below(2) > 0).then(|| tag(dice.pick::<&str>(&users))),
                ..named(RecordKind::Track)
            };
            let own: Vec<TieEntry> =
                entries.iter().filter(|entry| Some(entry.anon) == record.anon).copied().collect();
            // Records before a leading end are void, so the merge drops that end.
            let is_void = all
                .iter()
                .any(|entry| Some(entry.anon) == record.anon && entry.user.is_none() && entry.seq > seq);
            if !is_void {
                let owner = owner_of(&own, seq, &record);
                assert_eq!(owner, naive_owner(&all, seq, &record), "seed {seed}, seq {seq}, {record:?}");
            }
        }
    }
}

fn merged(base: &[TieEntry], recent: &[TieEntry], rule: &DropRule) -> Vec<TieEntry> {
    let mut out = Vec::new();
    let base = base.iter().copied().map(Ok::<_, ()>);
    merge(base, recent, rule, |entry| {
        out.push(entry);
        Ok(())
    })
    .expect("nothing fails");
    out
}

#[test]
fn a_merge_drops_the_entries_that_decide_no_owner() {
    let all = [tie("v1", 10, "A"), tie("v1", 20, "B"), tie("v1", 30, "B"), end("v1", 40), end("v2", 40)];
    let kept = merged(&all[..2], &all[2..], &DropRule::default());
    assert_eq!(kept, [all[0], all[1], all[3]], "a repeated tie and an end without a tie are dropped");
    let oldest = |oldest_seq| DropRule { oldest_seq, ..DropRule::default() };
    assert_eq!(merged(&all[..2], &[], &oldest(20)), all[..2], "records below 20 belong to A");
    assert_eq!(merged(&all[..2], &[], &oldest(21)), all[1..2]);
    let erased = |name, seq| DropRule { erased: vec![(tag(name), seq)], ..DropRule::default() };
    assert_eq!(merged(&all[..2], &all[3..], &erased("A", 40)), [all[1], all[3]]);
    assert_eq!(merged(&all[..2], &all[3..], &erased("B", 40)), [all[0], all[3]]);
    let again = [tie("v1", 50, "B")];
    assert_eq!(merged(&all[1..2], &again, &erased("B", 40)), again, "a later tie is of a new visitor");
}

#[test]
fn an_entry_has_56_bytes_and_keeps_every_field() {
    for entry in [tie("v1", 7, "A"), end("v2", u64::MAX >> 2)] {
        let bytes = entry.to_bytes();
        assert_eq!((bytes.len(), TIE_BYTES), (56, 56));
        assert_eq!(TieEntry::from_bytes(&bytes), entry);
    }
}

#[test]
fn recent_entries_stay_in_order_when_a_checkpoint_takes_some() {
    let mut recent = RecentTies::default();
    (1..=10_000).for_each(|seq| recent.push(tie("v1", seq, "A")));
    let copy = recent.clone();
    recent.remove_through(6_000);
    let seqs: Vec<u64> = recent.iter().map(|entry| entry.seq).collect();
    assert!(seqs.iter().copied().eq(6_001..=10_000));
    assert_eq!((recent.len(), copy.len()), (4_000, 10_000), "a copy does not change");
    const { assert!(RECENT_TIES_MAX * TIE_BYTES <= 56_000_000) };
}

#[test]
fn a_cache_of_entries_forgets_all_ids_at_its_limit_of_entries() {
    let list = |entries: usize| -> Arc<[TieEntry]> { vec![tie("v", 1, "A"); entries].into() };
    for (entries, is_kept) in [
        (TIE_CACHE_ENTRIES_MAX - 4, true),
        (TIE_CACHE_ENTRIES_MAX - 3, true),
        (TIE_CACHE_ENTRIES_MAX - 2, false),
    ] {
        let mut cache = TieCache::default();
        cache.insert(tag("v1"), list(1));
        cache.insert(tag("v2"), list(entries));
        assert_eq!(cache.get(tag("v1")).is_some(), is_kept, "each ID counts as an entry, too");
        assert_eq!(cache.get(tag("v2")).map(|list| list.len()), Some(entries));
        cache.insert(tag("v3"), list(TIE_CACHE_ENTRIES_MAX));
        assert!(
            cache.get(tag("v3")).is_none() && cache.get(tag("v2")).is_some(),
            "a longer list is not kept"
        );
    }
}

#[test]
fn the_filter_of_lost_aliases_has_no_false_negatives_and_survives_a_copy() {
    let mut dice = Dice(3);
    let keys: Vec<[u64; 2]> = (0..2_000).map(|_| [dice.next_u64(), dice.next_u64()]).collect();
    let mut lost = LostAliases::default();
    assert!(lost.is_empty() && keys.iter().all(|key| !lost.may_contain(*key)));
    keys[..1_000].iter().for_each(|key| lost.insert(*key));
    assert!(keys[..1_000].iter().all(|key| lost.may_contain(*key)));
    assert!(keys[1_000..].iter().all(|key| !lost.may_contain(*key)));
    let copy = lost.clone();
    keys[1_000..].iter().for_each(|key| lost.insert(*key));
    assert!(keys[1_000..].iter().all(|key| lost.may_contain(*key) && !copy.may_contain(*key)));
    let mut restored = LostAliases::default();
    assert!(lost.lines().all(|(number, bytes)| restored.set_line(number, &bytes)));
    assert!(restored == lost);
    let line = [1; LINE_BYTES];
    assert_eq!(
        [LINES - 1, LINES, LINES + 1].map(|number| restored.set_line(number, &line)),
        [true, false, false]
    );
}

#[test]
fn a_full_set_of_sites_knows_every_site() {
    let sites = |count: usize| (0..count).map(|n| format!("site-{n}").into()).collect::<BTreeSet<Box<str>>>();
    let known = KnownTies::restored(0, sites(SITE_IDS_KNOWN_MAX - 1));
    assert!(known.knows_site("site-7") && !known.knows_site("acme"));
    known.add_site("acme");
    assert_eq!(known.copy().sites.len(), SITE_IDS_KNOWN_MAX);
    assert!(known.knows_site("acme") && known.knows_site("stranger"), "no erasure is refused");
    known.add_site("other");
    assert_eq!(known.copy().sites.len(), SITE_IDS_KNOWN_MAX, "at the bound no ID is added");
}
