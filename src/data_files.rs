//! The first bytes and the names of segments and checkpoints, and the names of audit files and of the file of the shared links, by which commands and directories recognize them.

/// The first bytes of a segment of the log.
pub(crate) const SEGMENT_MAGIC: [u8; 8] = *b"\xFFPLXSEGM";
/// The first bytes of a checkpoint.
pub(crate) const CHECKPOINT_MAGIC: [u8; 8] = *b"\xFFPLXCHKP";

/// The ending of a segment's name.
pub(crate) const SEGMENT_SUFFIX: &str = ".segment";
/// The ending of a checkpoint's name.
pub(crate) const CHECKPOINT_SUFFIX: &str = ".checkpoint";

/// The directory of the audit log in a data directory.
pub(crate) const AUDIT_DIRECTORY: &str = "audit";
/// The beginning of the name of an audit file.
pub(crate) const AUDIT_PREFIX: &str = "audit-";
/// The ending of the name of an audit file.
pub(crate) const AUDIT_SUFFIX: &str = ".log";

/// The file of the shared links in a data directory.
pub(crate) const LINKS_FILE: &str = "links";

/// Digits of the seq in a name.
const SEQ_DIGITS: usize = 20;

/// Returns the number of the first record in the name of an audit file. `None` if it is another file.
pub(crate) fn audit_number_in_name(name: &str) -> Option<u64> {
    seq_in_name(name.strip_prefix(AUDIT_PREFIX)?, AUDIT_SUFFIX)
}

/// Returns the seq in a name with this ending.
pub(crate) fn seq_in_name(name: &str, suffix: &str) -> Option<u64> {
    let digits = name.strip_suffix(suffix)?;
    let is_number = digits.len() == SEQ_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}
