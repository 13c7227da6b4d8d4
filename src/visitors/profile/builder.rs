//! A profile that is to change: its parts, borrowed from where it lies until they differ.
//!
//! What holds of what it writes: it is what [`Profile`] reads, and within every bound of a profile; what goes for a bound is the
//! least recent, and of two of one time the one whose name comes first.

use std::borrow::Cow;

use super::super::store::table::Rank;
use super::history::{self, Entry};
use super::profile::{MOVED, PROFILE, Profile, SEEN, TOUCHED, USER};
use super::sessions::Visits;
use super::touch::Kept;
use super::traits::Traits;
use super::varint::{put_number, put_section, put_signed, put_sized};
use crate::limits::{PROFILE_BYTES_MAX, PROFILE_NAMES_MAX, PROFILE_PATHS_MAX, TRAITS_MAX, USER_ANON_IDS_MAX};

/// A profile while it changes.
#[derive(Debug, Clone)]
pub struct Draft<'a> {
    site: &'a str,
    user_id: Option<&'a str>,
    anon_ids: Vec<&'a str>,
    /// First and last.
    pub(super) seen_ms: Option<(i64, i64)>,
    pub(super) page_views: u64,
    pub(super) events: u64,
    pub(super) visits: Visits,
    pub(super) names: Histories<'a>,
    pub(super) pages: Histories<'a>,
    /// First and last.
    pub(super) touches: Option<(Kept<'a>, Kept<'a>)>,
    pub(super) traits: Traits<'a>,
}

impl<'a> Draft<'a> {
    /// Of a visitor of whom nothing is known but an id.
    fn new(site: &'a str, user_id: Option<&'a str>, anon_ids: Vec<&'a str>) -> Self {
        Self {
            site,
            user_id,
            anon_ids,
            seen_ms: None,
            page_views: 0,
            events: 0,
            visits: Visits::default(),
            names: Histories::default(),
            pages: Histories::default(),
            touches: None,
            traits: Traits::default(),
        }
    }

    /// Of an anonymous visitor.
    pub fn of_anonymous(site: &'a str, anon_id: &'a str) -> Self {
        Self::new(site, None, vec![anon_id])
    }

    /// Of a user.
    pub fn of_user(site: &'a str, user_id: &'a str) -> Self {
        Self::new(site, Some(user_id), Vec::new())
    }

    /// Of the profile that `value` is; `None` where it is malformed.
    pub fn read(value: &'a [u8]) -> Option<Self> {
        let profile = Profile::read(value)?;
        let base_ms = profile.base_ms();
        let seen_ms = profile.first_seen().zip(profile.last_seen());
        let mut visits_kept = profile.visits_kept;
        Some(Self {
            site: profile.site(),
            user_id: profile.user_id(),
            anon_ids: profile.anon_ids().collect(),
            seen_ms,
            page_views: profile.page_views(),
            events: profile.events(),
            visits: Visits::decode(&mut visits_kept, base_ms)?,
            names: Histories(history::decode(profile.names, base_ms)?),
            pages: Histories(history::decode(profile.pages, base_ms)?),
            touches: profile.touches(),
            traits: Traits::decode(profile.traits, base_ms),
        })
    }

    /// The visitor did something.
    pub(super) fn see(&mut self, at_ms: i64) {
        let (first_ms, last_ms) = self.seen_ms.unwrap_or((at_ms, at_ms));
        self.seen_ms = Some((first_ms.min(at_ms), last_ms.max(at_ms)));
        self.visits.add(at_ms);
    }

    /// The first touch becomes the earlier, the last the later; of two of one time the one that came first, and last.
    pub(super) fn touch(&mut self, touch: Kept<'a>) {
        let (first, last) = self.touches.unwrap_or((touch, touch));
        let first = if touch.at_ms < first.at_ms { touch } else { first };
        let last = if touch.at_ms >= last.at_ms { touch } else { last };
        self.touches = Some((first, last));
    }

