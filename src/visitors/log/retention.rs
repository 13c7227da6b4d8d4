//! Which segments retention lets go, and how: in come those that are closed, oldest first; the first of them go.

use std::collections::VecDeque;
use std::io;

use super::Options;
use super::directory::Directory;
use super::recover::Closed;
use crate::limits::RETAIN_MS_MIN;

/// How many of the first go, by their age or by what all take together, `active_bytes` included.
pub(super) fn let_go(closed: &VecDeque<Closed>, active_bytes: u64, options: &Options, now_ms: i64) -> usize {
    let mut bytes = active_bytes + closed.iter().map(|closed| closed.bytes).sum::<u64>();
    let goes = |closed: &&Closed| {
        let age_ms = now_ms.saturating_sub(closed.newest_ms.unwrap_or(i64::MIN));
        let is_old = options.retain_ms.is_some_and(|retain_ms| age_ms > retain_ms);
        let is_much = options.retain_bytes.is_some_and(|retain_bytes| bytes > retain_bytes);
        bytes -= closed.bytes;
        is_old || (is_much && age_ms > RETAIN_MS_MIN)
    };
    closed.iter().take_while(goes).count()
}

/// How many of the first hold nothing behind `covered`, up to which a follower needs no record; what follows all of them begins with
/// `next_seq`.
pub(super) fn not_needed(closed: &VecDeque<Closed>, covered: u64, next_seq: u64) -> usize {
    let nexts = closed.iter().skip(1).map(|closed| closed.first_seq).chain([next_seq]);
    nexts.take_while(|next| next.saturating_sub(1) <= covered).count()
}

/// Lets the first `count` go; what follows all of them begins with `next_seq`. The word is durable before a file is deleted.
pub(super) fn delete(
    directory: &Directory,
    closed: &mut VecDeque<Closed>,
    count: usize,
    next_seq: u64,
) -> io::Result<()> {
    if count == 0 {
        return Ok(());
    }
    directory.set_oldest(closed.get(count).map_or(next_seq, |closed| closed.first_seq))?;
    let removed: Vec<io::Result<()>> =
        closed.drain(..count).map(|closed| directory.remove(closed.first_seq)).collect();
    removed.into_iter().collect()
}
