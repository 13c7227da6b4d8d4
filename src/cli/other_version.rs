//! Another version of a site, with which a command compares a site directory: a snapshot, the served one of a snapshots directory,
//! or the directory of a site.

use std::path::{Path, PathBuf};

use super::CliError;
use super::inspect_snapshot::open_snapshot;
use super::site_directory::{Target, compile_files, print_warning, read_files};
use super::snapshot_list::{list_snapshots, of_site};
use crate::local_files;
use crate::site::catalog::snapshot_names::list_snapshot_names;
use crate::site::snapshot::format::ArchivedSite;
use crate::site::snapshot::open::{Snapshot, SnapshotBudget, SnapshotError};

/// Another version of a site.
pub(super) struct OtherVersion {
    /// The path as the user wrote it.
    pub(super) path: PathBuf,
    /// `None` if a snapshots directory does not have the site.
    snapshot: Option<Snapshot>,
    /// True if the version is the directory of a site, which has no number yet.
    is_source: bool,
}

impl OtherVersion {
    /// Reads the version of the site with this ID at a path.
    ///
    /// # Errors
    /// The path has no version that a server would serve, or that of another site.
    pub(super) fn read(path: &Path, id: &str) -> Result<Self, CliError> {
        let is_source = local_files::exists(&path.join("site.json"));
        let snapshot = if is_source {
            Some(compile_directory(path)?)
        } else if local_files::is_directory(path) {
            find_served(path, id)?
        } else {
            Some(open(path)?)
        };
        if let Some(snapshot) = &snapshot {
            check_id(path, snapshot.site().site.get(), id)?;
        }
        Ok(Self { path: path.to_owned(), snapshot, is_source })
    }

    /// Returns the site, if there is one.
    pub(super) fn site(&self) -> Option<&ArchivedSite> {
        self.snapshot.as_ref().map(Snapshot::site)
    }

    /// Returns the snapshot, if there is one.
    pub(super) fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// Returns the number of the version, if it has one.
    pub(super) fn version(&self) -> Option<u64> {
        self.snapshot.as_ref().filter(|_| !self.is_source).map(Snapshot::version)
    }

    /// Returns the line above a comparison with the site of this ID.
    pub(super) fn describe(&self, id: &str) -> String {
        let path = self.path.display();
        match self.version() {
            Some(version) => format!("against {path}, version {version} of site {id}:"),
            None if self.is_source => format!("against {path}:"),
            None => format!("against {path}, which has no version of site {id}:"),
        }
    }
}

fn check_id(path: &Path, actual_id: &str, id: &str) -> Result<(), CliError> {
    if actual_id == id {
        return Ok(());
    }
    let path = path.display();
    let text = format!("{path} has site {actual_id}, not site {id}; compare two versions of one site");
    Err(CliError::Input(text))
}

fn open(path: &Path) -> Result<Snapshot, CliError> {
    open_snapshot(path).map_err(|error| match error {
        SnapshotError::Unreadable(error) => {
            let path = path.display();
            CliError::Input(format!(
                "cannot read {path}: {error}; name a snapshot, a snapshots directory or the directory of a site"
            ))
        }
        error => CliError::Input(format!("{}: {error}", path.display())),
    })
}

/// Compiles the directory of a site.
fn compile_directory(path: &Path) -> Result<Snapshot, CliError> {
    let files = read_files(path)?;
    let directory = compile_files(&files, Target::default(), |_| Ok(0)).map_err(|error| match error {
        CliError::Source(report) => {
            let path = path.display();
            CliError::Source(format!(
                "{report}\nerror: these errors are in {path}, so there is nothing to compare with"
            ))
        }
        error => error,
    })?;
    open_compiled(&directory.compiled.bytes)
}

/// Opens a compiled site that is in no file.
pub(super) fn open_compiled(bytes: &[u8]) -> Result<Snapshot, CliError> {
    let opened = Snapshot::open_bytes(bytes, &SnapshotBudget::new(u64::MAX));
    opened.map_err(|error| CliError::System(format!("cannot open the compiled site: {error}")))
}

/// Returns the snapshot of a site that a server of this directory serves. Prints a warning for each file that it does not read.
/// `None` if the directory has other sites only.
fn find_served(directory: &Path, id: &str) -> Result<Option<Snapshot>, CliError> {
    let failed = |error| CliError::System(format!("cannot read {}: {error}", directory.display()));
    if list_snapshot_names(directory).map_err(failed)?.is_empty() {
        let directory = directory.display();
        let text = format!(
            "{directory} has neither site.json nor a snapshot; name a snapshot, a snapshots directory or the directory of a site"
        );
        return Err(CliError::Input(text));
    }
    let files = list_snapshots(directory).map_err(failed)?;
    let refused = files.iter().filter_map(|file| Some((&file.path, file.content.as_ref().err()?)));
    let refused: Vec<String> =
        refused.map(|(path, reason)| format!("{}: {reason}", path.display())).collect();
    let served = of_site(&files, id).into_iter().find(|file| file.content.is_ok());
    match served {
        // A refused file may have the site.
        None if !refused.is_empty() => Err(CliError::Input(refused.join("; "))),
        served => {
            refused.iter().for_each(|line| print_warning(line));
            served.map(|file| open(&file.path)).transpose()
        }
    }
}
