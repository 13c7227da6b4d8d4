//! The `variants` string: `zone:key` joined by commas. What was asked for, and what a choice is called.

use crate::limits::{KEY_BYTES_MAX, PAIRS_MAX, ZONES_MAX};
use crate::site::snapshot::format::{ArchivedPage, ArchivedVariant, ArchivedZone};

/// A zone that is not there: nested in a variant that was not chosen.
const ABSENT: u8 = u8::MAX;

/// What is shown: a variant for each personalized zone that is there. Indices are the page's.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    variants: [u8; ZONES_MAX],
}

impl Choice {
    /// No zone is there yet.
    pub fn nothing() -> Self {
        Self { variants: [ABSENT; ZONES_MAX] }
    }

    /// Makes `zone` show `variant`.
    pub fn set(&mut self, zone: u8, variant: u8) {
        self.variants[usize::from(zone)] = variant;
    }

    /// What `zone` shows; None where it is not there.
    pub fn get(&self, zone: u8) -> Option<u8> {
        Some(self.variants[usize::from(zone)]).filter(|v| *v != ABSENT)
    }

    /// The zones that are there, in order of their names, with what they show.
    pub fn shown<'p>(
        &self,
        page: &'p ArchivedPage,
    ) -> impl Iterator<Item = (&'p ArchivedZone, &'p ArchivedVariant)> {
        page.zones
            .iter()
            .zip(&self.variants)
            .filter_map(|(zone, variant)| Some((zone, zone.variants.get(usize::from(*variant))?)))
    }

    /// Appends the canonical string: sorted by zone, `default` left out.
    pub fn canonical(&self, page: &ArchivedPage, out: &mut Vec<u8>) {
        let pairs = self.shown(page).map(|(_, v)| &v.pair).filter(|pair| !pair.is_empty());
        for (i, pair) in pairs.enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(pair.as_bytes());
        }
    }

    /// The choice as bytes, for a hash.
    pub fn as_bytes(&self, page: &ArchivedPage) -> &[u8] {
        &self.variants[..page.zones.len().min(ZONES_MAX)]
    }
}

/// Why a string is no `variants`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoVariants {
    /// Something other than `zone:key` pairs joined by commas.
    Malformed,
    /// A zone stands twice.
    Doubled,
    /// More than `PAIRS_MAX` pairs.
    TooMany,
}

/// The pairs of a request, sorted by zone, each zone once. They are places in the text, so that the
/// value stays small enough to be handed around.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    text: &'a str,
    pairs: [Pair; PAIRS_MAX],
    length: usize,
    /// A bit for each pair that the page does not have at all.
    unknown: u64,
}

/// `begin <= colon < end`: the zone's name, ':', the key.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    begin: u16,
    colon: u16,
    end: u16,
}

impl<'a> Asked<'a> {
    /// Reads a string, for a page; the empty one asks for the baseline.
    ///
    /// # Errors
    /// The reason why it is none.
    pub fn read(text: &'a str, page: &ArchivedPage) -> Result<Self, NoVariants> {
        let mut asked = Self { text, pairs: [Pair::default(); PAIRS_MAX], length: 0, unknown: 0 };
        let mut rest = text;
        while !rest.is_empty() {
            let pair = memchr::memchr(b',', rest.as_bytes()).map_or(rest, |at| &rest[..at]);
            asked.push(text.len() - rest.len(), pair)?;
            rest = match rest[pair.len()..].strip_prefix(',') {
                Some("") => return Err(NoVariants::Malformed),
                Some(behind) => behind,
                None => "",
            };
        }
        let pairs = &mut asked.pairs[..asked.length];
        pairs.sort_unstable_by_key(|pair| pair.zone(text));
        if pairs.windows(2).any(|two| two[0].zone(text) == two[1].zone(text)) {
            return Err(NoVariants::Doubled);
        }
        for (i, pair) in pairs.iter().enumerate() {
            let variant = zone_named(page, pair.zone(text)).and_then(|z| variant_named(z, pair.key(text)));
            asked.unknown |= u64::from(variant.is_none()) << i;
        }
        Ok(asked)
    }

    fn push(&mut self, begin: usize, text: &str) -> Result<(), NoVariants> {
        let colon = memchr::memchr(b':', text.as_bytes()).ok_or(NoVariants::Malformed)?;
        if !is_key(&text[..colon]) || !is_key(&text[colon + 1..]) {
            return Err(NoVariants::Malformed);
        }
        let place = |at: usize| u16::try_from(begin + at).map_err(|_| NoVariants::TooMany);
        let pair = Pair { begin: place(0)?, colon: place(colon)?, end: place(text.len())? };
        *self.pairs.get_mut(self.length).ok_or(NoVariants::TooMany)? = pair;
        self.length += 1;
        Ok(())
    }

    /// The key asked for `zone`.
    pub fn key(&self, zone: &str) -> Option<&'a str> {
        let pair = self.pairs[..self.length].iter().find(|pair| pair.zone(self.text) == zone)?;
        Some(pair.key(self.text))
    }

    /// Whether there is a pair that the page does not have at all.
    pub fn has_unknown(&self) -> bool {
        self.unknown != 0
    }

    /// The pairs that the page does not have at all, sorted by zone.
    pub fn unknown(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let unknown = (0..self.length).filter(|i| self.unknown >> i & 1 == 1);
        unknown.map(|i| (self.pairs[i].zone(self.text), self.pairs[i].key(self.text)))
    }
}

impl Pair {
    fn zone(self, text: &str) -> &str {
        &text[usize::from(self.begin)..usize::from(self.colon)]
    }

    fn key(self, text: &str) -> &str {
        &text[usize::from(self.colon) + 1..usize::from(self.end)]
    }
}

/// Whether `text` may name a zone or a variant.
pub fn is_key(text: &str) -> bool {
    (1..=KEY_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn zone_named<'p>(page: &'p ArchivedPage, name: &str) -> Option<&'p ArchivedZone> {
    let at = page.zones.binary_search_by(|zone| zone.name.as_str().cmp(name)).ok()?;
    Some(&page.zones[at])
}

/// The index of a zone's variant.
pub fn variant_named(zone: &ArchivedZone, key: &str) -> Option<u8> {
    zone.variants.iter().position(|v| v.key == *key).map(|at| at as u8)
}
