//! The checkpointer: writes the table copied by the log writer to checkpoint files.
//!
//! It receives a header, entries in no particular order, and an end mark. It writes a complete, durable file
//! and returns the buffers of the entries. It runs on its own thread at the lowest priority. Tests run it
//! step by step. After a disk error the attempt fails: the error is counted and logged once, and the
//! scheduler tries again later.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;

use super::CheckpointMetrics;
use super::directory::CheckpointDirectory;
use super::format::{
    BLOCK_HEADER_BYTES, CheckpointEntry, HEADER_BYTES, Header, Run, begin_block, end_block, extend_checksum,
    trailer_to_bytes,
};
use crate::limits::{
    CHECKPOINT_BLOCK_BYTES, CHECKPOINT_CHUNK_BYTES, CHECKPOINT_GENERATIONS, CHECKPOINT_RUN_BYTES,
    CHECKPOINT_RUNS,
};
use crate::storage;
use crate::storage::disk::{DiskFile, append_all};

/// A message from the scheduler.
pub(super) enum Message {
    /// Begins a checkpoint: its header, and the approximate size of the table in bytes.
    Begin(Header, u64),
    /// Encoded entries, end to end.
    Entries(Vec<u8>),
    /// All entries were sent.
    End,
    /// The copy was aborted.
    Abort,
}

/// A reply to the scheduler.
pub(super) enum Reply {
    /// A chunk buffer for reuse.
    Chunk(Vec<u8>),
    /// The checkpoint is written. Contains the size of the file in bytes.
    Done(u64),
    /// The attempt failed.
    Failed,
}

/// A writer of checkpoints, run on its own thread.
pub struct CheckpointWriter {
    directory: CheckpointDirectory,
    messages: Receiver<Message>,
    replies: SyncSender<Reply>,
    metrics: Arc<CheckpointMetrics>,
    /// Seqs of the valid checkpoints, at most two.
    generations: Vec<u64>,
    file: Option<CheckpointFile>,
    /// Whether the present disk error was logged.
    has_warned: bool,
}

impl CheckpointWriter {
    pub(super) fn new(
        dir: CheckpointDirectory,
        generations: Vec<u64>,
        messages: Receiver<Message>,
        answers: SyncSender<Reply>,
        figures: Arc<CheckpointMetrics>,
    ) -> Self {
        let mut scribe = Self {
            directory: dir,
            messages,
            replies: answers,
            metrics: figures,
            generations,
            file: None,
            has_warned: false,
        };
        scribe.publish();
        scribe
    }

