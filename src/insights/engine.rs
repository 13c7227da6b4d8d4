//! The threads of Insights in a server.
//!
//! `insights` answers one question at a time, does other tasks step by step, and renames finished column files. The questions
//! that wait are in the queue of the client. `columns` builds the column files of
//! sealed segments at the lowest priority, and takes no lock.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use super::answer::Answer;
use super::build::VisitorKey;
use super::installer::{BuiltFrom, ColumnInstaller};
use super::missing::MissingFiles;
use super::question::{Query, QuestionError};
use super::scan::{Limits, ScanError};
use super::site::SiteFacts;
use super::store::{ColumnStore, StoreError};
use crate::clock;
use crate::config::Ack;
use crate::log::Queue;
use crate::metrics::LatencyHistogram;
use crate::problem::ProblemKind;
use crate::storage::disk::Disk;
use crate::storage::lower_thread_priority;
use crate::threads;

/// Time of one question from its begin, with the columns that it needs first.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts to count while erasures change the log.
const ATTEMPTS_MAX: u32 = 8;
/// Pause between two looks for sealed segments without columns.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The reason why a question has no answer.
#[derive(Debug, Clone)]
pub enum AnswerError {
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
    /// A job failed.
    Job(JobError),
}

/// The error of a job.
#[derive(Debug, Clone)]
pub struct JobError {
    /// The problem that the client gets.
    pub kind: &'static ProblemKind,
    /// A noun phrase.
    pub detail: String,
}

/// The output of a task.
#[derive(Debug, Clone)]
pub enum Output {
    /// The answer to a question.
    Answer(Arc<Answer>),
    /// A text that a client may keep. Its ETag is that of the text.
    ValidatedText(String),
    /// A text that no cache may store.
    UnstoredText(String),
    /// The response of a job.
    Job(JobOutput),
}

/// The response that a successful job makes.
#[derive(Debug, Clone)]
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

/// The result of a task.
pub(crate) type TaskResult = Result<Output, AnswerError>;

/// The result of the task with this ID.
#[derive(Debug)]
pub(crate) struct Reply {
    pub id: u64,
    pub result: TaskResult,
}

/// Sends replies to the thread of the requests, and wakes it.
#[derive(Debug, Clone)]
pub(crate) struct ReplySender {
    replies: Sender<Reply>,
    wakeup_tx: Arc<UnixStream>,
}

impl ReplySender {
    /// Creates a channel that writes a byte to `wakeup_tx` after each reply.
    pub(crate) fn new(wakeup_tx: Arc<UnixStream>) -> (Self, Receiver<Reply>) {
        let (replies, receiver) = channel();
        (Self { replies, wakeup_tx }, receiver)
    }

    /// If the receiver is gone, the server stops. If the socket is full, the thread wakes anyway.
    pub(crate) fn send(&self, reply: Reply) {
        let _ = self.replies.send(reply);
        drop((&*self.wakeup_tx).write(&[1]));
    }
}

/// A task of the thread `insights`.
pub(crate) struct Task {
    /// The ID of its reply.
    pub id: u64,
    pub work: Work,
    pub asked_at: Instant,
    pub abandoned: Abandoned,
}

pub(crate) enum Work {
    /// A question. The next one may be asked after the reply.
    Question(Box<SiteQuestion>),
    /// Does the next step, and returns the result after the last one. The thread answers a question that waits after each
    /// step. If the task is abandoned, it has no reply.
    Steps(Box<dyn FnMut() -> Option<TaskResult> + Send>),
}

/// A question about a site.
#[derive(Debug)]
pub(crate) struct SiteQuestion {
    pub query: Query,
    pub site: SiteFacts,
    pub now_ms: i64,
}

/// Tells the thread that no client waits for the answer any more. Clones share the state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    /// Ends the task.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

enum Message {
    Run(Task),
    /// The thread `columns` has written the file of this segment. It waits for the result of the rename.
    Built(BuiltFrom, Sender<io::Result<bool>>),
}

/// Passes tasks to the thread `insights`.
pub(crate) struct InsightsClient {
    messages: Sender<Message>,
    metrics: Arc<InsightsMetrics>,
    /// Dropped with the client, which ends the thread `columns` and then the thread `insights`.
    _stop: Sender<()>,
}

impl InsightsClient {
    /// Creates a client without a thread.
    pub(crate) fn without_thread() -> Self {
        Self { messages: channel().0, metrics: Arc::default(), _stop: channel().0 }
    }

