//! A visitor's profile as it is kept: one slice, read where it lies, without allocating.
//!
//! ```text
//! profile = flags:byte | site:sized | user id:sized (USER) | number of ids, then each:sized
//!         | last seen:signed, last - first:number (SEEN)
//!         | page views:number | events:number | visits
//!         | names:section | pages:section | touches:section | traits:section
//! visits  = earlier:number | how many are kept:number | each: back to its end:number, back to its start:number
//! touches = the first (TOUCHED), the last unless it is the first (MOVED)
//! ```
//!
//! A *number* is a varint, *signed* zigzag, *sized* bytes behind their number, a *section* bytes behind their number in two bytes,
//! little-endian. All times count back from *base*, which is the time last seen, or 0. Entries of sections: `history.rs`,
//! `touch.rs`, `traits.rs`. Equal profiles have equal bytes.
//!
//! It is the value of a table's entry behind [`PROFILE`]; an id that is tied to a user has an alias there. Malformed bytes give
//! less, or nothing; never a panic.

use super::super::store::table::Key;
use super::history::{self, History};
use super::sessions::Visits;
use super::touch::{Kept, Touch};
use super::traits;
use super::varint::Bytes;
use crate::checksum;
use crate::condition::Value;
use crate::limits::{PROFILE_PATH_BYTES_MAX, VISIT_SILENCE_MS};

/// The first byte of an alias.
pub(super) const ALIAS: u8 = 1;
/// The first byte of a profile.
pub(super) const PROFILE: u8 = 2;
pub(super) const USER: u8 = 1;
pub(super) const SEEN: u8 = 2;
pub(super) const TOUCHED: u8 = 4;
pub(super) const MOVED: u8 = 8;

/// What an entry of the table says.
#[derive(Debug, Clone, Copy)]
pub enum Entry<'a> {
    /// An id that is tied to a user: the profile stands at the user's key.
    Alias(Key),
    /// A visitor.
    Profile(Profile<'a>),
}

impl<'a> Entry<'a> {
    /// What `value` says; `None` where it is malformed.
    pub fn read(value: &'a [u8]) -> Option<Self> {
        match *value.first()? {
            ALIAS => aliased(value).map(Self::Alias),
            PROFILE => Profile::read(value).map(Self::Profile),
            _ => None,
        }
    }
}

/// The value of an alias.
pub(crate) fn alias(of: Key) -> [u8; 17] {
    let mut value = [ALIAS; 17];
    value[1..9].copy_from_slice(&of.0[0].to_le_bytes());
    value[9..].copy_from_slice(&of.0[1].to_le_bytes());
    value
}

/// The key that an alias leads to; `None` where `value` is none.
pub(crate) fn aliased(value: &[u8]) -> Option<Key> {
    let (high, low) = value.strip_prefix(&[ALIAS])?.split_first_chunk::<8>()?;
    let low = <[u8; 8]>::try_from(low).ok()?;
    Some(Key([u64::from_le_bytes(*high), u64::from_le_bytes(low)]))
}

/// A visitor's profile, where it lies.
#[derive(Debug, Clone, Copy)]
pub struct Profile<'a> {
    site: &'a str,
    user_id: Option<&'a str>,
    id_count: u64,
    ids: &'a [u8],
    first_seen_ms: i64,
    last_seen_ms: Option<i64>,
    page_views: u64,
    events: u64,
    visits: u64,
    pub(super) visits_kept: Bytes<'a>,
    pub(super) names: &'a [u8],
    pub(super) pages: &'a [u8],
    flags: u8,
    touches: &'a [u8],
    pub(super) traits: &'a [u8],
}

impl<'a> Profile<'a> {
    /// The profile that `value` is, of an entry of the table.
    pub fn read(value: &'a [u8]) -> Option<Self> {
        let mut bytes = Bytes(value);
        if bytes.byte()? != PROFILE {
            return None;
        }
        let flags = bytes.byte()?;
        let site = bytes.text()?;
        let user_id = if flags & USER != 0 { Some(bytes.text()?) } else { None };
        let (id_count, ids) = skip_ids(&mut bytes)?;
        let (first_seen_ms, last_seen_ms) = seen(flags, &mut bytes)?;
        let (page_views, events) = (bytes.number()?, bytes.number()?);
        let visits_kept = bytes;
        Some(Self {
            site,
            user_id,
            id_count,
            ids,
            first_seen_ms,
            last_seen_ms,
            page_views,
            events,
            visits_kept,
            visits: Visits::skip(&mut bytes)?,
            names: bytes.section()?,
            pages: bytes.section()?,
            flags,
            touches: bytes.section()?,
            traits: bytes.section()?,
        })
    }

