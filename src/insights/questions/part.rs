//! The parts of the visitors, or of the values, that a question counts one after another.

/// Most parts of the visitors. Each part is a pass over the log, so more parts would take longer than any question
/// may.
pub(crate) const PARTS_MAX: u64 = 1_024;

/// One of several parts with equal ranges of hashes. The parts are in the order of the hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// The number of the part, from 0.
    pub number: u64,
    /// The number of all parts.
    pub count: u64,
}

impl Part {
    /// The only part.
    pub(crate) const WHOLE: Self = Self { number: 0, count: 1 };

    /// Iterates over all parts.
    pub(crate) fn all(part_count: u64) -> impl Iterator<Item = Self> {
        (0..part_count).map(move |number| Self { number, count: part_count })
    }

    pub(crate) fn is_first(self) -> bool {
        self.number == 0
    }

    pub(crate) fn is_last(self) -> bool {
        self.number + 1 == self.count
    }

    /// Returns whether the part has this hash.
    pub(crate) fn has(self, hash: u64) -> bool {
        Self::number_of(hash, self.count) == self.number
    }

    /// Returns the number of the part that has this hash.
    pub(crate) fn number_of(hash: u64, part_count: u64) -> u64 {
        ((u128::from(hash) * u128::from(part_count)) >> 64) as u64
    }
}
