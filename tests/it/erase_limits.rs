//! The limits of an erasure on several nodes, one below, at and above each. `tests/cluster/erase` erases on real nodes.

use std::cell::Cell;

use parallax::testing::cluster::erase_limits::{
    APPEND_ATTEMPTS_MAX, ATTEMPTS_MAX, DONE_MAX, DoneErasures, ROUNDS_MAX, in_rounds, while_busy,
    while_changed,
};
use parallax::testing::log::EraseError;

/// Returns an attempt that succeeds after this many temporary errors, and counts its calls.
fn failing(
    errors: u32,
    calls: &Cell<u32>,
    error: fn() -> EraseError,
) -> impl FnMut() -> Result<u32, EraseError> {
    move || {
        calls.set(calls.get() + 1);
        if calls.get() <= errors { Err(error()) } else { Ok(calls.get()) }
    }
}

fn is_changed(error: &EraseError) -> bool {
    matches!(error, EraseError::Changed)
}

#[test]
fn ids_that_change_are_looked_up_20_times() {
    assert_eq!(ATTEMPTS_MAX, 20);
    for (needed, is_done) in [(1, true), (19, true), (20, true), (21, false)] {
        let calls = Cell::new(0);
        let result = while_changed(is_changed, failing(needed - 1, &calls, || EraseError::Changed));
        assert_eq!(result.is_ok(), is_done, "{needed}");
        assert_eq!(calls.get(), needed.min(20), "{needed}");
        assert_eq!(result.err().is_some_and(|error| is_changed(&error)), !is_done, "{needed}");
    }
}

#[test]
fn a_tombstone_waits_for_another_erasure_60_times() {
    assert_eq!(APPEND_ATTEMPTS_MAX, 60);
    for (needed, is_done) in [(1, true), (59, true), (60, true), (61, false)] {
        let (calls, pauses) = (Cell::new(0), Cell::new(0));
        let pause = || pauses.set(pauses.get() + 1);
        let result = while_busy(pause, failing(needed - 1, &calls, || EraseError::Busy));
        assert_eq!(result.is_ok(), is_done, "{needed}");
        assert_eq!((calls.get(), pauses.get()), (needed.min(60), needed.min(60) - 1), "{needed}");
        assert_eq!(matches!(result, Err(EraseError::Busy)), !is_done, "{needed}");
    }
}

#[test]
fn another_error_ends_the_attempts_at_once() {
    let calls = Cell::new(0);
    let result = while_changed(is_changed, failing(1, &calls, || EraseError::Busy));
    assert!(matches!(result, Err(EraseError::Busy)) && calls.get() == 1);
    let calls = Cell::new(0);
    let result = while_busy(|| panic!("no pause"), failing(1, &calls, || EraseError::Stopped));
    assert!(matches!(result, Err(EraseError::Stopped)) && calls.get() == 1);
}

/// Erases a visitor that gets another ID during each of the first rounds. Returns the round of the result and
/// the last round.
fn erase_in_rounds(new_ids: u32) -> (Option<u32>, u32) {
    let last = Cell::new(1);
    let unnamed = |round: &u32| Ok::<_, ()>((*round <= new_ids).then_some("another ID"));
    let erase = |round: &u32, _: &str| {
        last.set(round + 1);
        Ok(round + 1)
    };
    (in_rounds(1, unnamed, erase).expect("no error"), last.get())
}

#[test]
fn a_visitor_that_gets_other_ids_is_erased_in_5_rounds_or_not_called_erased() {
    assert_eq!(ROUNDS_MAX, 5);
    assert_eq!(erase_in_rounds(0), (Some(1), 1));
    assert_eq!(erase_in_rounds(3), (Some(4), 4));
    assert_eq!(erase_in_rounds(4), (Some(5), 5));
    assert_eq!(erase_in_rounds(5), (None, 5));
    assert_eq!(erase_in_rounds(9), (None, 5));
}

#[test]
fn a_node_remembers_the_last_10_000_erasures() {
    assert_eq!(DONE_MAX, 10_000);
    for (pushed, oldest) in [(9_999, 1), (10_000, 1), (10_001, 2), (10_002, 3)] {
        let mut done = DoneErasures::default();
        (1..=pushed).for_each(|id| done.push(id, id * 2));
        assert_eq!(done.get(oldest), Some(&(oldest * 2)), "{pushed}");
        assert_eq!(done.get(oldest - 1), None);
        assert_eq!(done.get(pushed), Some(&(pushed * 2)));
    }
}
