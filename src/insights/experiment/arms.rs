//! The named arms of an experiment, and the numbers of the arms.
//!
//! Anyone can send an event that names any arm. So the number of named arms is bounded. The arms of the phases and of
//! the published site are named arms. At most [`UNKNOWN_ARMS_MAX`] other arms are named arms too. The visitors of all
//! further arms are counted together.

use std::collections::HashMap;

use crate::checksum::hash128_parts;

/// The number of the holdout.
pub(super) const HOLDOUT_NUMBER: usize = 0;
/// Maximum number of unknown arms in an answer. An arm is unknown if neither a phase nor the published site has the
/// arm. A zone has at most this many variants. So the limit is high enough for an experiment that has only unknown
/// arms. The visitors of further arms are counted without the names of these arms.
pub const UNKNOWN_ARMS_MAX: usize = crate::limits::VARIANTS_MAX;

/// The bit that marks the number of an arm beyond [`UNKNOWN_ARMS_MAX`]. The other bits of the number are a hash of the
/// arm. So two such arms have different numbers, except for a rare collision.
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

    /// Returns the index of the arm among the named arms. Returns `None` if the arm is no named arm.
    pub(super) fn named(self) -> Option<usize> {
        (self.0 & UNNAMED == 0).then_some(self.0 as usize)
    }
}

/// The named arms of an experiment.
#[derive(Debug, Clone)]
pub(super) struct Arms {
    /// The name of each number. The first name is the holdout. The known arms follow in their order. The unknown arms
    /// follow in the order in which the events name them.
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// The number of known arms, plus 1 for the holdout.
    known: usize,
}

impl Arms {
    /// `holdout` is the name of the holdout in events. An empty name is in no event.
    pub(super) fn new(known_arms: &[String], holdout: &str) -> Self {
        let names: Vec<String> = [holdout.to_owned()].into_iter().chain(known_arms.iter().cloned()).collect();
        let numbers = names.iter().zip(0..).map(|(name, number)| (name.clone(), number)).collect();
        Self { known: names.len(), names, numbers }
    }

    /// Returns the name of each number. The first name is the holdout.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the number of arms that the result has, plus 1 for the holdout. The result has the known arms. If no arm
    /// is known, the result has all named arms.
    pub(super) fn compared(&self) -> usize {
        if self.known > HOLDOUT_NUMBER + 1 { self.known } else { self.names.len() }
    }

    /// Returns the number of known arms, plus 1 for the holdout.
    pub(super) fn known(&self) -> usize {
        self.known
    }

    /// Returns the number of an arm. A new arm gets the next number.
    pub(super) fn number(&mut self, arm_name: &str) -> ArmNumber {
        if let Some(number) = self.numbers.get(arm_name) {
            return ArmNumber(*number);
        }
        if self.names.len() - self.known >= UNKNOWN_ARMS_MAX {
            return ArmNumber(hash128_parts([arm_name.as_bytes()]) as u32 | UNNAMED);
        }
        let number = self.names.len() as u32;
        self.names.push(arm_name.to_owned());
        self.numbers.insert(arm_name.to_owned(), number);
        ArmNumber(number)
    }
}
