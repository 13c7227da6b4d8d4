//! The tracking IDs that a server serves, so that staging and production never serve the content of each other.

use super::super::snapshot::open::{Snapshot, SnapshotError};

/// The set of accepted tracking IDs. The empty set accepts all of them.
#[derive(Debug, Clone, Default)]
pub struct AcceptedTrackingIds(Vec<String>);

impl AcceptedTrackingIds {
    pub fn new(tracking_ids: &[String]) -> Self {
        Self(tracking_ids.to_vec())
    }

    /// Returns the snapshot if its tracking ID is accepted, or if it is a preview of an accepted one.
    ///
    /// # Errors
    /// The tracking ID is another one.
    pub(crate) fn check(&self, snapshot: Snapshot) -> Result<Snapshot, SnapshotError> {
        let site = snapshot.site();
        let actual = site.tracking_id.as_str();
        let ending = site.preview.as_ref().map(|name| format!("--{}", name.as_str()));
        let original = ending.and_then(|ending| actual.strip_suffix(&*ending)).unwrap_or(actual);
        if self.0.is_empty() || self.0.iter().any(|accepted| accepted == original) {
            return Ok(snapshot);
        }
        Err(SnapshotError::OtherTrackingId { actual: actual.to_owned(), accepted: self.0.join(", ") })
    }
}
