//! The puller: fetches the files that the source lists, and removes those that are gone from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::bucket::{BucketSource, open_bucket};
use super::http::DirectorySource;
use super::jetstream::NatsSource;
use super::list::SourceFile;
use super::mirror::{Download, Mirror, Presence, is_removable};
use super::source::{Removed, Source, SourceState, blocking};
use crate::clock;
use crate::config::cluster::{ClusterConfig, SnapshotSource};
use crate::metrics::PullCounters;
use crate::nats::connect::NatsSettings;
use crate::nats::thread::{RenewalRequests, Task};
use crate::site::catalog::files::CurrentFiles;

/// Interval between two readings of a list. A publication or a rollback is on all nodes within a second.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Pause before a removal that waits for the server is tried again.
const REMOVAL_PAUSE: Duration = Duration::from_millis(50);
/// Pause after the first failed attempt to fetch a file. It doubles up to [`FETCH_PAUSE_MAX`]. A new list resets it.
const FETCH_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause between two attempts to fetch a file that fails, so that a damaged one costs little bandwidth.
const FETCH_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Pause after an error of the source.
const ERROR_PAUSE: Duration = Duration::from_millis(500);

/// The attempts to fetch a file.
struct Failure {
    file: SourceFile,
    count: u32,
    next_attempt: Instant,
}

/// The state of the puller.
struct Puller {
    mirror: Mirror,
    states: CurrentFiles,
    counters: PullCounters,
    failures: BTreeMap<String, Failure>,
    /// The lines of the last attempt. Used to log each one once.
    reported: BTreeSet<String>,
}

/// The remaining work for a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remaining {
    Nothing,
    /// A file could not be fetched.
    Fetch,
    /// A removal waits for the server.
    Removal,
}

/// Creates the task that fills `directory`; `None` without `--snapshots-from`. `current_files` has the result of the
/// server's last scan.
///
/// # Errors
/// The URL or a file that the settings name is unusable.
pub(crate) fn task(
    config: &ClusterConfig,
    directory: &Path,
    current_files: CurrentFiles,
    counters: PullCounters,
    renewals: RenewalRequests,
) -> Result<Option<impl FnOnce() -> Task + Send + use<>>, String> {
    let Some(url) = &config.snapshots_from else { return Ok(None) };
    let source = SnapshotSource::parse(url)?;
    let directory = directory.to_owned();
    let url = url.clone();
    let files = config.files.clone();
    let name = config.node_name()?;
    let failed = |error| format!("cannot create the snapshots directory {}: {error}", directory.display());
    fs::create_dir_all(&directory).map_err(failed)?;
    Ok(Some(move || -> Task {
        Box::pin(async move {
            tracing::info!(source = url, "pulling snapshots");
            match source {
                SnapshotSource::Nats { servers, bucket } => {
                    let settings = NatsSettings { servers, name, files };
                    run(NatsSource::new(settings, bucket, renewals), &directory, current_files, counters)
                        .await;
                }
                SnapshotSource::Bucket { bucket, prefix } => match open_bucket(&bucket, &files) {
                    Ok(store) => {
                        run(BucketSource::new(store, &prefix), &directory, current_files, counters).await
                    }
                    Err(error) => tracing::error!(error, "cannot use the bucket; no snapshots are pulled"),
                },
                SnapshotSource::Http { url } => match DirectorySource::http(url, &files) {
                    Ok(source) => run(source, &directory, current_files, counters).await,
                    Err(error) => {
                        tracing::error!(error, "cannot use the web server; no snapshots are pulled")
                    }
                },
                SnapshotSource::Directory(path) => {
                    run(DirectorySource::local(path), &directory, current_files, counters).await
                }
            }
        })
    }))
}

async fn run(mut source: impl Source, directory: &Path, current_files: CurrentFiles, counters: PullCounters) {
    let mirror = match Mirror::open(directory) {
        Ok(mirror) => mirror,
        Err(error) => {
            tracing::error!(directory = %directory.display(), %error, "cannot read .pulled; no snapshots are pulled");
            counters.record_error();
            return;
        }
    };
    let mut puller = Puller {
        mirror,
        states: current_files,
        counters,
        failures: BTreeMap::new(),
        reported: BTreeSet::new(),
    };
    let mut state: Option<SourceState> = None;
    let mut remaining = Remaining::Nothing;
    loop {
        let wait = if remaining == Remaining::Removal { REMOVAL_PAUSE } else { POLL_INTERVAL };
        match source.next(wait).await {
            Ok(Some(new)) => {
                puller.failures.retain(|name, failure| {
                    new.files.iter().any(|file| file.name == *name && *file == failure.file)
                });
                remaining = puller.apply(&new, &mut source).await;
                state = Some(new);
            }
            Ok(None) => {
                if let Some(state) = state.as_ref().filter(|_| remaining != Remaining::Nothing) {
                    remaining = puller.apply(state, &mut source).await;
                }
            }
            Err(error) => {
                puller.counters.record_error();
                puller.report(BTreeSet::from([error]));
                tokio::time::sleep(ERROR_PAUSE).await;
            }
        }
    }
}

