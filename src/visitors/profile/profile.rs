//! The encoding of a visitor's profile: one byte slice, decoded in place without allocations.
//!
//! ```text
//! profile = flags:byte | site:sized | user ID:sized (FLAG_USER) | count of anon IDs:number, then each:sized
//!         | count of enrolments:byte, then the enrolments (FLAG_ENROLLED)
//!         | last seen:signed, last - first:number (FLAG_SEEN)
//!         | page views:number | events:number | visits
//!         | names:section | pages:section | touches:section | traits:section | context (FLAG_CONTEXT)
//! visits  = earlier count:number | kept count:number | each: back to end:number, back to start:number
//! touches = first touch (FLAG_TOUCHED), last touch if it is another one (FLAG_LAST_TOUCH)
//! ```
//!
//! A *number* is a varint. A *signed* number is zigzag-encoded. *Sized* means a number for the length, then
//! that many bytes. A *section* has a length of two bytes, little-endian, before its bytes. All times count
//! back from *base*, which is the last-seen time, or 0. The entries of sections are described in
//! `history.rs`, `touch.rs` and `traits.rs`, and the context in `last_context.rs`. Equal profiles have equal bytes.
//!
//! The value of a table entry is `TAG_PROFILE` and a profile, or, for a linked anon ID, `TAG_ALIAS`, the key of a user (16 bytes)
//! and the enrolments of the anon ID. A profile has those of its own ID, of an anonymous visitor or of a user. `enrolments.rs`
//! describes them. Malformed bytes decode to fewer values or to nothing. They never cause a panic.

use super::super::store::key::Key;
use super::enrolments::{ENROLMENT_BYTES, Enrolments};
use super::history::{self, History};
use super::last_context::LastContext;
use super::sessions::Visits;
use super::touch::{EncodedTouch, Touch};
use super::traits;
use super::varint::Decoder;
use crate::checksum;
use crate::condition::Value;
use crate::limits::{PROFILE_PATH_BYTES_MAX, VISIT_TIMEOUT_MS};

/// The first byte of an alias.
pub(super) const TAG_ALIAS: u8 = 1;
/// The first byte of a profile.
pub(super) const TAG_PROFILE: u8 = 2;
pub(super) const FLAG_USER: u8 = 1;
pub(super) const FLAG_SEEN: u8 = 2;
pub(super) const FLAG_TOUCHED: u8 = 4;
pub(super) const FLAG_LAST_TOUCH: u8 = 8;
pub(super) const FLAG_CONTEXT: u8 = 16;
pub(super) const FLAG_ENROLLED: u8 = 32;
/// Length of an alias without enrolments.
const ALIAS_BYTES: usize = 17;

/// A decoded entry of the table.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::large_enum_variant, reason = "an entry is matched at once and never kept")]
pub enum TableEntry<'a> {
    /// An anon ID that is linked to a user. The profile has the user's key, which is given here.
    Alias(Key),
    /// A profile of a visitor.
    Profile(Profile<'a>),
}

impl<'a> TableEntry<'a> {
    /// Decodes the value of an entry. `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<Self> {
        match *value.first()? {
            TAG_ALIAS => decode_alias(value).map(Self::Alias),
            TAG_PROFILE => Profile::decode(value).map(Self::Profile),
            _ => None,
        }
    }
}

/// Replaces `out` by the value of an alias whose ID has these encoded enrolments.
pub(crate) fn encode_alias(user_key: Key, enrolments: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.push(TAG_ALIAS);
    user_key.0.iter().for_each(|half| out.extend_from_slice(&half.to_le_bytes()));
    out.extend_from_slice(enrolments);
}

/// Decodes the key that an alias leads to. `None` if `value` is not an alias.
pub(crate) fn decode_alias(value: &[u8]) -> Option<Key> {
    let (high, rest) = value.strip_prefix(&[TAG_ALIAS])?.split_first_chunk::<8>()?;
    let (low, _) = rest.split_first_chunk::<8>()?;
    Some(Key([u64::from_le_bytes(*high), u64::from_le_bytes(*low)]))
}

/// Returns the enrolments of the ID that has this table entry: an alias or a profile.
pub fn decode_enrolments(value: &[u8]) -> Enrolments<'_> {
    match decode_alias(value) {
        Some(_) => Enrolments::decode(&value[ALIAS_BYTES..]),
        None => Profile::decode(value).map_or(Enrolments::NONE, |profile| profile.enrolments),
    }
}

/// A visitor's profile, decoded in place.
#[derive(Debug, Clone, Copy)]
pub struct Profile<'a> {
    /// The ID of the site. `site` checks that it is UTF-8.
    pub(super) site: &'a [u8],
    user_id: Option<&'a str>,
    /// The count of anon IDs, and the IDs.
    pub(super) encoded_anon_ids: &'a [u8],
    pub(super) enrolments: Enrolments<'a>,
    first_seen_ms: i64,
    last_seen_ms: Option<i64>,
    page_views: u64,
    events: u64,
    visits: u64,
    last_visit_end_ms: Option<i64>,
    pub(super) encoded_visits: Decoder<'a>,
    pub(super) names: &'a [u8],
    pub(super) pages: &'a [u8],
    flags: u8,
    touches: &'a [u8],
    pub(super) traits: &'a [u8],
    context: Decoder<'a>,
}

