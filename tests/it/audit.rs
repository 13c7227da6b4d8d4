//! The audit log: its format, the chain, damage, failing disks, the limits and the commands. `wire/audit.rs` has the lines of a server.

#[path = "audit/chain.rs"]
mod chain;
#[path = "audit/commands.rs"]
mod commands;
#[path = "audit/disks.rs"]
mod disks;
#[path = "audit/entries.rs"]
mod entries;
#[path = "audit/mutations.rs"]
mod mutations;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax::testing::audit::writer::AuditWriter;
use parallax::testing::audit::{
    Actor, ActorKind, AuditAction, AuditEntry, AuditOutcome, AuditReport, Head, directory_of, format,
    read_audit_log,
};
use parallax::testing::clock::Clock;

use crate::log::TestClock;
use crate::log::simulated::SimulatedDisk;

const DATA: &str = "/data";
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// A log on a simulated disk.
struct Log {
    disk: SimulatedDisk,
    clock: Arc<TestClock>,
    retain_days: i64,
    /// `None` while no process has the log.
    writer: Option<AuditWriter>,
}

impl Log {
    fn new(seed: u64) -> Self {
        let clock = Arc::new(TestClock::default());
        Self { disk: SimulatedDisk::new(seed), clock, retain_days: 400, writer: None }
    }

    /// Ends the process, and begins another one at the next use.
    fn restart(&mut self) {
        self.writer = None;
    }

    fn writer(&mut self) -> &mut AuditWriter {
        let Self { disk, clock, retain_days, writer } = self;
        writer.get_or_insert_with(|| {
            let clock = Arc::clone(clock) as Arc<dyn Clock>;
            AuditWriter::new(Arc::new(disk.clone()), Path::new(DATA), clock, *retain_days * DAY_MS)
        })
    }

    /// Appends lines with these details in one batch.
    fn append(&mut self, details: &[String]) -> std::io::Result<Head> {
        let now_ms = self.clock.now_ms();
        let payloads: Vec<Vec<u8>> = details.iter().map(|detail| entry(detail).to_json(now_ms)).collect();
        self.writer().append(&payloads)
    }

    /// Reads the log. Returns the details of the verified lines too.
    fn read(&self) -> (AuditReport, Vec<String>) {
        read(&self.disk)
    }

    fn path(&self, first_number: u64) -> PathBuf {
        path(first_number)
    }
}

fn path(first_number: u64) -> PathBuf {
    directory_of(Path::new(DATA)).join(format::file_name(first_number))
}

fn read(disk: &SimulatedDisk) -> (AuditReport, Vec<String>) {
    let mut details = Vec::new();
    let report = read_audit_log(disk, Path::new(DATA), &mut |record| {
        details.push(record.line.detail.clone());
        true
    });
    (report.expect("the disk works"), details)
}

fn entry(detail: &str) -> AuditEntry {
    let actor = Actor::new(ActorKind::Token).with_name("dashboards");
    AuditEntry::new(AuditAction::Export, actor, AuditOutcome::Done).site("acme").detail(detail)
}

/// Returns details that differ in their lengths.
fn details(numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers.map(|number| format!("n={number} {}", "x".repeat((number % 23) as usize))).collect()
}