    /// Starts a task. Returns false if the thread has ended.
    pub(crate) fn run(&self, task: Task) -> bool {
        self.messages.send(Message::Run(task)).is_ok()
    }

    /// Counts tasks that no client waits for any more.
    pub(crate) fn count_abandoned(&self, tasks: usize) {
        self.metrics.abandoned.fetch_add(tasks as u64, Ordering::Relaxed);
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

    /// Returns the tasks that were dropped because no client waited for them any more.
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
    /// Memory for answers over columns. 0 if there are none: then no column file is built, and no question is asked.
    pub memory_bytes: u64,
    pub metrics: Arc<InsightsMetrics>,
    pub replies: ReplySender,
}

/// Starts the thread `insights`, and the thread `columns` if Insights is on. They end when the client is dropped.
///
/// # Errors
/// A thread cannot be created.
pub(crate) fn start(parts: Parts) -> io::Result<InsightsClient> {
    // The client bounds the questions, and the thread `columns` waits for each of its messages.
    let (messages, messages_rx) = channel();
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
    let is_on = parts.memory_bytes > 0;
    let metrics = Arc::clone(&parts.metrics);
    let tasks = VecDeque::new();
    let engine = InsightsThread { parts, store, installer, generation: 0, messages: messages_rx, tasks };
    threads::spawn("insights", move || engine.run())?;
    if is_on {
        threads::spawn("columns", move || builder.run())?;
    }
    Ok(InsightsClient { messages, metrics, _stop: stop_tx })
}

/// The thread `insights`.
struct InsightsThread {
    parts: Parts,
    store: ColumnStore,
    installer: ColumnInstaller,
    /// The erasure generation of the store.
    generation: u64,
    messages: Receiver<Message>,
    /// The tasks with steps that are not done, oldest first.
    tasks: VecDeque<Task>,
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

    /// Returns the next message. It waits for one only if there is no task.
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
            Message::Run(task) => {
                let Work::Question(question) = &task.work else { return self.tasks.push_back(task) };
                let answer = catch_unwind(AssertUnwindSafe(|| self.answer(question, &task.abandoned)));
                let answer = answer.unwrap_or_else(|_| {
                    self.store.clear();
                    Err(panicked())
                });
                self.reply(&task, answer.map(|answer| Output::Answer(Arc::new(answer))));
            }
            Message::Built(built, done) => {
                // The builder has ended if the server stops.
                let _ = done.send(self.installer.install_built(built));
            }
        }
    }

    /// Does one step of the oldest task that a client waits for.
    fn step_task(&mut self) {
        self.tasks.retain(|task| !task.abandoned.is_set());
        let Some(Task { work: Work::Steps(step), .. }) = self.tasks.front_mut() else { return };
        let result = catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_| Some(Err(panicked())));
        if let Some(result) = result
            && let Some(task) = self.tasks.pop_front()
        {
            self.reply(&task, result);
        }
    }

    fn reply(&self, task: &Task, result: TaskResult) {
        if !task.abandoned.is_set() {
            self.parts.metrics.query_latency.record(clock::instant().duration_since(task.asked_at));
        }
        self.parts.replies.send(Reply { id: task.id, result });
    }

    /// Counts again if an erasure changes the log meanwhile.
    fn answer(&mut self, question: &SiteQuestion, abandoned: &Abandoned) -> Result<Answer, AnswerError> {
        let began = clock::instant();
        let mut attempts = 1;
        loop {
            let generation = self.parts.log.metrics().generation().now();
            if generation != self.generation {
                self.store.clear();
                self.generation = generation;
            }
            let answer = self.count(question, abandoned, began);
            let is_same = self.parts.log.metrics().generation().now() == generation;
            match answer {
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

    fn count(
        &mut self,
        question: &SiteQuestion,
        abandoned: &Abandoned,
        began: Instant,
    ) -> Result<Answer, StoreError> {
        let metrics = self.parts.log.metrics();
        let last_seq = match self.parts.ack {
            Ack::Disk => metrics.durable_seq(),
            Ack::Written => metrics.last_seq(),
        };
        let is_over = || abandoned.is_set() || clock::instant().duration_since(began) > QUESTION_TIMEOUT;
        self.store.refresh(last_seq, &is_over)?;
        let limits = Limits { memory_bytes: self.parts.memory_bytes, is_over: &is_over };
        self.store.answer(&question.query, &question.site, question.now_ms, &limits)
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
