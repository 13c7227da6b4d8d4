//! Files with a secret, which no other user may read or write.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Reads the first `bytes_max` bytes of a file, and one more if there are more.
///
/// # Errors
/// The file cannot be read, or other users may use it. The text names `flag_name` and the file, and nothing of its content.
pub(crate) fn read_private(flag_name: &str, path: &Path, bytes_max: usize) -> Result<Vec<u8>, String> {
    let failed = |error| format!("cannot read {flag_name} {}: {error}", path.display());
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o177 != 0 {
        return Err(format!(
            "{flag_name} {} has the mode {mode:03o}, so other users may use it; run `chmod 600 {}`",
            path.display(),
            path.display()
        ));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}
