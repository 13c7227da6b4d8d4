//! The threads of Insights in a server.
//!
//! `insights` answers one question at a time and renames finished column files. The questions that wait are in the queue
//! of the client. `columns` builds the column files of
//! sealed segments at the lowest priority, and takes no lock.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use super::columns::build::VisitorKey;
use super::columns::installer::{BuiltFrom, ColumnInstaller};
use super::columns::missing::MissingFiles;
use super::columns::store::{ColumnStore, StoreError};
use super::questions::answer::Answer;
use super::questions::question::{Query, QuestionError};
use super::questions::scan::{Limits, ScanError};
use super::questions::site::SiteFacts;
use crate::clock;
use crate::config::Ack;
use crate::metrics::LatencyHistogram;
use crate::storage::disk::Disk;
use crate::storage::lower_thread_priority;
use crate::threads;
use crate::visitors::log::Queue;

/// Time of one question from its begin, with the columns that it needs first.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts to count while erasures change the log.
const ATTEMPTS_MAX: u32 = 8;
/// Pause between two looks for sealed segments without columns.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The reason why a question has no answer.
#[derive(Debug, Clone)]
pub(crate) enum AnswerError {
    /// The question waited too long for other ones.
    NotBegun,
    /// The question takes more than its time.
    TooExpensive,
    /// The question takes more than its memory.
    TooLarge,
    /// The log does not know the experiment.
    Refused(QuestionError),
    /// Columns are missing, this many files.
    Behind(usize),
    /// The log cannot be read.
    Unreadable(String),
    /// The thread panicked while it answered.
    Panicked,
}

/// An answer, or the reason why there is none.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Of the only question that was asked.
    Question(Result<Arc<Answer>, AnswerError>),
    /// Of the errand with this ID.
    Errand(u64, Result<String, AnswerError>),
}

/// Work of the thread beside the questions. The thread answers a question that waits after each step.
pub(crate) trait Errand: Send {
    /// Does the next step. Returns the text after the last one.
    fn step(&mut self) -> Option<Result<String, AnswerError>>;
}

/// An errand that is not done.
pub(crate) struct Running {
    /// Its reply has the same.
    pub id: u64,
    pub errand: Box<dyn Errand>,
    pub asked_at: Instant,
    pub abandoned: Abandoned,
}

/// A question, as it was asked.
#[derive(Debug)]
pub(crate) struct Asked {
    pub question: Query,
    pub site: SiteFacts,
    pub now_ms: i64,
    pub asked_at: Instant,
    pub abandoned: Abandoned,
}

/// Tells the thread that no client waits for the answer any more. Clones share the state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    /// Ends the computation of the answer.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

enum Message {
    Ask(Box<Asked>),
    Run(Running),
    /// The thread `columns` has written the file of this segment. It waits for the result of the rename.
    Built(BuiltFrom, Sender<io::Result<bool>>),
}

/// Asks questions and receives the answers.
pub(crate) struct InsightsClient {
    messages: Sender<Message>,
    replies: Receiver<Reply>,
    metrics: Arc<InsightsMetrics>,
    /// Dropped with the client, which ends the thread `columns` and then the thread `insights`.
    _stop: Sender<()>,
}

impl InsightsClient {
    /// Asks a question. The next one may be asked after the reply. Returns false if the thread has ended.
    pub(crate) fn ask(&self, asked: Box<Asked>) -> bool {
        self.messages.send(Message::Ask(asked)).is_ok()
    }

    /// Starts an errand. An abandoned one has no reply. Returns false if the thread has ended.
    pub(crate) fn run(&self, running: Running) -> bool {
        self.messages.send(Message::Run(running)).is_ok()
    }

    /// Counts questions and errands that no client waits for any more.
    pub(crate) fn count_abandoned(&self, questions: usize) {
        self.metrics.abandoned.fetch_add(questions as u64, Ordering::Relaxed);
    }

    /// Returns the next reply that has arrived.
    pub(crate) fn next_reply(&self) -> Option<Reply> {
        self.replies.try_recv().ok()
    }
}

/// The metrics of Insights.
#[derive(Debug, Default)]
pub(crate) struct InsightsMetrics {
    segments_behind: AtomicU64,
    abandoned: AtomicU64,
    query_latency: LatencyHistogram,
}

