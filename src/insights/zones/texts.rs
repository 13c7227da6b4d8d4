//! Gives a number to each zone and each variant key in the texts of page events.

use std::collections::HashMap;

use crate::insights::questions::limits::{Limits, VALUES_SHARE};
use crate::insights::questions::pairs::{DEFAULT_VARIANT, pairs};
use crate::insights::questions::values::Values;

/// The variant of a zone if the page event does not name the zone.
pub(super) const DEFAULT: &str = DEFAULT_VARIANT;
/// Minimum memory for the texts of a question, in bytes. The texts can always take this memory, even if the memory of
/// Insights is small.
pub(super) const TEXTS_BYTES_MIN: u64 = 1 << 20;
/// Memory of a zone or a key in bytes, without its name. It includes the entries in two tables.
const NAME_BYTES: u64 = 160;
/// Memory of a variant in a text, in bytes. It includes the counts of its views.
const VARIANT_BYTES: u64 = 64;

/// Names and their numbers. Names are numbered in the order in which the scan finds them.
#[derive(Default)]
pub(super) struct NameNumbers {
    pub numbers: HashMap<String, u32>,
    pub names: Vec<String>,
    bytes: u64,
}

impl NameNumbers {
    pub(super) fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.numbers.insert(name.to_owned(), number);
        self.names.push(name.to_owned());
        self.bytes += NAME_BYTES + 2 * name.len() as u64;
        number
    }
}

/// A variant of a zone. The fields are the number of the zone and the number of the key of the variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Variant {
    pub zone: u32,
    pub key: u32,
}

/// The number of the key [`DEFAULT`].
pub(super) const DEFAULT_KEY: u32 = u32::MAX;

/// The zones and keys in the texts of page events.
#[derive(Default)]
pub(super) struct Texts {
    pub zones: NameNumbers,
    keys: NameNumbers,
    /// The variants in each text, by the number of the text. The variant `default` is left out. `None` until a page
    /// event with the text is read.
    variants: Vec<Option<Vec<Variant>>>,
    variant_bytes: u64,
    bytes_max: u64,
}

impl Texts {
    pub(super) fn new(limits: &Limits<'_>) -> Self {
        let bytes_max = (limits.memory_bytes / VALUES_SHARE).max(TEXTS_BYTES_MIN);
        Self { bytes_max, ..Self::default() }
    }

    /// Returns true if the texts have exceeded their memory. Anyone can send any text. So the number of texts has no
    /// other bound.
    pub(super) fn is_full(&self) -> bool {
        self.zones.bytes + self.keys.bytes + self.variant_bytes > self.bytes_max
    }

    /// Returns the variants in the text with this number.
    pub(super) fn variants(&mut self, text_number: u32, values: &Values) -> &[Variant] {
        let index = text_number as usize;
        if self.variants.len() <= index {
            self.variants.resize(index + 1, None);
        }
        if self.variants[index].is_none() {
            self.variants[index] = Some(self.parse(&values.texts[index]));
        }
        self.variants[index].as_deref().unwrap_or_default()
    }

    fn parse(&mut self, text: &str) -> Vec<Variant> {
        let mut variants: Vec<Variant> = Vec::new();
        for (zone, key) in pairs(text) {
            let zone = self.zones.number(zone);
            let key = if key == DEFAULT { DEFAULT_KEY } else { self.keys.number(key) };
            // Only the first variant of a zone counts.
            if !variants.iter().any(|other| other.zone == zone) {
                variants.push(Variant { zone, key });
            }
        }
        variants.retain(|variant| variant.key != DEFAULT_KEY);
        self.variant_bytes += VARIANT_BYTES * variants.len() as u64;
        variants
    }

    pub(super) fn key(&self, key_number: u32) -> &str {
        if key_number == DEFAULT_KEY { DEFAULT } else { &self.keys.names[key_number as usize] }
    }

    /// Returns the variant with these names. Returns `None` if no page event has the zone, or if none has the key.
    pub(super) fn variant(&self, zone_name: &str, key: &str) -> Option<Variant> {
        let zone = *self.zones.numbers.get(zone_name)?;
        let key = if key == DEFAULT { DEFAULT_KEY } else { *self.keys.numbers.get(key)? };
        Some(Variant { zone, key })
    }
}
