//! The parts into which a question divides its visitors or its values. The question counts one part after the other.

/// Maximum number of parts of the visitors. A question that needs more parts is refused. Each part takes a pass over
/// the log. So more parts would take more time than a question may take.
pub(crate) const PARTS_MAX: u64 = 1_024;

/// One of several parts. Each part is a range of hashes. All ranges have the same length. The parts are in the order of
/// the hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// The number of the part. The first part has the number 0.
    pub number: u64,
    /// The number of all parts.
    pub count: u64,
}

impl Part {
    /// The part that has all hashes.
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

    /// Returns true if this hash is in the part.
    pub(crate) fn has(self, hash: u64) -> bool {
        Self::number_of(hash, self.count) == self.number
    }

    /// Returns the number of the part that has this hash.
    pub(crate) fn number_of(hash: u64, part_count: u64) -> u64 {
        ((u128::from(hash) * u128::from(part_count)) >> 64) as u64
    }
}
