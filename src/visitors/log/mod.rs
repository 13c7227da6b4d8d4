//! The log: what visitors did, append-only, each record counted once.
//!
//! ```text
//! worker --Port::send--> queue --> Writer::step: drain, drop duplicates, give seqs, append, sync,
//!        <--Port::take-- mailbox <--------------  fold, complete, wake once
//! ```
//!
//! The file format and what holds of it is [`mod@format`]'s module doc. This module knows no HTTP and no
//! JSON: a record is columns and text. It does not know what folding is either: it hands each batch to a
//! [`Follower`], once it is durable (or written, with [`Ack::Written`]) and before it is acknowledged;
//! recovery hands over the same batches in the same order.
//!
//! # What always holds
//!
//! * What was acknowledged is found by recovery: after a killed process always, after a power cut if it
//!   was acknowledged as durable.
//! * A key is accepted once within its window.
//! * A descriptor whose append or sync failed is never appended to nor synced again.
//! * A request that was taken is completed; the writer never waits for a worker.
//! * An erased visitor's records are void, in every file; [`Queue::erase`] begins an erasure, and what it takes longest over
//!   is done beside the writer.

mod active_segment;
pub mod bloom;
mod check;
mod dedup;
mod directory;
mod erase;
mod footer;
pub mod format;
mod inspect;
mod metrics;
mod offset_to_seq;
mod queue;
mod reader;
mod record;
mod recover;
mod retention;
mod scan;
mod verify;
mod writer;
mod writer_thread;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use check::{Checked, check_file, check_folder};
pub use dedup::Duplicates;
pub use directory::{holds_log, segment_name, seq_of};
pub use erase::secret::Secret;
pub use erase::{EraseError, Erased, Erasure, Visitor};
pub use footer::Footer;
pub use format::Records;
pub use inspect::{Inspected, inspect};
pub use metrics::Figures;
pub use offset_to_seq::Locator;
pub use queue::{Completion, Outcome, Port, Queue, Refusal, Request, Verdict, Wake};
pub use reader::{Item, Reader, read_footer};
pub use record::{Kind, Record, RecordFault, TIME_MS_MAX};
pub use recover::Report;
pub use verify::{Finding, Flaw};
pub use writer::Writer;
pub use writer_thread::{Stopped, WriterThread};

use crate::clock::Clock;
use crate::limits::{DUPLICATES_MAX, QUEUE_BYTES_MAX, QUEUE_REQUESTS_MAX, SEGMENT_BYTES};
use crate::storage::disk::Disk;
use directory::Directory;

/// When a record is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// Once it survives a power cut.
    Disk,
    /// Once it survives the process; the sync follows within 100 ms.
    Written,
}

impl Ack {
    /// What became of a request that was kept so.
    fn kept(self) -> Outcome {
        match self {
            Self::Disk => Outcome::Durable,
            Self::Written => Outcome::Written,
        }
    }
}

/// The log's settings.
#[derive(Debug, Clone)]
pub struct Options {
    /// When a record is acknowledged.
    pub ack: Ack,
    /// A segment is sealed at this size.
    pub segment_bytes: u64,
    /// Segments whose newest record is older are let go, in milliseconds.
    pub retain_ms: Option<i64>,
    /// The oldest segments are let go while all take more than this and they are older than 24 hours.
    pub retain_bytes: Option<u64>,
    /// Ids that count as seen.
    pub duplicates_max: usize,
    /// Random: see [`Duplicates::new`].
    pub seed: u64,
    /// Requests that may wait.
    pub queue_requests_max: usize,
    /// Bytes that may wait.
    pub queue_bytes_max: usize,
    /// Recovery hands over the records behind this seq only: a checkpoint holds the others, which were durable
    /// when it was made.
    pub folded_seq: u64,
}

impl Options {
    /// Where a segment's zeros end. Where batches are not synced each, they would only be written twice.
    fn reserve_until(&self) -> u64 {
        match self.ack {
            Ack::Disk => self.segment_bytes,
            Ack::Written => 0,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ack: Ack::Disk,
            segment_bytes: SEGMENT_BYTES,
            retain_ms: None,
            retain_bytes: None,
            duplicates_max: DUPLICATES_MAX,
            seed: 0,
            queue_requests_max: QUEUE_REQUESTS_MAX,
            queue_bytes_max: QUEUE_BYTES_MAX,
            folded_seq: 0,
        }
    }
}

