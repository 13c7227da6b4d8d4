//! The queue of Insights: the requests that wait for answers, and the questions that wait for the thread `insights`.
//!
//! The thread answers one question at a time. The others wait here, so that a question is dropped when its last client
//! has gone.

use std::collections::VecDeque;
use std::sync::Arc;

use super::insights::Caching;
use super::waiting::{Place, WaitingQuestion, WaitingQuestions, retain_others};
use crate::clock;
use crate::insights::Answer;
use crate::insights::engine::{
    Abandonment, AnswerError, InsightsClient, QuestionRequest, Reply, Task, TaskRequest,
};
use crate::problem::{self, Problem};

/// Requests that wait for an answer, or for their client to take it. A further one is refused. A page of the console
/// has at most six at a time, because a browser opens as many connections.
pub(super) const REQUESTS_MAX: usize = 128;

/// The answer to a question, or the text of an errand.
#[derive(Debug, Clone)]
pub(super) enum Replied {
    Answer(Arc<Answer>),
    Text(String),
}

impl Replied {
    /// Returns the answer to a question.
    pub(super) fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Answer(answer) => Some(answer),
            Self::Text(_) => None,
        }
    }
}

type Replies = Result<Vec<Replied>, AnswerError>;

/// A request that waits.
struct Request {
    id: u64,
    caching: Caching,
    /// By question.
    replies: Vec<Option<Result<Replied, AnswerError>>>,
    /// Of the errand, if the request is one.
    errand: Option<Abandonment>,
}

impl Request {
    fn is_ready(&self) -> bool {
        self.replies.iter().all(Option::is_some)
    }
}

/// The question that the thread answers.
struct Answered {
    key: String,
    places: Vec<Place>,
    abandonment: Abandonment,
    /// The last acknowledged seq when it began. The answer has all events up to it.
    seq: u64,
}

impl Answered {
    /// Returns whether the answer is that of a question with this key which is asked after this seq. It is not if its last
    /// client has gone.
    fn is_of(&self, key: &str, seq: u64) -> bool {
        self.key == key && self.seq == seq && !self.places.is_empty()
    }
}

/// The queue of Insights.
pub(super) struct QuestionQueue {
    client: InsightsClient,
    requests: [Option<Request>; REQUESTS_MAX],
    waiting: WaitingQuestions<Box<QuestionRequest>>,
    answered: Option<Answered>,
    /// Requests so far.
    arrivals: u64,
    /// Slots whose last answer has arrived.
    ready: VecDeque<usize>,
}

impl QuestionQueue {
    pub(super) fn new(client: InsightsClient) -> Self {
        Self {
            client,
            requests: [const { None }; REQUESTS_MAX],
            waiting: WaitingQuestions::default(),
            answered: None,
            arrivals: 0,
            ready: VecDeque::new(),
        }
    }

