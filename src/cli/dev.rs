//! `parallax dev`: serves a site directory, and compiles it again after each change.
//!
//! The server is that of `parallax serve`. A thread of its own watches the directory and publishes each version
//! without errors into the snapshots directory of the server. After an error the last version stays.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::other_version::open_compiled;
use super::site_directory::{
    CompiledDirectory, Target, compile_files, counted, present_ms, print_warnings, read_files,
};
use super::{CliError, print_line, serve};
use crate::config::Config;
use crate::site::comparison::compare;
use crate::site::compile::CompiledSite;
use crate::site::snapshot::open::Snapshot;
use crate::site::source::files::Files;
use crate::site::source::watcher::SourceWatcher;
use crate::threads;
use crate::{clock, ids, percent, storage};

pub(super) const EXAMPLES: &str = "\
Write a site and serve it:
  parallax init my-site
  parallax dev my-site

Each save compiles the site and prints errors, warnings, the change of each experiment as lint
--against does, and the URL of each changed page.
After an error the last version without errors stays. With &now=2026-12-24T18:00:00Z a URL shows
its page as at that time. Snapshots and events are in a temporary directory, which is deleted at
the end, unless --snapshots or --data name another one. Ctrl-C ends the server.";

/// Longest time between two readings of the site directory. It finds changes that inotify does not report.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a reading, as a multiple of the reading's time, so that a large site costs a tenth of a core.
const REST_FACTOR: u32 = 9;
/// Number of changed pages whose URLs are printed. The others are printed as a count.
const URLS_SHOWN_MAX: usize = 10;
/// Name of the snapshot file. There is one, so each version replaces the one before.
const SNAPSHOT_NAME: &str = "dev.snapshot";

#[derive(Debug, Args)]
pub(super) struct DevArgs {
    /// The directory of the site: site.json, audiences.json, routes/ ...
    site: PathBuf,
    #[command(flatten)]
    config: Config,
}

/// Serves until a signal. `is_data_given` is true if the command line names the data directory.
pub(super) fn dev(args: DevArgs, is_data_given: bool) -> Result<(), CliError> {
    let DevArgs { site, mut config } = args;
    config.is_dev = true;
    serve::prepare_process(&config)?;
    let temporary = TemporaryDirectory::create()?;
    if !is_data_given {
        config.data = temporary.0.join("data");
    }
    let snapshots = config.snapshots.get_or_insert_with(|| temporary.0.join("snapshots")).clone();
    let failed = |error| CliError::System(format!("cannot create {}: {error}", snapshots.display()));
    fs::create_dir_all(&snapshots).map_err(failed)?;
    let mut publisher = SitePublisher::new(site, snapshots.join(SNAPSHOT_NAME));
    let mut watcher = SourceWatcher::new(publisher.directory.clone());
    watcher.watch();
    publisher.publish(read_files(&publisher.directory)?);
    serve::run(config, Vec::new(), |address| {
        publisher.set_address(address);
        let watch = move || watch_site(&mut watcher, &mut publisher);
        let started = threads::spawn("site-watcher", watch);
        started.map(drop).map_err(|error| CliError::System(format!("cannot start a thread: {error}")))
    })
}

/// Publishes each change of the site, until the process ends.
fn watch_site(watcher: &mut SourceWatcher, publisher: &mut SitePublisher) {
    loop {
        let begun = clock::instant();
        watcher.watch();
        publisher.read_and_publish();
        watcher.wait(READ_INTERVAL.max((clock::instant() - begun) * REST_FACTOR));
    }
}

/// A site directory that is being edited, and its last version without errors.
#[derive(Default)]
struct SitePublisher {
    directory: PathBuf,
    /// The snapshot file to write.
    snapshot: PathBuf,
    /// The server's address, when it is known.
    address: Option<SocketAddr>,
    /// The files as they were read last, with or without errors.
    files: Files,
    /// The error of the last reading or writing, so that it is printed once.
    last_error: Option<String>,
    site: String,
    version: u64,
    /// The content hash of each published route, by path.
    routes: BTreeMap<String, [u8; 16]>,
    /// The published site, with which the next version is compared.
    published: Option<Snapshot>,
}

impl SitePublisher {
    fn new(directory: PathBuf, snapshot_path: PathBuf) -> Self {
        Self { directory, snapshot: snapshot_path, ..Self::default() }
    }

    /// Sets the address of the started server, and prints the URLs of the first version.
    fn set_address(&mut self, address: SocketAddr) {
        self.address = Some(address);
        print_urls(address, &self.site, self.routes.keys());
    }

