//! Files that other users must not use: with a secret, which they may neither read nor write, or with rules, which they may only
//! read.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Reads the first `bytes_max` bytes of a file with a secret, and one more if there are more.
///
/// # Errors
/// The file cannot be read, or other users may use it. The text names `flag_name` and the file, and nothing of its content.
pub(crate) fn read_private(flag_name: &str, path: &Path, bytes_max: usize) -> Result<Vec<u8>, String> {
    read(flag_name, path, bytes_max, Refused { bits: 0o177, right: "use", remedy: "600" })
}

/// Reads the first `bytes_max` bytes of a file with rules, and one more if there are more.
///
/// # Errors
/// The file cannot be read, or other users may write it. The text names `flag_name` and the file, and nothing of its content.
pub(crate) fn read_protected(flag_name: &str, path: &Path, bytes_max: usize) -> Result<Vec<u8>, String> {
    read(flag_name, path, bytes_max, Refused { bits: 0o022, right: "write", remedy: "go-w" })
}

/// The bits of a mode that are refused.
struct Refused {
    bits: u32,
    /// The right that they give to other users.
    right: &'static str,
    /// The argument of chmod that removes them.
    remedy: &'static str,
}

fn read(flag_name: &str, path: &Path, bytes_max: usize, refused: Refused) -> Result<Vec<u8>, String> {
    let failed = |error| format!("cannot read {flag_name} {}: {error}", path.display());
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    if mode & refused.bits != 0 {
        return Err(format!(
            "{flag_name} {} has the mode {mode:03o}, so other users may {} it; run `chmod {} {}`",
            path.display(),
            refused.right,
            refused.remedy,
            path.display()
        ));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}
