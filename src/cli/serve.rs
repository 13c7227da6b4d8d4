//! `parallax serve`: publishes the demo site if nothing is published, starts the server, and serves until a
//! signal.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;

use clap::Args;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::settings::SettingsArgs;
use super::{CliError, demo};
use crate::checksum;
use crate::config::{Config, LogFormat};
use crate::log_lines;
use crate::site::catalog::snapshot_names::list_snapshot_names;
use crate::storage::access;
use crate::visitors::checkpoint::restore::RestoreError;
use crate::worker::{PassedSocket, take_passed_sockets};
use crate::{server, storage};

/// Bytes of the digest of the settings. It only shows that settings differ.
const SETTINGS_DIGEST_BYTES: usize = 8;

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    pub(super) sources: SettingsArgs,
    #[command(flatten)]
    pub(super) config: Config,
}

/// Serves until a signal. `settings` is the text of the effective settings, without secrets.
pub(super) fn serve(args: ServeArgs, settings: &str) -> Result<(), CliError> {
    let mut config = args.config;
    config.settings_digest = settings_digest(settings);
    // This removes variables of the environment, so no other thread may run yet.
    let passed_sockets = take_passed_sockets().map_err(|error| CliError::Usage(error.to_string()))?;
    prepare_process(&config)?;
    if config.snapshots.is_none() && !config.pulls_snapshots() {
        publish_demo_if_empty(config.snapshots_directory(), &config.data)?;
    }
    run(config, passed_sockets, |_| Ok(()))
}

/// Returns a digest by which two starts can be compared.
fn settings_digest(settings: &str) -> String {
    let digest = checksum::digest(&[settings.as_bytes()]);
    digest[..SETTINGS_DIGEST_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Serves until a signal, on the passed sockets and on the addresses of `config` that have none. Calls `on_start` with the public address when the server accepts requests.
pub(super) fn run(
    config: Config,
    passed_sockets: Vec<PassedSocket>,
    on_start: impl FnOnce(SocketAddr) -> Result<(), CliError>,
) -> Result<(), CliError> {
    config.check().map_err(CliError::Usage)?;
    let snapshots = config.snapshots_directory().to_owned();
    let running = server::start(config, passed_sockets).map_err(start_error)?;
    if let Some(events) = running.addresses.events_listen {
        let url = format!("http://{events}");
        tracing::info!(%url, "listening on the events address");
    }
    let url = format!("http://{}", running.addresses.listen);
    let workers = running.workers;
    let driver = running.driver.name();
    tracing::info!(%url, snapshots = %snapshots.display(), workers, %driver, "serving");
    on_start(running.addresses.listen)?;
    running.serve_until_signal().map_err(|error| match error {
        server::StopError::Unsynced(lost) => CliError::System(lost.to_string()),
        server::StopError::Replaced => CliError::Usage(error.to_string()),
    })
}

/// Converts an error of the start. A wrong or missing setting of a node is a bad command line, and so is a socket that does
/// not fit the settings: another start would not help.
fn start_error(error: server::BootError) -> CliError {
    match error {
        #[cfg(feature = "cluster")]
        server::BootError::Cluster(text) => CliError::Usage(text),
        server::BootError::Visitors { cause: RestoreError::OfCluster { .. }, .. } => {
            CliError::Usage(error.to_string())
        }
        server::BootError::PassedSocket(error) => CliError::Usage(error.to_string()),
        other => CliError::System(other.to_string()),
    }
}

/// Prepares the attributes that the whole process has: its log, and the access to the files that it will create.
pub(super) fn prepare_process(config: &Config) -> Result<(), CliError> {
    init_logging(config.log_format)?;
    config.data_group.as_deref().map_or(Ok(()), access::set_data_group).map_err(CliError::Usage)
}

/// Begins to log to standard error.
fn init_logging(format: LogFormat) -> Result<(), CliError> {
    let lines = log_lines::to_standard_error();
    let lines = lines.map_err(|error| CliError::System(format!("cannot start a thread: {error}")))?;
    let log = tracing_subscriber::fmt()
        .with_writer(lines)
        .log_internal_errors(false)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_max_level(tracing::Level::INFO);
    // The NATS client logs each attempt to connect. The tasks that use it log the outcome once.
    let is_own = filter_fn(|metadata| !metadata.target().starts_with("async_nats"));
    match format {
        LogFormat::Text => log.finish().with(is_own).init(),
        LogFormat::Json => log.json().finish().with(is_own).init(),
    }
    Ok(())
}

/// Writes the demo site to the snapshots directory if it has no snapshot, for users who run `parallax` to try it.
fn publish_demo_if_empty(snapshots_directory: &Path, data_directory: &Path) -> Result<(), CliError> {
    let failed = |action: &str, error: std::io::Error| {
        CliError::System(format!("cannot {action} {}: {error}", snapshots_directory.display()))
    };
    std::fs::create_dir_all(snapshots_directory).map_err(|error| failed("create the directory", error))?;
    let names =
        list_snapshot_names(snapshots_directory).map_err(|error| failed("read the directory", error))?;
    if !names.is_empty() {
        return Ok(());
    }
    let (name, bytes) = demo::compile_demo();
    let path = snapshots_directory.join(name);
    storage::write_atomic(&path, &bytes).map_err(|error| failed("write the demo site to", error))?;
    tracing::info!(path = %path.display(), "no snapshot is published; compiled the demo site");
    if let Err(error) = demo::begin_phases(&path, data_directory) {
        tracing::warn!(%error, "the experiments of the demo site begin now and not in the past");
    }
    Ok(())
}
