//! The threads of Insights in a server.
//!
//! The thread `insights` answers one question at a time, does other tasks step by step, and gives finished column files
//! their names. Further questions wait on the thread that asks them. The thread `columns` builds the column files of
//! sealed segments. It has the lowest priority, and no other thread waits for it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use super::columns::goals::ServedGoals;
use super::columns::installer::{ColumnInstaller, ColumnSource};
use super::columns::key::VisitorKey;
use super::columns::missing::MissingFiles;
use super::columns::store::{ColumnStore, StoreError};
use super::compare::AskedQuery;
pub(crate) use super::engine_metrics::InsightsMetrics;
use super::query::{Query, answer_cached};
use super::questions::answer::{Answer, CountedLog};
use super::questions::limits::{Limits, ScanError};
use super::questions::question::QuestionError;
use super::questions::sealed::{AnswerCache, LogColumns};
use super::questions::site::SiteFacts;
use super::visitor_list::{ListSource, SegmentFiles, VisitorFinder, answer_found, answer_visitors};
use crate::clock;
use crate::log::ReadableLog;
use crate::problem::ProblemKind;
use crate::site::catalog::catalog::CurrentCatalog;
use crate::storage::disk::Disk;
use crate::storage::lower_thread_priority;
use crate::threads;

/// The maximum time of one range of a question. The time begins when the thread takes the question, or ends the range before it. It
/// includes the building of missing columns. A question that takes longer is refused.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of attempts to answer a question. An attempt is repeated if an erasure changes the log meanwhile,
/// or if columns cannot be read.
const ATTEMPTS_MAX: u32 = 8;
/// Pause between two searches for sealed segments without a column file.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The reason why a question has no answer.
#[derive(Debug, Clone)]
pub enum AnswerError {
    /// The question waited too long, because the thread answered other questions first.
    NotBegun,
    /// The question has exceeded its time limit.
    TooExpensive,
    /// The question has exceeded its memory limit.
    TooLarge,
    /// Neither the log nor the site knows the experiment.
    Refused(QuestionError),
    /// Another version of the site was published after the question was parsed.
    Republished,
    /// The columns of this many segments are not read yet.
    Behind(usize),
    /// The log or a column file cannot be read.
    Unreadable(String),
    /// The thread panicked or has ended.
    Panicked,
    /// A job failed.
    Job(JobError),
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

/// The error of a job.
#[derive(Debug, Clone)]
pub struct JobError {
    /// The problem that the client gets.
    pub kind: &'static ProblemKind,
    /// A noun phrase that says which work failed.
    pub detail: String,
}

/// The output of a task.
#[derive(Debug, Clone)]
pub enum Output {
    /// The answer to a question.
    Answer(Arc<Answer>),
    /// A list of visitors. No cache may store it.
    Visitors(Arc<Answer>),
    /// A text that a client may keep. The ETag is computed from the text.
    ValidatedText(String),
    /// A text that no cache may store.
    UnstoredText(String),
    /// The response of a job.
    Job(JobOutput),
}

/// The response of a successful job.
#[derive(Debug, Clone)]
pub struct JobOutput {
    /// The media type.
    pub content_type: &'static str,
    /// The body.
    pub text: String,
    /// If the response was truncated, the seq after which the next request continues.
    pub next_since: Option<u64>,
    /// The number of damaged places of the log that the job skipped.
    pub damaged_places: u64,
}

/// The result of a task.
pub(crate) type TaskResult = Result<Output, AnswerError>;

/// The ID of a task and its result.
#[derive(Debug)]
pub(crate) struct Reply {
    pub id: u64,
    pub result: TaskResult,
}

/// A sender of replies to the thread of the requests. The sender wakes this thread after each reply.
#[derive(Debug, Clone)]
pub(crate) struct ReplySender {
    replies: Sender<Reply>,
    wakeup_tx: Arc<UnixStream>,
}

impl ReplySender {
    /// Creates a channel. The sender writes one byte to `wakeup_tx` after each reply.
    pub(crate) fn new(wakeup_tx: Arc<UnixStream>) -> (Self, Receiver<Reply>) {
        let (replies, receiver) = channel();
        (Self { replies, wakeup_tx }, receiver)
    }