impl InsightsMetrics {
    /// Returns the sealed segments without a column file, as of the last look.
    pub(crate) fn segments_behind(&self) -> u64 {
        self.segments_behind.load(Ordering::Relaxed)
    }

    /// Returns the questions and errands that were dropped because no client waited for them any more.
    pub(crate) fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Returns the durations of the questions, from the request to the answer.
    pub(crate) fn query_latency(&self) -> &LatencyHistogram {
        &self.query_latency
    }
}

/// The parts of a server that Insights needs.
pub(crate) struct Parts {
    pub disk: Arc<dyn Disk>,
    pub directory: PathBuf,
    pub key: VisitorKey,
    pub log: Queue,
    pub ack: Ack,
    /// Memory for answers over columns. 0 if there are none: then no column file is built, and only errands run.
    pub memory_bytes: u64,
    pub metrics: Arc<InsightsMetrics>,
    /// Wakes the thread that asks.
    pub wake: Box<dyn Fn() + Send>,
}

/// Starts the thread `insights`, and the thread `columns` if Insights is on. They end when the client is dropped.
///
/// # Errors
/// A thread cannot be created.
pub(crate) fn start(parts: Parts) -> io::Result<InsightsClient> {
    // The client bounds the questions, and the thread `columns` waits for each of its messages.
    let (messages, asked) = channel();
    let (replies_tx, replies) = channel();
    let installer = ColumnInstaller::new(Arc::clone(&parts.disk), &parts.directory, parts.log.clone());
    let (stop_tx, stopped) = channel();
    let builder = ColumnsThread {
        files: MissingFiles::new(Arc::clone(&parts.disk), &parts.directory, parts.key, installer.clone()),
        insights: messages.clone(),
        stopped,
        metrics: Arc::clone(&parts.metrics),
        has_failed: false,
    };
    let store = ColumnStore::new(Arc::clone(&parts.disk), &parts.directory, parts.key, parts.memory_bytes);
    let store = store.with_installer(installer.clone());
    let (is_on, metrics) = (parts.memory_bytes > 0, Arc::clone(&parts.metrics));
    let errands = VecDeque::new();
    let engine =
        InsightsThread { parts, store, installer, generation: 0, asked, errands, replies: replies_tx };
    threads::spawn("insights", move || engine.run())?;
    if is_on {
        threads::spawn("columns", move || builder.run())?;
    }
    Ok(InsightsClient { messages, replies, metrics, _stop: stop_tx })
}

/// The thread `insights`.
struct InsightsThread {
    parts: Parts,
    store: ColumnStore,
    installer: ColumnInstaller,
    /// The erasure generation of the store.
    generation: u64,
    asked: Receiver<Message>,
    /// The errands that are not done, oldest first.
    errands: VecDeque<Running>,
    replies: Sender<Reply>,
}

impl InsightsThread {
    fn run(mut self) {
        while let Ok(message) = self.next_message() {
            if let Some(message) = message {
                self.handle(message);
            }
            self.step_errand();
        }
    }