    /// An anonymous id belongs to this user from now on. The id that goes for it.
    pub fn tie(&mut self, anon_id: &'a str) -> Option<&'a str> {
        self.untie(anon_id);
        self.anon_ids.push(anon_id);
        (self.anon_ids.len() > USER_ANON_IDS_MAX).then(|| self.anon_ids.remove(0))
    }

    /// An anonymous id belongs to another user from now on.
    pub fn untie(&mut self, anon_id: &str) {
        self.anon_ids.retain(|id| *id != anon_id);
    }

    /// What goes first where the table is full: who came once.
    pub fn rank(&self) -> Rank {
        if self.visits.count() <= 1 { Rank::Once } else { Rank::Known }
    }

    fn base_ms(&self) -> i64 {
        self.seen_ms.map_or(0, |(_, last_ms)| last_ms)
    }

    /// Writes the profile into `out`, in place of what is there, after what goes for its bounds has gone.
    pub fn write(&mut self, out: &mut Vec<u8>) {
        self.names.bound(PROFILE_NAMES_MAX);
        self.pages.bound(PROFILE_PATHS_MAX);
        while self.traits.len() > TRAITS_MAX
            && let Some((place, ..)) = self.traits.least_recent()
        {
            self.traits.let_go(place, 0);
        }
        loop {
            out.clear();
            self.encode(out);
            let mut excess = out.len().saturating_sub(PROFILE_BYTES_MAX);
            if excess == 0 {
                return;
            }
            while excess > 0 {
                let Some(freed) = self.let_go() else { return };
                excess = excess.saturating_sub(freed);
            }
        }
    }

    /// Lets the least recent of all names, pages and traits go. What it took.
    fn let_go(&mut self) -> Option<usize> {
        let base_ms = self.base_ms();
        let name = self.names.least_recent().map(|(place, at_ms, name)| (at_ms, name, 0, place));
        let page = self.pages.least_recent().map(|(place, at_ms, name)| (at_ms, name, 1, place));
        let least = self.traits.least_recent();
        let least = least.map(|(place, at_ms, name)| (at_ms, name.as_bytes(), 2, place));
        let (.., kind, place) = [name, page, least].into_iter().flatten().min()?;
        Some(match kind {
            0 => self.names.let_go(place, base_ms),
            1 => self.pages.let_go(place, base_ms),
            _ => self.traits.let_go(place, base_ms),
        })
    }

    fn flags(&self) -> u8 {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        flag(self.user_id.is_some(), USER)
            | flag(self.seen_ms.is_some(), SEEN)
            | flag(self.touches.is_some(), TOUCHED)
            | flag(self.touches.is_some_and(|(first, last)| first != last), MOVED)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let base_ms = self.base_ms();
        out.extend_from_slice(&[PROFILE, self.flags()]);
        put_sized(out, self.site.as_bytes());
        self.user_id.iter().for_each(|id| put_sized(out, id.as_bytes()));
        put_number(out, self.anon_ids.len() as u64);
        self.anon_ids.iter().for_each(|id| put_sized(out, id.as_bytes()));
        if let Some((first_ms, last_ms)) = self.seen_ms {
            put_signed(out, last_ms);
            put_number(out, last_ms.wrapping_sub(first_ms) as u64);
        }
        put_number(out, self.page_views);
        put_number(out, self.events);
        self.visits.encode(base_ms, out);
        put_section(out, |out| self.names.encode(base_ms, out));
        put_section(out, |out| self.pages.encode(base_ms, out));
        put_section(out, |out| self.encode_touches(base_ms, out));
        put_section(out, |out| self.traits.encode(base_ms, out));
    }

    fn encode_touches(&self, base_ms: i64, out: &mut Vec<u8>) {
        let Some((first, last)) = self.touches else { return };
        first.encode(base_ms, out);
        if first != last {
            last.encode(base_ms, out);
        }
    }
}

/// The names or the pages of a profile that is to change.
#[derive(Debug, Clone, Default)]
pub(super) struct Histories<'a>(Vec<Entry<'a>>);

impl<'a> Histories<'a> {
    /// It happened once more.
    pub(super) fn add(&mut self, name: Cow<'a, [u8]>, at_ms: i64) {
        match self.place(&name) {
            Ok(place) => self.0[place].add(at_ms),
            Err(place) => self.0.insert(place, Entry::once(name, at_ms)),
        }
    }

    /// Takes in another profile's.
    pub(super) fn merge(&mut self, other: Self) {
        for theirs in other.0 {
            match self.place(&theirs.name) {
                Ok(place) => self.0[place].merge(&theirs),
                Err(place) => self.0.insert(place, theirs),
            }
        }
    }

    fn place(&self, name: &[u8]) -> Result<usize, usize> {
        self.0.binary_search_by(|found| (*found.name).cmp(name))
    }

    fn bound(&mut self, max: usize) {
        while self.0.len() > max
            && let Some((place, ..)) = self.least_recent()
        {
            self.0.remove(place);
        }
    }

    /// The one that goes first: its place, its last time, its name.
    fn least_recent(&self) -> Option<(usize, i64, &[u8])> {
        let recency = |(place, found): (usize, &'_ Entry<'a>)| (found.last_ms, place);
        let (last_ms, place) = self.0.iter().enumerate().map(recency).min()?;
        Some((place, last_ms, &self.0[place].name))
    }

    fn let_go(&mut self, place: usize, base_ms: i64) -> usize {
        self.0.remove(place).encoded_len(base_ms)
    }

    fn encode(&self, base_ms: i64, out: &mut Vec<u8>) {
        self.0.iter().for_each(|entry| entry.encode(base_ms, out));
    }
}
