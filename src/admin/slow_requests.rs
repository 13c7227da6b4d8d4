//! The requests of the admin address that wait for another thread, with their tasks.
//!
//! The thread `insights` answers one question at a time. The others wait here, so that a question is dropped when its last
//! client has gone. The thread also does other tasks, step by step, between the questions. A job takes longer, so
//! it has a thread of its own. One job runs at a time. If it panics, its client gets 500, and the next job can start.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Receiver;
use std::time::Instant;

use super::waiting::{Place, WaitingQuestion, WaitingQuestions, retain_others};
use crate::clock;
use crate::insights::engine::{
    Abandonment, AnswerError, InsightsClient, JobError, JobOutput, Output, Reply, ReplySender, SiteQuestion,
    Task, TaskResult, Work,
};
use crate::metrics::JobCounters;
use crate::problem::{self, Problem};
use crate::threads;

/// Requests that wait for the thread `insights`, or for their client to take the answer. A further one is refused. A page
/// of the console has at most six at a time, because a browser opens as many connections.
const REQUESTS_MAX: usize = 128;
/// The slot of the request with a job. There is only one job at a time.
pub(super) const JOB_SLOT: usize = 0;

/// The result of a job.
pub type JobResult = Result<JobOutput, JobError>;

/// A request that waits.
struct Request {
    /// The beginning of the input of the ETag, before the seq. Empty if the request has no question.
    etag_input: String,
    /// By question. A request without a question has one.
    results: Vec<Option<TaskResult>>,
}

impl Request {
    fn new(etag_prefix: String, task_count: usize) -> Self {
        Self { etag_input: etag_prefix, results: vec![None; task_count] }
    }

    fn is_ready(&self) -> bool {
        self.results.iter().all(Option::is_some)
    }
}

/// A task that another thread has.
struct RunningTask {
    id: u64,
    kind: TaskKind,
    /// Empty if the last client has gone.
    places: Vec<Place>,
    abandonment: Abandonment,
}

#[derive(PartialEq, Eq)]
enum TaskKind {
    Question {
        key: String,
        /// The last acknowledged seq when it began. The answer has all events up to it.
        seq: u64,
    },
    Steps,
    Job,
}

/// The requests that wait, with their tasks.
pub struct SlowRequests {
    insights: InsightsClient,
    replies: Receiver<Reply>,
    /// Replies of jobs.
    reply_sender: ReplySender,
    job_counters: JobCounters,
    requests: [Option<Request>; REQUESTS_MAX + 1],
    waiting: WaitingQuestions<Box<SiteQuestion>>,
    /// At most one question and one job.
    running: Vec<RunningTask>,
    /// Tasks so far.
    tasks: u64,
    /// Slots whose last result has arrived.
    ready: VecDeque<usize>,
}

impl SlowRequests {
    /// Creates the table without requests. `reply_sender` sends to `replies`. `job_counters` counts panics.
    pub(crate) fn new(
        insights: InsightsClient,
        replies: Receiver<Reply>,
        reply_sender: ReplySender,
        job_counters: JobCounters,
    ) -> Self {
        Self {
            insights,
            replies,
            reply_sender,
            job_counters,
            requests: [const { None }; REQUESTS_MAX + 1],
            waiting: WaitingQuestions::default(),
            running: Vec::new(),
            tasks: 0,
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
        questions: Vec<(String, SiteQuestion)>,
        etag_prefix: String,
        seq: u64,
    ) -> Result<usize, Problem<'static>> {
        let slot = self.add_request(etag_prefix, questions.len())?;
        let now = clock::instant();
        for (number, (key, question)) in questions.into_iter().enumerate() {
            let kind = TaskKind::Question { key, seq };
            let is_same = |task: &&mut RunningTask| task.kind == kind && !task.places.is_empty();
            if let Some(task) = self.running.iter_mut().find(is_same) {
                task.places.push((slot, number));
            } else if let TaskKind::Question { key, .. } = kind {
                self.waiting.add(key, Box::new(question), now, (slot, number));
            }
        }
        self.begin_next_question(seq);
        Ok(slot)
    }