    /// Runs the writer on a new thread until the scheduler is dropped.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn spawn(mut self) -> io::Result<()> {
        let work = move || {
            storage::lower_thread_priority();
            while let Ok(message) = self.messages.recv() {
                self.handle(message);
            }
        };
        thread::Builder::new().name("checkpointer".to_owned()).spawn(work).map(drop)
    }

    /// Handles all messages that have arrived.
    pub fn run_pending(&mut self) {
        while let Ok(message) = self.messages.try_recv() {
            self.handle(message);
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Begin(header, bytes) => match CheckpointFile::begin(&self.directory, header, bytes) {
                Ok(sheet) => self.file = Some(sheet),
                Err(error) => self.fail(&error),
            },
            Message::Entries(entries) => {
                let added = self.file.as_mut().map_or(Ok(()), |sheet| sheet.add(&entries));
                self.reply(Reply::Chunk(entries));
                added.unwrap_or_else(|error| self.fail(&error));
            }
            Message::End => {
                // Without a file the attempt has failed, and the reply was sent.
                if let Some(sheet) = self.file.take() {
                    match self.install(sheet) {
                        Ok(bytes) => self.reply(Reply::Done(bytes)),
                        Err(error) => self.fail(&error),
                    }
                }
            }
            Message::Abort => {
                if self.file.take().is_some() {
                    // If this fails, the next checkpoint deletes the file first.
                    let _ = self.directory.remove_temporary();
                    self.reply(Reply::Failed);
                }
            }
        }
    }

    fn install(&mut self, sheet: CheckpointFile) -> io::Result<u64> {
        let (seq, bytes) = sheet.finish()?;
        self.directory.install(seq)?;
        self.generations.retain(|generation| *generation != seq);
        self.generations.push(seq);
        let older = self.generations.len().saturating_sub(CHECKPOINT_GENERATIONS);
        self.generations.drain(..older);
        // Always keep the newest: if the log is incomplete, it is the only copy of the deleted records'
        // effect.
        let erased = self.metrics.erased_seq.load(Ordering::Acquire);
        self.generations.retain(|generation| *generation >= erased || *generation == seq);
        self.metrics.written.fetch_add(1, Ordering::Relaxed);
        self.metrics.bytes.store(bytes, Ordering::Relaxed);
        self.has_warned = false;
        self.remove_old(erased > 0);
        self.publish();
        tracing::info!(seq, bytes, file = %self.directory.path_of(seq).display(), "wrote checkpoint");
        Ok(bytes)
    }

    /// Deletes old checkpoints and, after an erasure, quarantined ones. A file that cannot be deleted is
    /// tried again with the next checkpoint.
    fn remove_old(&self, is_erasing: bool) {
        if is_erasing && self.directory.remove_quarantined().is_err() {
            self.metrics.failed.fetch_add(1, Ordering::Relaxed);
        }
        let others = self.directory.seqs().unwrap_or_default();
        let others = others.into_iter().filter(|seq| !self.generations.contains(seq));
        for seq in others.collect::<Vec<_>>() {
            if self.directory.remove(seq).is_err() {
                self.metrics.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn publish(&mut self) {
        let covered = self.generations.first().copied().unwrap_or(0);
        self.metrics.checkpointed_seq.store(covered, Ordering::Release);
        self.metrics.seq.store(self.generations.last().copied().unwrap_or(0), Ordering::Relaxed);
    }

    fn fail(&mut self, error: &io::Error) {
        self.file = None;
        let _ = self.directory.remove_temporary();
        self.metrics.failed.fetch_add(1, Ordering::Relaxed);
        if !self.has_warned {
            tracing::warn!(%error, "cannot write a checkpoint; trying again later, and no records are lost");
            self.has_warned = true;
        }
        self.reply(Reply::Failed);
    }

    fn reply(&self, answer: Reply) {
        // The channel has capacity for all replies. If the scheduler is gone, nothing waits for them.
        let _ = self.replies.try_send(answer);
    }
}

/// A checkpoint file being written.
struct CheckpointFile {
    file: Box<dyn DiskFile>,
    seq: u64,
    header: [u8; HEADER_BYTES],
    /// Offset of the next block.
    offset: u64,
    runs: Vec<Run>,
    /// Size at which a run is sorted and written.
    run_bytes: usize,
    /// The entries of the present run, and the put order and offset of each.
    run_entries: Vec<u8>,
    run_index: Vec<(u64, usize)>,
    block: Vec<u8>,
}

impl CheckpointFile {
    fn begin(dir: &CheckpointDirectory, header: Header, bytes: u64) -> io::Result<Self> {
        let mut file = dir.create_temporary()?;
        let (seq, header, run_bytes) = (header.seq, header.to_bytes(), run_bytes(bytes));
        append_all(&mut *file, &header)?;
        Ok(Self {
            file,
            seq,
            header,
            offset: HEADER_BYTES as u64,
            runs: Vec::new(),
            run_bytes,
            run_entries: Vec::with_capacity(
                run_bytes.min(usize::try_from(bytes).unwrap_or(usize::MAX)) + CHECKPOINT_CHUNK_BYTES,
            ),
            run_index: Vec::new(),
            block: Vec::with_capacity(CHECKPOINT_BLOCK_BYTES),
        })
    }

    fn add(&mut self, entries: &[u8]) -> io::Result<()> {
        let mut at = 0;
        while let Some(entry) = CheckpointEntry::decode(&entries[at..]) {
            self.run_index.push((entry.order, self.run_entries.len() + at));
            at += entry.encoded_len();
        }
        self.run_entries.extend_from_slice(&entries[..at]);
        if self.run_entries.len() >= self.run_bytes { self.end_run() } else { Ok(()) }
    }

    /// Sorts the present run and writes it.
    fn end_run(&mut self) -> io::Result<()> {
        let mut places = std::mem::take(&mut self.run_index);
        places.sort_unstable();
        let mut run = Run { offset: self.offset, entries: places.len() as u64, ..Run::default() };
        let mut count = 0;
        begin_block(&mut self.block);
        for &(_, place) in &places {
            let length =
                CheckpointEntry::decode(&self.run_entries[place..]).map_or(0, |entry| entry.encoded_len());
            if self.block.len() + length > CHECKPOINT_BLOCK_BYTES {
                self.end_block(&mut run, count)?;
                count = 0;
            }
            self.block.extend_from_slice(&self.run_entries[place..place + length]);
            count += 1;
        }
        if self.block.len() > BLOCK_HEADER_BYTES {
            self.end_block(&mut run, count)?;
        }
        self.runs.push(run);
        self.run_entries.clear();
        places.clear();
        self.run_index = places;
        // Otherwise a sync of the log could wait for gigabytes of this file.
        self.file.sync_data()
    }

    fn end_block(&mut self, run: &mut Run, count: u32) -> io::Result<()> {
        run.checksum = extend_checksum(run.checksum, end_block(&mut self.block, count));
        append_all(&mut *self.file, &self.block)?;
        run.bytes += self.block.len() as u64;
        self.offset += self.block.len() as u64;
        begin_block(&mut self.block);
        Ok(())
    }

    /// Writes the last run and the trailer, and syncs the file. Returns its seq and its size in bytes.
    fn finish(mut self) -> io::Result<(u64, u64)> {
        if !self.run_entries.is_empty() {
            self.end_run()?;
        }
        let trailer = trailer_to_bytes(&self.runs, &self.header, self.offset);
        append_all(&mut *self.file, &trailer)?;
        self.file.sync_data()?;
        Ok((self.seq, self.offset + trailer.len() as u64))
    }
}

/// Returns the run size for a table of this size. It limits the number of runs.
fn run_bytes(table_bytes: u64) -> usize {
    usize::try_from(table_bytes / CHECKPOINT_RUNS).unwrap_or(usize::MAX).max(CHECKPOINT_RUN_BYTES)
}
