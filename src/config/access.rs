//! The settings of access to the admin address.

use std::path::{Path, PathBuf};

use clap::Args;

use super::secret_file::read_protected;
use super::{ADDRESSES, parse_header_name};
use crate::access::AccessFile;
use crate::limits::access::ACCESS_FILE_BYTES_MAX;

const FLAG: &str = "--access";

/// The tokens and people that may use the admin address.
#[derive(Debug, Clone, Default, Args)]
pub struct AccessConfig {
    /// A TOML file with the tokens and people that may use the admin address, and their roles for each site. With it every
    /// request needs one of them, except health. SIGHUP reads the file again, and so does a change of it.
    #[arg(long, value_name = "FILE", help_heading = ADDRESSES)]
    pub access: Option<PathBuf>,
    /// The header in which a proxy of --trusted-proxy names the person that it has signed in, such as X-Forwarded-Email. The proxy
    /// must remove the header from the requests of its clients. Needs --access.
    #[arg(long, value_name = "HEADER", help_heading = ADDRESSES, value_parser = parse_header_name)]
    pub trusted_user_header: Option<String>,
    /// The header in which that proxy lists the groups of the person, separated by commas, such as X-Forwarded-Groups. Needs
    /// --trusted-user-header.
    #[arg(long, value_name = "HEADER", help_heading = ADDRESSES, value_parser = parse_header_name)]
    pub trusted_groups_header: Option<String>,
}

impl AccessConfig {
    /// Checks the file, and that no setting lacks the one that it needs.
    ///
    /// # Errors
    /// The flag at fault, and the remedy.
    pub(super) fn check(&self, has_proxies: bool) -> Result<(), String> {
        if let Some(path) = &self.access {
            read_access_file(path)?;
        }
        if self.trusted_user_header.is_some() && self.access.is_none() {
            return Err(
                "--trusted-user-header has no effect without --access; add a file with the people".to_owned()
            );
        }
        if self.trusted_user_header.is_some() && !has_proxies {
            return Err(
                "--trusted-user-header has no effect without --trusted-proxy; add the address of the proxy"
                    .to_owned(),
            );
        }
        if self.trusted_groups_header.is_some() && self.trusted_user_header.is_none() {
            return Err(
                "--trusted-groups-header has no effect without --trusted-user-header; add it".to_owned()
            );
        }
        Ok(())
    }
}

/// Reads the file of `--access`.
///
/// # Errors
/// The file cannot be read, other users may write it, or an entry is invalid.
pub(crate) fn read_access_file(path: &Path) -> Result<AccessFile, String> {
    let failed = |error| format!("{FLAG} {}{error}", path.display());
    let bytes = read_protected(FLAG, path, ACCESS_FILE_BYTES_MAX)?;
    if bytes.len() > ACCESS_FILE_BYTES_MAX {
        return Err(failed(format!(" has more than {ACCESS_FILE_BYTES_MAX} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| failed(" is not UTF-8".to_owned()))?;
    AccessFile::parse(&text).map_err(failed)
}
