//! Every checksum of a segment or of a folder.

use std::path::Path;
use std::sync::Arc;

use super::LogError;
use super::directory::{Directory, seq_of};
use super::record::{Kind, Record};
use super::verify::{Finding, Passage, Survey, Walk};
use crate::storage::disk::Disk;

/// What was looked at, and what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// Segments.
    pub segments: usize,
    /// Batches that count.
    pub batches: u64,
    /// Their records.
    pub records: u64,
    /// Of these, those whose content was erased.
    pub void: u64,
    /// Everything, torn and void tails too.
    pub findings: Vec<Finding>,
}

/// Checks all segments of a folder, and that none is missing. Works beside a running server.
///
/// # Errors
/// What the system says; a format version that this release does not know.
pub fn check_folder(disk: Arc<dyn Disk>, folder: &Path) -> Result<Checked, LogError> {
    let directory = Directory::read(disk, folder);
    let survey = Survey::of(&directory)?;
    check(&directory, survey)
}

/// Checks one segment, by itself.
///
/// # Errors
/// `InvalidInput` where the name is not a segment's; what the system says; a format version that this
/// release does not know.
pub fn check_file(disk: Arc<dyn Disk>, path: &Path) -> Result<Checked, LogError> {
    let (directory, survey) = survey_file(disk, path)?;
    check(&directory, survey)
}

/// The folder of the segment at `path`, as if that were alone in it.
pub fn survey_file(disk: Arc<dyn Disk>, path: &Path) -> Result<(Directory, Survey), LogError> {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(seq_of);
    let Some(named_seq) = name else {
        let error = std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            "its name is not a segment's: 20 digits and .segment",
        );
        return Err(LogError::io(path, error));
    };
    let directory = Directory::read(disk, path.parent().unwrap_or(Path::new("")));
    let survey = Survey::of_one(&directory, named_seq)?;
    Ok((directory, survey))
}

fn check(directory: &Directory, survey: Survey) -> Result<Checked, LogError> {
    let mut checked = Checked { findings: survey.findings, ..Checked::default() };
    for place in &survey.places {
        let failed = |error| LogError::io(&directory.path(&place.name()), error);
        let mut walk = match Walk::new(directory, place, survey.proven) {
            // Retention took it away meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            other => other.map_err(failed)?,
        };
        checked.segments += 1;
        while let Some(passage) = walk.next().map_err(failed)? {
            match passage {
                Passage::Flaw(finding) => checked.findings.push(finding),
                Passage::Batch { batch, .. } => {
                    checked.batches += 1;
                    checked.records += u64::from(batch.records.count);
                    let is_void = |(_, record): &(u64, Record<'_>)| record.kind == Kind::Void;
                    checked.void += batch.records.iter().filter(is_void).count() as u64;
                }
            }
        }
    }
    Ok(checked)
}
