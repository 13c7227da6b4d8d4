//! Counts enrolments and known visitors for `parallax lint`: in a data directory, or on a running server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use ureq::http::Response;
use ureq::{Agent, Body};

use super::site_directory::print_warning;
use super::{CliError, check_has_log, log_read_error};
use crate::admin::changes::JOB_SECONDS_MAX;
use crate::limits::BODY_BYTES_MAX;
use crate::log::LogError;
use crate::resolve::change_count::ChangeCount;
use crate::site::comparison::SiteComparison;
use crate::site::compile::time_text;
use crate::site::snapshot::open::Snapshot;
use crate::storage::disk::{Disk, RealDisk};
use crate::visitors::backup::is_of_node;
use crate::visitors::folded_directory::{FoldDirectoryError, FoldedDirectory, fold_directory};

/// Time limit of a request: that of a comparison on the server, and time to send the file.
const TIMEOUT: Duration = Duration::from_secs(JOB_SECONDS_MAX + 30);

/// Folds the profiles of a data directory. Prints a warning for each place of it that cannot be used.
pub(super) fn fold_profiles(directory: &Path) -> Result<FoldedDirectory, CliError> {
    let disk = Arc::new(RealDisk) as Arc<dyn Disk>;
    check_has_log(directory)?;
    let failed = |source| log_read_error(LogError::Io { path: directory.to_owned(), source });
    if is_of_node(&*disk, directory).map_err(failed)? {
        let text = format!(
            "{} is the directory of a node of a cluster, whose erasures only the node can read; ask it with --server",
            directory.display()
        );
        return Err(CliError::Input(text));
    }
    let folded = fold_directory(&disk, directory).map_err(|error| match error {
        FoldDirectoryError::Log(error) => log_read_error(error),
        FoldDirectoryError::Restore(error) => CliError::System(format!("{}: {error}", directory.display())),
    })?;
    folded.warnings.iter().for_each(|line| print_warning(&format!("{}: {line}", directory.display())));
    Ok(folded)
}

/// Adds the numbers of enrolled IDs and of known visitors to a comparison of two versions of a site.
pub(super) fn count_in_profiles(
    folded: &FoldedDirectory,
    before: Option<&Snapshot>,
    after: &Snapshot,
    comparison: SiteComparison,
) -> SiteComparison {
    let mut count = ChangeCount::new(before, after, comparison);
    let mut reader = folded.profiles.reader();
    let pinned = reader.pin();
    let mut shard = 0;
    while count.add_shard(&pinned, shard).is_some() {
        shard += 1;
    }
    count.finish()
}

/// The admin address of a server.
pub(super) struct AdminAddress<'a> {
    /// The URL, without a path.
    pub(super) url: &'a str,
    /// The token of `--admin-token`. `None` if the server has none.
    pub(super) token: Option<&'a str>,
}

/// Adds the numbers that a running server counts: it compares the version that it serves with this snapshot.
///
/// # Errors
/// The server does not answer, refuses the snapshot, or serves another version than that of the comparison.
pub(super) fn count_on_server(
    address: &AdminAddress<'_>,
    snapshot: &Snapshot,
    file: &[u8],
    comparison: &mut SiteComparison,
) -> Result<(), CliError> {
    let config =
        Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false).proxy(None);
    let agent: Agent = config.max_redirects(0).build().into();
    let site = snapshot.site().site.get();
    let at = time_text(comparison.now_ms);
    let mut answer = Json::Null;
    let mut offset = 0;
    for part in file.chunks(BODY_BYTES_MAX) {
        let request = agent.post(format!("{}/insights/changes", address.url)).query("site", site);
        let request = request.query("at", &at).query("offset", offset.to_string());
        let request = match address.token {
            Some(token) => request.header("Authorization", format!("Bearer {token}")),
            None => request,
        };
        answer = read_answer(address.url, request.send(part))?;
        offset += part.len();
    }
    if comparison.take_numbers(&answer) {
        return Ok(());
    }
    let served = match answer["against"]["version"].as_str() {
        Some(version) => format!("serves version {version} of site {site}"),
        None => format!("serves no version of site {site}"),
    };
    let url = address.url;
    Err(CliError::Input(format!(
        "{url} {served}, but --against names a version with other changes; name the served version with --against"
    )))
}

fn read_answer(url: &str, response: Result<Response<Body>, ureq::Error>) -> Result<Json, CliError> {
    let no_answer = |error: ureq::Error| {
        CliError::System(format!(
            "{url} does not answer: {error}; name the admin address of a running server with --server"
        ))
    };
    let mut response = response.map_err(no_answer)?;
    let text = response.body_mut().read_to_string().map_err(no_answer)?;
    let body: Json = serde_json::from_str(&text).unwrap_or_default();
    match (response.status().as_u16(), body["detail"].as_str()) {
        (200, _) if body["experiments"].is_array() || body["received"].is_u64() => Ok(body),
        (401, Some(detail)) => Err(CliError::Input(format!("{url}: {detail} Use --admin-token"))),
        (_, Some(detail)) => Err(CliError::Input(format!("{url}: {detail}"))),
        (code, None) => Err(CliError::Input(format!(
            "{url} answered {code}; is this the admin address of a Parallax server of this release?"
        ))),
    }
}
