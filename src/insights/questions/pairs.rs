//! The texts `variants` and `experiments` of events. Each is a list of pairs, such as `hero:b,cta:default`.

use super::blocks::TextBlock;
use super::values::{NO_VALUE, Values};
use crate::insights::columns::format::CODE_FIRST;

/// Iterates over the pairs of a text: the zones and their variants, or the experiments and their arms.
pub(crate) fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',').filter_map(|pair| pair.split_once(':'))
}

/// Returns the variant of a zone, or the arm of an experiment. Returns `None` if the text does not name the zone or the experiment.
pub(crate) fn value_in<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    pairs(text).find(|(other, _)| *other == name).map(|(_, value)| value)
}

/// Returns the arm of an experiment that each text of a column names. An absent text and `(other)` have no value.
pub(super) fn arm_numbers(column: &TextBlock, experiment_key: &str, values: &mut Values) -> Vec<u32> {
    let mut numbers = vec![NO_VALUE; column.texts.len()];
    for (number, text) in numbers.iter_mut().zip(&column.texts).skip(CODE_FIRST as usize) {
        *number = value_in(text, experiment_key).map_or(NO_VALUE, |arm| values.number(arm));
    }
    numbers
}
