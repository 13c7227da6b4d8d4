//! The demo site, embedded in the binary, so that a copied binary can show its features without other files.

use std::io;
use std::path::Path;

use include_dir::{Dir, DirEntry, include_dir};

use crate::site::catalog::phases::Phases;
use crate::site::catalog::phases_file::{self, PHASES_FILE};
use crate::site::compile::compile;
use crate::site::snapshot::open::{Snapshot, SnapshotBudget};
use crate::site::source::files::Files;
use crate::site::source::read::read;
use crate::storage::disk::{Disk, RealDisk};
use crate::{clock, storage};

/// Days before the first publication of the demo site in which its experiments seem to have begun. The visits that
/// `demo-traffic` sends without `--days` begin within these days.
pub(super) const DEMO_DAYS: u32 = 60;

const DAY_MS: i64 = 86_400_000;

static DEMO_SITE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/snapshots/demo");

/// Compiles the demo site. Returns the name and the bytes of its snapshot.
///
/// # Panics
/// Panics if the demo site does not compile. A test ensures that it does.
pub fn compile_demo() -> (String, Vec<u8>) {
    let mut found = Vec::new();
    collect_files(&DEMO_SITE, &mut found);
    let (source, diagnostics) = read(&Files::from_memory(found), &|_, _| {});
    let site = source.site.as_ref().expect("the demo has a site.json");
    let version = site.version.unwrap_or(1);
    let name = format!("{}-{version}.snapshot", &*site.site);
    let bytes = compile(&source, diagnostics, version, &|_, _| {});
    (name, bytes.expect("the demo compiles").bytes)
}

/// Begins the phases of the demo's experiments [`DEMO_DAYS`] days ago, unless the data directory has phases.
/// So the visits of `demo-traffic` are within a phase, whose weights are known.
///
/// # Errors
/// An error, if the snapshot cannot be read or the file cannot be written.
pub(super) fn begin_phases(snapshot_path: &Path, data_directory: &Path) -> io::Result<()> {
    let path = data_directory.join(PHASES_FILE.name);
    if path.try_exists()? {
        return Ok(());
    }
    let snapshot = Snapshot::open(snapshot_path, &SnapshotBudget::new(u64::MAX)).map_err(io::Error::other)?;
    let mut phases = Phases::default();
    phases.observe(std::iter::once(snapshot.site()), clock::now_ms() - i64::from(DEMO_DAYS) * DAY_MS);
    RealDisk.create_directory(data_directory)?;
    storage::write_data_file(&path, &phases_file::encode(&phases))
}

fn collect_files(directory: &Dir<'static>, files: &mut Vec<(&'static str, &'static [u8])>) {
    for entry in directory.entries() {
        match entry {
            DirEntry::Dir(inner) => collect_files(inner, files),
            DirEntry::File(file) => files.extend(file.path().to_str().map(|path| (path, file.contents()))),
        }
    }
}