impl Puller {
    /// Fetches the missing files, then removes those that are gone.
    async fn apply(&mut self, state: &SourceState, source: &mut impl Source) -> Remaining {
        let mut faults = BTreeSet::new();
        let mut is_complete = true;
        for file in &state.files {
            match self.mirror.find(file) {
                Presence::Present => {}
                Presence::Foreign => {
                    faults.insert(format!(
                        "{}: the snapshots directory has another file of this name, which was not pulled; remove or rename it",
                        file.name
                    ));
                }
                Presence::Missing => {
                    let fault = self.fetch(file, source).await;
                    is_complete &= fault.is_none();
                    faults.extend(fault);
                }
            }
        }
        let is_removed = self.remove_gone(state, &mut faults);
        self.report(faults);
        match (is_complete, is_removed) {
            (_, false) => Remaining::Removal,
            (false, true) => Remaining::Fetch,
            (true, true) => Remaining::Nothing,
        }
    }

    /// Fetches a file, unless its last attempt has just failed. Returns the reason why it is still missing.
    async fn fetch(&mut self, file: &SourceFile, source: &mut impl Source) -> Option<String> {
        let fault = format!("{}: not fetched; it is tried again", file.name);
        let now = clock::instant();
        if self.failures.get(&file.name).is_some_and(|failure| failure.next_attempt > now) {
            return Some(fault);
        }
        let result = match self.mirror.begin(file) {
            Ok(download) => source.fetch(download).await,
            Err(error) => Err(format!("cannot write {}: {error}", file.name)),
        };
        let result = match result {
            Ok(download) => finish(download).await,
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => {
                self.failures.remove(&file.name);
                self.mirror.finished(file);
                self.counters.record_pulled();
                tracing::info!(name = file.name, bytes = file.bytes, "pulled snapshot");
                None
            }
            Err(error) => {
                self.counters.record_error();
                let count = self.failures.get(&file.name).map_or(0, |failure| failure.count) + 1;
                let pause = (FETCH_PAUSE * 2_u32.pow((count - 1).min(10))).min(FETCH_PAUSE_MAX);
                let next_attempt = clock::instant() + pause;
                self.failures.insert(file.name.clone(), Failure { file: file.clone(), count, next_attempt });
                tracing::warn!(error, attempts = count, "cannot pull a snapshot");
                Some(fault)
            }
        }
    }

    /// Removes the files that are gone from the source, if they may go now. Returns whether none is left.
    fn remove_gone(&mut self, state: &SourceState, faults: &mut BTreeSet<String>) -> bool {
        let is_gone = |name: &String| match &state.removed {
            Removed::Unlisted => state.files.iter().all(|file| file.name != *name),
            Removed::Marked(marked) => marked.contains(name),
        };
        let gone: Vec<_> = self.mirror.names().iter().filter(|name| is_gone(name)).cloned().collect();
        let states = self.states.load();
        let mut is_done = true;
        for name in gone {
            if self.mirror.exists(&name) && !is_removable(&name, &state.files, &states) {
                is_done = false;
                continue;
            }
            match self.mirror.remove(&name) {
                Ok(()) => tracing::info!(name, "removed snapshot, because the source no longer has it"),
                Err(error) => {
                    is_done = false;
                    self.counters.record_error();
                    faults.insert(format!("cannot remove {name}: {error}"));
                }
            }
        }
        is_done
    }

    /// Logs the faults that are new, and the end of faults.
    fn report(&mut self, faults: BTreeSet<String>) {
        for fault in faults.difference(&self.reported) {
            tracing::warn!("{fault}");
        }
        if faults.is_empty() && !self.reported.is_empty() {
            tracing::info!("the snapshots are those of the source again");
        }
        self.reported = faults;
    }
}

/// Finishes a download on a thread that may block: the sync of a large file takes a second.
async fn finish(download: Download) -> Result<(), String> {
    blocking(move || download.finish()).await
}