impl<'a> Profile<'a> {
    /// Decodes the value of a table entry. `None` if it is malformed or not a profile.
    pub fn decode(value: &'a [u8]) -> Option<Self> {
        let mut bytes = Decoder(value);
        if bytes.byte()? != TAG_PROFILE {
            return None;
        }
        let flags = bytes.byte()?;
        let site = bytes.sized()?;
        let user_id = if flags & FLAG_USER != 0 { Some(bytes.text()?) } else { None };
        let encoded_anon_ids = take_anon_ids(&mut bytes)?;
        let enrolments = if flags & FLAG_ENROLLED != 0 {
            let count = usize::from(bytes.byte()?);
            Enrolments::decode(bytes.take(count * ENROLMENT_BYTES)?)
        } else {
            Enrolments::NONE
        };
        let (first_seen_ms, last_seen_ms) = decode_seen(flags, &mut bytes)?;
        let page_views = bytes.number()?;
        let events = bytes.number()?;
        let visits_kept = bytes;
        let (visits, last_visit_end_ms) = Visits::decode_count(&mut bytes, last_seen_ms.unwrap_or(0))?;
        Some(Self {
            site,
            user_id,
            encoded_anon_ids,
            enrolments,
            first_seen_ms,
            last_seen_ms,
            page_views,
            events,
            encoded_visits: visits_kept,
            visits,
            last_visit_end_ms,
            names: bytes.section()?,
            pages: bytes.section()?,
            flags,
            touches: bytes.section()?,
            traits: bytes.section()?,
            context: bytes,
        })
    }