/// Who is told what the log has; called on the thread that opens it, then on the writer's.
pub trait Follower: Send {
    /// The next records: from recovery, then each batch before it is acknowledged.
    fn fold(&mut self, records: Records<'_>);

    /// A visitor is erased as of `seq`: that of the tombstone, which is folded next. Of a log that is opened, whose tombstones
    /// tell no ids, [`Secret::is_named`] says whether one is of an id.
    fn erase(&mut self, visitor: &Visitor, seq: u64) {
        let _ = (visitor, seq);
    }

    /// An append with its sync, or a sync that followed, took so long.
    fn synced(&mut self, took: Duration) {
        let _ = took;
    }

    /// How far recovery has come: segments done, of how many.
    fn recovering(&mut self, done: usize, of: usize) {
        let _ = (done, of);
    }

    /// The writer has answered all that came and could do something else for under a millisecond. `durable` is the last seq, where
    /// everything up to it is durable. The answer says when this is to be called again, if nothing comes before.
    fn between(&mut self, clock: &dyn Clock, durable: Option<u64>) -> Option<Duration> {
        let _ = (clock, durable);
        None
    }

    /// The log has been sealed, and nothing follows; `durable` as in [`between`](Self::between). The process ends after this.
    fn closed(&mut self, clock: &dyn Clock, durable: Option<u64>) {
        let _ = (clock, durable);
    }

    /// The records up to this seq are not needed any more: retention lets no others go.
    fn covered(&self) -> u64 {
        u64::MAX
    }

    /// Retention would let records go that are needed.
    fn held_back(&mut self) {}
}

impl<F: FnMut(Records<'_>) + Send> Follower for F {
    fn fold(&mut self, records: Records<'_>) {
        self(records);
    }
}

/// Why the log cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Another process has the folder.
    #[error("{} is held by another server", folder.display())]
    Held {
        /// The folder.
        folder: PathBuf,
    },
    /// A later release wrote it.
    #[error("{} has format version {version}, which this release does not know", file.display())]
    Version {
        /// The segment.
        file: PathBuf,
        /// Its format version.
        version: u32,
    },
    /// Somebody renamed it.
    #[error(
        "{} begins with seq {first_seq}, but another file has that name: move the one that is wrong out of the folder",
        file.display()
    )]
    Misnamed {
        /// The segment.
        file: PathBuf,
        /// By its header.
        first_seq: u64,
    },
    /// There is no seq left, or a file was forged.
    #[error("{}: its files name seq {seq}, behind which none is given", folder.display())]
    NoSeqLeft {
        /// The folder.
        folder: PathBuf,
        /// The watermark.
        seq: u64,
    },
    /// The system says no.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
}

impl LogError {
    fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}

/// Opens the log in `folder`, made if need be: locks it, recovers what it holds, and begins a segment.
/// What recovery kept is durable when this returns. The writer is to be spawned, or stepped.
///
/// # Errors
/// Another has the folder; a file is of a later release; the system says no. The folder is as a crash
/// may leave it then.
pub fn open(
    folder: &Path,
    options: Options,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    follower: Box<dyn Follower>,
) -> Result<(Queue, Writer, Report), LogError> {
    Held::hold(folder, disk)?.open(options, clock, follower)
}

/// The folder of a log, locked, made if need be, and otherwise as it was left.
pub struct Held {
    directory: Directory,
}

/// What a log holds, however much of it is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// The first seq that is kept.
    pub first: u64,
    /// The last that can be read; one less than the first without any.
    pub last: u64,
}

impl Held {
    /// Locks the folder.
    ///
    /// # Errors
    /// Another has it; the system says no.
    pub fn hold(folder: &Path, disk: Arc<dyn Disk>) -> Result<Self, LogError> {
        Ok(Self { directory: Directory::own(disk, folder)? })
    }

    /// How far the log goes.
    ///
    /// # Errors
    /// A file is of a later release; the system says no.
    pub fn reach(&self) -> Result<Reach, LogError> {
        recover::reach(&self.directory)
    }

    /// As [`open()`].
    ///
    /// # Errors
    /// As there.
    pub fn open(
        self,
        options: Options,
        clock: Arc<dyn Clock>,
        mut follower: Box<dyn Follower>,
    ) -> Result<(Queue, Writer, Report), LogError> {
        let recovered = recover::recover(&self.directory, &options, &*clock, &mut *follower)?;
        let figures = Arc::new(Figures::default());
        let (queue, intake) =
            queue::queue(options.queue_requests_max, options.queue_bytes_max, Arc::clone(&figures));
        let report = recovered.report.clone();
        let writer = Writer::new(self.directory, options, clock, follower, recovered, intake, figures);
        Ok((queue, writer, report))
    }
}
