//! The hosts of a site, as far as it lists them: those of its `origins`.

use crate::url::{host, without_www};

/// Returns whether `host`, without a leading `www.`, is the host of one of the origins. An origin may have `*` in
/// place of labels.
pub(super) fn contains<'o>(mut origins: impl Iterator<Item = &'o str>, wanted: &str) -> bool {
    origins.any(|origin| host(origin).is_some_and(|pattern| matches(without_www(pattern), wanted)))
}

fn matches(pattern: &str, wanted: &str) -> bool {
    let Some((before, behind)) = pattern.split_once('*') else {
        return pattern.eq_ignore_ascii_case(wanted);
    };
    let (Some(start), Some(end)) =
        (wanted.get(..before.len()), wanted.len().checked_sub(behind.len()).and_then(|at| wanted.get(at..)))
    else {
        return false;
    };
    wanted.len() > before.len() + behind.len()
        && start.eq_ignore_ascii_case(before)
        && end.eq_ignore_ascii_case(behind)
}
