//! `parallax dev`: serves a site directory, and compiles it again after each change.
//!
//! The server is that of `parallax serve`. A thread of its own watches the directory and publishes each version
//! without errors into the snapshots directory of the server. After an error the last version stays.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::site_directory::read_files;
use super::site_publisher::SitePublisher;
use super::{CliError, serve};
use crate::config::Config;
use crate::site::source::watcher::SourceWatcher;
use crate::{clock, ids, threads};

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
    let mut watcher = SourceWatcher::new(publisher.directory().to_owned());
    watcher.watch();
    publisher.publish(read_files(publisher.directory())?);
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
