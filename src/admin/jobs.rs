//! Background jobs of the admin thread: work that uses the disk, or takes longer than a request may block the
//! thread. One job runs at a time, on a thread of its own, and wakes the admin thread at its end. A job that
//! panics fails: its client gets 500, and the next job can start.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::metrics::JobCounters;
use crate::problem::{self, Problem, ProblemKind};
use crate::threads;

/// The result of a job.
pub type JobResult = Result<JobOutput, JobError>;

/// The response that a successful job makes.
#[derive(Debug)]
pub struct JobOutput {
    /// The media type.
    pub content_type: &'static str,
    /// The body.
    pub text: String,
    /// The seq after which the next request continues, if the response was truncated.
    pub next_since: Option<u64>,
    /// Damaged places of the log that the job skipped.
    pub damaged_places: u64,
}

/// The error of a job.
#[derive(Debug)]
pub struct JobError {
    /// The problem that the client gets.
    pub kind: &'static ProblemKind,
    /// A noun phrase.
    pub detail: String,
}

/// The token of the job. There is only one job at a time.
const JOB_TOKEN: usize = 0;

/// A runner of one background job at a time.
pub struct JobRunner {
    wakeup_tx: Arc<UnixStream>,
    /// Carries the result of the job; `None` if it panicked.
    result_channel: (SyncSender<Option<JobResult>>, Receiver<Option<JobResult>>),
    state: JobState,
    counts: JobCounters,
}

enum JobState {
    Idle,
    Running {
        /// True if the client is gone, so that the result is discarded.
        is_abandoned: bool,
    },
    Done(JobResult),
}

impl JobRunner {
    /// Creates a runner. It writes a byte to `wakeup` when a job is done, and counts panics in `counts`. If the
    /// socket is full, the write fails, but the admin thread wakes anyway.
    pub fn new(wakeup: impl Into<Arc<UnixStream>>, counts: JobCounters) -> Self {
        Self { wakeup_tx: wakeup.into(), result_channel: sync_channel(1), state: JobState::Idle, counts }
    }

    /// Starts a job and returns its token.
    ///
    /// # Errors
    /// Returns a problem if another job is running, or no thread can be started.
    pub fn start(
        &mut self,
        job: impl FnOnce() -> JobResult + Send + 'static,
    ) -> Result<usize, Problem<'static>> {
        let busy = Problem::new(problem::OVERLOADED, "Another export or erasure is running; retry later.");
        if !matches!(self.state, JobState::Idle) {
            return Err(busy);
        }
        let (wakeup, output) = (Arc::clone(&self.wakeup_tx), self.result_channel.0.clone());
        let work = move || {
            // The state that a job shares survives a panic: the log queue is built for it, the rest is
            // read-only.
            let outcome = catch_unwind(AssertUnwindSafe(job)).ok();
            // The channel has room for the result of the only job.
            let _ = output.try_send(outcome);
            drop((&*wakeup).write(&[1]));
        };
        threads::spawn("job", work).map_err(|_| busy)?;
        self.state = JobState::Running { is_abandoned: false };
        Ok(JOB_TOKEN)
    }

    /// Returns the token of the job if it ended since the last call.
    pub fn take_completion(&mut self) -> Option<usize> {
        let output = self.result_channel.1.try_recv().ok()?.unwrap_or_else(|| Err(self.panic_error()));
        let forgotten = matches!(self.state, JobState::Running { is_abandoned: true });
        self.state = if forgotten { JobState::Idle } else { JobState::Done(output) };
        Some(JOB_TOKEN)
    }

    fn panic_error(&self) -> JobError {
        self.counts.record_panic();
        tracing::error!("an export or an erasure panicked; its client gets 500");
        JobError {
            kind: problem::INTERNAL,
            detail: "The job failed unexpectedly; the server log has the cause.".to_owned(),
        }
    }

    /// Returns whether the result of a job is ready.
    pub fn is_complete(&self) -> bool {
        matches!(self.state, JobState::Done(_))
    }

    /// Takes the result of the completed job.
    pub fn take_result(&mut self) -> Option<JobResult> {
        match std::mem::replace(&mut self.state, JobState::Idle) {
            JobState::Done(output) => Some(output),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Discards the result of the job. The job itself runs to its end.
    pub fn abandon(&mut self) {
        match &mut self.state {
            JobState::Running { is_abandoned: forgotten } => *forgotten = true,
            _ => self.state = JobState::Idle,
        }
    }
}
