//! Snapshot files: the format, and how a file becomes verified, immutable, mapped memory.

mod experiment_format;
pub mod format;
pub mod hash_index;
pub mod open;
pub mod pattern_format;
pub(crate) mod pieces;
pub mod rule_facts;
pub mod rules_format;
#[cfg_attr(not(feature = "server"), path = "../../hosted/sealed.rs")]
pub mod sealed;
pub mod segment_format;
mod verify;
mod zone_format;

use self::format::ArchivedSite;
use crate::url::is_ignored_referrer;

impl ArchivedSite {
    /// Returns the phase hash of an experiment with this key and this arm. `None` if the site has none.
    pub(crate) fn phase_hash(&self, experiment_key: &str, arm: &str) -> Option<u32> {
        let index = self.experiments.binary_search_by(|e| e.key.get().cmp(experiment_key)).ok()?;
        let experiment = &self.experiments[index];
        experiment.arms.iter().any(|known| known.as_str() == arm).then(|| experiment.phase_hash.to_native())
    }

    /// Returns whether referrers on a host without a leading `www.` are not external, because the site ignores them.
    pub(crate) fn ignores_referrer(&self, host: &str) -> bool {
        let ignored = self.ignored_referrers.iter().map(|ignored| ignored.as_str());
        is_ignored_referrer(host, ignored, self.ignores_providers)
    }
}
