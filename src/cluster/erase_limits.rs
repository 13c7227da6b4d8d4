//! The limits of an erasure: attempts, rounds, and the number of results that a node remembers.

use std::collections::VecDeque;

use crate::log::EraseError;

/// Tombstones of one visitor in turn: each one names the IDs that the visitor got while the one before was
/// under way. If the visitor has another ID after these, the client has to retry.
pub const ROUNDS_MAX: u32 = 5;
/// Attempts to find the IDs of a visitor whose IDs change meanwhile. After these, the client has to retry.
pub const ATTEMPTS_MAX: u32 = 20;
/// Attempts to append a tombstone while another erasure runs, one each second. After them, an erasure that
/// takes longer than a minute is running.
pub const APPEND_ATTEMPTS_MAX: u32 = 60;
/// Results of erasures in memory, for the requests of this node that wait for one. At the limit the node
/// forgets the oldest, which no request waits for.
pub const DONE_MAX: usize = 10_000;

/// Calls `attempt` until its error is another one than `is_temporary` accepts, at most `attempts_max` times.
/// Calls `pause` between two attempts.
fn repeat<T, E>(
    attempts_max: u32,
    is_temporary: impl Fn(&E) -> bool,
    pause: impl Fn(),
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    for _ in 1..attempts_max {
        match attempt() {
            Err(error) if is_temporary(&error) => pause(),
            result => return result,
        }
    }
    attempt()
}

/// Calls `attempt` again while the IDs of the visitor change, as `is_changed` says.
///
/// # Errors
/// Those of `attempt`.
pub fn while_changed<T, E>(
    is_changed: impl Fn(&E) -> bool,
    attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    repeat(ATTEMPTS_MAX, is_changed, || {}, attempt)
}

/// Calls `attempt` again while another erasure or a backup runs.
///
/// # Errors
/// Those of `attempt`.
pub fn while_busy<T>(
    pause: impl Fn(),
    attempt: impl FnMut() -> Result<T, EraseError>,
) -> Result<T, EraseError> {
    let is_busy = |error: &EraseError| matches!(error, EraseError::Busy | EraseError::BackupRuns);
    repeat(APPEND_ATTEMPTS_MAX, is_busy, pause, attempt)
}

/// Erases the IDs that `find_unnamed` finds after each round, beginning after the round `first_round`. Returns the last
/// round. `None`: the visitor has another ID after [`ROUNDS_MAX`] rounds.
///
/// # Errors
/// Those of the functions.
pub fn in_rounds<R, I, E>(
    first_round: R,
    mut find_unnamed: impl FnMut(&R) -> Result<Option<I>, E>,
    mut erase: impl FnMut(&R, I) -> Result<R, E>,
) -> Result<Option<R>, E> {
    let mut last = first_round;
    for _ in 1..ROUNDS_MAX {
        let Some(ids) = find_unnamed(&last)? else { return Ok(Some(last)) };
        last = erase(&last, ids)?;
    }
    Ok(find_unnamed(&last)?.is_none().then_some(last))
}

/// The results of the last [`DONE_MAX`] erasures, by their IDs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoneErasures<T>(VecDeque<(u128, T)>);

impl<T> Default for DoneErasures<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> DoneErasures<T> {
    /// Adds an erasure.
    pub fn push(&mut self, id: u128, result: T) {
        if self.0.len() == DONE_MAX {
            self.0.pop_front();
        }
        self.0.push_back((id, result));
    }

    /// Returns the result of an erasure. `None` if it is not done, or forgotten.
    pub fn get(&self, id: u128) -> Option<&T> {
        self.0.iter().rev().find(|(done, _)| *done == id).map(|(_, result)| result)
    }
}