    fn read_and_publish(&mut self) {
        match Files::from_directory(&self.directory) {
            Ok(files) if files == self.files => self.last_error = None,
            Ok(files) => self.publish(files),
            Err(error) => self.note_error(format!("parallax: {error}")),
        }
    }

    /// Compiles the files. Publishes them, or prints their diagnostics.
    fn publish(&mut self, files: Files) {
        let begun = clock::instant();
        let version = clock::now_s().max(self.version + 1);
        match compile_files(&files, Target::default(), |_| Ok(version)) {
            Ok(directory) => {
                if let Err(error) = storage::write_atomic(&self.snapshot, &directory.compiled.bytes) {
                    // The next look at the directory tries again.
                    let path = self.snapshot.display();
                    return self.note_error(format!("parallax: cannot write {path}: {error}"));
                }
                print_warnings(&directory.compiled.warnings, &files);
                self.report(directory, clock::instant() - begun);
            }
            Err(CliError::Source(report)) if self.version == 0 => print_error(&report),
            Err(CliError::Source(report)) => {
                print_error(&format!("{report}; still serving version {}", self.version));
            }
            Err(CliError::Input(text) | CliError::Usage(text) | CliError::System(text)) => {
                print_error(&format!("parallax: {text}"));
            }
        }
        self.files = files;
        self.last_error = None;
    }

    /// Prints an error, unless it is the last one again.
    fn note_error(&mut self, text: String) {
        let text = format!("{text}; still serving version {}", self.version);
        if self.last_error.as_ref() != Some(&text) {
            print_error(&text);
        }
        self.last_error = Some(text);
    }

    /// Prints the changes of decisions and the URLs of the changed pages of a new version.
    fn report(&mut self, directory: CompiledDirectory, duration: Duration) {
        let CompiledDirectory { site, version, compiled: CompiledSite { bytes, routes, .. }, .. } = directory;
        let summary = format!(
            "site {site}, version {version}, {}, {} ms",
            counted(routes.len(), "route"),
            duration.as_millis()
        );
        print_text(&format!("compiled: {summary}"));
        self.report_changes(&bytes);
        let changed: Vec<&String> = routes
            .iter()
            .filter(|(path, hash)| self.routes.get(*path) != Some(hash))
            .map(|(path, _)| path)
            .collect();
        if let Some(address) = self.address {
            print_urls(address, &site, changed.into_iter());
        }
        self.site = site;
        self.version = version;
        self.routes = routes;
    }

    /// Prints a line for each experiment, zone and audience that a new version changes, and for the holdout. `compiled` is its snapshot.
    fn report_changes(&mut self, compiled: &[u8]) {
        // Ignore the error: the server reports why it does not serve the file.
        let Ok(snapshot) = open_compiled(compiled) else { return };
        let site = snapshot.site();
        let before = self.published.as_ref().map(Snapshot::site).filter(|before| before.site == site.site);
        if let Some(before) = before {
            let comparison = compare(Some(before), site, present_ms());
            comparison.changes.iter().for_each(|change| print_text(&format!("experiment {change}")));
            comparison.other_lines().for_each(|line| print_text(&line));
        }
        self.published = Some(snapshot);
    }
}

/// Prints the URLs of changed pages.
fn print_urls<'p>(address: SocketAddr, site: &str, paths: impl ExactSizeIterator<Item = &'p String>) {
    let more = paths.len().saturating_sub(URLS_SHOWN_MAX);
    for path in paths.take(URLS_SHOWN_MAX) {
        let mut route = Vec::new();
        for (number, segment) in path.split('/').enumerate() {
            if number > 0 {
                route.push(b'/');
            }
            percent::encode(&mut route, segment);
        }
        let route = String::from_utf8_lossy(&route);
        print_text(&format!("  http://{address}/v1/resolve?site={site}&route={route}"));
    }
    if more > 0 {
        print_text(&format!("  and {more} more"));
    }
}

fn print_text(text: &str) {
    // Ignore the error: the server also runs if nobody reads its output.
    let _ = print_line(text);
}

fn print_error(text: &str) {
    // Ignore the error: if standard error is closed, nobody can read the message.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A directory that only this user can read. It is deleted when the value is dropped.
struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    fn create() -> Result<Self, CliError> {
        let suffix = ids::hex_u64(ids::random_u64());
        let path = std::env::temp_dir().join(format!("parallax-dev-{}", String::from_utf8_lossy(&suffix)));
        let failed = |error| CliError::System(format!("cannot create {}: {error}", path.display()));
        DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // A file that stays is no error of the site. The system deletes it with the other temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}
