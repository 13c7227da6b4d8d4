//! A profile being modified. Its parts stay borrowed from the encoded profile until they change.
//!
//! Invariants of the encoded result: [`Profile`] can decode it, and it is within every limit of a profile. At
//! a limit the least recent part is removed. Of two parts with the same time, the one whose name sorts first
//! is removed.

use super::super::store::key::EvictionClass;
use super::enrolments::Enrolments;
use super::histories::BoundedHistories;
use super::last_context::LastContext;
use super::profile::{
    FLAG_CONTEXT, FLAG_ENROLLED, FLAG_LAST_TOUCH, FLAG_SEEN, FLAG_TOUCHED, FLAG_USER, Profile, TAG_PROFILE,
    decode_anon_ids,
};
use super::sessions::Visits;
use super::touch::EncodedTouch;
use super::traits::Traits;
use super::varint::{put_number, put_section, put_signed, put_sized};
use crate::limits::{
    PROFILE_BYTES_MAX, PROFILE_EVENT_NAMES_MAX, PROFILE_PATHS_MAX, TRAITS_MAX, USER_ANON_IDS_MAX,
};

/// A profile being modified.
#[derive(Debug, Clone)]
pub struct ProfileBuilder<'a> {
    site: &'a [u8],
    user_id: Option<&'a str>,
    anon_ids: AnonIds<'a>,
    /// Those of the profile's own ID. A merge does not change them.
    pub(crate) enrolments: Enrolments<'a>,
    /// First and last time of activity.
    pub(super) seen_ms: Option<(i64, i64)>,
    pub(super) page_views: u64,
    pub(super) events: u64,
    pub(super) visits: Visits,
    pub(super) names: BoundedHistories<'a>,
    pub(super) pages: BoundedHistories<'a>,
    /// First and last touch.
    pub(super) touches: Option<(EncodedTouch<'a>, EncodedTouch<'a>)>,
    pub(super) traits: Traits<'a>,
    /// Unknown if no event had a context.
    pub(super) context: LastContext,
}

impl<'a> ProfileBuilder<'a> {
    /// Creates a profile with IDs and nothing else.
    fn new(site: &'a str, user_id: Option<&'a str>, anon_ids: Vec<&'a str>) -> Self {
        Self {
            site: site.as_bytes(),
            user_id,
            anon_ids: AnonIds::Decoded(anon_ids),
            enrolments: Enrolments::NONE,
            seen_ms: None,
            page_views: 0,
            events: 0,
            visits: Visits::default(),
            names: BoundedHistories::default(),
            pages: BoundedHistories::default(),
            touches: None,
            traits: Traits::default(),
            context: LastContext::UNKNOWN,
        }
    }

    /// Creates the profile of a new anonymous visitor.
    pub fn for_anonymous(site: &'a str, anon_id: &'a str) -> Self {
        Self::new(site, None, vec![anon_id])
    }

    /// Creates the profile of a new user.
    pub fn for_user(site: &'a str, user_id: &'a str) -> Self {
        Self::new(site, Some(user_id), Vec::new())
    }

    /// Decodes a profile to modify it. `None` if `value` is malformed or an alias.
    pub fn decode(value: &'a [u8]) -> Option<Self> {
        Self::of(Profile::decode(value)?)
    }

    /// Begins to modify a decoded profile. `None` if its visits are malformed.
    pub(super) fn of(profile: Profile<'a>) -> Option<Self> {
        let base_ms = profile.base_ms();
        let seen_ms = profile.first_seen_ms().zip(profile.last_seen_ms());
        let mut visits_kept = profile.encoded_visits;
        Some(Self {
            site: profile.site,
            user_id: profile.user_id(),
            anon_ids: AnonIds::Encoded(profile.encoded_anon_ids),
            enrolments: profile.enrolments,
            seen_ms,
            page_views: profile.page_views(),
            events: profile.events(),
            visits: Visits::decode(&mut visits_kept, base_ms)?,
            names: BoundedHistories::new(profile.names, base_ms),
            pages: BoundedHistories::new(profile.pages, base_ms),
            touches: profile.touches(),
            traits: Traits::decode(profile.traits, base_ms),
            context: profile.last_context().unwrap_or(LastContext::UNKNOWN),
        })
    }

    /// Removes the site, the anon IDs, the context, and the user ID unless it is kept.
    pub(super) fn drop_ids(&mut self, keeps_user_id: bool) {
        self.site = &[];
        self.anon_ids = AnonIds::Decoded(Vec::new());
        self.user_id = self.user_id.filter(|_| keeps_user_id);
        self.context = LastContext::UNKNOWN;
    }

    /// Records that the visitor was active at `at_ms`.
    pub(super) fn record_activity(&mut self, at_ms: i64) {
        let (first_ms, last_ms) = self.seen_ms.unwrap_or((at_ms, at_ms));
        self.seen_ms = Some((first_ms.min(at_ms), last_ms.max(at_ms)));
    }

