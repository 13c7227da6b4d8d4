//! The names in `snapshots/` and the last whole and valid content of each; which of them are served.
//!
//! Damage does not take a content away; a valid replacement or a removal does. Of all contents of
//! a site the highest version is served, of equal versions the one with the greater hash. Of two
//! sites with one tracking ID the one that is served already stays, at the beginning the one with
//! the lesser site ID. Names, times and restarts never matter otherwise.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::super::snapshot::open::{Budget, Refusal, Snapshot};
use super::catalog::{Catalog, Current};
use super::versions::Versions;
use crate::limits::{COMPLAINTS_LOGGED_MAX, SITES_REMEMBERED_MAX, SNAPSHOT_NAMES_MAX, VERSIONS_BYTES_MAX};
use crate::metrics::Publishing;
use crate::storage::{self, Stamp};

/// All that is known of the folder.
pub struct Shelf {
    budget: Budget,
    names: BTreeMap<OsString, Name>,
    /// What is served, by site ID.
    served: BTreeMap<String, Arc<Snapshot>>,
    /// By site ID; kept while a site is unpublished, too.
    versions: BTreeMap<String, Versions>,
    /// What was wrong at the last scan, so that each complaint is logged once.
    complaints: BTreeSet<String>,
    publishing: Publishing,
}

#[derive(Default)]
struct Name {
    /// Of the content that was looked at last; None: look again.
    stamp: Option<Stamp>,
    kept: Option<Arc<Snapshot>>,
    refusal: Option<String>,
    /// A file that was not whole when looked at: perhaps it still grows.
    growing: Option<Stamp>,
}

impl Shelf {
    /// An empty shelf.
    pub fn new(budget: Budget) -> Self {
        let (names, served, versions) = Default::default();
        Self {
            budget,
            names,
            served,
            versions,
            complaints: BTreeSet::new(),
            publishing: Publishing::default(),
        }
    }

    /// Looks at the folder and serves what is there; `touched` names are read whatever their stamps say.
    ///
    /// # Errors
    /// The folder cannot be read; what is served stays.
    pub fn scan(&mut self, folder: &Path, touched: &HashSet<OsString>, current: &Current) -> io::Result<()> {
        let present = self.present(folder, touched)?;
        self.names.retain(|name, _| present.contains(name));
        let (mut complaints, mut surplus) = (BTreeSet::new(), 0_usize);
        for name in present {
            if self.names.len() >= SNAPSHOT_NAMES_MAX && !self.names.contains_key(&name) {
                surplus += 1;
                continue;
            }
            let known = self.names.entry(name.clone()).or_default();
            if touched.contains(&name) {
                known.stamp = None;
            }
            known.look(&folder.join(&name), &self.budget);
            if let Some(refusal) = &known.refusal {
                complaints.insert(format!("{}: {refusal}", name.display()));
            }
        }
        if surplus > 0 {
            complaints
                .insert(format!("{surplus} names are more than {SNAPSHOT_NAMES_MAX}, and not looked at"));
        }
        // A site that moves to another tracking ID frees the one it had for those that wait for it, so this is
        // repeated; it ends, since no site ever falls back to a lesser content.
        loop {
            let mut told = complaints.clone();
            let chosen = self.choose(&mut told);
            if !self.serve(chosen, current) {
                self.complain(told);
                return Ok(());
            }
        }
    }

    /// The names in the folder. A listing may leave out what is renamed while it is made (readdir(3)), as tmpfs
    /// does: each that was there or that was heard of is asked for before it is taken to be gone, and what is gone
    /// may have another name, which a second listing finds.
    fn present(&self, folder: &Path, touched: &HashSet<OsString>) -> io::Result<BTreeSet<OsString>> {
        let mut present = names(folder)?;
        let heard_of = touched.iter().filter(|name| counts(name) && !self.names.contains_key(*name));
        let left_out = self.names.keys().chain(heard_of).filter(|name| !present.contains(*name));
        let (there, gone): (Vec<_>, Vec<_>) =
            left_out.cloned().partition(|name| is_there(&folder.join(name)));
        if !gone.is_empty() {
            present.extend(names(folder)?);
        }
        present.extend(there);
        Ok(present)
    }

