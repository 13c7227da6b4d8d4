//! The log as the server has it: opened and replayed before anything listens, written by one thread, stopped last. What it says of
//! visitors is loaded from a checkpoint first, and kept in checkpoints from then on.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::BootError;
use crate::admin::Visitors;
use crate::admin::startup::Reading;
use crate::api::Recorder;
use crate::clock::{Clock, SystemClock};
use crate::config::{Ack, Config};
use crate::ids;
use crate::limits::CHECKPOINT_STOP_MS;
use crate::metrics::{JobCounts, Recorded, Syncs};
use crate::storage::disk::{Disk, RealDisk};
use crate::visitors::checkpoint::Figures;
use crate::visitors::checkpoint::directory::{Folder, checkpoint_name};
use crate::visitors::checkpoint::restore::{Reach, Restored, restore};
use crate::visitors::checkpoint::scheduler::{self, making};
use crate::visitors::live::{Live, Looks};
use crate::visitors::log::{
    self, Erased, Follower, Held, LogError, Options, Queue, Records, Report, Secret, Visitor, WriterThread,
};

/// The log at work.
pub(super) struct Recording {
    pub(super) queue: Queue,
    pub(super) syncs: Syncs,
    pub(super) recorded: Recorded,
    /// What the log says of visitors.
    pub(super) looks: Looks,
    folder: PathBuf,
    /// What became of checkpoints.
    pub(super) checkpoints: Arc<Figures>,
    /// What a last checkpoint may take, in milliseconds.
    stop_ms: Arc<AtomicU64>,
    writer: WriterThread,
}

/// Who is told what the log has.
struct Told {
    syncs: Syncs,
    visitors: Live,
    /// Until recovery is done: how far it is, and the last seq that is to come.
    reading: Option<(Reading, u64)>,
}

impl Follower for Told {
    fn fold(&mut self, records: Records<'_>) {
        if let Some((reading, last)) = &self.reading {
            reading.log(records.seqs().end.saturating_sub(1), *last);
        }
        self.visitors.fold(records);
    }

    fn erase(&mut self, visitor: &Visitor, seq: u64) {
        let ids = visitor.ids.iter().map(|(whose, id)| (*whose, id.as_str()));
        self.visitors.erase(&visitor.site, ids, seq);
    }

    fn synced(&mut self, took: Duration) {
        self.syncs.record(took);
    }

    fn recovering(&mut self, done: usize, of: usize) {
        if of > 1 {
            tracing::info!("reading the log: {done} of {of} segments");
        }
        if done == of {
            self.reading = None;
        }
    }

    fn between(&mut self, clock: &dyn Clock, durable: Option<u64>) -> Option<Duration> {
        self.visitors.between(clock, durable)
    }

    fn closed(&mut self, clock: &dyn Clock, durable: Option<u64>) {
        self.visitors.close(clock, durable);
    }

    fn covered(&self) -> u64 {
        self.visitors.covered()
    }

    fn held_back(&mut self) {
        self.visitors.held_back();
    }
}

impl Recording {
    /// Opens the log in the data folder and begins to write it; tells `reading` how far that is.
    pub(super) fn start(config: &Config, reading: &Reading) -> Result<Self, BootError> {
        let folder = &config.data;
        let cause = |cause: LogError| BootError::Data { folder: folder.clone(), cause };
        let (disk, clock) = (Arc::new(RealDisk) as Arc<dyn Disk>, Arc::new(SystemClock::new()));
        let held = Held::hold(folder, Arc::clone(&disk)).map_err(cause)?;
        let reach = held.reach().map_err(cause)?;
        let checkpoints = Folder::new(Arc::clone(&disk), folder);
        let (first, last) = (reach.first, reach.last);
        reading.log(0, last);
        let restored = restored(config, &checkpoints, Reach { first, last }, reading)?;
        let Restored { table, secret: old_secret, seq, standing, .. } = restored;
        let (known, secret) = (table.len(), old_secret.unwrap_or_else(secret));
        let (live, looks) = Live::standing(table, secret, config.profiles_memory);
        let options_of_making = scheduler::Options {
            log_bytes: config.checkpoint_bytes,
            ..scheduler::Options::new(secret, config.profiles_memory)
        };
        let stop_ms = Arc::clone(&options_of_making.stop_ms);
        let figures = Arc::<Figures>::default();
        let (making, scribe) = making(checkpoints, options_of_making, standing, Arc::clone(&figures));
        let syncs = Syncs::default();
        let names = Secret::read(disk, folder).map_err(cause)?;
        reading.log(seq, last);
        let told = Told {
            syncs: syncs.clone(),
            visitors: live.keeping(making).naming(names),
            reading: Some((reading.clone(), last)),
        };
        let options = Options { folded_seq: seq, ..options(config) };
        let (queue, writer, report) = held.open(options, clock, Box::new(told)).map_err(cause)?;
        say(config, &report);
        say_visitors(seq, known, report.records);
        scribe.spawn().map_err(BootError::Thread)?;
        let writer = WriterThread::spawn(queue.clone(), writer).map_err(BootError::Thread)?;
        let (recorded, folder) = (Recorded::default(), folder.clone());
        Ok(Self { queue, syncs, recorded, looks, folder, checkpoints: figures, stop_ms, writer })
    }

