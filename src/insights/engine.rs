//! The threads of Insights in a server.
//!
//! `insights` answers questions one by one and renames finished column files. `columns` builds the column files of
//! sealed segments at the lowest priority, and takes no lock.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvError, RecvTimeoutError, Sender, SyncSender, TryRecvError, TrySendError, channel,
    sync_channel,
};
use std::thread;
use std::time::{Duration, Instant};

use super::answer::Answer;
use super::build::{ColumnBuilder, VisitorKey};
use super::columns::Columns;
use super::installer::ColumnInstaller;
use super::question::{Query, QuestionError};
use super::scan::{Limits, ScanError};
use super::site::SiteFacts;
use super::store::{ColumnStore, StoreError};
use crate::clock;
use crate::config::Ack;
use crate::metrics::LatencyHistogram;
use crate::storage::disk::Disk;
use crate::storage::lower_thread_priority;
use crate::visitors::log::{Queue, SegmentRecords, SegmentSpan, column_file_name, segment_spans};

/// Questions that wait. A further one is refused.
pub(crate) const QUESTIONS_WAITING_MAX: usize = 16;
/// Time of one question, with the columns that it needs first.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts to count while erasures change the log.
const ATTEMPTS_MAX: u32 = 8;
/// Pause between two looks for sealed segments without columns.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Memory beside the events that are counted: the tail, dictionaries and the answer. At most half of the limit.
const RESERVED_BYTES: u64 = 48 << 20;

/// The reason why a question has no answer.
#[derive(Debug)]
pub(crate) enum AnswerError {
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

/// A result for the client with a token.
pub(crate) type Reply = (usize, Result<Replied, AnswerError>);

/// The result of a question or of an errand.
#[derive(Debug)]
pub(crate) enum Replied {
    Answer(Box<Answer>),
    /// The text of an errand.
    Text(String),
}

/// Work of the thread beside the questions. The thread answers a question that waits after each step.
pub(crate) trait Errand: Send {
    /// Does the next step. Returns the text after the last one.
    fn step(&mut self) -> Option<Result<String, AnswerError>>;
}

/// An errand that is not done.
struct Running {
    token: usize,
    errand: Box<dyn Errand>,
    asked_at: Instant,
}

/// A question that waits.
struct Asked {
    token: usize,
    question: Query,
    site: SiteFacts,
    now_ms: i64,
    asked_at: Instant,
}

enum Message {
    Ask(Box<Asked>),
    Run(Running),
    /// The thread `columns` has written the file of this segment, of this erasure generation.
    Built(u64, u64, Sender<()>),
}

/// Asks questions and receives the answers.
pub(crate) struct InsightsClient {
    messages: SyncSender<Message>,
    replies: Receiver<Reply>,
    /// Dropped with the client, which ends the thread `columns` and then the thread `insights`.
    _stop: Sender<()>,
}

impl InsightsClient {
    /// Asks a question. Its reply has the token. Returns false if too many questions wait.
    pub(crate) fn ask(&self, token: usize, question: Query, site: SiteFacts, now_ms: i64) -> bool {
        let asked = Asked { token, question, site, now_ms, asked_at: clock::instant() };
        self.send(Message::Ask(Box::new(asked)))
    }

    /// Starts an errand. Its reply has the token. Returns false if too many questions wait.
    pub(crate) fn run(&self, token: usize, errand: Box<dyn Errand>) -> bool {
        self.send(Message::Run(Running { token, errand, asked_at: clock::instant() }))
    }

    fn send(&self, message: Message) -> bool {
        match self.messages.try_send(message) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
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
    query_latency: LatencyHistogram,
}

impl InsightsMetrics {
    /// Returns the sealed segments without a column file, as of the last look.
    pub(crate) fn segments_behind(&self) -> u64 {
        self.segments_behind.load(Ordering::Relaxed)
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
    let (messages, asked) = sync_channel(QUESTIONS_WAITING_MAX);
    let (replies_tx, replies) = channel();
    let installer = ColumnInstaller::new(Arc::clone(&parts.disk), &parts.directory, parts.log.clone());
    let (stop_tx, stopped) = channel();
    let builder = ColumnsThread {
        disk: Arc::clone(&parts.disk),
        directory: parts.directory.clone(),
        key: parts.key,
        installer: installer.clone(),
        insights: messages.clone(),
        stopped,
        metrics: Arc::clone(&parts.metrics),
        built_up_to: 0,
        has_failed: false,
    };
    let store = ColumnStore::new(Arc::clone(&parts.disk), &parts.directory, parts.key);
    let store = store.with_installer(installer.clone());
    let is_on = parts.memory_bytes > 0;
    let errands = VecDeque::new();
    let engine =
        InsightsThread { parts, store, installer, generation: 0, asked, errands, replies: replies_tx };
    thread::Builder::new().name("insights".to_owned()).spawn(move || engine.run())?;
    if is_on {
        thread::Builder::new().name("columns".to_owned()).spawn(move || builder.run())?;
    }
    Ok(InsightsClient { messages, replies, _stop: stop_tx })
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
                let replied = answered.map(|answer| Replied::Answer(Box::new(answer)));
                self.reply(asked.token, replied, asked.asked_at);
            }
            Message::Run(running) => self.errands.push_back(running),
            Message::Built(first_seq, generation, done) => {
                if let Err(error) = self.installer.install_built(first_seq, generation) {
                    tracing::warn!(%error, first_seq, "cannot rename a column file; it is built again");
                }
                // The builder has ended if the server stops.
                let _ = done.send(());
            }
        }
    }

