//! The counts of `parallax lint --data` and `--server`, which the core cannot make.

use std::convert::Infallible;
use std::path::Path;

use super::CliError;
use crate::site::comparison::SiteComparison;
use crate::site::snapshot::open::Snapshot;

/// Returns the error of `--data`.
pub(super) fn fold_profiles(_directory: &Path) -> Result<Infallible, CliError> {
    Err(CliError::Input("--data needs the program parallax, which reads data directories".to_owned()))
}

pub(super) fn count_in_profiles(
    folded: &Infallible,
    _before: Option<&Snapshot>,
    _after: &Snapshot,
    _comparison: SiteComparison,
) -> SiteComparison {
    match *folded {}
}

/// The admin address of a server.
pub(super) struct AdminAddress<'a> {
    pub(super) url: &'a str,
    pub(super) token: Option<&'a str>,
}

/// Returns the error of `--server`.
pub(super) fn count_on_server(
    _address: &AdminAddress<'_>,
    _snapshot: &Snapshot,
    _file: &[u8],
    _comparison: &mut SiteComparison,
) -> Result<(), CliError> {
    Err(CliError::Input("--server needs the program parallax, which asks a running server".to_owned()))
}
