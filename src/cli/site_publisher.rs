//! The versions of a site directory that is being edited: compiles each change, and prints the differences.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::other_version::open_compiled;
use super::site_directory::{CompiledDirectory, Target, compile_files, counted, present_ms, print_warnings};
use super::{CliError, print_line};
use crate::site::comparison::compare;
use crate::site::compile::CompiledSite;
use crate::site::snapshot::open::Snapshot;
use crate::site::source::files::Files;
use crate::{clock, console, local_files, percent};

/// Number of changed pages whose URLs are printed. The others are printed as a count.
const URLS_SHOWN_MAX: usize = 10;

/// Files that are compiled, and not published yet.
pub(super) struct Attempt {
    begun: clock::Instant,
    files: Files,
    compiled: Result<CompiledDirectory, CliError>,
}

/// A site directory that is being edited, and its last version without errors.
#[derive(Default)]
pub(super) struct SitePublisher {
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
    pub(super) fn new(directory: PathBuf, snapshot_path: PathBuf) -> Self {
        Self { directory, snapshot: snapshot_path, ..Self::default() }
    }

    /// Returns the site directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Sets the address of the started server, and prints the URLs of the first version.
    pub(super) fn set_address(&mut self, address: SocketAddr) {
        self.address = Some(address);
        print_urls(address, &self.site, self.routes.keys());
    }

    /// Publishes the files of the directory if they differ from those read last.
    pub(super) fn read_and_publish(&mut self) {
        match self.read_changed() {
            Ok(None) => {}
            Ok(Some(files)) => self.publish(files),
            Err(error) => self.note_error(format!("parallax: {error}")),
        }
    }

    /// Reads the directory. Returns its files if they differ from those read last.
    pub(super) fn read_changed(&mut self) -> io::Result<Option<Files>> {
        let files = Files::from_directory(&self.directory)?;
        if files == self.files {
            self.last_error = None;
            return Ok(None);
        }
        Ok(Some(files))
    }

    /// Compiles the files. Publishes them, or prints their diagnostics.
    pub(super) fn publish(&mut self, files: Files) {
        let attempt = self.compile(files);
        self.finish(attempt);
    }

    /// Compiles the files for the next version.
    pub(super) fn compile(&self, files: Files) -> Attempt {
        let begun = clock::instant();
        let version = clock::now_s().max(self.version + 1);
        Attempt { begun, compiled: compile_files(&files, Target::default(), |_| Ok(version)), files }
    }

    /// Publishes compiled files, or prints their diagnostics.
    pub(super) fn finish(&mut self, attempt: Attempt) {
        let Attempt { begun, compiled, files } = attempt;
        match compiled {
            Ok(directory) => {
                if let Err(error) = local_files::write_atomic(&self.snapshot, &directory.compiled.bytes) {
                    // The next look at the directory tries again.
                    let path = self.snapshot.display();
                    return self.note_error(format!("parallax: cannot write {path}: {error}"));
                }
                print_warnings(&directory.compiled.warnings, &files);
                self.report(directory, clock::instant().duration_since(begun));
            }
            Err(CliError::Source(report)) if self.version == 0 => console::write_error_line(&report),
            Err(CliError::Source(report)) => {
                console::write_error_line(&format!("{report}; still serving version {}", self.version));
            }
            Err(error) => console::write_error_line(&error.into_exit().1),
        }
        self.files = files;
        self.last_error = None;
    }

    /// Prints an error, unless it is the last one again.
    pub(super) fn note_error(&mut self, text: String) {
        let text = format!("{text}; still serving version {}", self.version);
        if self.last_error.as_ref() != Some(&text) {
            console::write_error_line(&text);
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
