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

use super::CheckpointMetrics;
use super::directory::CheckpointDirectory;
use super::format::{CheckpointEntry, HEADER_BYTES, Header, Parts, TIES_PER_BLOCK, trailer_to_bytes};
use super::reader::{CheckpointError, CheckpointReader};
use super::sections::SectionWriter;
use crate::limits::{
    CHECKPOINT_BLOCK_BYTES, CHECKPOINT_CHUNK_BYTES, CHECKPOINT_GENERATIONS, CHECKPOINT_RUN_BYTES,
    CHECKPOINT_RUNS,
};
use crate::storage;
use crate::storage::disk::{DiskFile, append_all};
use crate::threads;
use crate::visitors::ties::known::TieCopy;
use crate::visitors::ties::lost::LostAliases;
use crate::visitors::ties::merge::merge;

/// Bytes of a piece of the section *stream*, so that some pieces fill a block.
const STREAM_PIECE_BYTES: usize = 4 << 10;

/// The parts of a fold that follow the table in a checkpoint, as of its seq.
pub(super) struct FoldSections {
    pub(super) ties: TieCopy,
    pub(super) lost: LostAliases,
    /// The state of a node of a cluster. Empty if the server is alone.
    pub(super) stream: Vec<u8>,
    /// True if all other checkpoints are deleted when this one is complete, because they contain an erased
    /// visitor.
    pub(super) replaces_all: bool,
}

/// A message from the scheduler.
pub(super) enum Message {
    /// Begins a checkpoint: its header, the approximate size of the table in bytes, and the sections.
    Begin(Header, u64, Box<FoldSections>),
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
    /// The checkpoint is written.
    Done {
        /// The size of the file.
        bytes: u64,
        /// False if the checkpoint has to replace all others, and one of them could not be deleted.
        is_complete: bool,
    },
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
    /// True if the present disk error was logged.
    has_warned: bool,
}

impl CheckpointWriter {
    pub(super) fn new(
        dir: CheckpointDirectory,
        seqs: Vec<u64>,
        message_receiver: Receiver<Message>,
        reply_sender: SyncSender<Reply>,
        metrics: Arc<CheckpointMetrics>,
    ) -> Self {
        let mut writer = Self {
            directory: dir,
            messages: message_receiver,
            replies: reply_sender,
            metrics,
            generations: seqs,
            file: None,
            has_warned: false,
        };
        writer.publish();
        writer
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
        threads::spawn("checkpointer", work).map(drop)
    }

