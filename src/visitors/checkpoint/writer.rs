//! The checkpointer: what the log's writer copies, in files.
//!
//! In come a header, entries in no order, and the word that these were all; out goes a file, whole and durable, and the buffers that
//! the entries came in. It works on a thread of its own at the lowest priority; a test steps it. A disk that fails costs the attempt:
//! it is counted, said once, and another comes later.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;

use super::Figures;
use super::directory::Folder;
use super::format::{
    BLOCK_HEADER_BYTES, HEADER_BYTES, Header, Kept, Run, begin_block, end_block, sum_on, trailer_to_bytes,
};
use crate::limits::{
    CHECKPOINT_BLOCK_BYTES, CHECKPOINT_CHUNK_BYTES, CHECKPOINT_GENERATIONS, CHECKPOINT_RUN_BYTES,
    CHECKPOINT_RUNS,
};
use crate::storage;
use crate::storage::disk::{DiskFile, append_whole};

/// What the writer sends.
pub(super) enum Message {
    /// A table of this header, and of about so many bytes, begins.
    Begin(Header, u64),
    /// Entries, end to end.
    Entries(Vec<u8>),
    /// These were all.
    End,
    /// The copy was given up.
    GiveUp,
}

/// What comes back.
pub(super) enum Answer {
    /// Room for entries.
    Room(Vec<u8>),
    /// The file is there, of so many bytes.
    Done(u64),
    /// There is none of this attempt.
    Failed,
}

/// Writes checkpoints.
pub struct Scribe {
    folder: Folder,
    messages: Receiver<Message>,
    answers: SyncSender<Answer>,
    figures: Arc<Figures>,
    /// The seqs of the files that are whole, at most two.
    generations: Vec<u64>,
    sheet: Option<Sheet>,
    /// Whether it was said that the disk fails.
    has_complained: bool,
}

impl Scribe {
    pub(super) fn new(
        folder: Folder,
        generations: Vec<u64>,
        messages: Receiver<Message>,
        answers: SyncSender<Answer>,
        figures: Arc<Figures>,
    ) -> Self {
        let mut scribe =
            Self { folder, messages, answers, figures, generations, sheet: None, has_complained: false };
        scribe.show();
        scribe
    }