    /// Returns the ID of the site.
    pub fn site(&self) -> &'a str {
        std::str::from_utf8(self.site).unwrap_or_default()
    }

    /// Returns the user ID. `None` for an anonymous visitor.
    pub fn user_id(&self) -> Option<&'a str> {
        self.user_id
    }

    /// Iterates over the anon IDs linked to a user, in the order in which they were linked. For an
    /// anonymous visitor this is its own ID.
    pub fn anon_ids(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        decode_anon_ids(self.encoded_anon_ids)
    }

    /// Returns the profile with the enrolments of an ID that is linked to its user.
    #[must_use]
    pub(crate) fn with_enrolments(self, enrolments: Enrolments<'a>) -> Self {
        Self { enrolments, ..self }
    }

    /// Returns the enrolments of the profile's own ID: that of the user, or that of the anonymous visitor. A profile that was
    /// looked up by a linked ID has those of that ID.
    pub fn enrolments(&self) -> Enrolments<'a> {
        self.enrolments
    }

    /// Returns the number of recorded visits.
    pub fn visits(&self) -> u64 {
        self.visits
    }

    /// Returns the number of visits of a visitor with a request at `now_ms`. Counts a new visit if the last one has
    /// ended by then.
    pub fn visits_at(&self, now_ms: i64) -> u64 {
        let goes_on = |end_ms: i64| now_ms.saturating_sub(end_ms) <= VISIT_TIMEOUT_MS;
        let begins = !self.last_visit_end_ms.is_some_and(goes_on);
        self.visits.saturating_add(u64::from(begins))
    }

    /// Returns the number of page views.
    pub fn page_views(&self) -> u64 {
        self.page_views
    }

    /// Returns the number of events, screens included.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the earliest time of activity.
    pub fn first_seen_ms(&self) -> Option<i64> {
        self.last_seen_ms.map(|_| self.first_seen_ms)
    }

    /// Returns the latest time of activity.
    pub fn last_seen_ms(&self) -> Option<i64> {
        self.last_seen_ms
    }

    pub(super) fn base_ms(&self) -> i64 {
        self.last_seen_ms.unwrap_or_default()
    }

    /// Returns the history of an event name.
    pub fn event_history(&self, name: &str) -> Option<History<'a>> {
        self.find(self.names, name.as_bytes())
    }

    /// Returns the history of a page.
    pub fn page_history(&self, path: &str) -> Option<History<'a>> {
        match hashed_path(path) {
            Some(hash) => self.find(self.pages, &hash),
            None => self.find(self.pages, path.as_bytes()),
        }
    }

    /// Iterates over the histories of all event names, sorted by name.
    pub fn event_histories(&self) -> impl Iterator<Item = (&'a str, History<'a>)> + use<'a> {
        decode_histories(self.names, self.base_ms()).filter_map(|(name, history)| Some((name?, history)))
    }

    /// Iterates over the histories of all pages, sorted by path. The path is `None` if it was so long
    /// that the profile keeps only its hash.
    pub fn page_histories(&self) -> impl Iterator<Item = (Option<&'a str>, History<'a>)> + use<'a> {
        decode_histories(self.pages, self.base_ms())
    }

    /// Iterates over the histories of the event names that begin with `prefix`.
    pub(crate) fn event_histories_of_prefix<'p>(
        &self,
        prefix: &'p str,
    ) -> impl Iterator<Item = History<'a>> + use<'a, 'p> {
        self.find_prefix(self.names, prefix.as_bytes())
    }

    /// Iterates over the histories of the pages whose paths begin with `prefix`. Paths of which the profile
    /// keeps only the hash begin with the empty prefix alone.
    pub(crate) fn page_histories_of_prefix<'p>(
        &self,
        prefix: &'p str,
    ) -> impl Iterator<Item = History<'a>> + use<'a, 'p> {
        self.find_prefix(self.pages, prefix.as_bytes())
    }

    fn find_prefix<'p>(
        &self,
        section: &'a [u8],
        prefix: &'p [u8],
    ) -> impl Iterator<Item = History<'a>> + use<'a, 'p> {
        let base_ms = self.base_ms();
        let found = history::entries(section).filter(move |(name, _)| name.starts_with(prefix));
        found.filter_map(move |(_, entry)| history::history(entry, base_ms))
    }

    fn find(&self, section: &'a [u8], name: &[u8]) -> Option<History<'a>> {
        let (_, entry) = history::entries(section).find(|(found, _)| *found == name)?;
        history::history(entry, self.base_ms())
    }

    /// Returns the earliest touch.
    pub fn first_touch(&self) -> Option<Touch<'a>> {
        self.touches()?.0.to_touch()
    }

    /// Returns the latest touch.
    pub fn last_touch(&self) -> Option<Touch<'a>> {
        self.touches()?.1.to_touch()
    }

    /// Returns the first and the last touch.
    pub(super) fn touches(&self) -> Option<(EncodedTouch<'a>, EncodedTouch<'a>)> {
        let mut bytes = Decoder(self.touches);
        let mut touch = |flag: u8| {
            let there = self.flags & flag != 0;
            there.then(|| EncodedTouch::decode(&mut bytes, self.base_ms())).flatten()
        };
        let first = touch(FLAG_TOUCHED)?;
        Some((first, touch(FLAG_LAST_TOUCH).unwrap_or(first)))
    }

    /// Returns the context of the last event that has one.
    pub fn last_context(&self) -> Option<LastContext> {
        let is_present = self.flags & FLAG_CONTEXT != 0;
        is_present.then(|| LastContext::decode(self.context, self.base_ms())).flatten()
    }

    /// Returns the value of a trait. `None` if the trait was never set, or was unset since.
    pub fn trait_value(&self, name: &str) -> Option<Value<'a>> {
        let found = traits::entries(self.traits, self.base_ms()).find(|entry| entry.name == name)?;
        Value::decode(found.value)
    }

    /// Iterates over all traits that have a value, sorted by name.
    pub fn traits(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> + use<'a> {
        traits::entries(self.traits, self.base_ms())
            .filter_map(|entry| Some((entry.name, Value::decode(entry.value)?)))
    }
}

/// Takes the count of anon IDs, and the IDs.
fn take_anon_ids<'a>(decoder: &mut Decoder<'a>) -> Option<&'a [u8]> {
    let from = decoder.0;
    for _ in 0..decoder.number()? {
        decoder.sized()?;
    }
    Some(&from[..from.len() - decoder.0.len()])
}

/// Iterates over the anon IDs in the part of a profile with their count.
pub(super) fn decode_anon_ids<'a>(bytes: &'a [u8]) -> impl Iterator<Item = &'a str> + use<'a> {
    let mut ids = Decoder(bytes);
    let count = ids.number().unwrap_or_default();
    (0..count).map_while(move |_| ids.text())
}

fn decode_seen(flags: u8, decoder: &mut Decoder<'_>) -> Option<(i64, Option<i64>)> {
    if flags & FLAG_SEEN == 0 {
        return Some((0, None));
    }
    let last_ms = decoder.signed()?;
    Some((last_ms.wrapping_sub(decoder.number()? as i64), Some(last_ms)))
}

fn decode_histories<'a>(
    section: &'a [u8],
    base_ms: i64,
) -> impl Iterator<Item = (Option<&'a str>, History<'a>)> {
    history::entries(section).map_while(move |(name, entry)| {
        let name = std::str::from_utf8(name).ok();
        Some((name, history::history(entry, base_ms)?))
    })
}

/// Returns the name under which a profile keeps a path that is too long: a byte that never occurs in
/// UTF-8, so that no path is equal to it, and a hash. `None` if the path itself is kept.
pub(super) fn hashed_path(path: &str) -> Option<[u8; 17]> {
    (path.len() > PROFILE_PATH_BYTES_MAX).then(|| {
        let mut name = [0xFF; 17];
        name[1..].copy_from_slice(&checksum::hash128(path.as_bytes()).to_le_bytes());
        name
    })
}
