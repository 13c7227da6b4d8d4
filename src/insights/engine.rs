//! The threads of Insights in a server.
//!
//! The thread `insights` answers one question at a time, and gives finished column files their names. Further
//! questions wait in the queue of the client. The thread `columns` builds the column files of sealed segments. It has
//! the lowest priority and takes no lock.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use super::columns::installer::{ColumnInstaller, ColumnSource};
use super::columns::key::VisitorKey;
use super::columns::missing::MissingFiles;
use super::columns::store::{ColumnStore, StoreError};
use super::query::{Query, answer_cached};
use super::questions::answer::Answer;
use super::questions::limits::{Limits, ScanError};
use super::questions::question::QuestionError;
use super::questions::sealed::{AnswerCache, LogColumns};
use super::questions::site::SiteFacts;
use crate::clock;
use crate::config::Ack;
use crate::metrics::LatencyHistogram;
use crate::storage::disk::Disk;
use crate::storage::lower_thread_priority;
use crate::threads;
use crate::visitors::log::Queue;

/// Longest time of one question. It begins when the thread takes the question, and includes the columns that are built
/// for it. A question that takes longer is refused.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts to count a question. An attempt is repeated if an erasure changes the log meanwhile, or if columns cannot
/// be read.
const ATTEMPTS_MAX: u32 = 8;
/// Pause between two searches for sealed segments without a column file.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The reason why a question has no answer.
#[derive(Debug, Clone)]
pub(crate) enum AnswerError {
    /// The question waited too long for other questions.
    NotBegun,
    /// The question takes more than its time.
    TooExpensive,
    /// The question takes more than its memory.
    TooLarge,
    /// The log does not know the experiment.
    Refused(QuestionError),
    /// This many column files are missing.
    Behind(usize),
    /// The log cannot be read.
    Unreadable(String),
    /// The thread panicked while it answered.
    Panicked,
}

impl From<StoreError> for AnswerError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Behind(files) => Self::Behind(files),
            error => Self::Unreadable(error.to_string()),
        }
    }
}

impl From<ScanError> for AnswerError {
    fn from(error: ScanError) -> Self {
        match error {
            ScanError::TooExpensive => Self::TooExpensive,
            ScanError::TooLarge => Self::TooLarge,
            ScanError::Refused(error) => Self::Refused(error),
            error => Self::Unreadable(error.to_string()),
        }
    }
}

/// The result of a question or of a task.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The result of the last question that was sent.
    Question(Result<Arc<Answer>, AnswerError>),
    /// The result of the task with this ID.
    Task(u64, Result<String, AnswerError>),
}

/// Work in steps that is no question. The thread answers a waiting question between two steps.
pub(crate) trait Task: Send {
    /// Does the next step. Returns the text of the reply after the last step.
    fn step(&mut self) -> Option<Result<String, AnswerError>>;
}

/// A task for the thread.
pub(crate) struct TaskRequest {
    /// The reply has the same ID.
    pub id: u64,
    pub task: Box<dyn Task>,
    pub asked_at: Instant,
    pub abandonment: Abandonment,
}

/// A question for the thread.
#[derive(Debug)]
pub(crate) struct QuestionRequest {
    pub question: Query,
    pub site: SiteFacts,
    pub now_ms: i64,
    pub asked_at: Instant,
    pub abandonment: Abandonment,
}

/// A flag that tells the thread that no client waits for the answer any more. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub(crate) struct Abandonment(Arc<AtomicBool>);

impl Abandonment {
    /// Ends the computation of the answer.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

enum Message {
    Question(Box<QuestionRequest>),
    Task(TaskRequest),
    /// The thread `columns` has written the column file of this segment. It waits for the result of the rename.
    Built(ColumnSource, Sender<io::Result<bool>>),
}

/// Asks questions and receives the answers.
pub(crate) struct InsightsClient {
    messages: Sender<Message>,
    replies: Receiver<Reply>,
    metrics: Arc<InsightsMetrics>,
    /// When the client drops it, the thread `columns` ends, and then the thread `insights`.
    _stop: Sender<()>,
}

impl InsightsClient {
    /// Asks a question. The caller asks the next question after the reply. Returns false if the thread has ended.
    pub(crate) fn ask(&self, request: Box<QuestionRequest>) -> bool {
        self.messages.send(Message::Question(request)).is_ok()
    }

