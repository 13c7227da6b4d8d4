//! The types that the changes of several parts of a site share: the kind of change, and the number of known visitors.

use crate::condition::OpenResult;

/// A kind of change of an audience, a zone, a goal or a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartChangeKind {
    /// Only the newer version has the part, or decides the zone.
    New,
    /// Only the older version has the part, or decides the zone.
    Removed,
    /// The content, the condition or the rules change, or something that they name.
    Changed,
}

impl PartChangeKind {
    /// Returns the name in texts and in the JSON document.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Removed => "removed",
            Self::Changed => "changed",
        }
    }
}

/// The number of known visitors whom a change concerns. It depends on their requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct VisitorRange {
    /// With every request.
    pub(super) at_least: u64,
    /// With some request.
    pub(super) at_most: u64,
}

impl VisitorRange {
    /// Counts a known visitor. `result` says whether the change concerns the visitor.
    pub(super) fn add(&mut self, result: OpenResult) {
        self.at_least += u64::from(result == OpenResult::Yes);
        self.at_most += u64::from(result != OpenResult::No);
    }
}