    /// A worker's way to the log, and the bell that says when something came back.
    pub(super) fn recorder(
        &self,
    ) -> Result<(impl FnOnce() -> Recorder + Send + 'static, UnixStream), BootError> {
        let (ring, bell) = bell()?;
        let wake = move || drop((&ring).write(&[1]));
        let (port, recorded) = (self.queue.port(Arc::new(wake)), self.recorded.clone());
        Ok((move || Recorder::new(port, recorded), bell))
    }

    /// What the operator asks the log through, and what it says of visitors; what takes longer rings `ring`.
    pub(super) fn visitors(
        &self,
        ring: UnixStream,
        counts: JobCounts,
    ) -> impl FnOnce() -> Visitors + Send + 'static {
        let (visitors, log, folder) = (self.looks.clone(), self.queue.clone(), self.folder.clone());
        let checkpoints = Arc::clone(&self.checkpoints);
        move || Visitors::new(visitors.lookup(), log, folder, checkpoints, ring, counts)
    }

    /// Answers what was taken, syncs and seals, and makes a last checkpoint if that takes no longer than `left`.
    pub(super) fn stop(self, left: Duration) {
        let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        self.stop_ms.store(left_ms.min(CHECKPOINT_STOP_MS), Ordering::Relaxed);
        match self.writer.stop() {
            Ok(stopped) if stopped.durable_seq < stopped.last_seq => tracing::error!(
                "the disk failed to the end: seq {} to {} were acknowledged as written and may be lost",
                stopped.durable_seq + 1,
                stopped.last_seq
            ),
            Ok(stopped) => tracing::info!("the log is sealed, up to seq {}", stopped.durable_seq),
            Err(_) => tracing::error!("the writer had panicked; the log is recovered at the next start"),
        }
    }
}

/// A pair of sockets: what is written to the first wakes the thread that has the second.
pub(super) fn bell() -> Result<(UnixStream, UnixStream), BootError> {
    let cause =
        |cause| BootError::System { what: "a thread cannot be told of what is done (ulimit -n)", cause };
    let (ring, bell) = UnixStream::pair().map_err(cause)?;
    // A bell that is full of rings is heard anyway.
    ring.set_nonblocking(true).map_err(cause)?;
    Ok((ring, bell))
}

/// The table of visitors as the newest checkpoint has it, as far as the log bears it out.
fn restored(config: &Config, folder: &Folder, log: Reach, reading: &Reading) -> Result<Restored, BootError> {
    let refused = |cause| BootError::Visitors { folder: config.data.clone(), cause };
    let mut progress = |done: u64, of: u64| {
        reading.visitors(done, of);
        if done.is_multiple_of(LOADED_SAID) {
            tracing::info!("reading what is known of visitors: {done} of {of}");
        }
    };
    let restored = restore(folder, log, config.profiles_memory, &mut progress).map_err(refused)?;
    for finding in &restored.findings {
        tracing::warn!("{finding}");
    }
    Ok(restored)
}

/// A line for each so many entries: some seconds.
const LOADED_SAID: u64 = 5_000_000;

fn say_visitors(seq: u64, known: usize, records: u64) {
    match seq {
        0 => tracing::info!("what is known of visitors comes from the {records} records of the log"),
        _ => tracing::info!(
            "what is known of visitors comes from {}, {known} entries, and the {records} records behind it",
            checkpoint_name(seq)
        ),
    }
}

/// What visitors are found by is nobody's to choose.
fn secret() -> [u8; 16] {
    let [high, low] = [ids::random(), ids::random()].map(u64::to_ne_bytes);
    std::array::from_fn(|at| if at < 8 { high[at] } else { low[at - 8] })
}

fn options(config: &Config) -> Options {
    const DAY_MS: i64 = 24 * 60 * 60 * 1000;
    Options {
        ack: match config.ack {
            Ack::Disk => log::Ack::Disk,
            Ack::Written => log::Ack::Written,
        },
        segment_bytes: config.segment_bytes,
        retain_ms: config.retain_days.map(|days| i64::from(days) * DAY_MS),
        retain_bytes: config.retain_bytes,
        seed: ids::random(),
        ..Options::default()
    }
}

fn say(config: &Config, report: &Report) {
    let retention = match (config.retain_days, config.retain_bytes) {
        (None, None) => "kept for ever (--retain-days, --retain-bytes)".to_owned(),
        (days, bytes) => {
            let days = days.map(|days| format!("for {days} days"));
            let bytes = bytes.map(|bytes| format!("up to {bytes} bytes"));
            format!("kept {}", days.into_iter().chain(bytes).collect::<Vec<_>>().join(" and "))
        }
    };
    let (folder, next) = (config.data.display(), report.next_seq);
    tracing::info!("events go to {folder}, {retention}; the next one gets seq {next}");
    if let Some(erased) = &report.finished {
        let Erased { records, segments, seq } = erased;
        tracing::info!(
            "an erasure that had been cut short is finished: up to seq {seq}, {records} records in {segments} segments"
        );
    }
    for finding in &report.findings {
        match finding.flaw.is_loud() {
            true => tracing::error!("{finding}"),
            false => tracing::warn!("{finding}"),
        }
    }
    if report.findings_left_out > 0 {
        tracing::error!("and {} findings more: `parallax check {folder}`", report.findings_left_out);
    }
}
