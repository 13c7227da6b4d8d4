//! The snapshots in a directory, for the commands that publish and roll back.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::inspect_snapshot::open_snapshot;
use crate::site::catalog::snapshot_names::list_snapshot_names;

/// The ending of a snapshot's name.
const ENDING: &str = ".snapshot";

/// The identity of a snapshot that a server would serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SnapshotId {
    pub(super) site: String,
    pub(super) tracking_id: String,
    pub(super) version: u64,
    pub(super) hash: [u8; 32],
}

impl SnapshotId {
    /// Reads and verifies the snapshot at `path`.
    ///
    /// # Errors
    /// The reason why a server would not serve it.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let snapshot = open_snapshot(path).map_err(|error| error.to_string())?;
        let site = snapshot.site();
        Ok(Self {
            site: site.site.to_string(),
            tracking_id: site.tracking_id.to_string(),
            version: snapshot.version(),
            hash: snapshot.hash(),
        })
    }
}

/// A snapshot file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedSnapshot {
    pub(super) path: PathBuf,
    /// The content, or the reason why a server would not serve it.
    pub(super) content: Result<SnapshotId, String>,
}

impl ListedSnapshot {
    /// Returns the name of the file, for messages.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().display().to_string()
    }

    /// Returns the site and the version. Those of a damaged file are in its name, if `compile` has chosen it.
    pub(super) fn site_and_version(&self) -> Option<(&str, u64)> {
        match &self.content {
            Ok(id) => Some((&id.site, id.version)),
            Err(_) => parse_name(self.path.file_name()?.to_str()?),
        }
    }

    /// Returns the version, if the file belongs to the site.
    fn version_of(&self, site: &str) -> Option<u64> {
        self.site_and_version().filter(|found| found.0 == site).map(|found| found.1)
    }
}

/// Returns the name that `compile` gives the snapshot of a version.
pub(super) fn snapshot_name(site: &str, version: u64) -> String {
    format!("{site}-{version}{ENDING}")
}

/// Returns the site and the version in a name that [`snapshot_name`] returned.
pub(super) fn parse_name(name: &str) -> Option<(&str, u64)> {
    let (site, version) = name.strip_suffix(ENDING)?.rsplit_once('-')?;
    let number = version.parse().ok()?;
    (snapshot_name(site, number) == name).then_some((site, number))
}

/// Reads and verifies all snapshots of a directory. Returns them by name.
///
/// # Errors
/// The directory cannot be read.
pub(super) fn list_snapshots(directory: &Path) -> io::Result<Vec<ListedSnapshot>> {
    let paths = list_snapshot_names(directory)?.into_iter().map(|name| directory.join(name));
    Ok(paths.map(|path| ListedSnapshot { content: SnapshotId::read(&path), path }).collect())
}

/// Returns the snapshots of a site, highest version first, in the order in which a server prefers them.
pub(super) fn of_site<'l>(snapshots: &'l [ListedSnapshot], site: &str) -> Vec<&'l ListedSnapshot> {
    let mut files: Vec<_> =
        snapshots.iter().filter_map(|file| Some((file.version_of(site)?, file))).collect();
    let hash = |file: &ListedSnapshot| file.content.as_ref().ok().map(|content| content.hash);
    files.sort_by_key(|(version, file)| Reverse((*version, hash(file))));
    files.into_iter().map(|(_, file)| file).collect()
}

/// Returns the IDs of the sites that have a valid snapshot.
pub(super) fn site_ids(snapshots: &[ListedSnapshot]) -> BTreeSet<&str> {
    snapshots.iter().filter_map(|file| Some(file.content.as_ref().ok()?.site.as_str())).collect()
}