    /// Handles all messages that have arrived.
    pub fn run_pending(&mut self) {
        while let Ok(message) = self.messages.try_recv() {
            self.handle(message);
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Begin(header, bytes, sections) => {
                match CheckpointFile::begin(&self.directory, header, bytes, *sections) {
                    Ok(file) => self.file = Some(file),
                    Err(error) => self.fail(&error),
                }
            }
            Message::Entries(entries) => {
                let added = self.file.as_mut().map_or(Ok(()), |file| file.add(&entries));
                self.reply(Reply::Chunk(entries));
                added.unwrap_or_else(|error| self.fail(&error));
            }
            Message::End => {
                // Without a file the attempt has failed, and the reply was sent.
                if let Some(file) = self.file.take() {
                    match self.install(file) {
                        Ok((bytes, is_complete)) => self.reply(Reply::Done { bytes, is_complete }),
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

    /// Gives a checkpoint its name and deletes the old ones. Returns its size in bytes, and whether it has
    /// replaced all others if it has to.
    fn install(&mut self, file: CheckpointFile) -> io::Result<(u64, bool)> {
        let replaces_all = file.sections.replaces_all;
        let (seq, bytes) = file.finish(&self.directory)?;
        self.directory.install(seq)?;
        self.generations.retain(|generation| *generation != seq);
        self.generations.push(seq);
        let older = self.generations.len().saturating_sub(CHECKPOINT_GENERATIONS);
        self.generations.drain(..older);
        if replaces_all {
            self.generations = vec![seq];
        }
        self.metrics.written.fetch_add(1, Ordering::Relaxed);
        self.metrics.bytes.store(bytes, Ordering::Relaxed);
        self.has_warned = false;
        let is_complete = self.remove_old(replaces_all) || !replaces_all;
        self.publish();
        tracing::info!(seq, bytes, file = %self.directory.path_of(seq).display(), "wrote checkpoint");
        Ok((bytes, is_complete))
    }

    /// Deletes old checkpoints, durably if `syncs` is set. Returns whether all are deleted. The next checkpoint tries
    /// again.
    fn remove_old(&self, syncs: bool) -> bool {
        let Ok(mut others) = self.directory.seqs() else { return false };
        others.retain(|seq| !self.generations.contains(seq));
        let mut failed = others.into_iter().filter(|seq| self.directory.remove(*seq).is_err()).count();
        // Otherwise a power cut could bring an erased visitor back, after the erasure has ended.
        failed += usize::from(syncs && self.directory.sync().is_err());
        self.metrics.failed.fetch_add(failed as u64, Ordering::Relaxed);
        failed == 0
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

    fn reply(&self, reply: Reply) {
        // The channel has capacity for all replies. If the scheduler is gone, nothing waits for them.
        let _ = self.replies.try_send(reply);
    }
}

/// A checkpoint file being written.
struct CheckpointFile {
    file: Box<dyn DiskFile>,
    seq: u64,
    header: [u8; HEADER_BYTES],
    /// Offset of the next block.
    offset: u64,
    parts: Parts,
    sections: FoldSections,
    /// Size at which a run is sorted and written.
    run_bytes: usize,
    /// The entries of the present run, and the put order and offset of each.
    run_entries: Vec<u8>,
    run_index: Vec<(u64, usize)>,
    block: Vec<u8>,
}

impl CheckpointFile {
    fn begin(
        dir: &CheckpointDirectory,
        header: Header,
        table_bytes: u64,
        sections: FoldSections,
    ) -> io::Result<Self> {
        let mut file = dir.create_temporary()?;
        let seq = header.seq;
        let header = header.to_bytes();
        let run_bytes = run_bytes(table_bytes);
        append_all(&mut *file, &header)?;
        Ok(Self {
            file,
            seq,
            header,
            offset: HEADER_BYTES as u64,
            parts: Parts::default(),
            sections,
            run_bytes,
            run_entries: Vec::with_capacity(
                run_bytes.min(usize::try_from(table_bytes).unwrap_or(usize::MAX)) + CHECKPOINT_CHUNK_BYTES,
            ),
            run_index: Vec::new(),
            block: Vec::with_capacity(CHECKPOINT_BLOCK_BYTES),
        })
    }

    fn add(&mut self, encoded_entries: &[u8]) -> io::Result<()> {
        let mut at = 0;
        while let Some(entry) = CheckpointEntry::decode(&encoded_entries[at..]) {
            self.run_index.push((entry.order, self.run_entries.len() + at));
            at += entry.encoded_len();
        }
        self.run_entries.extend_from_slice(&encoded_entries[..at]);
        if self.run_entries.len() >= self.run_bytes { self.end_run() } else { Ok(()) }
    }

    /// Sorts the present run and writes it.
    fn end_run(&mut self) -> io::Result<()> {
        let mut places = std::mem::take(&mut self.run_index);
        places.sort_unstable();
        let mut run = SectionWriter::new(&mut *self.file, &mut self.block, &mut self.offset, usize::MAX);
        for &(_, place) in &places {
            let rest = &self.run_entries[place..];
            let length = CheckpointEntry::decode(rest).map_or(0, |entry| entry.encoded_len());
            run.push(&[&rest[..length]])?;
        }
        self.parts.runs.push(run.finish()?);
        self.run_entries.clear();
        places.clear();
        self.run_index = places;
        // Otherwise a sync of the log could wait for gigabytes of this file.
        self.file.sync_data()
    }

    /// Writes the last run, the sections and the trailer, and syncs the file. Returns its seq and its size in
    /// bytes.
    fn finish(mut self, dir: &CheckpointDirectory) -> io::Result<(u64, u64)> {
        if !self.run_entries.is_empty() {
            self.end_run()?;
        }
        self.write_ties(dir)?;
        self.write_lost()?;
        self.write_sites()?;
        self.write_stream()?;
        let trailer = trailer_to_bytes(&self.parts, &self.header, self.offset);
        append_all(&mut *self.file, &trailer)?;
        self.file.sync_data()?;
        Ok((self.seq, self.offset + trailer.len() as u64))
    }

    /// Merges the recent entries of ownership into those of the checkpoint before.
    fn write_ties(&mut self, dir: &CheckpointDirectory) -> io::Result<()> {
        let ties = &self.sections.ties;
        let base = match ties.base_seq {
            0 => None,
            seq => Some(CheckpointReader::open(dir.disk(), &dir.path_of(seq)).map_err(to_io_error)?),
        };
        let recent = ties.recent.sorted();
        let rule = ties.drop_rule(dir.first_log_seq()?);
        let mut section =
            SectionWriter::new(&mut *self.file, &mut self.block, &mut self.offset, TIES_PER_BLOCK);
        let base = base.iter().flat_map(|base| base.ties()).map(|entry| entry.map_err(to_io_error));
        merge(base, &recent, &rule, |entry| section.push(&[&entry.to_bytes()]))?;
        self.parts.ties = section.finish()?;
        Ok(())
    }

    fn write_lost(&mut self) -> io::Result<()> {
        let mut section = SectionWriter::new(&mut *self.file, &mut self.block, &mut self.offset, usize::MAX);
        for (number, bits) in self.sections.lost.lines() {
            section.push(&[&u64::from(number).to_le_bytes(), &bits])?;
        }
        self.parts.lost = section.finish()?;
        Ok(())
    }

    fn write_sites(&mut self) -> io::Result<()> {
        let mut section = SectionWriter::new(&mut *self.file, &mut self.block, &mut self.offset, usize::MAX);
        for site in self.sections.ties.sites.iter() {
            // The limit of a site ID fits in a byte.
            section.push(&[&[site.len() as u8], site.as_bytes()])?;
        }
        self.parts.sites = section.finish()?;
        Ok(())
    }

    fn write_stream(&mut self) -> io::Result<()> {
        let mut section = SectionWriter::new(&mut *self.file, &mut self.block, &mut self.offset, usize::MAX);
        for piece in self.sections.stream.chunks(STREAM_PIECE_BYTES) {
            section.push(&[piece])?;
        }
        self.parts.stream = section.finish()?;
        Ok(())
    }
}

fn to_io_error(error: CheckpointError) -> io::Error {
    match error {
        CheckpointError::Io(error) => error,
        other => io::Error::new(io::ErrorKind::InvalidData, other),
    }
}

/// Returns the run size for a table of this size. It limits the number of runs.
fn run_bytes(table_bytes: u64) -> usize {
    usize::try_from(table_bytes / CHECKPOINT_RUNS).unwrap_or(usize::MAX).max(CHECKPOINT_RUN_BYTES)
}
