//! Runs several loads by turns, A B B A A B ..., so that drift of the machine affects all of them.

use crate::outcome::Outcome;
use crate::progress::Progress;

/// Windows per side that a meaningful median needs.
pub const ROUNDS_MIN: usize = 5;

/// An error that ends a run: a server that does not start, a file that cannot be written, or an unexpected
/// response.
pub type RunError = Box<dyn std::error::Error + Send + Sync>;

/// One side: its name, and a function that runs a window of its load.
pub struct Turn<'a> {
    pub name: String,
    pub run: Box<dyn FnMut() -> Result<Outcome, RunError> + 'a>,
}

/// An error for a window with unexpected responses, whose figures are meaningless.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {failed} of {all} requests failed; first failure: {failure}")]
pub struct FailedWindowError {
    name: String,
    failed: u64,
    all: u64,
    failure: String,
}

/// Runs a warm-up window of each side, then `rounds` windows of each. Returns the outcomes by side, in order
/// of time. Stops at the first window that fails.
pub fn run_interleaved(
    turns: &mut [Turn<'_>],
    rounds: usize,
    progress: &Progress,
) -> Result<Vec<Vec<Outcome>>, RunError> {
    progress.begin("warming up", turns.len() as u64);
    for turn in turns.iter_mut() {
        progress.set_message(turn.name.clone());
        window(turn, progress)?;
    }
    progress.begin(&format!("measuring {}", names(turns)), (turns.len() * rounds) as u64);
    let mut outcomes = vec![Vec::with_capacity(rounds); turns.len()];
    for round in 0..rounds {
        for at in order(turns.len(), round) {
            progress.set_message(format!("round {} of {rounds}: {}", round + 1, turns[at].name));
            outcomes[at].push(window(&mut turns[at], progress)?);
        }
    }
    Ok(outcomes)
}

fn window(turn: &mut Turn<'_>, progress: &Progress) -> Result<Outcome, RunError> {
    let outcome = (turn.run)().map_err(|failure| format!("{}: {failure}", turn.name))?;
    progress.step(1);
    let (failed, all) = (outcome.failed, outcome.completed + outcome.failed);
    if failed == 0 && outcome.completed > 0 {
        return Ok(outcome);
    }
    let failure = outcome.failure.unwrap_or_else(|| "no responses".to_owned());
    Err(FailedWindowError { name: turn.name.clone(), failed, all, failure }.into())
}

/// Returns the order of the sides: forward in even rounds, backward in odd ones.
fn order(sides: usize, round: usize) -> Vec<usize> {
    let forward = 0..sides;
    if round.is_multiple_of(2) { forward.collect() } else { forward.rev().collect() }
}

fn names(turns: &[Turn<'_>]) -> String {
    turns.iter().map(|turn| turn.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::outcome::sample;

    fn run(failing: Option<usize>) -> (Vec<&'static str>, Result<Vec<Vec<Outcome>>, RunError>) {
        let ran = RefCell::new(Vec::new());
        let seen = &ran;
        let turn = |name: &'static str| Turn {
            name: name.to_owned(),
            run: Box::new(move || {
                seen.borrow_mut().push(name);
                let mut outcome = sample(10, 1.0);
                outcome.failed = u64::from(failing == Some(seen.borrow().len()));
                Ok(outcome)
            }),
        };
        let mut turns = [turn("a"), turn("b")];
        let outcomes = run_interleaved(&mut turns, 3, &Progress::new());
        drop(turns);
        (ran.into_inner(), outcomes)
    }

    #[test]
    fn each_side_warms_up_once_and_then_they_alternate() {
        let (ran, outcomes) = run(None);
        assert_eq!(ran, ["a", "b", "a", "b", "b", "a", "a", "b"]);
        assert_eq!(outcomes.expect("no failure").iter().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
    }

    #[test]
    fn an_unexpected_response_ends_the_run() {
        let (ran, outcomes) = run(Some(4));
        assert_eq!(ran.len(), 4);
        let message = outcomes.expect_err("a failure").to_string();
        assert_eq!(message, "b: 1 of 11 requests failed; first failure: no responses");
    }
}
