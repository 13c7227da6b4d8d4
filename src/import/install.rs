//! The phases of an import, from the options to the new directory under its name.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use super::duplicates::find_duplicates;
use super::error::ImportError;
use super::inputs::{self, Input};
use super::progress::{ImportPaths, ImportSettings, Phase, Progress};
use super::read::read_inputs;
use super::write::write_segments;
use super::{ImportObserver, ImportOptions, ImportSummary};
use crate::log::{self, ErasureSummary, LogDirectory, LogId, scan_tombstones};
use crate::storage::directory_of;
use crate::storage::disk::{DirectoryLock, Disk, list_if_present};
use crate::visitors::restored_erasures;

/// Room on the disk that an import needs, in lengths of its inputs: runs, keys, and the new directory.
const INPUTS_ON_DISK: u64 = 3;

/// See [`super::import`].
pub(super) fn import(
    disk: &Arc<dyn Disk>,
    options: &ImportOptions,
    now_ms: i64,
    observer: &mut dyn ImportObserver,
) -> Result<ImportSummary, ImportError> {
    let target = &options.target;
    let paths = ImportPaths::of(target);
    let settings = ImportSettings::of(options);
    if let Some(summary) = finish_installed(disk, target, &paths, &settings)? {
        return Ok(summary);
    }
    require_replaceable(target)?;
    if !list_if_present(&**disk, target).map_err(ImportError::at(target))?.is_empty() {
        return Err(ImportError::NotEmpty { dir: target.clone() });
    }
    let inputs = inputs::open(disk, options)?;
    let _lock = lock_work(disk, &paths)?;
    let mut progress = match paths.load().map_err(ImportError::at(&paths.work))? {
        Some(progress) => {
            let stamps: Vec<_> = inputs.iter().map(|input| input.stamp.clone()).collect();
            if let Some(difference) = progress.difference(&stamps, &settings) {
                return Err(ImportError::Other { dir: paths.work, difference });
            }
            progress
        }
        None => begin(disk, &inputs, &paths, settings, now_ms)?,
    };
    let log_id = LogId::parse(&progress.log_id).ok_or_else(|| ImportError::Other {
        dir: paths.work.clone(),
        difference: "a damaged file `progress`".to_owned(),
    })?;
    if progress.phase == Phase::Read {
        read_inputs(disk, &inputs, &paths, &mut progress, options.sort_bytes, observer)?;
    }
    if progress.records.count == 0 {
        let refused = progress.read.refused;
        keep_refused(disk, target, &paths, &progress)?;
        paths.delete().map_err(ImportError::at(&paths.work))?;
        return Err(ImportError::Empty { dir: target.clone(), refused });
    }
    if progress.phase == Phase::Duplicates {
        let found = find_duplicates(&paths, &mut progress, options.sort_bytes, observer);
        found.map_err(ImportError::at(&paths.work))?;
    }
    if progress.phase == Phase::Write {
        write_segments(disk, &inputs, &paths, &mut progress, log_id, observer)?;
    }
    let erased = finish_erasures(disk, &paths, &progress, observer)?;
    progress.phase = Phase::Install;
    paths.save(&progress).map_err(ImportError::at(&paths.work))?;
    install(disk, target, &paths, &progress)?;
    Ok(ImportSummary { erased, ..summary_of(&paths, &progress, log_id) })
}

/// Refuses a target that the new directory cannot replace by its name.
fn require_replaceable(target: &Path) -> Result<(), ImportError> {
    let failed = ImportError::at(target);
    let metadata = match target.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.map_err(&failed)?,
    };
    let parent = directory_of(target).metadata().map_err(failed)?;
    if metadata.is_symlink() || metadata.dev() != parent.dev() {
        return Err(ImportError::NotReplaceable { dir: target.to_owned() });
    }
    Ok(())
}

/// Creates and locks the directory of the unfinished import.
fn lock_work(disk: &Arc<dyn Disk>, paths: &ImportPaths) -> Result<Box<dyn DirectoryLock>, ImportError> {
    let failed = ImportError::at(&paths.work);
    disk.create_directory(&paths.work).map_err(&failed)?;
    disk.lock(&paths.work).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => ImportError::Busy { dir: paths.work.clone() },
        _ => failed(error),
    })
}

