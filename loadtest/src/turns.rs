//! Loads by turns, A B B A A B ..., so that what drifts on the machine drifts for all of them.

use crate::outcome::Outcome;
use crate::progress::Progress;

/// Windows of each side without which a median says little.
pub const ROUNDS_MIN: usize = 5;

/// Whatever ends a run: a server that does not start, a file that cannot be written, an answer that is not as expected.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// One of the sides: its name, and a window of its load.
pub struct Turn<'a> {
    pub name: String,
    pub run: Box<dyn FnMut() -> Result<Outcome, Failure> + 'a>,
}

/// A window in which not every answer was as expected: its figures are of something else.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {failed} of {all} requests failed; the first: {failure}")]
pub struct WrongAnswers {
    name: String,
    failed: u64,
    all: u64,
    failure: String,
}

/// A window of each to warm up, then `rounds` of each: the outcomes by turn, in the order in which they were had. Ends at once
/// where a window fails.
pub fn by_turns(
    turns: &mut [Turn<'_>],
    rounds: usize,
    progress: &Progress,
) -> Result<Vec<Vec<Outcome>>, Failure> {
    progress.begin("warming up", turns.len() as u64);
    for turn in turns.iter_mut() {
        progress.now(turn.name.clone());
        window(turn, progress)?;
    }
    progress.begin(&format!("measuring {}", names(turns)), (turns.len() * rounds) as u64);
    let mut outcomes = vec![Vec::with_capacity(rounds); turns.len()];
    for round in 0..rounds {
        for at in order(turns.len(), round) {
            progress.now(format!("round {} of {rounds}: {}", round + 1, turns[at].name));
            outcomes[at].push(window(&mut turns[at], progress)?);
        }
    }
    Ok(outcomes)
}

fn window(turn: &mut Turn<'_>, progress: &Progress) -> Result<Outcome, Failure> {
    let outcome = (turn.run)().map_err(|failure| format!("{}: {failure}", turn.name))?;
    progress.step(1);
    let (failed, all) = (outcome.failed, outcome.completed + outcome.failed);
    if failed == 0 && outcome.completed > 0 {
        return Ok(outcome);
    }
    let failure = outcome.failure.unwrap_or_else(|| "nothing was answered".to_owned());
    Err(WrongAnswers { name: turn.name.clone(), failed, all, failure }.into())
}

/// Forward in even rounds, backward in odd ones.
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

    fn run(failing: Option<usize>) -> (Vec<&'static str>, Result<Vec<Vec<Outcome>>, Failure>) {
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
        let outcomes = by_turns(&mut turns, 3, &Progress::new());
        drop(turns);
        (ran.into_inner(), outcomes)
    }

    #[test]
    fn each_warms_up_once_and_then_they_alternate() {
        let (ran, outcomes) = run(None);
        assert_eq!(ran, ["a", "b", "a", "b", "b", "a", "a", "b"]);
        assert_eq!(outcomes.expect("no failure").iter().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
    }

    #[test]
    fn a_wrong_answer_ends_the_run() {
        let (ran, outcomes) = run(Some(4));
        assert_eq!(ran.len(), 4);
        let said = outcomes.expect_err("a failure").to_string();
        assert_eq!(said, "b: 1 of 11 requests failed; the first: nothing was answered");
    }
}