    /// Updates the first touch (the earliest) and the last touch (the latest). Of touches with the same
    /// time, the one folded first stays the first touch, and the one folded last becomes the last touch.
    pub(super) fn add_touch(&mut self, touch: EncodedTouch<'a>) {
        let (first, last) = self.touches.unwrap_or((touch, touch));
        let first = if touch.at_ms < first.at_ms { touch } else { first };
        let last = if touch.at_ms >= last.at_ms { touch } else { last };
        self.touches = Some((first, last));
    }

    /// Links an anon ID to this user. Returns the ID that was linked longest ago if the limit on anon IDs
    /// removes it.
    pub fn link(&mut self, anon_id: &'a str) -> Option<&'a str> {
        self.unlink(anon_id);
        let anon_ids = self.anon_ids.decode();
        anon_ids.push(anon_id);
        (anon_ids.len() > USER_ANON_IDS_MAX).then(|| anon_ids.remove(0))
    }

    /// Removes the link of an anon ID to this user.
    pub fn unlink(&mut self, anon_id: &str) {
        self.anon_ids.decode().retain(|id| *id != anon_id);
    }

    fn base_ms(&self) -> i64 {
        self.seen_ms.map_or(0, |(_, last_ms)| last_ms)
    }

    /// Encodes the profile into `out` and replaces the content of `out`. Removes the least recent parts
    /// until the profile is within its limits. Returns the eviction class: visitors with at most one visit are evicted
    /// first.
    pub fn write(&mut self, out: &mut Vec<u8>) -> EvictionClass {
        let is_single = self.visits.count() <= 1;
        let class = if is_single { EvictionClass::SingleVisit } else { EvictionClass::Returning };
        self.names.truncate(PROFILE_EVENT_NAMES_MAX);
        self.pages.truncate(PROFILE_PATHS_MAX);
        while self.traits.len() > TRAITS_MAX
            && let Some((place, ..)) = self.traits.least_recent()
        {
            self.traits.remove(place, 0);
        }
        loop {
            out.clear();
            self.encode(out);
            let mut excess = out.len().saturating_sub(PROFILE_BYTES_MAX);
            if excess == 0 {
                return class;
            }
            while excess > 0 {
                let Some(freed) = self.drop_least_recent() else { return class };
                excess = excess.saturating_sub(freed);
            }
        }
    }

    /// Removes the least recent of all event names, pages and traits. Returns its encoded length, or
    /// `None` if nothing is left to remove.
    fn drop_least_recent(&mut self) -> Option<usize> {
        let base_ms = self.base_ms();
        let name = self.names.least_recent().map(|(place, at_ms, name)| (at_ms, name, 0, place));
        let page = self.pages.least_recent().map(|(place, at_ms, name)| (at_ms, name, 1, place));
        let least = self.traits.least_recent();
        let least = least.map(|(place, at_ms, name)| (at_ms, name.as_bytes(), 2, place));
        let (.., kind, place) = [name, page, least].into_iter().flatten().min()?;
        Some(match kind {
            0 => self.names.remove(place, base_ms),
            1 => self.pages.remove(place, base_ms),
            _ => self.traits.remove(place, base_ms),
        })
    }

    fn flags(&self) -> u8 {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        flag(self.user_id.is_some(), FLAG_USER)
            | flag(self.seen_ms.is_some(), FLAG_SEEN)
            | flag(self.touches.is_some(), FLAG_TOUCHED)
            | flag(self.touches.is_some_and(|(first, last)| first != last), FLAG_LAST_TOUCH)
            | flag(self.context.is_known(), FLAG_CONTEXT)
            | flag(self.enrolments.len() > 0, FLAG_ENROLLED)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let base_ms = self.base_ms();
        out.extend_from_slice(&[TAG_PROFILE, self.flags()]);
        put_sized(out, self.site);
        self.user_id.iter().for_each(|id| put_sized(out, id.as_bytes()));
        self.anon_ids.encode(out);
        if self.enrolments.len() > 0 {
            out.push(self.enrolments.len() as u8);
            out.extend_from_slice(self.enrolments.bytes());
        }
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
        if self.context.is_known() {
            self.context.encode(base_ms, out);
        }
    }

    fn encode_touches(&self, base_ms: i64, out: &mut Vec<u8>) {
        let Some((first, last)) = self.touches else { return };
        first.encode(base_ms, out);
        if first != last {
            last.encode(base_ms, out);
        }
    }
}

/// The anon IDs of a profile being modified. They stay encoded until one is linked or unlinked.
#[derive(Debug, Clone)]
enum AnonIds<'a> {
    /// The count, and the IDs.
    Encoded(&'a [u8]),
    Decoded(Vec<&'a str>),
}

impl<'a> AnonIds<'a> {
    fn decode(&mut self) -> &mut Vec<&'a str> {
        if let Self::Encoded(encoded) = *self {
            *self = Self::Decoded(decode_anon_ids(encoded).collect());
        }
        match self {
            Self::Decoded(ids) => ids,
            Self::Encoded(_) => unreachable!("the IDs were decoded"),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Encoded(encoded) => out.extend_from_slice(encoded),
            Self::Decoded(ids) => {
                put_number(out, ids.len() as u64);
                ids.iter().for_each(|id| put_sized(out, id.as_bytes()));
            }
        }
    }
}
