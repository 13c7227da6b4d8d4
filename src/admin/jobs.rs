//! Work that takes the disk or longer than a request may hold the operator's thread: one job at a time, on a thread of its own,
//! whose end is told by the thread's bell.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::problem::{self, Kind, Problem};

/// What a job came to.
pub(super) type Told = Result<Answer, Failure>;

/// What is answered.
#[derive(Debug)]
pub(super) struct Answer {
    /// The media type.
    pub(super) kind: &'static str,
    pub(super) text: String,
    /// Where an answer that was cut goes on.
    pub(super) next_since: Option<u64>,
}

/// Why it could not be done.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: &'static Kind,
    pub(super) expected: String,
}

/// The one token that there is.
const TOKEN: usize = 0;

/// One thread's jobs.
pub(super) struct Jobs {
    bell: UnixStream,
    told: (SyncSender<Told>, Receiver<Told>),
    state: State,
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
    /// Rings `bell` when a job is done; a bell that is full of rings is heard anyway.
    pub(super) fn new(bell: UnixStream) -> Self {
        Self { bell, told: sync_channel(1), state: State::Free }
    }

    /// Sets a job to work; its token.
    pub(super) fn start(
        &mut self,
        job: impl FnOnce() -> Told + Send + 'static,
    ) -> Result<usize, Problem<'static>> {
        let busy = Problem::missing(
            problem::OVERLOADED,
            "another try in a moment: an export or an erasure is under way",
        );
        if !matches!(self.state, State::Free) {
            return Err(busy);
        }
        let (bell, told) = (self.bell.try_clone(), self.told.0.clone());
        let work = move || {
            // There is one job at a time and room for what it came to.
            let _ = told.try_send(job());
            drop(bell.and_then(|mut bell| bell.write(&[1])));
        };
        thread::Builder::new().name("job".to_owned()).spawn(work).map_err(|_| busy)?;
        self.state = State::Working { forgotten: false };
        Ok(TOKEN)
    }

    /// The token of the job that came to its end, if one did.
    pub(super) fn take_completion(&mut self) -> Option<usize> {
        let told = self.told.1.try_recv().ok()?;
        let forgotten = matches!(self.state, State::Working { forgotten: true });
        self.state = if forgotten { State::Free } else { State::Done(told) };
        Some(TOKEN)
    }

    pub(super) fn is_complete(&self) -> bool {
        matches!(self.state, State::Done(_))
    }

    /// What the job that is complete came to.
    pub(super) fn finish(&mut self) -> Option<Told> {
        match std::mem::replace(&mut self.state, State::Free) {
            State::Done(told) => Some(told),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Nobody waits for it any more; it is done all the same.
    pub(super) fn forget(&mut self) {
        match &mut self.state {
            State::Working { forgotten } => *forgotten = true,
            _ => self.state = State::Free,
        }
    }
}
