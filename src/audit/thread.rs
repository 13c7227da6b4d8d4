//! The thread `audit`: writes and syncs the queued lines, as many as wait with one sync.

use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::format::Head;
use super::writer::AuditWriter;
use super::{AuditError, AuditMetrics};
use crate::limits::{
    AUDIT_BATCH_BYTES_MAX, AUDIT_QUEUE_LINES_MAX, AUDIT_RETENTION_INTERVAL_MS, AUDIT_RETRY_MS,
};

/// Attempts of a start to lock the audit log: two seconds, as for the data directory.
const LOCK_ATTEMPTS_MAX: u32 = 100;
/// Pause between two attempts. It is a sleep, because flock(2) waits either not at all or without a limit.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A line that waits for the thread.
pub(super) struct QueuedLine {
    pub(super) payload: Vec<u8>,
    /// Gets the result of the sync. `None` if nobody waits for it. Then the line is written later, if the disk fails now.
    pub(super) reply: Option<Sender<Result<(), AuditError>>>,
}

/// The state of the thread.
pub(super) struct AuditThread {
    pub(super) writer: AuditWriter,
    pub(super) lines: Receiver<QueuedLine>,
    pub(super) metrics: AuditMetrics,
    /// Lines that are not written yet, at most [`AUDIT_QUEUE_LINES_MAX`].
    pub(super) pending: Vec<QueuedLine>,
}

impl AuditThread {
    /// Writes lines until no handle of the log is left.
    pub(super) fn run(mut self) {
        self.open_after_other_process();
        loop {
            let is_failing = self.metrics.is_failing();
            let pause_ms = if is_failing { AUDIT_RETRY_MS } else { AUDIT_RETENTION_INTERVAL_MS as u64 };
            match self.lines.recv_timeout(Duration::from_millis(pause_ms)) {
                Ok(line) => self.receive(line),
                Err(RecvTimeoutError::Timeout) => self.open(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while !self.pending.is_empty() && self.write_batch() {}
        }
    }

    /// Opens the log. The kernel may release the lock of a killed process late, which is no failure.
    fn open_after_other_process(&mut self) {
        for _ in 0..LOCK_ATTEMPTS_MAX {
            match self.writer.tick() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(LOCK_PAUSE),
                Err(error) => return self.fail(&error),
                Ok(head) => return self.succeed(head),
            }
        }
        self.open();
    }

    /// Takes a line, and those that wait already.
    fn receive(&mut self, first: QueuedLine) {
        self.add(first);
        let mut bytes = 0;
        while bytes < AUDIT_BATCH_BYTES_MAX
            && let Ok(line) = self.lines.try_recv()
        {
            bytes += line.payload.len();
            self.add(line);
        }
    }

    /// Adds a line. The disk may fail for hours, so lines beyond the limit are lost, and counted.
    fn add(&mut self, line: QueuedLine) {
        if self.pending.len() < AUDIT_QUEUE_LINES_MAX {
            self.pending.push(line);
        } else {
            self.metrics.count_failures(1);
            reply(line, Err(AuditError::Full));
        }
    }

    /// Opens the log, and deletes old files if it is time.
    fn open(&mut self) {
        match self.writer.tick() {
            Ok(head) => self.succeed(head),
            Err(error) => self.fail(&error),
        }
    }

    /// Writes the next lines. Returns whether that was possible. After a failure the lines for which nobody waits stay.
    fn write_batch(&mut self) -> bool {
        let mut bytes = 0;
        let fits = |line: &&QueuedLine| {
            bytes += line.payload.len();
            bytes <= AUDIT_BATCH_BYTES_MAX
        };
        let count = self.pending.iter().take_while(fits).count().max(1);
        let payloads: Vec<Vec<u8>> = self.pending[..count].iter().map(|line| line.payload.clone()).collect();
        match self.writer.tick().and_then(|_| self.writer.append(&payloads)) {
            Ok(head) => {
                self.metrics.0.records.fetch_add(count as u64, Ordering::Relaxed);
                self.succeed(head);
                self.pending.drain(..count).for_each(|line| reply(line, Ok(())));
                true
            }
            Err(error) => {
                self.fail(&error);
                let (waiting, others): (Vec<_>, Vec<_>) =
                    std::mem::take(&mut self.pending).into_iter().partition(|line| line.reply.is_some());
                self.pending = others;
                self.metrics.count_failures(waiting.len() as u64);
                waiting.into_iter().for_each(|line| reply(line, Err(AuditError::Failed)));
                false
            }
        }
    }

    fn succeed(&self, head: Head) {
        self.metrics.set_head(head);
        if self.metrics.0.is_failing.swap(false, Ordering::AcqRel) {
            tracing::info!("the audit log can be written again");
        }
    }

    fn fail(&self, error: &io::Error) {
        if !self.metrics.0.is_failing.swap(true, Ordering::AcqRel) {
            tracing::error!(
                %error,
                "cannot write the audit log; looks at visitors, exports and erasures get 503 until it can be written; repair the disk or free space"
            );
        }
    }
}

fn reply(line: QueuedLine, result: Result<(), AuditError>) {
    if let Some(reply) = line.reply {
        // The request may wait no longer.
        let _ = reply.try_send(result);
    }
}