    /// Starts a task. An abandoned task has no reply. Returns false if the thread has ended.
    pub(crate) fn run(&self, request: TaskRequest) -> bool {
        self.messages.send(Message::Task(request)).is_ok()
    }

    /// Counts questions and tasks that no client waits for any more.
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
    /// Returns the number of sealed segments without a column file, as of the last search.
    pub(crate) fn segments_behind(&self) -> u64 {
        self.segments_behind.load(Ordering::Relaxed)
    }

    /// Returns the number of questions and tasks that were dropped because no client waited for them any more.
    pub(crate) fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Returns the durations of the questions, from the request to the answer.
    pub(crate) fn query_latency(&self) -> &LatencyHistogram {
        &self.query_latency
    }
}

/// The parts of a server that Insights uses.
pub(crate) struct Resources {
    pub disk: Arc<dyn Disk>,
    pub directory: PathBuf,
    pub key: VisitorKey,
    pub log: Queue,
    pub ack: Ack,
    /// Memory for answers over columns. With 0 no column file is built, and the thread runs only tasks.
    pub memory_bytes: u64,
    pub metrics: Arc<InsightsMetrics>,
    /// Wakes the thread of the client after a reply.
    pub wake: Box<dyn Fn() + Send>,
}

/// Starts the thread `insights`, and the thread `columns` if Insights is on. They end when the client is dropped.
///
/// # Errors
/// A thread cannot be created.
pub(crate) fn start(resources: Resources) -> io::Result<InsightsClient> {
    // The client bounds the questions, and the thread `columns` waits for each of its messages.
    let (messages_tx, messages) = channel();
    let (replies_tx, replies) = channel();
    let (stop_tx, stop) = channel();
    let Resources { disk, directory, key, log, memory_bytes, metrics, .. } = &resources;
    let installer = ColumnInstaller::new(Arc::clone(disk), directory, log.clone());
    let builder = ColumnsThread {
        files: MissingFiles::new(Arc::clone(disk), directory, *key, installer.clone()),
        insights: messages_tx.clone(),
        stop,
        metrics: Arc::clone(metrics),
        has_failed: false,
    };
    let store = ColumnStore::new(Arc::clone(disk), directory, *key, *memory_bytes);
    let is_on = *memory_bytes > 0;
    let metrics = Arc::clone(metrics);
    let engine = InsightsThread {
        store: store.with_installer(installer.clone()),
        cache: AnswerCache::default(),
        installer,
        resources,
        generation: 0,
        messages,
        tasks: VecDeque::new(),
        replies: replies_tx,
    };
    threads::spawn("insights", move || engine.run())?;
    if is_on {
        threads::spawn("columns", move || builder.run())?;
    }
    Ok(InsightsClient { messages: messages_tx, replies, metrics, _stop: stop_tx })
}

/// The thread `insights`.
struct InsightsThread {
    resources: Resources,
    store: ColumnStore,
    /// The counts over the sealed segments of the store.
    cache: AnswerCache,
    installer: ColumnInstaller,
    /// The erasure generation of the store.
    generation: u64,
    messages: Receiver<Message>,
    /// The tasks that are not done, oldest first.
    tasks: VecDeque<TaskRequest>,
    replies: Sender<Reply>,
}

impl InsightsThread {
    fn run(mut self) {
        while let Ok(message) = self.next_message() {
            if let Some(message) = message {
                self.handle(message);
            }
            self.step_task();
        }
    }

