//! The snapshots directory: tracks the files in `snapshots/`, keeps the last valid snapshot of each name, and
//! selects the one to serve per site.
//!
//! A damaged file does not replace a valid snapshot. Only a valid file or a removal does. For each site the
//! snapshot with the highest version is served, and of equal versions the one with the greater hash. If two
//! sites have the same tracking ID, the one that is already served keeps it. At startup the one with the
//! lesser site ID gets it. File names, file times and restarts have no other influence.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::super::snapshot::open::{Snapshot, SnapshotBudget};
use super::accepted::AcceptedTrackingIds;
use super::catalog::{Catalog, CurrentCatalog};
use super::files::{CurrentFiles, FILES_LISTED_MAX, FileList, FileState, FileStatus};
use super::phases::Phases;
use super::snapshot_file::SnapshotFile;
use super::snapshot_names::{is_snapshot_name, list_snapshot_names};
use super::state_file::StateFile;
use super::versions::{SiteVersions, Versions};
use super::{phases_file, versions_file};
use crate::clock;
use crate::limits::{SNAPSHOT_NAMES_MAX, VERSIONS_BYTES_MAX};
use crate::metrics::PublishCounters;

/// Number of sites whose last versions are kept, unpublished sites included. Beyond it the versions of
/// unpublished sites are dropped. If such a site comes back, `since` does not know its versions.
const SITES_REMEMBERED_MAX: usize = 1_000;

/// Number of rejected files in `snapshots/` that one scan logs line by line. The others are logged as a
/// count.
const REJECTIONS_LOGGED_MAX: usize = 20;

/// Name of the file that lists the pulled snapshots of a directory, one name in a line.
pub(crate) const PULLED_NAME: &str = ".pulled";

/// The state of the snapshots directory.
pub struct SnapshotDirectory {
    budget: SnapshotBudget,
    accepted: AcceptedTrackingIds,
    /// Memory limit of `versions`, in bytes.
    versions_bytes_max: usize,
    files: BTreeMap<OsString, SnapshotFile>,
    /// The served snapshots, by site ID.
    served: BTreeMap<String, Arc<Snapshot>>,
    /// By site ID. Unpublished sites keep their entry.
    versions: SiteVersions,
    /// True if `versions` differ from those in the data directory.
    has_unsaved_versions: bool,
    /// The phases of experiments, also of unpublished sites.
    phases: Arc<Phases>,
    /// True if `phases` differ from those in the data directory.
    has_unsaved_phases: bool,
    /// The rejections of the last scan. Used to log each one once.
    rejections: BTreeSet<String>,
    /// The lines about the superseded files of the last scan. Used to log each one once.
    superseded: BTreeSet<String>,
    list: CurrentFiles,
    metrics: PublishCounters,
}

/// The faults that a selection finds.
#[derive(Default, Clone)]
struct Faults {
    /// The lines for the server log.
    lines: BTreeSet<String>,
    /// The reason of each valid file that is refused.
    reasons: BTreeMap<OsString, String>,
}

/// The files of the data directory that depend on publications.
pub(crate) struct StateFiles {
    /// The file `versions`.
    pub versions: StateFile,
    /// The file `phases`.
    pub phases: StateFile,
}

impl StateFiles {
    /// Returns the files of a data directory.
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            versions: StateFile::new(&versions_file::VERSIONS_FILE, directory),
            phases: StateFile::new(&phases_file::PHASES_FILE, directory),
        }
    }
}

impl SnapshotDirectory {
    /// Creates the state of an empty directory.
    pub fn new(budget: SnapshotBudget) -> Self {
        let (files, served, versions, phases) = Default::default();
        Self {
            budget,
            accepted: AcceptedTrackingIds::default(),
            versions_bytes_max: VERSIONS_BYTES_MAX,
            files,
            served,
            versions,
            has_unsaved_versions: false,
            phases,
            has_unsaved_phases: false,
            rejections: BTreeSet::new(),
            superseded: BTreeSet::new(),
            list: CurrentFiles::default(),
            metrics: PublishCounters::default(),
        }
    }

    /// Limits the directory to these tracking IDs. Without this call all of them are served.
    pub fn with_accepted(self, accepted: AcceptedTrackingIds) -> Self {
        Self { accepted, ..self }
    }

    /// Adds the versions that earlier processes served. From now on the lists of all sites together take at most
    /// `bytes_max`.
    pub(crate) fn with_versions(self, versions: SiteVersions, bytes_max: usize) -> Self {
        let mut directory = Self { versions, versions_bytes_max: bytes_max, ..self };
        directory.trim_versions();
        directory
    }