    /// The site that it belongs to.
    pub fn site(&self) -> &'a str {
        self.site
    }

    /// The user, where it is known who it is.
    pub fn user_id(&self) -> Option<&'a str> {
        self.user_id
    }

    /// The anonymous ids tied to a user, the one tied longest ago first; of an anonymous visitor its own.
    pub fn anon_ids(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut ids = Bytes(self.ids);
        (0..self.id_count).map_while(move |_| ids.text())
    }

    /// Visits that were recorded.
    pub fn visits(&self) -> u64 {
        self.visits
    }

    /// Visits, the one included that begins now where nothing was recorded in the time in which a visit goes on.
    pub fn visits_at(&self, now_ms: i64) -> u32 {
        let goes_on = |last_ms: i64| now_ms.saturating_sub(last_ms) <= VISIT_SILENCE_MS;
        let begins = !self.last_seen_ms.is_some_and(goes_on);
        u32::try_from(self.visits.saturating_add(u64::from(begins))).unwrap_or(u32::MAX)
    }

    /// Pages seen.
    pub fn page_views(&self) -> u64 {
        self.page_views
    }

    /// Events, screens included.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The earliest time at which the visitor did something.
    pub fn first_seen(&self) -> Option<i64> {
        self.last_seen_ms.map(|_| self.first_seen_ms)
    }

    /// The latest.
    pub fn last_seen(&self) -> Option<i64> {
        self.last_seen_ms
    }

    pub(super) fn base_ms(&self) -> i64 {
        self.last_seen_ms.unwrap_or_default()
    }

    /// What is known of an event.
    pub fn event(&self, name: &str) -> Option<History<'a>> {
        self.find(self.names, name.as_bytes())
    }

    /// What is known of a page.
    pub fn page(&self, path: &str) -> Option<History<'a>> {
        match hashed(path) {
            Some(hash) => self.find(self.pages, &hash),
            None => self.find(self.pages, path.as_bytes()),
        }
    }

    /// All events, in ascending order of their names.
    pub fn names(&self) -> impl Iterator<Item = (&'a str, History<'a>)> + use<'a> {
        histories(self.names, self.base_ms()).filter_map(|(name, history)| Some((name?, history)))
    }

    /// All pages, in ascending order of their paths; `None` where a path is so long that only its hash is kept.
    pub fn pages(&self) -> impl Iterator<Item = (Option<&'a str>, History<'a>)> + use<'a> {
        histories(self.pages, self.base_ms())
    }

    fn find(&self, section: &'a [u8], name: &[u8]) -> Option<History<'a>> {
        let (_, entry) = history::entries(section).find(|(found, _)| *found == name)?;
        history::history(entry, self.base_ms())
    }

    /// The earliest touch.
    pub fn first_touch(&self) -> Option<Touch<'a>> {
        self.touches()?.0.touch()
    }

    /// The latest.
    pub fn last_touch(&self) -> Option<Touch<'a>> {
        self.touches()?.1.touch()
    }

    /// The first and the last.
    pub(super) fn touches(&self) -> Option<(Kept<'a>, Kept<'a>)> {
        let mut bytes = Bytes(self.touches);
        let mut touch = |flag: u8| {
            let there = self.flags & flag != 0;
            there.then(|| Kept::decode(&mut bytes, self.base_ms())).flatten()
        };
        let first = touch(TOUCHED)?;
        Some((first, touch(MOVED).unwrap_or(first)))
    }

    /// The value of a trait; `None` where it was never set, or unset since.
    pub fn trait_value(&self, name: &str) -> Option<Value<'a>> {
        let found = traits::entries(self.traits, self.base_ms()).find(|entry| entry.name == name)?;
        Value::decode(found.value)
    }

    /// All traits that have a value, in ascending order of their names.
    pub fn traits(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> + use<'a> {
        traits::entries(self.traits, self.base_ms())
            .filter_map(|entry| Some((entry.name, Value::decode(entry.value)?)))
    }
}

fn skip_ids<'a>(bytes: &mut Bytes<'a>) -> Option<(u64, &'a [u8])> {
    let count = bytes.number()?;
    let ids = bytes.0;
    for _ in 0..count {
        bytes.sized()?;
    }
    Some((count, ids))
}

fn seen(flags: u8, bytes: &mut Bytes<'_>) -> Option<(i64, Option<i64>)> {
    if flags & SEEN == 0 {
        return Some((0, None));
    }
    let last_ms = bytes.signed()?;
    Some((last_ms.wrapping_sub(bytes.number()? as i64), Some(last_ms)))
}

fn histories<'a>(section: &'a [u8], base_ms: i64) -> impl Iterator<Item = (Option<&'a str>, History<'a>)> {
    history::entries(section).map_while(move |(name, entry)| {
        let name = std::str::from_utf8(name).ok();
        Some((name, history::history(entry, base_ms)?))
    })
}

/// What stands for a path that is too long: a byte that no UTF-8 has, so that it is no path, and a hash.
pub(super) fn hashed(path: &str) -> Option<[u8; 17]> {
    (path.len() > PROFILE_PATH_BYTES_MAX).then(|| {
        let mut name = [0xFF; 17];
        name[1..].copy_from_slice(&checksum::tag(path.as_bytes()).to_le_bytes());
        name
    })
}