    /// A send fails only when the server is stopping. If the socket is full, the thread wakes anyway.
    pub(crate) fn send(&self, reply: Reply) {
        let _ = self.replies.send(reply);
        drop((&*self.wakeup_tx).write(&[1]));
    }
}

/// A task of the thread `insights`.
pub(crate) struct Task {
    /// The ID of the reply to the task.
    pub id: u64,
    pub work: Work,
    pub asked_at: Instant,
    pub abandonment: Abandonment,
}

pub(crate) enum Work {
    /// A question. The client sends the next question after the reply to this one.
    Question(Box<SiteQuestion>),
    /// Each call does one step, and the last call returns the result. Between two steps the thread answers a waiting
    /// question. If the task is abandoned before the last step, it has no reply.
    Steps(Box<dyn FnMut() -> Option<TaskResult> + Send>),
}

/// A question about a site.
#[derive(Debug)]
pub(crate) struct SiteQuestion {
    pub query: AskedQuery,
    pub site: SiteFacts,
    pub now_ms: i64,
}

/// A flag that is set when no client waits for the task any more. All clones share one flag.
#[derive(Debug, Clone, Default)]
pub(crate) struct Abandonment(Arc<AtomicBool>);

impl Abandonment {
    /// Asks the thread to end the task.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

enum Message {
    Run(Task),
    /// The thread `columns` has written the column file of this segment, and waits for the result of the rename.
    Built(ColumnSource, Sender<io::Result<bool>>),
}

/// Passes tasks to the thread `insights`.
pub(crate) struct InsightsClient {
    messages: Sender<Message>,
    metrics: Arc<InsightsMetrics>,
    /// When this field is dropped, the thread `columns` ends, and then the thread `insights`.
    _stop: Sender<()>,
}

impl InsightsClient {
    /// Creates a client without a thread.
    pub(crate) fn without_thread() -> Self {
        Self { messages: channel().0, metrics: Arc::default(), _stop: channel().0 }
    }

    /// Sends a task to the thread. Returns false if the thread has ended.
    pub(crate) fn run(&self, task: Task) -> bool {
        self.messages.send(Message::Run(task)).is_ok()
    }

    /// Counts tasks that no client waits for any more.
    pub(crate) fn count_abandoned(&self, task_count: usize) {
        self.metrics.abandoned.fetch_add(task_count as u64, Ordering::Relaxed);
    }
}

/// The parts of a server that Insights uses.
pub(crate) struct Resources {
    pub disk: Arc<dyn Disk>,
    pub directory: PathBuf,
    pub key: VisitorKey,
    /// The served sites, whose goals the columns note.
    pub catalog: CurrentCatalog,
    pub log: ReadableLog,
    /// The memory of Insights, in bytes. If it is 0, Insights is off: the server builds no column files and refuses all
    /// questions.
    pub memory_bytes: u64,
    pub metrics: Arc<InsightsMetrics>,
    pub replies: ReplySender,
    pub finder: Box<dyn VisitorFinder>,
}

/// Starts the thread `insights`. If Insights is on, starts the thread `columns` too. Both threads end when the client
/// is dropped.
///
/// # Errors
/// Returns an error if a thread cannot be created.
pub(crate) fn start(resources: Resources) -> io::Result<InsightsClient> {
    // The channel has no limit. The sender of questions limits their number, and the thread `columns` waits for the
    // reply to each of its messages.
    let (messages_tx, messages) = channel();
    let (stop_tx, stop) = channel();
    let Resources { disk, directory, key, log, memory_bytes, metrics, .. } = &resources;
    let installer = ColumnInstaller::new(Arc::clone(disk), directory, log.queue().clone());
    let builder = ColumnsThread {
        files: MissingFiles::new(Arc::clone(disk), directory, *key, installer.clone()),
        goals: ServedGoals::new(resources.catalog.clone()),
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
        goals: ServedGoals::new(resources.catalog.clone()),
        resources,
        generation: 0,
        messages,
        tasks: VecDeque::new(),
    };
    threads::spawn("insights", move || engine.run())?;
    if is_on {
        threads::spawn("columns", move || builder.run())?;
    }
    Ok(InsightsClient { messages: messages_tx, metrics, _stop: stop_tx })
}

/// The thread `insights`.
struct InsightsThread {
    resources: Resources,
    store: ColumnStore,
    /// The counts of the last questions over the sealed segments of the store.
    cache: AnswerCache,
    installer: ColumnInstaller,
    goals: ServedGoals,
    /// The erasure generation when the store and the cache were filled.
    generation: u64,
    messages: Receiver<Message>,
    /// The unfinished tasks, oldest first.
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

