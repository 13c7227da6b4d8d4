//! Counts the enrolments in a data directory for `parallax lint`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::site_directory::print_warning;
use super::{CliError, check_has_log, log_read_error};
use crate::log::LogError;
use crate::storage::disk::{Disk, RealDisk};
use crate::visitors::backup::is_of_node;
use crate::visitors::enrolment_counts::EnrolmentCounts;
use crate::visitors::folded_directory::{FoldDirectoryError, fold_directory};

/// Counts the IDs of a site that are enrolled in the phases with these hashes. Returns the numbers by the hash. Prints a warning
/// for each place of the directory that cannot be used.
pub(super) fn count_enrolments(
    directory: &Path,
    site: &str,
    phase_hashes: BTreeSet<u32>,
) -> Result<BTreeMap<u32, u64>, CliError> {
    let disk = Arc::new(RealDisk) as Arc<dyn Disk>;
    check_has_log(directory)?;
    let failed = |source| log_read_error(LogError::Io { path: directory.to_owned(), source });
    if is_of_node(&*disk, directory).map_err(failed)? {
        let text = format!(
            "{} is the directory of a node of a cluster, whose log has only the events that this node acknowledged; leave out --data",
            directory.display()
        );
        return Err(CliError::Input(text));
    }
    let folded = fold_directory(&disk, directory).map_err(|error| match error {
        FoldDirectoryError::Log(error) => log_read_error(error),
        FoldDirectoryError::Restore(error) => CliError::System(format!("{}: {error}", directory.display())),
    })?;
    folded.warnings.iter().for_each(|line| print_warning(&format!("{}: {line}", directory.display())));
    let mut counts = EnrolmentCounts::new(site, phase_hashes.into_iter());
    let mut reader = folded.profiles.reader();
    let pinned = reader.pin();
    let mut shard = 0;
    while counts.add_shard(&pinned, shard).is_some() {
        shard += 1;
    }
    Ok(counts.into_map())
}
