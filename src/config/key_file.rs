//! Reads the files of `--identity-keys` and `--visitor-keys`.

use std::path::Path;

use super::secret_file::read_private;
use crate::identity_keys::IdentityKeys;
use crate::limits::{IDENTITY_KEYS_BYTES_MAX, VISITOR_KEYS_BYTES_MAX};
use crate::visitor_keys::VisitorKeys;

/// Reads the keys of user IDs of all sites.
///
/// # Errors
/// The file cannot be read, other users may use it, or a line is invalid. The text has nothing of a key.
pub fn read_identity_keys(path: &Path) -> Result<IdentityKeys, String> {
    read("--identity-keys", path, IDENTITY_KEYS_BYTES_MAX, IdentityKeys::parse)
}

/// Reads the keys of visitor tokens.
///
/// # Errors
/// As for [`read_identity_keys`].
pub fn read_visitor_keys(path: &Path) -> Result<VisitorKeys, String> {
    read("--visitor-keys", path, VISITOR_KEYS_BYTES_MAX, VisitorKeys::parse)
}

fn read<K>(
    flag_name: &str,
    path: &Path,
    bytes_max: usize,
    parse: fn(&str) -> Result<K, String>,
) -> Result<K, String> {
    let bytes = read_private(flag_name, path, bytes_max)?;
    let failed = |error| format!("{flag_name} {}{error}", path.display());
    if bytes.len() > bytes_max {
        return Err(failed(format!(" has more than {bytes_max} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| failed(" is not UTF-8".to_owned()))?;
    parse(&text).map_err(failed)
}