    /// Adds a request with these questions, each with a text that only equal ones share. `seq` is the last acknowledged
    /// one. Returns the slot of the request.
    ///
    /// # Errors
    /// Too many requests wait.
    pub(super) fn ask(
        &mut self,
        questions: Vec<(String, Box<QuestionRequest>)>,
        caching: Caching,
        seq: u64,
    ) -> Result<usize, Problem<'static>> {
        let slot = self.add_request(caching, questions.len(), None)?;
        for (number, (key, asked)) in questions.into_iter().enumerate() {
            let asked_at = asked.asked_at;
            match self.answered.as_mut().filter(|answered| answered.is_of(&key, seq)) {
                Some(answered) => answered.places.push((slot, number)),
                None => self.waiting.add(key, asked, asked_at, (slot, number)),
            }
        }
        self.begin_next(seq);
        Ok(slot)
    }

    /// Adds a request with an errand. Returns its slot.
    ///
    /// # Errors
    /// Too many requests wait.
    pub(super) fn run(&mut self, task: Box<dyn Task>, caching: Caching) -> Result<usize, Problem<'static>> {
        let abandonment = Abandonment::default();
        let slot = self.add_request(caching, 1, Some(abandonment.clone()))?;
        let request = TaskRequest { id: self.arrivals, task, asked_at: clock::instant(), abandonment };
        if !self.client.run(request) {
            self.fill(&[(slot, 0)], &Err(AnswerError::Panicked));
        }
        Ok(slot)
    }

    fn add_request(
        &mut self,
        caching: Caching,
        questions: usize,
        errand: Option<Abandonment>,
    ) -> Result<usize, Problem<'static>> {
        let full = Problem::new(problem::OVERLOADED, "Too many questions wait for an answer; retry later.");
        let slot = self.requests.iter().position(Option::is_none).ok_or(full)?;
        self.arrivals += 1;
        self.requests[slot] =
            Some(Request { id: self.arrivals, caching, replies: vec![None; questions], errand });
        Ok(slot)
    }

    /// Passes the next question to the thread if it answers none. `seq` is the last acknowledged one.
    fn begin_next(&mut self, seq: u64) {
        while self.answered.is_none()
            && let Some(next) = self.waiting.take_next()
        {
            let is_overdue = next.is_overdue(clock::instant());
            let WaitingQuestion { key, question: asked, places, .. } = next;
            if is_overdue {
                self.fill(&places, &Err(AnswerError::NotBegun));
                continue;
            }
            let abandonment = asked.abandonment.clone();
            if self.client.ask(asked) {
                self.answered = Some(Answered { key, places, abandonment, seq });
            } else {
                self.fill(&places, &Err(AnswerError::Panicked));
            }
        }
    }

    /// Gives a reply to the requests that wait for it.
    fn fill(&mut self, places: &[Place], reply: &Result<Replied, AnswerError>) {
        for (slot, number) in places {
            let Some(request) = &mut self.requests[*slot] else { continue };
            request.replies[*number] = Some(reply.clone());
            if request.is_ready() {
                self.ready.push_back(*slot);
            }
        }
    }

    /// Takes the replies that have arrived, and begins the next question. Returns the slot of a request that is ready,
    /// each one once.
    pub(super) fn take_ready(&mut self, seq: u64) -> Option<usize> {
        while let Some(reply) = self.client.next_reply() {
            match reply {
                Reply::Question(answered) => {
                    let places = self.answered.take().map(|answered| answered.places).unwrap_or_default();
                    self.fill(&places, &answered.map(Replied::Answer));
                }
                Reply::Task(id, done) => {
                    let is_asker =
                        |request: &Option<Request>| request.as_ref().is_some_and(|request| request.id == id);
                    let place = self.requests.iter().position(is_asker).map(|slot| (slot, 0));
                    self.fill(place.as_slice(), &done.map(Replied::Text));
                }
            }
            self.begin_next(seq);
        }
        self.ready.pop_front()
    }

    pub(super) fn is_ready(&self, slot: usize) -> bool {
        self.requests[slot].as_ref().is_some_and(Request::is_ready)
    }

    /// Takes a request that is ready, with its replies in the order of its questions, or the first error.
    pub(super) fn take(&mut self, slot: usize) -> Option<(Caching, Replies)> {
        let request = self.requests[slot].take()?;
        Some((request.caching, request.replies.into_iter().flatten().collect()))
    }

    /// Removes a request whose client has gone, and the questions that no other one asks.
    pub(super) fn abandon(&mut self, slot: usize) {
        let Some(request) = self.requests[slot].take() else { return };
        let mut dropped = self.waiting.abandon(slot);
        if let Some(answered) = self.answered.as_mut().filter(|answered| !answered.places.is_empty())
            && !retain_others(&mut answered.places, slot)
        {
            answered.abandonment.set();
            dropped += 1;
        }
        if let Some(errand) = request.errand.filter(|_| request.replies[0].is_none()) {
            errand.set();
            dropped += 1;
        }
        self.client.count_abandoned(dropped);
    }
}
