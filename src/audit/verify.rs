//! Reads all audit files of a data directory in order, and verifies the chain from the first to the last record.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::format::Head;
use super::reader::{AuditDamage, AuditRecord, FileReader, Part};
use crate::data_files::{AUDIT_DIRECTORY, audit_number_in_name};
use crate::storage::disk::{Disk, list_if_present};

/// The result of reading an audit log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// The number of files.
    pub files: usize,
    /// The number of verified records.
    pub records: u64,
    /// The head before the first file. Retention has deleted the records up to it.
    pub base: Head,
    /// The number and the hash of the last record.
    pub head: Head,
    /// The time of the first verified record.
    pub first_at: Option<String>,
    /// The time of the last verified record.
    pub last_at: Option<String>,
    pub damage: Vec<AuditDamage>,
    /// The file whose end is an incomplete record, which a crash has left or a server writes now.
    pub torn_file: Option<String>,
}

/// An error of reading an audit log.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}; run the command as the user of the server", path.display())]
pub struct AuditReadError {
    /// The file or directory.
    path: PathBuf,
    /// The error.
    source: io::Error,
}

/// Returns the directory of the audit log of a data directory.
pub fn directory_of(data_directory: &Path) -> PathBuf {
    data_directory.join(AUDIT_DIRECTORY)
}

/// Returns the names of the audit files of a directory, in the order of their records. A missing directory has none.
///
/// # Errors
/// The disk fails.
pub(super) fn list_files(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<String>> {
    let mut names = list_if_present(disk, dir)?;
    names.retain(|name| audit_number_in_name(name).is_some());
    names.sort_unstable();
    Ok(names)
}

/// Reads the audit log of a data directory, also beside a running server. Passes the verified records to `visit`. It ends early
/// if `visit` returns false.
///
/// # Errors
/// The disk fails.
pub fn read_audit_log(
    disk: &dyn Disk,
    data_directory: &Path,
    visit: &mut dyn FnMut(&AuditRecord) -> bool,
) -> Result<AuditReport, AuditReadError> {
    let dir = directory_of(data_directory);
    let failed = |path: &Path, source| AuditReadError { path: path.to_owned(), source };
    let names = list_files(disk, &dir).map_err(|error| failed(&dir, error))?;
    let mut chain = ChainReader { report: AuditReport::default(), previous: None, is_over: false };
    for (index, name) in names.iter().enumerate() {
        let is_last = index + 1 == names.len();
        match chain.read_file(disk, &dir, name, is_last, visit) {
            // Retention has deleted the file meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound && chain.report.files == 0 => {}
            other => other.map_err(|error| failed(&dir.join(name), error))?,
        }
        if chain.is_over {
            break;
        }
    }
    Ok(chain.report)
}

/// A reader of file after file.
struct ChainReader {
    report: AuditReport,
    /// The head of the file before. `None` before the first file, and after one whose end is not known.
    previous: Option<Head>,
    /// True if no further record is wanted.
    is_over: bool,
}

impl ChainReader {
    fn read_file(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        name: &str,
        is_last: bool,
        visit: &mut dyn FnMut(&AuditRecord) -> bool,
    ) -> io::Result<()> {
        let opened = FileReader::open(disk, dir, name)?;
        let is_first = self.report.files == 0;
        self.report.files += 1;
        let mut file = match opened {
            Ok(file) => file,
            Err(damage) => {
                self.report.damage.push(damage);
                self.previous = None;
                return Ok(());
            }
        };
        let before = file.header.head_before();
        if is_first {
            self.report.base = before;
        }
        if self.previous.is_some_and(|previous| previous != before) {
            let cause = "the file does not continue the file before it, so records were removed or changed";
            self.report.damage.push(AuditDamage {
                file: name.to_owned(),
                offset: 0,
                cause: cause.to_owned(),
            });
        }
        self.report.head = before;
        loop {
            match file.next()? {
                Part::Record(record) => {
                    self.report.head = record.head;
                    self.report.records += 1;
                    self.report.first_at.get_or_insert_with(|| record.line.at.clone());
                    self.report.last_at = Some(record.line.at.clone());
                    if !visit(&record) {
                        self.is_over = true;
                        return Ok(());
                    }
                }
                Part::Damage(damage) => self.report.damage.push(damage),
                Part::End { has_torn_tail } => {
                    self.end_file(&file, name, has_torn_tail, is_last);
                    return Ok(());
                }
            }
        }
    }

    fn end_file(&mut self, file: &FileReader, name: &str, has_torn_tail: bool, is_last: bool) {
        self.report.head = file.head();
        self.previous = Some(file.head());
        if has_torn_tail && is_last {
            self.report.torn_file = Some(name.to_owned());
        } else if has_torn_tail {
            let cause = "the file ends within a record, and another file follows";
            let damage =
                AuditDamage { file: name.to_owned(), offset: file.offset(), cause: cause.to_owned() };
            self.report.damage.push(damage);
        }
    }
}
