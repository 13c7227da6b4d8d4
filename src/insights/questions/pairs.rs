//! The texts `variants` and `experiments` of events. Each is a list of pairs, such as `hero:b,cta:default`.

use super::blocks::TextBlock;
use super::values::{NO_VALUE, Values};
use crate::insights::columns::format::{CODE_FIRST, TextColumn};

/// The variant of a zone that `variants` does not name.
pub(crate) const DEFAULT_VARIANT: &str = "default";

/// Iterates over the pairs of a text: the zones and their variants, or the experiments and their arms.
pub(crate) fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',').filter_map(|pair| pair.split_once(':'))
}

/// Returns the variant of a zone, or the arm of an experiment. Returns `None` if the text does not name the zone or the experiment.
pub(crate) fn value_in<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    pairs(text).find(|(other, _)| *other == name).map(|(_, value)| value)
}

/// A value in a list of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PairedValue<'q> {
    /// The arm of the experiment with this key. A list that does not name the experiment has no value.
    Arm(&'q str),
    /// The variant of the zone with this name. A list that does not name the zone has the value `default`.
    Variant(&'q str),
}

impl PairedValue<'_> {
    /// Returns the column of the lists.
    pub(super) fn column(self) -> TextColumn {
        match self {
            Self::Arm(_) => TextColumn::Experiments,
            Self::Variant(_) => TextColumn::Variants,
        }
    }

    fn find(self, text: &str) -> Option<&str> {
        match self {
            Self::Arm(key) => value_in(text, key),
            Self::Variant(zone) => Some(value_in(text, zone).unwrap_or(DEFAULT_VARIANT)),
        }
    }

    /// Returns the value in each text of a column. An absent text and `(other)` have no value.
    pub(super) fn numbers(self, column: &TextBlock, values: &mut Values) -> Vec<u32> {
        let mut numbers = vec![NO_VALUE; column.texts.len()];
        for (number, text) in numbers.iter_mut().zip(&column.texts).skip(CODE_FIRST as usize) {
            *number = self.find(text).map_or(NO_VALUE, |value| values.number(value));
        }
        numbers
    }
}
