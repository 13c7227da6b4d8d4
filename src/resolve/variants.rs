//! The `variants` string: `zone:key` pairs separated by commas. Parses the forced variants of a request, and
//! writes the canonical string of a choice.

use crate::limits::{KEY_BYTES_MAX, PAIRS_MAX, ZONES_MAX};
use crate::site::snapshot::format::{ArchivedPage, ArchivedVariant, ArchivedZone};

/// The index of `default`, which is the first of a zone's variants.
pub(super) const DEFAULT_VARIANT: u8 = 0;
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

    /// Sets the variant of `zone_index`.
    pub fn set(&mut self, zone_index: u8, variant_index: u8) {
        self.variants[usize::from(zone_index)] = variant_index;
    }

    /// Returns the variant of `zone_index`, or `None` if the zone is absent.
    pub fn get(&self, zone_index: u8) -> Option<u8> {
        Some(self.variants[usize::from(zone_index)]).filter(|v| *v != ABSENT)
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

/// The forced variants of a request: `zone:key` pairs, each zone once.
#[derive(Debug, Clone, Copy)]
pub struct ForcedVariants<'a> {
    text: &'a str,
    /// The forced variants of the page's zones. An unknown key forces `default`.
    choice: Choice,
    has_unknown: bool,
}

impl<'a> ForcedVariants<'a> {
    /// Parses `text` for a page. The empty string forces `default` everywhere.
    ///
    /// # Errors
    /// The reason why the string is not valid.
    pub fn parse(text: &'a str, page: &ArchivedPage) -> Result<Self, VariantsError> {
        let mut forced = Self { text, choice: Choice::empty(), has_unknown: false };
        let mut rest = text;
        let mut count = 0;
        let mut is_repeated = false;
        while !rest.is_empty() {
            let before = &text[..text.len() - rest.len()];
            let ((zone, key), after) = split_pair(rest).ok_or(VariantsError::Malformed)?;
            count += 1;
            if count > PAIRS_MAX {
                return Err(VariantsError::TooManyPairs);
            }
            is_repeated |= !forced.add(zone, key, before, page);
            rest = match after.strip_prefix(',') {
                Some("") => return Err(VariantsError::Malformed),
                more => more.unwrap_or_default(),
            };
        }
        if is_repeated { Err(VariantsError::DuplicateZone) } else { Ok(forced) }
    }

    /// Adds a pair after those in `earlier_pairs`. Returns whether they do not have its zone.
    fn add(&mut self, zone_name: &str, key: &str, earlier_pairs: &str, page: &ArchivedPage) -> bool {
        let Some(index) = find_zone(page, zone_name) else {
            self.has_unknown = true;
            return pairs(earlier_pairs).all(|(earlier, _)| earlier != zone_name);
        };
        let variant = find_variant(&page.zones[index], key);
        self.has_unknown |= variant.is_none();
        let is_first = self.choice.get(index as u8).is_none();
        self.choice.set(index as u8, variant.unwrap_or(DEFAULT_VARIANT));
        is_first
    }

    /// Returns the forced variant of a zone of the page, or `None` if the zone is not forced. An unknown key forces
    /// `default`.
    pub(super) fn variant(&self, zone_index: u8) -> Option<u8> {
        self.choice.get(zone_index)
    }

    /// Returns whether `zone_name` is forced.
    pub fn has_zone(&self, zone_name: &str) -> bool {
        pairs(self.text).any(|(forced, _)| forced == zone_name)
    }

    /// Returns whether the page lacks the zone or the key of any pair.
    pub fn has_unknown(&self) -> bool {
        self.has_unknown
    }

    /// Returns the pairs whose zone or key `page` does not have, sorted by zone.
    pub fn unknown(&self, page: &ArchivedPage) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let is_known = |zone: &str, key: &str| {
            find_zone(page, zone).is_some_and(|zone| find_variant(&page.zones[zone], key).is_some())
        };
        let mut unknown = [("", ""); PAIRS_MAX];
        let mut count = 0;
        for pair in pairs(self.text).filter(|(zone, key)| !is_known(zone, key)) {
            unknown[count] = pair;
            count += 1;
        }
        unknown[..count].sort_unstable();
        unknown.into_iter().take(count)
    }
}

/// Iterates over the zones and keys of valid pairs.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',').filter_map(|pair| pair.split_once(':'))
}

/// Returns the zone and the key at the start of `text`, and the text after them, which is empty or begins with a
/// comma. `None` if no pair is there.
fn split_pair(text: &str) -> Option<((&str, &str), &str)> {
    let (zone, after) = split_key(text)?;
    let (key, after) = split_key(after.strip_prefix(':')?)?;
    (after.is_empty() || after.starts_with(',')).then_some(((zone, key), after))
}

/// Splits `text` after the name of a zone or the key of a variant. `None` if it does not begin with one.
fn split_key(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().position(|byte| !IS_KEY_BYTE[usize::from(byte)]).unwrap_or(text.len());
    (1..=KEY_BYTES_MAX).contains(&end).then(|| text.split_at(end))
}

/// The bytes of the name of a zone or the key of a variant.
const IS_KEY_BYTE: [bool; 256] = {
    let mut is_key = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        is_key[byte] = (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'_' || byte as u8 == b'-';
        byte += 1;
    }
    is_key
};

/// Returns the index of the zone with this name.
fn find_zone(page: &ArchivedPage, name: &str) -> Option<usize> {
    // Texts of different lengths differ at once. So for the few zones of a page this is cheaper than a binary search.
    page.zones.iter().position(|zone| zone.name == *name)
}

/// Returns the index of the variant with this key.
fn find_variant(zone: &ArchivedZone, key: &str) -> Option<u8> {
    zone.variants.iter().position(|v| *v.key == *key).map(|at| at as u8)
}
