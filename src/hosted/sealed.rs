//! Opens snapshots in the memory of the host, in place of files.

use std::path::Path;

use rkyv::util::AlignedVec;

use crate::local_files;
use crate::site::snapshot::format::{ARCHIVE_ALIGNMENT, HEADER_BYTES};
use crate::site::snapshot::open::{Snapshot, SnapshotBudget, SnapshotError, parse_header};

/// An owned copy, which nobody else can change.
pub(super) type SealedBytes = AlignedVec<ARCHIVE_ALIGNMENT>;

impl Snapshot {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// The first reason to reject the file.
    pub fn open(path: &Path, budget: &SnapshotBudget) -> Result<Self, SnapshotError> {
        // Check the header alone first, so that the host does not read a large file that is no snapshot.
        let header_bytes = local_files::read_first_bytes(path, HEADER_BYTES)?;
        parse_header(&header_bytes, local_files::length(path)? as u64)?;
        Self::open_bytes(&local_files::read_first_bytes(path, usize::MAX)?, budget)
    }

    /// Opens a compiled snapshot.
    ///
    /// # Errors
    /// The first reason to reject it.
    pub fn open_bytes(bytes: &[u8], budget: &SnapshotBudget) -> Result<Self, SnapshotError> {
        let charge = budget.reserve(bytes.len() as u64)?;
        let mut copy = SealedBytes::with_capacity(bytes.len());
        copy.extend_from_slice(bytes);
        Self::open_sealed(copy, charge, budget)
    }
}

/// Returns the site version in the header of the file at `path`, or `None` if it is no snapshot that this release reads.
pub(crate) fn read_version(path: &Path) -> Option<u64> {
    let header_bytes = local_files::read_first_bytes(path, HEADER_BYTES).ok()?;
    parse_header(&header_bytes, local_files::length(path).ok()? as u64).ok().map(|header| header.version)
}