    /// Adds a request whose task the thread `insights` does step by step. Returns the slot of the request.
    ///
    /// # Errors
    /// Too many requests wait.
    pub(super) fn run_steps(
        &mut self,
        step: impl FnMut() -> Option<TaskResult> + Send + 'static,
    ) -> Result<usize, Problem<'static>> {
        let slot = self.add_request(String::new(), 1)?;
        self.run(Work::Steps(Box::new(step)), TaskKind::Steps, vec![(slot, 0)], clock::instant());
        Ok(slot)
    }

    /// Adds a request with a job. Returns the slot of the request.
    ///
    /// # Errors
    /// Another job is running or its client has not taken the result, or no thread can be started.
    pub fn start_job(
        &mut self,
        job: impl FnOnce() -> JobResult + Send + 'static,
    ) -> Result<usize, Problem<'static>> {
        let busy = Problem::new(
            problem::OVERLOADED,
            "Another export, erasure, comparison or change of a link is running; retry later.",
        );
        if self.requests[JOB_SLOT].is_some() || self.running.iter().any(|task| task.kind == TaskKind::Job) {
            return Err(busy);
        }
        self.tasks += 1;
        let id = self.tasks;
        let reply_sender = self.reply_sender.clone();
        let work = move || {
            // The state that a job shares survives a panic: the log queue is built for it, the rest is
            // read-only.
            let result = catch_unwind(AssertUnwindSafe(job)).map_err(|_| AnswerError::Panicked);
            let result = result.and_then(|result| result.map(Output::Job).map_err(AnswerError::Job));
            reply_sender.send(Reply { id, result });
        };
        threads::spawn("job", work).map_err(|_| busy)?;
        let places = vec![(JOB_SLOT, 0)];
        self.running.push(RunningTask {
            id,
            kind: TaskKind::Job,
            places,
            abandonment: Abandonment::default(),
        });
        self.requests[JOB_SLOT] = Some(Request::new(String::new(), 1));
        Ok(JOB_SLOT)
    }

    fn add_request(&mut self, etag_prefix: String, task_count: usize) -> Result<usize, Problem<'static>> {
        let full = Problem::new(problem::OVERLOADED, "Too many questions wait for an answer; retry later.");
        let mut slots = JOB_SLOT + 1..self.requests.len();
        let slot = slots.find(|slot| self.requests[*slot].is_none()).ok_or(full)?;
        self.requests[slot] = Some(Request::new(etag_prefix, task_count));
        Ok(slot)
    }

    /// Passes the next question to the thread if it answers none. `seq` is the last acknowledged one.
    fn begin_next_question(&mut self, seq: u64) {
        while !self.running.iter().any(|task| matches!(task.kind, TaskKind::Question { .. }))
            && let Some(next) = self.waiting.take_next()
        {
            let is_overdue = next.is_overdue(clock::instant());
            let WaitingQuestion { key, question, places, asked_at } = next;
            if is_overdue {
                self.fill(&places, &Err(AnswerError::NotBegun));
            } else {
                self.run(Work::Question(question), TaskKind::Question { key, seq }, places, asked_at);
            }
        }
    }

    /// Passes a task to the thread `insights`.
    fn run(&mut self, work: Work, kind: TaskKind, places: Vec<Place>, asked_at: Instant) {
        self.tasks += 1;
        let id = self.tasks;
        let abandonment = Abandonment::default();
        if self.insights.run(Task { id, work, asked_at, abandonment: abandonment.clone() }) {
            self.running.push(RunningTask { id, kind, places, abandonment });
        } else {
            self.fill(&places, &Err(AnswerError::Panicked));
        }
    }

    /// Gives a result to the requests that wait for it.
    fn fill(&mut self, places: &[Place], result: &TaskResult) {
        for (slot, number) in places {
            let Some(request) = &mut self.requests[*slot] else { continue };
            request.results[*number] = Some(result.clone());
            if request.is_ready() {
                self.ready.push_back(*slot);
            }
        }
    }

    /// Takes the replies that have arrived, and begins the next question. Returns the slot of a request that is ready,
    /// each one once. `seq` is the last acknowledged one.
    pub fn take_ready(&mut self, seq: u64) -> Option<usize> {
        while let Ok(Reply { id, mut result }) = self.replies.try_recv() {
            if let Some(index) = self.running.iter().position(|task| task.id == id) {
                let task = self.running.swap_remove(index);
                if task.kind == TaskKind::Job && matches!(result, Err(AnswerError::Panicked)) {
                    result = Err(AnswerError::Job(self.panic_error()));
                }
                self.fill(&task.places, &result);
            }
            self.begin_next_question(seq);
        }
        self.ready.pop_front()
    }

    fn panic_error(&self) -> JobError {
        self.job_counters.record_panic();
        tracing::error!("a job panicked; its client gets 500");
        JobError {
            kind: problem::INTERNAL,
            detail: "The job failed unexpectedly; the server log has the cause.".to_owned(),
        }
    }

    /// Returns whether all results of a request have arrived.
    pub fn is_ready(&self, slot: usize) -> bool {
        self.requests[slot].as_ref().is_some_and(Request::is_ready)
    }

    /// Takes a request that is ready: the beginning of the input of its ETag, and its outputs in the order of its questions,
    /// or the first error.
    pub fn take(&mut self, slot: usize) -> Option<(String, Result<Vec<Output>, AnswerError>)> {
        let request = self.requests[slot].take()?;
        Some((request.etag_input, request.results.into_iter().flatten().collect()))
    }

    /// Removes a request whose client has gone, and the tasks that no other one waits for. A job runs to its end.
    pub fn abandon(&mut self, slot: usize) {
        if self.requests[slot].take().is_none() {
            return;
        }
        let mut dropped = self.waiting.abandon(slot);
        for task in self.running.iter_mut().filter(|task| !task.places.is_empty()) {
            if !retain_others(&mut task.places, slot) && task.kind != TaskKind::Job {
                task.abandonment.set();
                dropped += 1;
            }
        }
        // The thread drops such a task without a reply.
        self.running.retain(|task| task.kind != TaskKind::Steps || !task.places.is_empty());
        self.insights.count_abandoned(dropped);
    }
}