/// Begins an import: checks the room on the disk, and gives the new directory its key and its ID.
fn begin(
    disk: &Arc<dyn Disk>,
    inputs: &[Input],
    paths: &ImportPaths,
    settings: ImportSettings,
    now_ms: i64,
) -> Result<Progress, ImportError> {
    let failed = ImportError::at(&paths.work);
    let input_bytes: u64 = inputs.iter().map(|input| input.stamp.bytes).sum();
    let needed_bytes = input_bytes.saturating_mul(INPUTS_ON_DISK);
    let free_bytes = disk.free_bytes(&paths.work).map_err(&failed)?;
    if free_bytes < needed_bytes {
        paths.delete().map_err(&failed)?;
        return Err(ImportError::NoSpace { dir: paths.work.clone(), free_bytes, needed_bytes });
    }
    let directory = LogDirectory::lock(Arc::clone(disk), &paths.data)?;
    // The key of the first directory, so that its digests stay valid.
    if let Some(key) = inputs.iter().find_map(Input::key) {
        directory.set_secret(key.bytes()).map_err(&failed)?;
    }
    let stamps = inputs.iter().map(|input| input.stamp.clone()).collect();
    let progress = Progress::new(stamps, settings, now_ms, LogId::random().to_string());
    paths.save(&progress).map_err(&failed)?;
    Ok(progress)
}

/// Finishes the erasures whose tombstones are in the new log.
fn finish_erasures(
    disk: &Arc<dyn Disk>,
    paths: &ImportPaths,
    progress: &Progress,
    observer: &mut dyn ImportObserver,
) -> Result<Option<ErasureSummary>, ImportError> {
    if progress.written.tombstones == 0 || progress.phase != Phase::Erase {
        return Ok(None);
    }
    observer.begin("erasing", progress.written.tombstones);
    let scan = scan_tombstones(disk, &paths.data)?;
    Ok(restored_erasures::carry_out(disk, &paths.data, &[], &scan)?)
}

/// Gives the new directory its name, and deletes that of the import.
fn install(
    disk: &Arc<dyn Disk>,
    target: &Path,
    paths: &ImportPaths,
    progress: &Progress,
) -> Result<(), ImportError> {
    let failed = ImportError::at(target);
    disk.sync_directory(&paths.data).map_err(&failed)?;
    disk.rename(&paths.data, target).map_err(&failed)?;
    disk.sync_directory(directory_of(target)).map_err(&failed)?;
    keep_refused(disk, target, paths, progress)?;
    paths.delete().map_err(ImportError::at(&paths.work))
}

/// Moves the list of the refused lines beside the target, unless it is empty.
fn keep_refused(
    disk: &Arc<dyn Disk>,
    target: &Path,
    paths: &ImportPaths,
    progress: &Progress,
) -> Result<(), ImportError> {
    if progress.read.refused == 0 || !paths.refused.exists() {
        return Ok(());
    }
    let renamed = disk.rename(&paths.refused, &paths.refused_target);
    renamed.and_then(|()| disk.sync_directory(directory_of(target))).map_err(ImportError::at(&paths.refused))
}

/// Finishes an import that was interrupted after the new directory was complete. Returns `None` if there is no such import.
fn finish_installed(
    disk: &Arc<dyn Disk>,
    target: &Path,
    paths: &ImportPaths,
    settings: &ImportSettings,
) -> Result<Option<ImportSummary>, ImportError> {
    let loaded = paths.load().map_err(ImportError::at(&paths.work))?;
    let Some(progress) = loaded.filter(|progress| progress.phase == Phase::Install) else { return Ok(None) };
    let Some(log_id) = LogId::parse(&progress.log_id) else { return Ok(None) };
    if progress.settings != *settings {
        let difference = "other settings".to_owned();
        return Err(ImportError::Other { dir: paths.work.clone(), difference });
    }
    let _lock = lock_work(disk, paths)?;
    if paths.data.exists() {
        install(disk, target, paths, &progress)?;
    } else if target.exists() && log::log_id(disk, target)? == Some(log_id) {
        keep_refused(disk, target, paths, &progress)?;
        paths.delete().map_err(ImportError::at(&paths.work))?;
    } else {
        return Ok(None);
    }
    Ok(Some(summary_of(paths, &progress, log_id)))
}

fn summary_of(paths: &ImportPaths, progress: &Progress, log_id: LogId) -> ImportSummary {
    let refused = progress.read.refused;
    ImportSummary {
        log_id,
        records: progress.written.records,
        tombstones: progress.written.tombstones,
        duplicates: progress.written.duplicates,
        refused,
        other_sites: progress.read.other_sites,
        has_damage: progress.read.has_damage,
        refused_file: (refused > 0).then(|| paths.refused_target.clone()),
        erased: None,
    }
}
