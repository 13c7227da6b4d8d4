//! The connection to the NATS servers.
//!
//! A client knows all servers and reconnects for ever, with at most a second between two attempts. It pings
//! each second: with the default of two minutes, a cut cable is noticed after minutes.

use std::fs;
use std::path::Path;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event};

use crate::config::cluster::ConnectionFiles;

/// Interval of pings. The client gives a connection up after two unanswered ones.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// Time limit for one attempt to connect, TLS included.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause before the first new attempt to connect. It doubles up to [`RECONNECT_PAUSE_MAX`].
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause between two attempts, so that a node is back within a second after its server.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The NATS servers, and the identity of this client.
#[derive(Debug, Clone)]
pub(crate) struct NatsSettings {
    /// The URL of each server, with the scheme `nats` or `tls`.
    pub servers: Vec<String>,
    /// Name of the client. Replies arrive at subjects that begin with `_INBOX_` and this name.
    pub name: String,
    pub files: ConnectionFiles,
}

impl NatsSettings {
    /// Creates a client that connects, and connects again whenever the connection is lost. Returns at once,
    /// also if no server answers.
    ///
    /// # Errors
    /// A file of credentials or certificates is unusable.
    pub(crate) async fn connect(&self) -> Result<Client, String> {
        self.warn_about_plain_text();
        let options = self.options()?.retry_on_initial_connect().event_callback(log_event);
        let connected = options.connect(self.servers.as_slice()).await;
        connected.map_err(|error| format!("cannot use the settings of the NATS client: {error}"))
    }

    /// Creates a client that is connected.
    ///
    /// # Errors
    /// No server accepts the client, or a file is unusable.
    pub(crate) async fn connect_once(&self) -> Result<Client, String> {
        let connected = self.options()?.connect(self.servers.as_slice()).await;
        connected.map_err(|error| format!("cannot connect to {}: {error}", self.servers.join(", ")))
    }

    fn options(&self) -> Result<ConnectOptions, String> {
        let files = &self.files;
        let mut options = ConnectOptions::new()
            .name(&self.name)
            .custom_inbox_prefix(format!("_INBOX_{}", self.name))
            .ping_interval(PING_INTERVAL)
            .connection_timeout(CONNECTION_TIMEOUT)
            .max_reconnects(None)
            .reconnect_delay_callback(|attempts| {
                let doublings = u32::try_from(attempts).unwrap_or(u32::MAX).min(10);
                (RECONNECT_PAUSE * 2_u32.pow(doublings)).min(RECONNECT_PAUSE_MAX)
            })
            .require_tls(self.servers.iter().any(|server| server.starts_with("tls://")));
        if let Some(path) = &files.cluster_creds {
            let refused = |error| format!("--cluster-creds {}: {error}", path.display());
            options = options.credentials(&read_text("--cluster-creds", path)?).map_err(refused)?;
        }
        if let Some(path) = &files.cluster_nkey {
            options = options.nkey(read_text("--cluster-nkey", path)?.trim().to_owned());
        }
        if let Some(path) = &files.cluster_ca {
            options = options.add_root_certificates(path.clone());
        }
        if let (Some(cert), Some(key)) = (&files.cluster_cert, &files.cluster_key) {
            options = options.add_client_certificate(cert.clone(), key.clone());
        }
        Ok(options)
    }

    /// Warns if data would leave this machine in plain text.
    fn warn_about_plain_text(&self) {
        let is_loopback = |server: &str| {
            ["nats://127.", "nats://localhost", "nats://[::1]"]
                .iter()
                .any(|prefix| server.starts_with(prefix))
        };
        for server in
            self.servers.iter().filter(|server| server.starts_with("nats://") && !is_loopback(server))
        {
            tracing::warn!(server, "the connection to this NATS server is not encrypted; use tls://");
        }
    }
}

fn read_text(flag_name: &str, path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {flag_name} {}: {error}", path.display()))
}

/// Logs a change of the connection. No event has a credential.
async fn log_event(event: Event) {
    match event {
        Event::Connected => tracing::info!("connected to NATS"),
        Event::Disconnected => tracing::warn!("lost the connection to NATS; connecting again"),
        Event::ClientError(error) => tracing::warn!(%error, "the NATS client reports an error"),
        Event::ServerError(error) => tracing::warn!(%error, "the NATS server reports an error"),
        _ => {}
    }
}