    /// Does one step of the oldest errand.
    fn step_errand(&mut self) {
        let Some(running) = self.errands.front_mut() else { return };
        let stepped = catch_unwind(AssertUnwindSafe(|| running.errand.step()));
        let Some(done) = stepped.unwrap_or_else(|_| Some(Err(panicked()))) else { return };
        let (token, asked_at) = (running.token, running.asked_at);
        self.errands.pop_front();
        self.reply(token, done.map(Replied::Text), asked_at);
    }

    fn reply(&self, token: usize, replied: Result<Replied, AnswerError>, asked_at: Instant) {
        self.parts.metrics.query_latency.record(clock::instant().duration_since(asked_at));
        // If the client is gone, the server stops, and the next message is the end.
        let _ = self.replies.send((token, replied));
        (self.parts.wake)();
    }

    /// Counts again if an erasure changes the log meanwhile.
    fn answer(&mut self, asked: &Asked) -> Result<Answer, AnswerError> {
        let mut attempts = 1;
        loop {
            let generation = self.parts.log.metrics().generation().now();
            if generation != self.generation {
                self.store.clear();
                self.generation = generation;
            }
            let answered = self.count(asked);
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
                    tracing::warn!(%error, "a question of Insights found a damaged column file; it is built again");
                    self.store.delete_damaged();
                }
                Ok(_) | Err(_) => {}
            }
            attempts += 1;
        }
    }

    fn count(&mut self, asked: &Asked) -> Result<Answer, StoreError> {
        let metrics = self.parts.log.metrics();
        let last_seq = match self.parts.ack {
            Ack::Disk => metrics.durable_seq(),
            Ack::Written => metrics.last_seq(),
        };
        let is_over = || clock::instant().duration_since(asked.asked_at) > QUESTION_TIMEOUT;
        self.store.refresh(last_seq, &is_over)?;
        let memory_bytes = self.parts.memory_bytes;
        let memory_bytes = memory_bytes - RESERVED_BYTES.min(memory_bytes / 2);
        self.store.answer(
            &asked.question,
            &asked.site,
            asked.now_ms,
            &Limits { memory_bytes, is_over: &is_over },
        )
    }
}

fn panicked() -> AnswerError {
    tracing::error!("a question of Insights panicked; its client gets 500");
    AnswerError::Panicked
}

/// The thread `columns`.
struct ColumnsThread {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    key: VisitorKey,
    installer: ColumnInstaller,
    insights: SyncSender<Message>,
    /// Disconnected when the client is dropped.
    stopped: Receiver<()>,
    metrics: Arc<InsightsMetrics>,
    /// All segments that begin before this seq have a column file, unless one was deleted.
    built_up_to: u64,
    /// True after a failure, so that a broken disk gives one line in the log.
    has_failed: bool,
}

impl ColumnsThread {
    fn run(mut self) {
        lower_thread_priority();
        let mut generation = self.installer.generation();
        while let Err(RecvTimeoutError::Timeout) = self.stopped.recv_timeout(LOOK_INTERVAL) {
            let now = self.installer.generation();
            if now != generation {
                (generation, self.built_up_to) = (now, 0);
            }
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

    /// Returns the sealed segments without a column file.
    fn missing(&self) -> io::Result<Vec<SegmentSpan>> {
        let mut spans = segment_spans(&self.disk, &self.directory)?;
        spans.retain(|span| {
            let last_seq = span.next_seq.map(|next_seq| next_seq - 1);
            span.first_seq >= self.built_up_to
                && last_seq.is_some_and(|last_seq| !self.has_columns(*span, last_seq))
        });
        Ok(spans)
    }

    /// Builds the missing column files, from the oldest on.
    fn build_missing(&mut self) -> io::Result<()> {
        let missing = self.missing()?;
        let mut behind = missing.len() as u64;
        self.metrics.segments_behind.store(behind, Ordering::Relaxed);
        for span in missing {
            let generation = self.installer.generation();
            let Some(next_seq) = span.next_seq.filter(|_| generation.is_multiple_of(2)) else {
                return Ok(());
            };
            self.built_up_to = span.first_seq;
            if !self.build(span, next_seq - 1, generation)? {
                return Ok(());
            }
            behind -= 1;
            self.metrics.segments_behind.store(behind, Ordering::Relaxed);
        }
        Ok(())
    }

    fn has_columns(&self, span: SegmentSpan, last_seq: u64) -> bool {
        let path = self.directory.join(column_file_name(span.first_seq));
        Columns::open(&self.disk, &path, (span.first_seq, last_seq), self.key).is_ok()
    }

    /// Builds a column file. Returns false if the thread has to end.
    fn build(&mut self, span: SegmentSpan, last_seq: u64, generation: u64) -> io::Result<bool> {
        let mut builder = ColumnBuilder::new(span.first_seq, self.key);
        let mut records = match SegmentRecords::open(&self.disk, &self.directory, span, last_seq) {
            // Retention has deleted the segment.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            other => other?,
        };
        records.read(&mut |batch| batch.iter().for_each(|(_, record)| builder.add(&record)))?;
        self.installer.write_built(&builder.to_bytes(last_seq))?;
        let (done, is_done) = channel();
        if self.insights.send(Message::Built(span.first_seq, generation, done)).is_err() {
            return Ok(false);
        }
        Ok(is_done.recv().is_ok())
    }
}