    /// What becomes of the files, for who wants to tell.
    pub fn publishing(&self) -> Publishing {
        self.publishing.clone()
    }

    /// Has the next scan read every content again, whatever its stamp says.
    pub fn forget_stamps(&mut self) {
        self.names.values_mut().for_each(|name| name.stamp = None);
    }

    /// Whether a file seems to be still on its way, so that the next scan should come soon.
    pub fn is_waiting(&self) -> bool {
        self.names.values().any(|name| name.growing.is_some() && name.refusal.is_none())
    }

    /// What was wrong at the last scan.
    pub fn complaints(&self) -> impl Iterator<Item = &str> {
        self.complaints.iter().map(String::as_str)
    }

    /// Of each site the best content whose tracking ID is not another site's.
    fn choose(&self, complaints: &mut BTreeSet<String>) -> BTreeMap<String, Arc<Snapshot>> {
        let mut contents: BTreeMap<&str, Vec<(&OsString, &Arc<Snapshot>)>> = BTreeMap::new();
        for (name, snapshot) in self.names.iter().filter_map(|(n, k)| Some((n, k.kept.as_ref()?))) {
            contents.entry(&snapshot.site().site).or_default().push((name, snapshot));
        }
        let mut holders: BTreeMap<&str, &str> = BTreeMap::new();
        for (site, snapshot) in self.served.iter().filter(|(site, _)| contents.contains_key(site.as_str())) {
            holders.insert(&snapshot.site().tracking_id, site);
        }
        let mut chosen = BTreeMap::new();
        for (site, mut contents) in contents {
            contents.sort_by_key(|(_, snapshot)| Reverse(rank(snapshot)));
            for (i, (name, snapshot)) in contents.iter().enumerate() {
                let tracking_id = snapshot.site().tracking_id.as_str();
                let holder = *holders.entry(tracking_id).or_insert(site);
                if holder == site {
                    warn_of_rivals(&contents[i..], complaints);
                    chosen.insert(site.to_owned(), Arc::clone(snapshot));
                    break;
                }
                complaints.insert(format!(
                    "{}: site {site} has the tracking ID {tracking_id} of site {holder}, which is served already",
                    name.display(),
                ));
            }
        }
        chosen
    }

    /// Forgets the oldest versions of the sites that hold most, until all together have their bound.
    fn forget_versions(&mut self) {
        let mut bytes: usize = self.versions.values().map(Versions::bytes).sum();
        while bytes > VERSIONS_BYTES_MAX {
            let Some(most) = self.versions.values_mut().max_by_key(|versions| versions.bytes()) else {
                return;
            };
            bytes -= most.forget_oldest();
        }
    }

    fn complain(&mut self, complaints: BTreeSet<String>) {
        let new: Vec<_> = complaints.difference(&self.complaints).collect();
        for complaint in new.iter().take(COMPLAINTS_LOGGED_MAX) {
            tracing::warn!("{complaint}");
        }
        if let Some(more) = new.len().checked_sub(COMPLAINTS_LOGGED_MAX).filter(|n| *n > 0) {
            tracing::warn!("and {more} more files in the snapshots folder are refused");
        }
        self.publishing.refused(new.len(), complaints.len());
        self.complaints = complaints;
    }