    /// Adds the phases of experiments that earlier processes served.
    pub(crate) fn with_phases(self, phases: Phases) -> Self {
        Self { phases: Arc::new(phases), ..self }
    }

    /// Saves the versions and the phases if they have changed. The next call tries again if that fails.
    pub(crate) fn save_state(&mut self, files: &mut StateFiles) {
        self.has_unsaved_versions =
            self.has_unsaved_versions && !files.versions.save(|| versions_file::encode(&self.versions));
        self.has_unsaved_phases =
            self.has_unsaved_phases && !files.phases.save(|| phases_file::encode(&self.phases));
    }

    /// Scans the directory and updates the served catalog. Reads `touched_names` files again even if their stamps
    /// are the same.
    ///
    /// # Errors
    /// The directory cannot be read. The served catalog stays as it is.
    pub fn scan(
        &mut self,
        dir: &Path,
        touched_names: &HashSet<OsString>,
        current_catalog: &CurrentCatalog,
    ) -> io::Result<()> {
        let present = self.list_present(dir, touched_names)?;
        self.files.retain(|name, _| present.contains(name));
        let mut faults = Faults::default();
        let mut surplus = 0_usize;
        for name in present {
            if self.files.len() >= SNAPSHOT_NAMES_MAX && !self.files.contains_key(&name) {
                surplus += 1;
                continue;
            }
            let known = self.files.entry(name.clone()).or_default();
            if touched_names.contains(&name) {
                known.stamp = None;
            }
            known.refresh(&dir.join(&name), &self.budget, &self.accepted);
            if let Some(refusal) = &known.rejection {
                faults.lines.insert(format!("{}: {refusal}", name.display()));
            }
        }
        if surplus > 0 {
            faults.lines.insert(format!(
                "{surplus} files are ignored: the limit is {SNAPSHOT_NAMES_MAX} snapshot files"
            ));
        }
        // A site that changes its tracking ID frees the old one for sites that wait for it, so the selection
        // is repeated. The loop ends, because no site ever falls back to a lower snapshot.
        loop {
            let mut found = faults.clone();
            let chosen = self.select(&mut found);
            if !self.activate(chosen, current_catalog) {
                self.list.set(self.list_files(&found.reasons));
                self.log_rejections(found.lines);
                self.log_superseded();
                return Ok(());
            }
        }
    }

    /// Lists the snapshot files in the directory. A listing may miss a file that is renamed meanwhile
    /// (readdir(3)), as on tmpfs. So each missing name that is tracked or was in an event is checked before
    /// it counts as gone. If one is gone, it may have a new name, so the directory is listed a second time.
    fn list_present(&self, dir: &Path, touched_names: &HashSet<OsString>) -> io::Result<BTreeSet<OsString>> {
        let mut present = list_snapshot_names(dir)?;
        let heard_of =
            touched_names.iter().filter(|name| is_snapshot_name(name) && !self.files.contains_key(*name));
        let left_out = self.files.keys().chain(heard_of).filter(|name| !present.contains(*name));
        let (there, gone): (Vec<_>, Vec<_>) = left_out.cloned().partition(|name| may_exist(&dir.join(name)));
        if !gone.is_empty() {
            present.extend(list_snapshot_names(dir)?);
        }
        present.extend(there);
        Ok(present)
    }

    /// Returns the counters of published and rejected files.
    pub fn metrics(&self) -> PublishCounters {
        self.metrics.clone()
    }

    /// Returns the files with their states, as of the last scan.
    pub fn files(&self) -> CurrentFiles {
        self.list.clone()
    }

    /// Makes the next scan read every file again, even if its stamp is the same.
    pub fn invalidate_stamps(&mut self) {
        self.files.values_mut().for_each(|name| name.stamp = None);
    }

    /// Returns whether a file is still incomplete, so that the next scan should come soon.
    pub fn has_incomplete_files(&self) -> bool {
        self.files.values().any(|name| name.incomplete.is_some() && name.rejection.is_none())
    }

    /// Returns the rejections of the last scan.
    pub fn rejections(&self) -> impl Iterator<Item = &str> {
        self.rejections.iter().map(String::as_str)
    }

