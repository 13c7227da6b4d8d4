//! The connection to the NATS servers.
//!
//! A client knows all servers. It pings each second: with the default of two minutes, a cut cable is noticed
//! after minutes. It reads the files of credentials and certificates at each attempt to connect, so a withdrawn
//! key is in use only as long as the file has it.

use std::fs;
use std::future::ready;
use std::path::Path;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Auth, AuthError, Client, ConnectOptions, Event};
use nkeys::KeyPair;

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
    /// Creates a client that is connected, for a task that makes the next one when [`is_lost`].
    ///
    /// When its connection is lost, the client tries each server once, and ends. A client without such a limit
    /// goes on connecting after its owner has dropped it.
    ///
    /// # Errors
    /// No server accepts the client, or a file is unusable.
    pub(crate) async fn connect(&self) -> Result<Client, String> {
        let options = self.options()?.max_reconnects(self.servers.len()).event_callback(log_event);
        self.connect_with(options).await
    }

    /// Creates a client that is connected, for a command. It reconnects for ever.
    ///
    /// # Errors
    /// No server accepts the client, or a file is unusable.
    pub(crate) async fn connect_once(&self) -> Result<Client, String> {
        self.connect_with(self.options()?).await
    }

    async fn connect_with(&self, options: ConnectOptions) -> Result<Client, String> {
        let connected = options.connect(self.servers.as_slice()).await;
        connected.map_err(|error| format!("cannot connect to {}: {error}", self.servers.join(", ")))
    }

    fn options(&self) -> Result<ConnectOptions, String> {
        let files = &self.files;
        // The client reports an unusable file as a failed signature, without its name.
        identity(files, &[])?;
        let identified = files.clone();
        let mut options = ConnectOptions::with_auth_callback(move |nonce| {
            ready(identity(&identified, &nonce).map_err(AuthError::new))
        });
        options = options
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
        if let Some(path) = &files.cluster_ca {
            options = options.add_root_certificates(path.clone());
        }
        if let (Some(cert), Some(key)) = (&files.cluster_cert, &files.cluster_key) {
            options = options.add_client_certificate(cert.clone(), key.clone());
        }
        Ok(options)
    }

    /// Warns if data would leave this machine in plain text.
    pub(crate) fn warn_about_plain_text(&self) {
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

/// Returns whether a client has lost its connection. Its task then drops it and makes another one.
pub(crate) fn is_lost(client: &Client) -> bool {
    client.connection_state() != State::Connected
}

/// Reads the files of the credentials, and signs the random text of a server with them.
///
/// # Errors
/// The flag of a file that is unusable, and the cause. Never a part of the file.
fn identity(files: &ConnectionFiles, nonce: &[u8]) -> Result<Auth, String> {
    let mut auth = Auth::new();
    let (flag, path, seed) = if let Some(path) = &files.cluster_creds {
        let text = read_text("--cluster-creds", path)?;
        let [jwt, seed] = credentials(&text).ok_or_else(|| {
            format!("--cluster-creds {}: expected a JWT and the seed of an nkey", path.display())
        })?;
        auth.jwt = Some(jwt.to_owned());
        ("--cluster-creds", path, seed.to_owned())
    } else if let Some(path) = &files.cluster_nkey {
        ("--cluster-nkey", path, read_text("--cluster-nkey", path)?.trim().to_owned())
    } else {
        return Ok(auth);
    };
    let failed = |error| format!("{flag} {} has no seed of an nkey: {error}", path.display());
    let key_pair = KeyPair::from_seed(&seed).map_err(failed)?;
    auth.signature = Some(key_pair.sign(nonce).map_err(failed)?);
    if auth.jwt.is_none() {
        auth.nkey = Some(key_pair.public_key());
    }
    Ok(auth)
}

/// Returns the JWT and the seed of a credentials file: the lines after its two `-----BEGIN` lines.
fn credentials(text: &str) -> Option<[&str; 2]> {
    let mut lines = text.lines().map(str::trim);
    let mut next = || {
        lines.find(|line| line.starts_with("-----BEGIN"))?;
        lines.find(|line| !line.is_empty())
    };
    Some([next()?, next()?])
}

fn read_text(flag_name: &str, path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {flag_name} {}: {error}", path.display()))
}

/// Logs an error that a server reports, such as a missing permission. The task of a client logs a lost connection.
async fn log_event(event: Event) {
    if let Event::ServerError(error) = event {
        tracing::warn!(%error, "the NATS server reports an error");
    }
}
