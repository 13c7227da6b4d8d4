//! The questions of Insights that wait, in the order in which they are answered.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time for which a question waits for other ones. Then it is refused, because few clients wait longer.
pub const WAIT_MAX: Duration = Duration::from_secs(30);

/// The place of an answer: the slot of a request, and the number of the question in it.
pub(crate) type Place = (usize, usize);

/// A question that waits, with the places that its answer goes to.
#[derive(Debug, PartialEq, Eq)]
pub struct WaitingQuestion<T> {
    /// A text that only equal questions share.
    pub key: String,
    /// The question.
    pub question: T,
    /// When it was asked first.
    pub asked_at: Instant,
    /// At least one.
    pub places: Vec<Place>,
}

impl<T> WaitingQuestion<T> {
    /// Returns whether the question has waited too long.
    pub fn is_overdue(&self, now: Instant) -> bool {
        now.duration_since(self.asked_at) > WAIT_MAX
    }
}

/// The questions that wait.
///
/// Equal questions are one. Requests take turns: the first question of a request is in the next turn, its second one in the
/// turn after that, and so on. So a request with many questions delays another one by one question, and no stream of later
/// requests delays it for ever.
#[derive(Debug)]
pub struct WaitingQuestions<T> {
    /// By turn, and of one turn in the order of arrival.
    by_turn: BTreeMap<(u64, u64), WaitingQuestion<T>>,
    /// The turn of the question that was taken last.
    turn: u64,
    arrivals: u64,
}

impl<T> Default for WaitingQuestions<T> {
    fn default() -> Self {
        Self { by_turn: BTreeMap::new(), turn: 0, arrivals: 0 }
    }
}

impl<T> WaitingQuestions<T> {
    /// Adds a question, or its place to an equal one, which then has the earlier turn of both.
    pub fn add(&mut self, key: String, question: T, asked_at: Instant, place: Place) {
        self.arrivals += 1;
        let turn = (self.turn + 1 + place.1 as u64, self.arrivals);
        let same = self.by_turn.iter().find(|(_, other)| other.key == key).map(|(turn, _)| *turn);
        let same = same.and_then(|same| Some((same, self.by_turn.remove(&same)?)));
        let (turn, waiting) = match same {
            Some((same, mut waiting)) => {
                waiting.places.push(place);
                (same.min(turn), waiting)
            }
            None => (turn, WaitingQuestion { key, question, asked_at, places: vec![place] }),
        };
        self.by_turn.insert(turn, waiting);
    }

    /// Takes the question that is answered next.
    pub fn take_next(&mut self) -> Option<WaitingQuestion<T>> {
        let ((turn, _), waiting) = self.by_turn.pop_first()?;
        self.turn = turn;
        Some(waiting)
    }

    /// Removes the places of a request, and the questions without a place. Returns the number of these questions.
    pub fn abandon(&mut self, slot: usize) -> usize {
        let before = self.by_turn.len();
        self.by_turn.retain(|_, waiting| retain_others(&mut waiting.places, slot));
        before - self.by_turn.len()
    }
}

/// Removes the places of a request. Returns whether there are others.
pub(super) fn retain_others(places: &mut Vec<Place>, slot: usize) -> bool {
    places.retain(|(other, _)| *other != slot);
    !places.is_empty()
}