    /// Returns the next message. It waits for one only if there is no errand.
    fn next_message(&self) -> Result<Option<Message>, RecvError> {
        if self.errands.is_empty() {
            return self.asked.recv().map(Some);
        }
        match self.asked.try_recv() {
            Ok(message) => Ok(Some(message)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(RecvError),
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Ask(asked) => {
                let answered = catch_unwind(AssertUnwindSafe(|| self.answer(&asked)));
                let answered = answered.unwrap_or_else(|_| {
                    self.store.clear();
                    Err(panicked())
                });
                self.reply(Reply::Question(answered.map(Arc::new)), asked.asked_at, &asked.abandoned);
            }
            Message::Run(running) => self.errands.push_back(running),
            Message::Built(built, done) => {
                // The builder has ended if the server stops.
                let _ = done.send(self.installer.install_built(built));
            }
        }
    }

    /// Does one step of the oldest errand that a client waits for.
    fn step_errand(&mut self) {
        self.errands.retain(|running| !running.abandoned.is_set());
        let Some(running) = self.errands.front_mut() else { return };
        let stepped = catch_unwind(AssertUnwindSafe(|| running.errand.step()));
        let Some(done) = stepped.unwrap_or_else(|_| Some(Err(panicked()))) else { return };
        let Some(Running { id, asked_at, abandoned, .. }) = self.errands.pop_front() else { return };
        self.reply(Reply::Errand(id, done), asked_at, &abandoned);
    }

    fn reply(&self, reply: Reply, asked_at: Instant, abandoned: &Abandoned) {
        if !abandoned.is_set() {
            self.parts.metrics.query_latency.record(clock::instant().duration_since(asked_at));
        }
        // If the client is gone, the server stops, and the next message is the end.
        let _ = self.replies.send(reply);
        (self.parts.wake)();
    }

    /// Counts again if an erasure changes the log meanwhile.
    fn answer(&mut self, asked: &Asked) -> Result<Answer, AnswerError> {
        let (began, mut attempts) = (clock::instant(), 1);
        loop {
            let generation = self.parts.log.metrics().generation().now();
            if generation != self.generation {
                self.store.clear();
                self.generation = generation;
            }
            let answered = self.count(asked, began);
            let is_same = self.parts.log.metrics().generation().now() == generation;
            match answered {
                Ok(answer) if is_same || attempts == ATTEMPTS_MAX => return Ok(answer),
                Err(StoreError::Scan(ScanError::TooExpensive)) => return Err(AnswerError::TooExpensive),
                Err(StoreError::Scan(ScanError::TooLarge)) => return Err(AnswerError::TooLarge),
                Err(StoreError::Scan(ScanError::Refused(refused))) => {
                    return Err(AnswerError::Refused(refused));
                }
                Err(StoreError::Behind(files)) => return Err(AnswerError::Behind(files)),
                Err(error) if attempts == ATTEMPTS_MAX => {
                    return Err(AnswerError::Unreadable(error.to_string()));
                }
                Err(error) if is_same => {
                    tracing::warn!(%error, "a question of Insights cannot read its columns; it is asked again");
                    self.store.forget_unreadable();
                }
                Ok(_) | Err(_) => {}
            }
            attempts += 1;
        }
    }

    fn count(&mut self, asked: &Asked, began: Instant) -> Result<Answer, StoreError> {
        let metrics = self.parts.log.metrics();
        let last_seq = match self.parts.ack {
            Ack::Disk => metrics.durable_seq(),
            Ack::Written => metrics.last_seq(),
        };
        let is_over =
            || asked.abandoned.is_set() || clock::instant().duration_since(began) > QUESTION_TIMEOUT;
        self.store.refresh(last_seq, &is_over)?;
        let limits = Limits { memory_bytes: self.parts.memory_bytes, is_over: &is_over };
        self.store.answer(&asked.question, &asked.site, asked.now_ms, &limits)
    }
}

fn panicked() -> AnswerError {
    tracing::error!("a question of Insights panicked; its client gets 500");
    AnswerError::Panicked
}

/// The thread `columns`.
struct ColumnsThread {
    files: MissingFiles,
    insights: Sender<Message>,
    /// Disconnected when the client is dropped.
    stopped: Receiver<()>,
    metrics: Arc<InsightsMetrics>,
    /// True after a failure, so that a broken disk gives one line in the log.
    has_failed: bool,
}

impl ColumnsThread {
    fn run(mut self) {
        lower_thread_priority();
        while let Err(RecvTimeoutError::Timeout) = self.stopped.recv_timeout(LOOK_INTERVAL) {
            match self.build_missing() {
                Ok(()) => self.has_failed = false,
                Err(error) if self.has_failed => tracing::debug!(%error, "cannot build a column file"),
                Err(error) => {
                    self.has_failed = true;
                    tracing::warn!(%error, "cannot build a column file; trying again every second");
                }
            }
        }
    }

    fn build_missing(&mut self) -> io::Result<()> {
        let Self { files, insights, stopped, metrics, .. } = self;
        let mut install = |built| {
            let (done, installed) = channel();
            // An error means that the thread `insights` has ended, because the server stops.
            let sent = insights.send(Message::Built(built, done));
            sent.ok().and_then(|()| installed.recv().ok()).unwrap_or(Ok(false))
        };
        let note_behind = |files| metrics.segments_behind.store(files, Ordering::Relaxed);
        let is_stopped = || matches!(stopped.try_recv(), Err(TryRecvError::Disconnected));
        files.build(&mut install, &note_behind, &is_stopped)
    }
}
