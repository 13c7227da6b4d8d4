//! The `variants` string: `zone:key` joined by commas. What was asked for, and what a choice is called.

use crate::limits::{KEY_BYTES_MAX, PAIRS_MAX, ZONES_MAX};
use crate::snapshot::format::{ArchivedPage, ArchivedVariant, ArchivedZone};

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
            .zip(self.variants)
            .filter_map(|(zone, variant)| Some((zone, zone.variants.get(usize::from(variant))?)))
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

/// The pairs of a request, sorted by zone, each zone once.
#[derive(Debug)]
pub struct Asked<'a> {
    pairs: [(&'a str, &'a str); PAIRS_MAX],
    length: usize,
}

impl<'a> Asked<'a> {
    /// Reads a string; the empty one asks for the baseline.
    ///
    /// # Errors
    /// The reason why it is none.
    pub fn read(text: &'a str) -> Result<Self, NoVariants> {
        let mut asked = Self { pairs: [("", ""); PAIRS_MAX], length: 0 };
        if text.is_empty() {
            return Ok(asked);
        }
        for pair in text.split(',') {
            let (zone, key) = pair.split_once(':').ok_or(NoVariants::Malformed)?;
            if !is_key(zone) || !is_key(key) {
                return Err(NoVariants::Malformed);
            }
            let slot = asked.pairs.get_mut(asked.length).ok_or(NoVariants::TooMany)?;
            *slot = (zone, key);
            asked.length += 1;
        }
        let pairs = &mut asked.pairs[..asked.length];
        pairs.sort_unstable_by_key(|(zone, _)| *zone);
        if pairs.windows(2).any(|two| two[0].0 == two[1].0) {
            return Err(NoVariants::Doubled);
        }
        Ok(asked)
    }

    /// The key asked for `zone`.
    pub fn key(&self, zone: &str) -> Option<&'a str> {
        let pairs = &self.pairs[..self.length];
        let at = pairs.binary_search_by_key(&zone, |(z, _)| z).ok()?;
        Some(pairs[at].1)
    }

    /// The pairs that `page` does not have at all, sorted by zone.
    pub fn unknown(&self, page: &ArchivedPage) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.pairs[..self.length].iter().copied().filter(|(zone, key)| {
            zone_named(page, zone).is_none_or(|zone| variant_named(zone, key).is_none())
        })
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