    /// Returns the next message. Waits for a message only if there is no task.
    fn next_message(&self) -> Result<Option<Message>, RecvError> {
        if self.tasks.is_empty() {
            return self.messages.recv().map(Some);
        }
        match self.messages.try_recv() {
            Ok(message) => Ok(Some(message)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(RecvError),
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Question(request) => {
                let answer = catch_unwind(AssertUnwindSafe(|| self.answer(&request)));
                let answer = answer.unwrap_or_else(|_| {
                    self.clear();
                    Err(panicked())
                });
                self.reply(Reply::Question(answer.map(Arc::new)), request.asked_at, &request.abandonment);
            }
            Message::Task(request) => self.tasks.push_back(request),
            Message::Built(source, result_tx) => {
                // The builder has ended if the server stops.
                let _ = result_tx.send(self.installer.install_built(source));
            }
        }
    }

    /// Forgets everything that was read from the log.
    fn clear(&mut self) {
        self.store.clear();
        self.cache.clear();
    }

    /// Does one step of the oldest task that a client waits for.
    fn step_task(&mut self) {
        self.tasks.retain(|request| !request.abandonment.is_set());
        let Some(request) = self.tasks.front_mut() else { return };
        let result = catch_unwind(AssertUnwindSafe(|| request.task.step()));
        let Some(result) = result.unwrap_or_else(|_| Some(Err(panicked()))) else { return };
        let Some(TaskRequest { id, asked_at, abandonment, .. }) = self.tasks.pop_front() else { return };
        self.reply(Reply::Task(id, result), asked_at, &abandonment);
    }

    fn reply(&self, reply: Reply, asked_at: Instant, abandonment: &Abandonment) {
        if !abandonment.is_set() {
            self.resources.metrics.query_latency.record(clock::instant().duration_since(asked_at));
        }
        // If the client is gone, the server stops, and there is no next message.
        let _ = self.replies.send(reply);
        (self.resources.wake)();
    }

    /// Answers a question. Counts again if an erasure changes the log meanwhile.
    fn answer(&mut self, request: &QuestionRequest) -> Result<Answer, AnswerError> {
        let started_at = clock::instant();
        let mut attempts = 1;
        loop {
            let generation = self.resources.log.metrics().generation().now();
            if generation != self.generation {
                self.clear();
                self.generation = generation;
            }
            let answer = self.count(request, started_at);
            let is_same = self.resources.log.metrics().generation().now() == generation;
            match answer {
                Ok(_) if !is_same && attempts < ATTEMPTS_MAX => {}
                Err(AnswerError::Unreadable(error)) if attempts < ATTEMPTS_MAX => {
                    if is_same {
                        tracing::warn!(%error, "a question of Insights cannot read its columns; it is asked again");
                        self.store.forget_unreadable();
                    }
                }
                answer => return answer,
            }
            attempts += 1;
        }
    }

    fn count(&mut self, request: &QuestionRequest, started_at: Instant) -> Result<Answer, AnswerError> {
        let metrics = self.resources.log.metrics();
        let last_seq = match self.resources.ack {
            Ack::Disk => metrics.durable_seq(),
            Ack::Written => metrics.last_seq(),
        };
        let is_over =
            || request.abandonment.is_set() || clock::instant().duration_since(started_at) > QUESTION_TIMEOUT;
        self.store.refresh(last_seq, &is_over)?;
        let limits = Limits { memory_bytes: self.resources.memory_bytes, is_over: &is_over };
        let QuestionRequest { question, site, now_ms, .. } = request;
        let Self { store, cache, .. } = self;
        let columns = LogColumns { sealed: &store.sealed(), tail: store.tail() };
        Ok(answer_cached(columns, cache, store.last_seq(), question, site, *now_ms, &limits)?)
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
    /// Is disconnected when the client is dropped.
    stop: Receiver<()>,
    metrics: Arc<InsightsMetrics>,
    /// True after a failure, so that a broken disk gives one log line.
    has_failed: bool,
}

impl ColumnsThread {
    fn run(mut self) {
        lower_thread_priority();
        while let Err(RecvTimeoutError::Timeout) = self.stop.recv_timeout(LOOK_INTERVAL) {
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
        let Self { files, insights, stop, metrics, .. } = self;
        let mut install = |source| {
            let (result_tx, result) = channel();
            // An error means that the thread `insights` has ended, because the server stops.
            let sent = insights.send(Message::Built(source, result_tx));
            sent.ok().and_then(|()| result.recv().ok()).unwrap_or(Ok(false))
        };
        let set_behind = |files| metrics.segments_behind.store(files, Ordering::Relaxed);
        let is_stopped = || matches!(stop.try_recv(), Err(TryRecvError::Disconnected));
        files.build(&mut install, &set_behind, &is_stopped)
    }
}