    /// Selects for each site the best snapshot whose tracking ID no other site holds.
    fn select(&self, faults: &mut Faults) -> BTreeMap<String, Arc<Snapshot>> {
        let mut contents: BTreeMap<&str, Vec<(&OsString, &Arc<Snapshot>)>> = BTreeMap::new();
        for (name, snapshot) in self.files.iter().filter_map(|(n, k)| Some((n, k.last_valid.as_ref()?))) {
            contents.entry(&snapshot.site().site).or_default().push((name, snapshot));
        }
        let mut holders: BTreeMap<&str, &str> = BTreeMap::new();
        for (site, snapshot) in self.served.iter().filter(|(site, _)| contents.contains_key(site.as_str())) {
            holders.insert(&snapshot.site().tracking_id, site);
        }
        let mut chosen = BTreeMap::new();
        for (site, mut contents) in contents {
            contents.sort_by_key(|(_, snapshot)| Reverse(precedence(snapshot)));
            for (i, (name, snapshot)) in contents.iter().enumerate() {
                let tracking_id = snapshot.site().tracking_id.as_str();
                let holder = *holders.entry(tracking_id).or_insert(site);
                if holder == site {
                    report_version_conflicts(&contents[i..], faults);
                    chosen.insert(site.to_owned(), Arc::clone(snapshot));
                    break;
                }
                let reason = format!(
                    "site {site} has tracking ID {tracking_id}, which belongs to site {holder}; change one of them"
                );
                faults.lines.insert(format!("{}: {reason}", name.display()));
                faults.reasons.insert((*name).clone(), reason);
            }
        }
        chosen
    }

    /// Drops the oldest versions of the sites with the largest lists until all lists together fit their
    /// limit.
    fn trim_versions(&mut self) {
        let mut bytes: usize = self.versions.values().map(Versions::memory_bytes).sum();
        while bytes > self.versions_bytes_max {
            let Some(most) = self.versions.values_mut().max_by_key(|versions| versions.memory_bytes()) else {
                return;
            };
            bytes -= most.forget_oldest();
        }
    }

    /// Logs the files that are not served because a file of their site has a higher version, each once.
    fn log_superseded(&mut self) {
        let mut superseded = BTreeSet::new();
        for (name, snapshot) in self.files.iter().filter_map(|(n, k)| Some((n, k.last_valid.as_ref()?))) {
            let served = self.served.get(snapshot.site().site.get());
            if served.is_some_and(|served| served.version() > snapshot.version()) {
                let version = snapshot.version();
                let site = &snapshot.site().site;
                superseded.insert(format!(
                    "{}: version {version} of site {site} is not served, because a file with a higher version is; to serve it, publish it with a higher version or delete the other file",
                    name.display(),
                ));
            }
        }
        let new: Vec<_> = superseded.difference(&self.superseded).collect();
        for line in new.iter().take(REJECTIONS_LOGGED_MAX) {
            tracing::info!("{line}");
        }
        if let Some(more) = new.len().checked_sub(REJECTIONS_LOGGED_MAX).filter(|n| *n > 0) {
            tracing::info!(count = more, "more snapshot files have a lower version than the served one");
        }
        self.metrics.set_superseded(superseded.len());
        self.superseded = superseded;
    }

    fn log_rejections(&mut self, rejections: BTreeSet<String>) {
        let new: Vec<_> = rejections.difference(&self.rejections).collect();
        for complaint in new.iter().take(REJECTIONS_LOGGED_MAX) {
            tracing::warn!("{complaint}");
        }
        if let Some(more) = new.len().checked_sub(REJECTIONS_LOGGED_MAX).filter(|n| *n > 0) {
            tracing::warn!(count = more, "rejected more snapshot files");
        }
        self.metrics.record_rejections(new.len(), rejections.len());
        self.rejections = rejections;
    }

