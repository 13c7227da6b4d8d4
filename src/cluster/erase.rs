//! Own records that an erasure voided while they were under way.
//!
//! A node erases its own records when it processes a tombstone. A record that it has sent and that has not returned can take effect
//! after the tombstone, with its content. The visitor would be back. The node does not know the seqs that it has sent: after going back and
//! after a start it has forgotten them, and a restored file `producer` hides the producer IDs. So it keeps the dedup keys of the
//! erased records that have not returned, and decides when it sees the effect: such a record needs a second
//! tombstone. The directory keeps this list with the erasures that it has done.

use super::message::RunRecord;
use crate::visitors::log::RecordKind;

/// An erased own record that has not returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasedRecord<O> {
    pub seq: u64,
    /// The dedup key, which the void record has kept.
    pub key: u128,
    /// The owner of the record at the erasure.
    pub owner: O,
}

/// The erased own records that have not returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasedUnderWay<O>(Vec<ErasedRecord<O>>);

impl<O> Default for ErasedUnderWay<O> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<O> ErasedUnderWay<O> {
    /// Adds an erased record. One without a key is never found again, and needs no entry.
    pub fn push(&mut self, record: ErasedRecord<O>) {
        if record.key != 0 {
            self.0.push(record);
        }
    }

    /// Notes an accepted record of any producer. Returns the owner that needs a second tombstone, if the record is an erased own one that
    /// took effect with its content after the tombstone. `is_erased` returns whether the state has the tombstone of an owner already. After
    /// a start, a node reads messages from before it again.
    ///
    /// Another form does not remove the entry, and neither does a record before the tombstone: its key can leave the window before the
    /// own record arrives.
    pub fn on_accepted(
        &mut self,
        record: &RunRecord<'_>,
        is_effective: bool,
        is_erased: impl Fn(&O) -> bool,
    ) -> Option<O> {
        let has_content = is_effective && record.record.kind != RecordKind::Void;
        let is_back = |erased: &ErasedRecord<O>| erased.key == record.key && is_erased(&erased.owner);
        let index = self.0.iter().position(|erased| has_content && is_back(erased))?;
        Some(self.0.swap_remove(index).owner)
    }

    /// Forgets the records that have returned: no form of them is under way any more. Before an erasure, they took effect before its
    /// tombstone.
    pub fn forget_returned(&mut self, returned: u64) {
        self.0.retain(|erased| erased.seq > returned);
    }

    /// Removes the records that a loaded state has accepted already and whose tombstone it has, by `is_erased`. The state hides the order
    /// of their effect and of the tombstone, so each needs a second one.
    pub fn take_unseen(&mut self, last_accepted: u64, is_erased: impl Fn(&O) -> bool) -> Vec<O> {
        let is_unseen =
            |erased: &mut ErasedRecord<O>| erased.seq <= last_accepted && is_erased(&erased.owner);
        self.0.extract_if(.., is_unseen).map(|erased| erased.owner).collect()
    }
}
