//! The log as the server has it: opened and replayed before anything listens, written by one thread, stopped last.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::BootError;
use crate::admin::{Metrics, Operator, Visitors};
use crate::api::{Desk, Recorder};
use crate::clock::SystemClock;
use crate::config::{Ack, Config};
use crate::counters::{Recorded, Syncs};
use crate::ids;
use crate::segment::{
    self, Erased, Follower, LogError, Options, Queue, Records, Report, Visitor, WriterThread,
};
use crate::storage::disk::RealDisk;
use crate::visitors::live::{Live, Looks};
use crate::worker::Stopping;

/// The log at work.
pub(super) struct Recording {
    pub(super) queue: Queue,
    pub(super) syncs: Syncs,
    pub(super) recorded: Recorded,
    /// What the log says of visitors.
    pub(super) visitors: Looks,
    folder: PathBuf,
    writer: WriterThread,
}

/// Who is told what the log has.
struct Told {
    syncs: Syncs,
    visitors: Live,
}

impl Follower for Told {
    fn fold(&mut self, records: Records<'_>) {
        self.visitors.fold(records);
    }

    fn erase(&mut self, visitor: &Visitor, _seq: u64) {
        self.visitors.erase(&visitor.site, visitor.ids.iter().map(|(whose, id)| (*whose, id.as_str())));
    }

    fn synced(&mut self, took: Duration) {
        self.syncs.record(took);
    }

    fn recovering(&mut self, done: usize, of: usize) {
        if of > 1 {
            tracing::info!("reading the log: {done} of {of} segments");
        }
    }
}

impl Recording {
    /// Opens the log in the data folder and begins to write it.
    pub(super) fn start(config: &Config) -> Result<Self, BootError> {
        let syncs = Syncs::default();
        let (live, visitors) = Live::new(secret(), config.profiles_memory);
        let told = Box::new(Told { syncs: syncs.clone(), visitors: live });
        let folder = &config.data;
        let cause = |cause: LogError| BootError::Data { folder: folder.clone(), cause };
        let (disk, clock) = (Arc::new(RealDisk), Arc::new(SystemClock::new()));
        let (queue, writer, report) =
            segment::open(folder, options(config), disk, clock, told).map_err(cause)?;
        say(config, &report);
        let writer = WriterThread::spawn(queue.clone(), writer).map_err(BootError::Thread)?;
        Ok(Self { queue, syncs, recorded: Recorded::default(), visitors, folder: folder.clone(), writer })
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

    /// The operator's service, which asks the log and what it says of visitors, and the bell for what takes longer.
    pub(super) fn operator(
        &self,
        desk: impl FnOnce() -> Desk + Send + 'static,
        token: Option<String>,
        stopping: Stopping,
        metrics: Metrics,
    ) -> Result<(impl FnOnce() -> Operator + Send + 'static, UnixStream), BootError> {
        let (visitors, log, folder) = (self.visitors.clone(), self.queue.clone(), self.folder.clone());
        let (ring, bell) = bell()?;
        let service = move || {
            let visitors = Visitors::new(visitors.lookup(), log, folder, ring);
            Operator::new(desk(), token, stopping, metrics).knowing(visitors)
        };
        Ok((service, bell))
    }

    /// Answers what was taken, syncs and seals.
    pub(super) fn stop(self) {
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
fn bell() -> Result<(UnixStream, UnixStream), BootError> {
    let cause =
        |cause| BootError::System { what: "a thread cannot be told of what is done (ulimit -n)", cause };
    let (ring, bell) = UnixStream::pair().map_err(cause)?;
    // A bell that is full of rings is heard anyway.
    ring.set_nonblocking(true).map_err(cause)?;
    Ok((ring, bell))
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
            Ack::Disk => segment::Ack::Disk,
            Ack::Written => segment::Ack::Written,
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
