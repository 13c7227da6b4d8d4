//! Work that takes the disk or longer than a request may hold the operator's thread: one job at a time, on a thread of its own,
//! whose end is told by the thread's bell. A job that panics fails: whoever waits is told, and the next one is done.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::metrics::JobCounts;
use crate::problem::{self, Kind, Problem};

/// What a job came to.
pub type Told = Result<Answer, Failure>;

/// What is answered.
#[derive(Debug)]
pub struct Answer {
    /// The media type.
    pub kind: &'static str,
    /// The body.
    pub text: String,
    /// Where an answer that was cut goes on.
    pub next_since: Option<u64>,
    /// Places of the log that are damaged and were passed over.
    pub damaged: u64,
}

/// Why it could not be done.
#[derive(Debug)]
pub struct Failure {
    /// As the client is told.
    pub kind: &'static Kind,
    /// A noun phrase.
    pub expected: String,
}

/// The one token that there is.
const TOKEN: usize = 0;

/// One thread's jobs.
pub struct Jobs {
    bell: Arc<UnixStream>,
    /// None: the job panicked.
    told: (SyncSender<Option<Told>>, Receiver<Option<Told>>),
    state: State,
    counts: JobCounts,
}

enum State {
    Free,
    Working {
        /// Nobody waits for it any more.
        forgotten: bool,
    },
    Done(Told),
}

impl Jobs {
    /// Rings `bell` when a job is done; a bell that is full of rings is heard anyway. Panics are counted in `counts`.
    pub fn new(bell: UnixStream, counts: JobCounts) -> Self {
        Self { bell: Arc::new(bell), told: sync_channel(1), state: State::Free, counts }
    }

    /// Sets a job to work; its token.
    ///
    /// # Errors
    /// Another is under way, or no thread is to be had for it.
    pub fn start(&mut self, job: impl FnOnce() -> Told + Send + 'static) -> Result<usize, Problem<'static>> {
        let busy = Problem::missing(
            problem::OVERLOADED,
            "another try in a moment: an export or an erasure is under way",
        );
        if !matches!(self.state, State::Free) {
            return Err(busy);
        }
        let (bell, told) = (Arc::clone(&self.bell), self.told.0.clone());
        let work = move || {
            // What a job shares with others bears a panic: the log's queue is for that, the rest is read only.
            let came_to = catch_unwind(AssertUnwindSafe(job)).ok();
            // There is one job at a time and room for what it came to.
            let _ = told.try_send(came_to);
            drop((&*bell).write(&[1]));
        };
        thread::Builder::new().name("job".to_owned()).spawn(work).map_err(|_| busy)?;
        self.state = State::Working { forgotten: false };
        Ok(TOKEN)
    }

    /// The token of the job that came to its end, if one did.
    pub fn take_completion(&mut self) -> Option<usize> {
        let told = self.told.1.try_recv().ok()?.unwrap_or_else(|| Err(self.panicked()));
        let forgotten = matches!(self.state, State::Working { forgotten: true });
        self.state = if forgotten { State::Free } else { State::Done(told) };
        Some(TOKEN)
    }

    fn panicked(&self) -> Failure {
        self.counts.panicked();
        tracing::error!("a panic in an export or an erasure: whoever asked is told 500");
        Failure { kind: problem::INTERNAL, expected: "no fault of the server: its log has more".to_owned() }
    }

    /// Whether what a job came to can be taken.
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Done(_))
    }

    /// What the job that is complete came to.
    pub fn finish(&mut self) -> Option<Told> {
        match std::mem::replace(&mut self.state, State::Free) {
            State::Done(told) => Some(told),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Nobody waits for it any more; it is done all the same.
    pub fn forget(&mut self) {
        match &mut self.state {
            State::Working { forgotten } => *forgotten = true,
            _ => self.state = State::Free,
        }
    }
}
