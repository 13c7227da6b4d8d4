//! The `variants` string: `zone:key` pairs separated by commas. Parses the forced variants of a request, and
//! writes the canonical string of a choice.

use crate::limits::{KEY_BYTES_MAX, PAIRS_MAX, ZONES_MAX};
use crate::site::snapshot::format::{ArchivedPage, ArchivedVariant, ArchivedZone};

/// Marks an absent zone, which is within a variant that was not chosen.
const ABSENT: u8 = u8::MAX;

/// The choice for a request: a variant for each personalized zone that is present, by the page's indices.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    variants: [u8; ZONES_MAX],
}

impl Choice {
    /// Creates a choice in which all zones are absent.
    pub fn empty() -> Self {
        Self { variants: [ABSENT; ZONES_MAX] }
    }

    /// Sets the variant of `zone`.
    pub fn set(&mut self, zone: u8, variant: u8) {
        self.variants[usize::from(zone)] = variant;
    }

    /// Returns the variant of `zone`, or `None` if the zone is absent.
    pub fn get(&self, zone: u8) -> Option<u8> {
        Some(self.variants[usize::from(zone)]).filter(|v| *v != ABSENT)
    }

    /// Returns the present zones with their variants, in order of the zones' names.
    pub fn selected<'p>(
        &self,
        page: &'p ArchivedPage,
    ) -> impl Iterator<Item = (&'p ArchivedZone, &'p ArchivedVariant)> {
        page.zones
            .iter()
            .zip(&self.variants)
            .filter_map(|(zone, variant)| Some((zone, zone.variants.get(usize::from(*variant))?)))
    }

    /// Appends the canonical string, which is sorted by zone and omits `default`.
    pub fn write_canonical(&self, page: &ArchivedPage, out: &mut Vec<u8>) {
        let pairs = self.selected(page).map(|(_, v)| &v.pair).filter(|pair| !pair.is_empty());
        for (i, pair) in pairs.enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(pair.as_bytes());
        }
    }

    /// Returns the choice as bytes, for hashing.
    pub fn as_bytes(&self, page: &ArchivedPage) -> &[u8] {
        &self.variants[..page.zones.len().min(ZONES_MAX)]
    }
}

/// The reason why a string is not a valid `variants`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariantsError {
    /// The string is not `zone:key` pairs separated by commas.
    Malformed,
    /// A zone occurs twice.
    DuplicateZone,
    /// The string has more than `PAIRS_MAX` pairs.
    TooManyPairs,
}

/// The forced variants of a request: pairs sorted by zone, each zone once. The pairs are offsets into the
/// text, so that the value is small enough to copy.
#[derive(Debug, Clone, Copy)]
pub struct ForcedVariants<'a> {
    text: &'a str,
    pairs: [Pair; PAIRS_MAX],
    length: usize,
    /// One bit for each pair whose zone or key the page does not have.
    unknown: u64,
}

/// The offsets of a pair: the zone's name, ':', the key. `begin <= colon < end`.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    begin: u16,
    colon: u16,
    end: u16,
}

impl<'a> ForcedVariants<'a> {
    /// Parses `text` for a page. The empty string forces `default` everywhere.
    ///
    /// # Errors
    /// The reason why the string is not valid.
    pub fn parse(text: &'a str, page: &ArchivedPage) -> Result<Self, VariantsError> {
        let mut forced = Self { text, pairs: [Pair::default(); PAIRS_MAX], length: 0, unknown: 0 };
        let mut rest = text;
        while !rest.is_empty() {
            let pair = memchr::memchr(b',', rest.as_bytes()).map_or(rest, |at| &rest[..at]);
            forced.push(text.len() - rest.len(), pair)?;
            rest = match rest[pair.len()..].strip_prefix(',') {
                Some("") => return Err(VariantsError::Malformed),
                Some(behind) => behind,
                None => "",
            };
        }
        let pairs = &mut forced.pairs[..forced.length];
        pairs.sort_unstable_by_key(|pair| pair.zone(text));
        if pairs.windows(2).any(|two| two[0].zone(text) == two[1].zone(text)) {
            return Err(VariantsError::DuplicateZone);
        }
        for (i, pair) in pairs.iter().enumerate() {
            let variant = find_zone(page, pair.zone(text)).and_then(|z| find_variant(z, pair.key(text)));
            forced.unknown |= u64::from(variant.is_none()) << i;
        }
        Ok(forced)
    }

    fn push(&mut self, begin: usize, text: &str) -> Result<(), VariantsError> {
        let colon = memchr::memchr(b':', text.as_bytes()).ok_or(VariantsError::Malformed)?;
        if !is_valid_key(&text[..colon]) || !is_valid_key(&text[colon + 1..]) {
            return Err(VariantsError::Malformed);
        }
        let place = |at: usize| u16::try_from(begin + at).map_err(|_| VariantsError::TooManyPairs);
        let pair = Pair { begin: place(0)?, colon: place(colon)?, end: place(text.len())? };
        *self.pairs.get_mut(self.length).ok_or(VariantsError::TooManyPairs)? = pair;
        self.length += 1;
        Ok(())
    }

    /// Returns the forced key of `zone`.
    pub fn key(&self, zone: &str) -> Option<&'a str> {
        let pair = self.pairs[..self.length].iter().find(|pair| pair.zone(self.text) == zone)?;
        Some(pair.key(self.text))
    }

    /// Returns whether the page lacks the zone or the key of any pair.
    pub fn has_unknown(&self) -> bool {
        self.unknown != 0
    }

    /// Returns the pairs whose zone or key the page does not have, sorted by zone.
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

/// Returns whether `text` is a valid name of a zone or key of a variant.
pub(crate) fn is_valid_key(text: &str) -> bool {
    (1..=KEY_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn find_zone<'p>(page: &'p ArchivedPage, name: &str) -> Option<&'p ArchivedZone> {
    let at = page.zones.binary_search_by(|zone| zone.name.as_str().cmp(name)).ok()?;
    Some(&page.zones[at])
}

/// Returns the index of the variant with this key.
pub(crate) fn find_variant(zone: &ArchivedZone, key: &str) -> Option<u8> {
    zone.variants.iter().position(|v| v.key == *key).map(|at| at as u8)
}