    /// Sets it to work until nobody sends any more.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn spawn(mut self) -> io::Result<()> {
        let work = move || {
            storage::lower_priority();
            while let Ok(message) = self.messages.recv() {
                self.take(message);
            }
        };
        thread::Builder::new().name("checkpointer".to_owned()).spawn(work).map(drop)
    }

    /// Does what there is to do now.
    pub fn step(&mut self) {
        while let Ok(message) = self.messages.try_recv() {
            self.take(message);
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Begin(header, bytes) => match Sheet::begin(&self.folder, header, bytes) {
                Ok(sheet) => self.sheet = Some(sheet),
                Err(error) => self.fail(&error),
            },
            Message::Entries(entries) => {
                let added = self.sheet.as_mut().map_or(Ok(()), |sheet| sheet.add(&entries));
                self.answer(Answer::Room(entries));
                added.unwrap_or_else(|error| self.fail(&error));
            }
            Message::End => {
                // Without a sheet the attempt has failed, which was said.
                if let Some(sheet) = self.sheet.take() {
                    match self.install(sheet) {
                        Ok(bytes) => self.answer(Answer::Done(bytes)),
                        Err(error) => self.fail(&error),
                    }
                }
            }
            Message::GiveUp => {
                if self.sheet.take().is_some() {
                    // What is left of it is taken away before the next one.
                    let _ = self.folder.clear();
                    self.answer(Answer::Failed);
                }
            }
        }
    }

    fn install(&mut self, sheet: Sheet) -> io::Result<u64> {
        let (seq, bytes) = sheet.finish()?;
        self.folder.install(seq)?;
        self.generations.retain(|generation| *generation != seq);
        self.generations.push(seq);
        let older = self.generations.len().saturating_sub(CHECKPOINT_GENERATIONS);
        self.generations.drain(..older);
        // The newest stays in any case: where the log is not whole any more, nothing else has what it holds.
        let erased = self.figures.erased.load(Ordering::Acquire);
        self.generations.retain(|generation| *generation >= erased || *generation == seq);
        self.figures.made.fetch_add(1, Ordering::Relaxed);
        self.figures.bytes.store(bytes, Ordering::Relaxed);
        self.has_complained = false;
        self.remove_others(erased > 0);
        self.show();
        tracing::info!(
            "visitors up to seq {seq} are kept in {}, {bytes} bytes",
            self.folder.path_of(seq).display()
        );
        Ok(bytes)
    }

    /// Deletes what is no generation any more, and where somebody was erased, what was put aside. What stays, because the disk
    /// fails, is deleted the next time.
    fn remove_others(&self, is_erasing: bool) {
        if is_erasing && self.folder.remove_refused().is_err() {
            self.figures.failed.fetch_add(1, Ordering::Relaxed);
        }
        let others = self.folder.seqs().unwrap_or_default();
        let others = others.into_iter().filter(|seq| !self.generations.contains(seq));
        for seq in others.collect::<Vec<_>>() {
            if self.folder.remove(seq).is_err() {
                self.figures.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn show(&mut self) {
        let covered = self.generations.first().copied().unwrap_or(0);
        self.figures.covered.store(covered, Ordering::Release);
        self.figures.seq.store(self.generations.last().copied().unwrap_or(0), Ordering::Relaxed);
    }

    fn fail(&mut self, error: &io::Error) {
        self.sheet = None;
        let _ = self.folder.clear();
        self.figures.failed.fetch_add(1, Ordering::Relaxed);
        if !self.has_complained {
            tracing::warn!(
                "what is known of visitors cannot be kept in a file: {error}; it is tried again, and the log has it"
            );
            self.has_complained = true;
        }
        self.answer(Answer::Failed);
    }

    fn answer(&self, answer: Answer) {
        // There is room for all that can come back; where nobody listens any more, nobody waits.
        let _ = self.answers.try_send(answer);
    }
}

/// A checkpoint on its way to the disk.
struct Sheet {
    file: Box<dyn DiskFile>,
    seq: u64,
    header: [u8; HEADER_BYTES],
    /// Where the next run begins.
    at: u64,
    runs: Vec<Run>,
    /// A run is sorted at this size.
    run_bytes: usize,
    /// The entries of the run at hand, and the order and place of each.
    run: Vec<u8>,
    places: Vec<(u64, usize)>,
    block: Vec<u8>,
}

impl Sheet {
    fn begin(folder: &Folder, header: Header, bytes: u64) -> io::Result<Self> {
        let mut file = folder.create()?;
        let (seq, header, run_bytes) = (header.seq, header.to_bytes(), run_bytes(bytes));
        append_whole(&mut *file, &header)?;
        Ok(Self {
            file,
            seq,
            header,
            at: HEADER_BYTES as u64,
            runs: Vec::new(),
            run_bytes,
            run: Vec::with_capacity(
                run_bytes.min(usize::try_from(bytes).unwrap_or(usize::MAX)) + CHECKPOINT_CHUNK_BYTES,
            ),
            places: Vec::new(),
            block: Vec::with_capacity(CHECKPOINT_BLOCK_BYTES),
        })
    }

    fn add(&mut self, entries: &[u8]) -> io::Result<()> {
        let mut at = 0;
        while let Some(entry) = Kept::decode(&entries[at..]) {
            self.places.push((entry.order, self.run.len() + at));
            at += entry.encoded_len();
        }
        self.run.extend_from_slice(&entries[..at]);
        if self.run.len() >= self.run_bytes { self.end_run() } else { Ok(()) }
    }

    /// Sorts what is at hand, and writes it.
    fn end_run(&mut self) -> io::Result<()> {
        let mut places = std::mem::take(&mut self.places);
        places.sort_unstable();
        let mut run = Run { at: self.at, entries: places.len() as u64, ..Run::default() };
        let mut count = 0;
        begin_block(&mut self.block);
        for &(_, place) in &places {
            let length = Kept::decode(&self.run[place..]).map_or(0, |entry| entry.encoded_len());
            if self.block.len() + length > CHECKPOINT_BLOCK_BYTES {
                self.end_block(&mut run, count)?;
                count = 0;
            }
            self.block.extend_from_slice(&self.run[place..place + length]);
            count += 1;
        }
        if self.block.len() > BLOCK_HEADER_BYTES {
            self.end_block(&mut run, count)?;
        }
        self.runs.push(run);
        self.run.clear();
        places.clear();
        self.places = places;
        // The log's own syncs are not to wait for gigabytes.
        self.file.sync_data()
    }

    fn end_block(&mut self, run: &mut Run, count: u32) -> io::Result<()> {
        run.sum = sum_on(run.sum, end_block(&mut self.block, count));
        append_whole(&mut *self.file, &self.block)?;
        run.bytes += self.block.len() as u64;
        self.at += self.block.len() as u64;
        begin_block(&mut self.block);
        Ok(())
    }

    /// Writes what is left and makes all of it durable; the seq, and the bytes of the file.
    fn finish(mut self) -> io::Result<(u64, u64)> {
        if !self.run.is_empty() {
            self.end_run()?;
        }
        let trailer = trailer_to_bytes(&self.runs, &self.header, self.at);
        append_whole(&mut *self.file, &trailer)?;
        self.file.sync_data()?;
        Ok((self.seq, self.at + trailer.len() as u64))
    }
}

/// The size of a run of a table of so many bytes: there are not to be many.
fn run_bytes(table_bytes: u64) -> usize {
    usize::try_from(table_bytes / CHECKPOINT_RUNS).unwrap_or(usize::MAX).max(CHECKPOINT_RUN_BYTES)
}
