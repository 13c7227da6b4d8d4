//! The arms of an experiment, as numbers.
//!
//! Anyone can send an event that names any arm. So the arms of the phases and of the published site always
//! have a number, and a bounded number of other arms. The rest is counted together.

use std::collections::HashMap;

use crate::checksum::hash128_parts;

/// The arm of the holdout.
pub(crate) const HOLDOUT: &str = "~";
/// The number of the holdout.
pub(super) const HOLDOUT_NUMBER: usize = 0;
/// Arms of events that neither a phase nor the published site has, and that an answer names. If no arm is known,
/// these are the arms of the result, and a zone has at most as many variants. Visitors of further arms are
/// only counted.
pub const UNKNOWN_ARMS_MAX: usize = crate::limits::VARIANTS_MAX;

/// Set in the number of an arm beyond [`UNKNOWN_ARMS_MAX`]. The other bits are a hash of the arm, so that a
/// visitor of two such arms is one of two arms.
const UNNAMED: u32 = 1 << 31;

/// The number of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArmNumber(u32);

impl ArmNumber {
    pub(super) fn to_bits(self) -> u32 {
        self.0
    }

    pub(super) fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the index of a named arm.
    pub(super) fn named(self) -> Option<usize> {
        (self.0 & UNNAMED == 0).then_some(self.0 as usize)
    }
}

/// The named arms.
#[derive(Debug, Clone)]
pub(super) struct Arms {
    /// The holdout, the known arms in their order, and the others in the order in which they are found: by segment, and
    /// within one by visitor.
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    known: usize,
}

impl Arms {
    pub(super) fn new(known: &[String]) -> Self {
        let names: Vec<String> = [HOLDOUT.to_owned()].into_iter().chain(known.iter().cloned()).collect();
        let numbers = names.iter().zip(0..).map(|(name, number)| (name.clone(), number)).collect();
        Self { known: names.len(), names, numbers }
    }

    /// Returns the names by number. The first one is the holdout.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the number of the holdout and of the arms that the result has, which are the first ones: the known arms,
    /// or all named ones if no arm is known.
    pub(super) fn compared(&self) -> usize {
        if self.known > HOLDOUT_NUMBER + 1 { self.known } else { self.names.len() }
    }

    /// Returns the number of the holdout and the known arms, which are the first ones.
    pub(super) fn known(&self) -> usize {
        self.known
    }

    /// Returns the number of an arm. A further arm gets the next one.
    pub(super) fn number(&mut self, arm: &str) -> ArmNumber {
        if let Some(number) = self.numbers.get(arm) {
            return ArmNumber(*number);
        }
        if self.names.len() - self.known >= UNKNOWN_ARMS_MAX {
            return ArmNumber(hash128_parts([arm.as_bytes()]) as u32 | UNNAMED);
        }
        let number = self.names.len() as u32;
        self.names.push(arm.to_owned());
        self.numbers.insert(arm.to_owned(), number);
        ArmNumber(number)
    }
}

/// Returns the arm of an experiment in a text such as `key:arm,other:b`.
pub(super) fn arm_in<'t>(experiments: &'t str, key: &str) -> Option<&'t str> {
    pairs(experiments).find(|(other, _)| *other == key).map(|(_, arm)| arm)
}

/// Iterates over the experiments of a text with their arms.
pub(super) fn pairs(experiments: &str) -> impl Iterator<Item = (&str, &str)> {
    experiments.split(',').filter_map(|pair| pair.split_once(':'))
}
