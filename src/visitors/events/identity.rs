//! The rule that ties anonymous IDs to users. Profiles, the export and Insights use it. Ownership has the ties that the fold
//! of the profiles makes.
//!
//! An identify event with both IDs ties its anonymous ID to its user. An alias ties its `previousId` to its user if that is
//! an anonymous ID without a user. So the tie of a record depends on the record and on the present user of the ID, and
//! everything that reads the log in the order of its seqs decides it in the same way.

use crate::visitors::events::visitor::{is_anon_id, is_placeholder};
use crate::visitors::log::{Record, RecordKind};

/// Returns the anonymous ID and the user that a record names for a tie. `previous_id` is that of an alias.
pub(crate) fn named_tie<'r>(record: &Record<'r>, previous_id: Option<&'r str>) -> Option<(&'r str, &'r str)> {
    let anonymous = match record.kind {
        RecordKind::Identify => record.anon_id,
        RecordKind::Alias => previous_id.filter(|id| can_be_tied(id)),
        _ => None,
    };
    anonymous.zip(record.user_id)
}

/// Returns whether the `previousId` of an alias can be an anonymous ID.
fn can_be_tied(previous_id: &str) -> bool {
    is_anon_id(previous_id) && !is_placeholder(previous_id)
}

/// Returns whether a record ties the anonymous ID that it names. `has_user` says whether the ID has a user at that place of
/// the log.
pub(crate) fn ties(is_alias: bool, has_user: impl FnOnce() -> bool) -> bool {
    !is_alias || !has_user()
}
