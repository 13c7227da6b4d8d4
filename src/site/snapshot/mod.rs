//! Snapshot files: the format, and how a file becomes verified, immutable, mapped memory.

mod experiment_format;
pub mod format;
pub mod hash_index;
pub mod open;
pub(crate) mod pieces;
mod verify;
mod zone_format;

use self::format::ArchivedSite;
use crate::url::is_ignored_referrer;

impl ArchivedSite {
    /// Returns whether referrers on a host without a leading `www.` are not external, because the site ignores them.
    pub(crate) fn ignores_referrer(&self, host: &str) -> bool {
        let ignored = self.ignored_referrers.iter().map(|ignored| ignored.as_str());
        is_ignored_referrer(host, ignored, self.ignores_providers)
    }
}