    /// Serves `chosen`; whether that is anything new.
    fn serve(&mut self, chosen: BTreeMap<String, Arc<Snapshot>>, current: &Current) -> bool {
        let is_same = chosen.len() == self.served.len()
            && chosen
                .iter()
                .all(|(site, new)| self.served.get(site).is_some_and(|old| Arc::ptr_eq(old, new)));
        if is_same {
            return false;
        }
        for (site, snapshot) in &chosen {
            let versions = self.versions.entry(site.clone()).or_default();
            *versions = versions.and(snapshot);
            self.forget_versions();
        }
        let catalog = chosen.iter().map(|(site, snapshot)| {
            (Arc::clone(snapshot), self.versions.get(site).cloned().unwrap_or_default())
        });
        current.swap(Catalog::new(catalog));
        for (site, snapshot) in &chosen {
            if self.served.get(site).is_none_or(|old| old.hash() != snapshot.hash()) {
                self.publishing.published();
                tracing::info!(
                    site,
                    version = snapshot.version(),
                    routes = snapshot.site().routes.len(),
                    "published"
                );
            }
        }
        for site in self.served.keys().filter(|site| !chosen.contains_key(*site)) {
            tracing::info!(site, "unpublished");
        }
        self.served = chosen;
        if self.versions.len() > SITES_REMEMBERED_MAX {
            self.versions.retain(|site, _| self.served.contains_key(site));
        }
        true
    }
}

/// Says of the first of a site's `contents`, which is served, which others claim to be its version.
fn warn_of_rivals(contents: &[(&OsString, &Arc<Snapshot>)], complaints: &mut BTreeSet<String>) {
    let (name, served) = contents[0];
    let (site, version) = (&served.site().site, served.version());
    let rivals = contents.iter().take_while(|(_, other)| other.version() == version);
    for (other, _) in rivals.filter(|(_, other)| other.hash() != served.hash()) {
        complaints.insert(format!(
            "{} and {} are different contents of site {site} with one version {version}: the first is served, its hash is the greater",
            name.display(),
            other.display(),
        ));
    }
}

fn rank(snapshot: &Snapshot) -> (u64, [u8; 32]) {
    (snapshot.version(), snapshot.hash())
}

impl Name {
    fn look(&mut self, path: &Path, budget: &Budget) {
        let stamp = match storage::stamp_of(path) {
            Ok(stamp) => stamp,
            // A link that leads nowhere, or a file that went since it was listed.
            Err(error) => {
                self.stamp = None;
                return self.refuse(format!("it cannot be looked at: {error}"));
            }
        };
        if self.stamp == Some(stamp) {
            return;
        }
        let opened = storage::open_regular(path)
            .map_err(Refusal::from)
            .and_then(|(mut file, opened)| Snapshot::open_file(&mut file, opened.length, budget));
        let grows = self.growing.take() != Some(stamp);
        self.stamp = Some(stamp);
        match opened {
            Ok(snapshot) => {
                self.refusal = None;
                let is_known = self.kept.as_ref().is_some_and(|kept| kept.hash() == snapshot.hash());
                if !is_known {
                    self.kept = Some(Arc::new(snapshot));
                }
            }
            Err(Refusal::NotWhole { .. }) if grows => {
                self.growing = Some(stamp);
                self.stamp = None;
            }
            // Beside itself it has no room, and needs none.
            Err(Refusal::NoRoom { .. })
                if self.kept.as_ref().is_some_and(|kept| kept.is_announced_by(path)) =>
            {
                self.refusal = None;
            }
            Err(refusal) => {
                if matches!(refusal, Refusal::NoRoom { .. } | Refusal::Unreadable(_)) {
                    // Not the content's fault: it is tried again at every scan.
                    self.stamp = None;
                }
                self.refuse(refusal.to_string());
            }
        }
    }

    fn refuse(&mut self, refusal: String) {
        self.refusal = Some(refusal);
    }
}

/// The names in `folder` that count.
///
/// # Errors
/// The folder cannot be read.
pub fn names(folder: &Path) -> io::Result<BTreeSet<OsString>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
    names.filter(|name| name.as_ref().map_or(true, |name| counts(name))).collect()
}

/// Whether a name counts: it ends in `.snapshot` and does not begin with a dot.
fn counts(name: &OsStr) -> bool {
    name.as_bytes().ends_with(b".snapshot") && !name.as_bytes().starts_with(b".")
}

/// Whether something has this path; where the system does not tell, what is served stays.
fn is_there(path: &Path) -> bool {
    !fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