    /// Serves the snapshots in `snapshots`. Returns whether they differ from the served ones.
    fn activate(&mut self, snapshots: BTreeMap<String, Arc<Snapshot>>, current: &CurrentCatalog) -> bool {
        let is_same = snapshots.len() == self.served.len()
            && snapshots
                .iter()
                .all(|(site, new)| self.served.get(site).is_some_and(|old| Arc::ptr_eq(old, new)));
        if is_same {
            return false;
        }
        let now_ms = clock::now_ms();
        for (site, snapshot) in &snapshots {
            let versions = self.versions.entry(site.clone()).or_default();
            if !versions.ends_with(snapshot) {
                *versions = versions.with_snapshot(snapshot);
                self.has_unsaved_versions = true;
            }
            self.has_unsaved_versions |= versions.begin_serving(snapshot, now_ms);
            self.trim_versions();
        }
        self.observe_phases(&snapshots);
        let sites = snapshots.iter().map(|(site, snapshot)| {
            (Arc::clone(snapshot), self.versions.get(site).cloned().unwrap_or_default())
        });
        current.swap(Catalog::new(sites).with_phases(Arc::clone(&self.phases)));
        for (site, snapshot) in &snapshots {
            if self.served.get(site).is_none_or(|old| old.hash() != snapshot.hash()) {
                self.metrics.record_activation();
                tracing::info!(
                    site,
                    version = snapshot.version(),
                    routes = snapshot.site().routes.len(),
                    "published site"
                );
            }
        }
        for site in self.served.keys().filter(|site| !snapshots.contains_key(*site)) {
            tracing::info!(site, "unpublished site");
        }
        self.served = snapshots;
        if self.versions.len() > SITES_REMEMBERED_MAX {
            self.versions.retain(|site, _| self.served.contains_key(site));
        }
        true
    }

    /// Lists the files with their states. `reasons` has those of valid files.
    fn list_files(&self, reasons: &BTreeMap<OsString, String>) -> FileList {
        let mut files: Vec<_> =
            self.files.iter().map(|(name, file)| (self.state_of(name, file, reasons), name, file)).collect();
        files.sort_by_key(|(state, name, _)| (*state, *name));
        let more = files.len().saturating_sub(FILES_LISTED_MAX);
        files.truncate(FILES_LISTED_MAX);
        let status = |(state, name, file): (FileState, &OsString, &SnapshotFile)| {
            let is_shown = file.rejection.is_none() || state == FileState::Served;
            let snapshot = file.last_valid.as_ref().filter(|_| is_shown);
            FileStatus {
                name: name.display().to_string(),
                site: snapshot.map(|snapshot| (snapshot.site().site.to_string(), snapshot.version())),
                bytes: file.bytes,
                state,
                reason: file.refusal().or_else(|| reasons.get(name).map(String::as_str)).map(str::to_owned),
                snapshot: file.last_valid.clone().filter(|_| file.refusal().is_none()),
            }
        };
        let snapshots = self.files.values().filter_map(|file| file.last_valid.clone()).collect();
        FileList { files: files.into_iter().map(status).collect(), more, snapshots }
    }

    fn state_of(
        &self,
        name: &OsString,
        file: &SnapshotFile,
        reasons: &BTreeMap<OsString, String>,
    ) -> FileState {
        let is_served = |snapshot: &Arc<Snapshot>| {
            let served = self.served.get(snapshot.site().site.get());
            served.is_some_and(|served| served.hash() == snapshot.hash())
        };
        if file.last_valid.as_ref().is_some_and(is_served) {
            FileState::Served
        } else if file.refusal().is_some() || reasons.contains_key(name) {
            FileState::Refused
        } else {
            FileState::Superseded
        }
    }

    /// Begins phases for the experiments that are served next. No visitor has seen them before this time.
    fn observe_phases(&mut self, snapshots: &BTreeMap<String, Arc<Snapshot>>) {
        let mut phases = Phases::clone(&self.phases);
        phases.observe(snapshots.values().map(|snapshot| snapshot.site()), clock::now_ms());
        if phases != *self.phases {
            self.phases = Arc::new(phases);
            self.has_unsaved_phases = true;
        }
    }
}

/// Reports the snapshots that have the same version as the first of `snapshots`, which is served, and another
/// hash.
fn report_version_conflicts(snapshots: &[(&OsString, &Arc<Snapshot>)], faults: &mut Faults) {
    let (name, served) = snapshots[0];
    let site = &served.site().site;
    let version = served.version();
    let conflicts = snapshots.iter().take_while(|(_, other)| other.version() == version);
    for (other, _) in conflicts.filter(|(_, other)| other.hash() != served.hash()) {
        faults.lines.insert(format!(
            "{} and {} have different content for version {version} of site {site}; the first is served, because its hash is greater; publish with a higher version",
            name.display(),
            other.display(),
        ));
        let reason = format!(
            "{} has other content for version {version} of site {site} and is served, because its hash is greater; publish with a higher version",
            name.display(),
        );
        faults.reasons.insert((*other).clone(), reason);
    }
}

fn precedence(snapshot: &Snapshot) -> (u64, [u8; 32]) {
    (snapshot.version(), snapshot.hash())
}

/// Returns whether a file may exist at `path`. It is false only if the system says that there is none, so
/// that an unreadable directory unpublishes nothing.
fn may_exist(path: &Path) -> bool {
    !fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
