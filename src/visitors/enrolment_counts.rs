//! The number of IDs that are enrolled in phases of experiments, counted over the table of visitors.

use std::collections::BTreeMap;

use super::lookup::PinnedProfiles;

/// The numbers of enrolled IDs of a site, in some phases.
#[derive(Debug)]
pub(crate) struct EnrolmentCounts {
    site: String,
    /// By the hash of the phase.
    by_phase: BTreeMap<u32, u64>,
}

impl EnrolmentCounts {
    /// Creates the count of a site. It counts the phases with these hashes.
    pub(crate) fn new(site: &str, phase_hashes: impl Iterator<Item = u32>) -> Self {
        Self { site: site.to_owned(), by_phase: phase_hashes.map(|hash| (hash, 0)).collect() }
    }

    /// Counts a shard of the table. Returns the number of its entries, or `None` after the last shard.
    pub(crate) fn add_shard(&mut self, profiles: &PinnedProfiles<'_>, shard_index: usize) -> Option<usize> {
        let Self { site, by_phase } = self;
        profiles.visit_enrolments(shard_index, site, &mut |enrolments| {
            for (hash, _) in enrolments.iter() {
                by_phase.entry(hash).and_modify(|count| *count += 1);
            }
        })
    }

    /// Returns the number of enrolled IDs of each phase, by its hash.
    pub(crate) fn by_phase(&self) -> &BTreeMap<u32, u64> {
        &self.by_phase
    }
}