    /// Returns the next message. If there is a task with steps, returns `None` instead of waiting for a message.
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
                let answer = catch_unwind(AssertUnwindSafe(|| self.answer(question, &task.abandonment)));
                let answer = answer.unwrap_or_else(|_| {
                    self.clear();
                    Err(panicked())
                });
                let is_list = matches!(question.query.query, Query::Visitors(_));
                let output = if is_list { Output::Visitors } else { Output::Answer };
                self.reply(&task, answer.map(|answer| output(Arc::new(answer))));
            }
            Message::Built(source, result_tx) => {
                // A send fails only when the server is stopping.
                let _ = result_tx.send(self.installer.install_built(source));
            }
        }
    }

    /// Drops all columns and all counts that were read from the log.
    fn clear(&mut self) {
        self.store.clear();
        self.cache.clear();
    }

    /// Drops abandoned tasks, and does one step of the oldest task.
    fn step_task(&mut self) {
        self.tasks.retain(|task| !task.abandonment.is_set());
        let Some(Task { work: Work::Steps(step), .. }) = self.tasks.front_mut() else { return };
        let result = catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_| Some(Err(panicked())));
        if let Some(result) = result
            && let Some(task) = self.tasks.pop_front()
        {
            self.reply(&task, result);
        }
    }

    fn reply(&self, task: &Task, result: TaskResult) {
        if !task.abandonment.is_set() {
            self.resources.metrics.query_latency.record(clock::instant().duration_since(task.asked_at));
        }
        self.resources.replies.send(Reply { id: task.id, result });
    }

    /// Answers a question. Repeats the count if an erasure has changed the log during the count, or if columns cannot
    /// be read.
    fn answer(&mut self, question: &SiteQuestion, abandonment: &Abandonment) -> Result<Answer, AnswerError> {
        let started_at = clock::instant();
        let mut attempts = 1;
        loop {
            let generation = self.resources.log.queue().metrics().generation().now();
            if generation != self.generation {
                self.clear();
                self.generation = generation;
            }
            let answer = self.count(question, abandonment, started_at);
            let is_same = self.resources.log.queue().metrics().generation().now() == generation;
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

    fn count(
        &mut self,
        question: &SiteQuestion,
        abandonment: &Abandonment,
        started_at: Instant,
    ) -> Result<Answer, AnswerError> {
        let end = self.resources.log.end();
        let started_at = Cell::new(started_at);
        let is_over =
            || abandonment.is_set() || clock::instant().duration_since(started_at.get()) > QUESTION_TIMEOUT;
        let SiteQuestion { query: asked, site, now_ms } = question;
        let query = &asked.query;
        let goals = self.goals.get();
        if query.needs_goals() && goals.of_site(&site.site) != Some(&site.goals) {
            return Err(AnswerError::Republished);
        }
        self.store.set_goals(goals);
        let needed = query.needs_goals().then_some((&*site.site, &site.goals));
        self.store.refresh_with_goals(end.seq, needed, &is_over)?;
        let limits = Limits { memory_bytes: self.resources.memory_bytes, is_over: &is_over };
        let Self { store, cache, resources, installer, .. } = self;
        let columns = LogColumns { sealed: &store.sealed(), tail: store.tail() };
        let log = CountedLog { last_seq: store.last_seq(), mark: end.mark };
        asked.answer(|query| {
            let answer = match query {
                Query::Visitors(question) => {
                    let Resources { disk, directory, finder, key, .. } = &mut *resources;
                    let segments = SegmentFiles { disk, directory, damage: installer.known_damage() };
                    let source = ListSource { columns, log, segments };
                    match &question.search {
                        None => answer_visitors(source, question, site, &limits)?,
                        Some(search) => {
                            let found = finder.find(&site.site, search, &is_over);
                            let found = found.ok_or(AnswerError::TooExpensive)?;
                            answer_found(source, question, &found, *key, site, &limits)?
                        }
                    }
                }
                query => answer_cached(columns, cache, log, query, site, *now_ms, &limits)?,
            };
            started_at.set(clock::instant());
            Ok(answer)
        })
    }
}

fn panicked() -> AnswerError {
    tracing::error!("a question of Insights panicked; its client gets 500");
    AnswerError::Panicked
}

/// The thread `columns`.
struct ColumnsThread {
    files: MissingFiles,
    goals: ServedGoals,
    insights: Sender<Message>,
    /// A receiver that is disconnected when the client is dropped.
    stop: Receiver<()>,
    metrics: Arc<InsightsMetrics>,
    /// True after a failure. Then further failures are logged only at the level `debug`.
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
        let Self { files, goals, insights, stop, metrics, .. } = self;
        files.set_goals(goals.get());
        let mut install = |source| {
            let (result_tx, result) = channel();
            // An error means that the thread `insights` has ended, because the server is stopping.
            let sent = insights.send(Message::Built(source, result_tx));
            sent.ok().and_then(|()| result.recv().ok()).unwrap_or(Ok(false))
        };
        let set_behind = |files| metrics.segments_behind.store(files, Ordering::Relaxed);
        let is_stopped = || matches!(stop.try_recv(), Err(TryRecvError::Disconnected));
        files.build(&mut install, &set_behind, &is_stopped)
    }
}
