//! The settings of a server that is one node of several: the source of its snapshots, and the stream of the cluster.
//!
//! The parsers accept a URL with a user or a password, because clap prints the value that a parser refuses.
//! [`ClusterConfig::check`] refuses it without printing it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use ureq::http::Uri;

use super::secret_file::read_private;
use super::{SNAPSHOTS, has_userinfo};
use crate::acknowledgement::Ack;

/// The heading of `--help`.
const CLUSTER: &str = "Cluster";

/// Length of the cluster's secret, in bytes: the key of an HMAC-SHA-256.
pub(crate) const CLUSTER_SECRET_BYTES: usize = 32;
/// Longest name of a cluster, a node or a bucket, in bytes. The names are parts of NATS subjects, and
/// nats-server stores a stream in a directory with its name.
const NAME_BYTES_MAX: usize = 64;
/// Subject of the operator's messages, which no node may have as its name.
const CONTROL: &str = "control";
/// Longest time that a setting may have. A longer one is a mistake in the unit.
const TIME_SPAN_MAX: Duration = Duration::from_secs(86_400);

/// A length of time. As text it has a unit, such as `50ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeSpan(pub Duration);

impl TimeSpan {
    /// Parses a whole number with one of the units ms, s, m and h.
    ///
    /// # Errors
    /// Returns a text if there is no number, the unit is missing or unknown, or the time is longer than a day.
    pub fn parse(text: &str) -> Result<Self, String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit_ms = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err("expected a whole number with the unit ms, s, m or h, such as 50ms".to_owned()),
        };
        let milliseconds = number.parse().ok().and_then(|number: u64| number.checked_mul(unit_ms));
        let span = milliseconds.map(Duration::from_millis).filter(|span| *span <= TIME_SPAN_MAX);
        span.map(Self).ok_or_else(|| "expected at most 24h, such as 50ms".to_owned())
    }
}

/// The files that prove the identity of this program to a server, and that verify the server.
#[derive(Debug, Clone, Default, Args)]
pub struct ConnectionFiles {
    /// The credentials file of the NATS user.
    #[arg(long, value_name = "FILE", help_heading = CLUSTER, conflicts_with = "cluster_nkey")]
    pub cluster_creds: Option<PathBuf>,
    /// A file with the seed of the NATS nkey.
    #[arg(long, value_name = "FILE", help_heading = CLUSTER)]
    pub cluster_nkey: Option<PathBuf>,
    /// The certificates of authorities (PEM) that verify the servers: those of NATS, and the web server of
    /// the snapshots [default: those of the system].
    #[arg(long, value_name = "FILE", help_heading = CLUSTER)]
    pub cluster_ca: Option<PathBuf>,
    /// The client certificate (PEM) for tls://.
    #[arg(long, value_name = "FILE", help_heading = CLUSTER, requires = "cluster_key")]
    pub cluster_cert: Option<PathBuf>,
    /// The private key (PEM) of --cluster-cert.
    #[arg(long, value_name = "FILE", help_heading = CLUSTER, requires = "cluster_cert")]
    pub cluster_key: Option<PathBuf>,
}

impl ConnectionFiles {
    /// Checks that each file can be read.
    ///
    /// # Errors
    /// The flag of a file that cannot, and the cause.
    pub(crate) fn check(&self) -> Result<(), String> {
        let files = [
            ("--cluster-creds", &self.cluster_creds),
            ("--cluster-nkey", &self.cluster_nkey),
            ("--cluster-ca", &self.cluster_ca),
            ("--cluster-cert", &self.cluster_cert),
            ("--cluster-key", &self.cluster_key),
        ];
        files
            .into_iter()
            .try_for_each(|(flag, path)| path.as_deref().map_or(Ok(()), |path| check_readable(flag, path)))
    }
}

/// The settings of a node.
#[derive(Debug, Clone, Default, Args)]
pub struct ClusterConfig {
    /// Fill the snapshots directory from this source: nats://HOST/BUCKET or tls://HOST/BUCKET (object store of NATS),
    /// s3://BUCKET/PREFIX (credentials and endpoint from AWS_...), https://HOST/DIR/ (a web server), or file:///DIR/.
    /// An empty, broken or unreachable source removes nothing.
    #[arg(long, value_name = "URL", help_heading = SNAPSHOTS, value_parser = parse_source)]
    pub snapshots_from: Option<String>,
    /// The NATS servers of the cluster, as nats://A,B,C or tls://A,B,C. All nodes with the same servers and the same
    /// --cluster-name know the same visitors [default: this server is alone].
    #[arg(long, value_name = "URL", help_heading = CLUSTER, value_parser = parse_servers)]
    pub cluster: Option<String>,
    /// Name of the cluster. Its stream is PLX_NAME.
    #[arg(long, value_name = "NAME", help_heading = CLUSTER, default_value = "parallax", value_parser = parse_name)]
    pub cluster_name: String,
    /// Name of this node. Each node of a cluster has its own [default: the host name].
    #[arg(long, value_name = "NAME", help_heading = CLUSTER, value_parser = parse_node)]
    pub node: Option<String>,
    /// The files of its connections.
    #[command(flatten)]
    pub files: ConnectionFiles,
    /// A file of 32 random bytes, the same on all nodes, with the mode 0600 or 0400. Needed with --cluster.
    #[arg(long, value_name = "FILE", help_heading = CLUSTER)]
    pub cluster_secret: Option<PathBuf>,
    /// Monitoring addresses of all NATS servers, such as http://a:8222, to verify that they sync each message to disk.
    /// Separate several by commas.
    #[arg(long, value_name = "URL", help_heading = CLUSTER, value_delimiter = ',', value_parser = parse_monitor)]
    pub cluster_monitor: Vec<String>,
    /// Longest time that the acknowledgement of an event waits until the stream has returned the event, with
    /// a unit (ms, s). Then it is acknowledged from the own disk with "visible":false.
    #[arg(long, value_name = "TIME", help_heading = CLUSTER, default_value = "50ms", value_parser = TimeSpan::parse)]
    pub return_timeout: TimeSpan,
    /// Greatest age of the profiles with which this node may start while no NATS server can be reached, with a unit
    /// (s, m, h). After 10 s without a server it is then ready. With older profiles /readyz is 503, and the answers to
    /// visitors are the default variants, until it has read the stream to its end.
    #[arg(long, value_name = "TIME", help_heading = CLUSTER, default_value = "15m", value_parser = TimeSpan::parse)]
    pub start_alone: TimeSpan,
    /// Start this node although another process has taken its name over, and take the name back. Needed once, if
    /// the data directory has the file `replaced`.
    #[arg(long, help_heading = CLUSTER)]
    pub take_over: bool,
    /// Greatest lag, with a unit (s, m). The lag is the time of the last message of the stream minus the time
    /// of the last message in the profiles. Above this value /readyz is 503 with the status lagging [default:
    /// no limit].
    #[arg(long, value_name = "TIME", help_heading = CLUSTER, value_parser = TimeSpan::parse)]
    pub ready_lag: Option<TimeSpan>,
    /// Start from this checkpoint of `parallax cluster found` or `new-era`. The newest own checkpoint is used
    /// instead if it is of the same era and not earlier in the stream, or if the file is missing, so the setting
    /// can stay and the file can be deleted. The log in the data directory must reach up to the checkpoint.
    #[arg(long, value_name = "FILE", help_heading = CLUSTER)]
    pub bootstrap: Option<PathBuf>,
}

impl Default for TimeSpan {
    fn default() -> Self {
        Self(Duration::ZERO)
    }
}

impl ClusterConfig {
    /// Checks the settings together, and that each named file can be read.
    ///
    /// # Errors
    /// The flag at fault, and the accepted values. No text has a secret.
    pub(crate) fn check(&self, ack: Ack) -> Result<(), String> {
        for (flag, url) in [("--snapshots-from", &self.snapshots_from), ("--cluster", &self.cluster)] {
            url.as_deref().map_or(Ok(()), |url| refuse_userinfo(flag, url))?;
        }
        if self.cluster.is_some() {
            self.check_stream(ack)?;
        }
        self.files.check()?;
        // A missing file is an error only for a node without a checkpoint of its own.
        let bootstrap = self.bootstrap.as_deref().filter(|path| path.try_exists().unwrap_or(true));
        bootstrap.map_or(Ok(()), |path| check_readable("--bootstrap", path))?;
        self.node_name().map(drop)
    }

    fn check_stream(&self, ack: Ack) -> Result<(), String> {
        if ack == Ack::Written {
            return Err("--ack written is not possible with --cluster, because a node sends only records that its disk has \
                        synced; use --ack disk"
                .to_owned());
        }
        match &self.cluster_secret {
            Some(path) => read_secret(path).map(drop),
            None => Err("--cluster needs --cluster-secret FILE; create the file once with `head -c 32 /dev/urandom > FILE`, \
                         set its mode with `chmod 600 FILE`, and copy it to all nodes"
                .to_owned()),
        }
    }

    /// Returns the name of this node: the setting, else the host name.
    ///
    /// # Errors
    /// The host name cannot be the name of a node.
    pub(crate) fn node_name(&self) -> Result<String, String> {
        if let Some(node) = &self.node {
            return Ok(node.clone());
        }
        // A sandbox may hide the first file.
        let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
        let host = files.iter().find_map(|file| fs::read_to_string(file).ok()).unwrap_or_default();
        let name: String = host.trim().replace('.', "-");
        match parse_node(&name) {
            Ok(name) => Ok(name),
            // Without the stream the name is only a part of subjects for replies.
            Err(_) if self.cluster.is_none() => Ok("node".to_owned()),
            Err(error) => {
                Err(format!("the host name {host:?} cannot be the name of this node: {error}; set --node"))
            }
        }
    }
}

fn check_readable(flag_name: &str, path: &Path) -> Result<(), String> {
    File::open(path).map(drop).map_err(|error| format!("cannot read {flag_name} {}: {error}", path.display()))
}

/// Reads the cluster's secret.
///
/// # Errors
/// The file cannot be read, has not 32 bytes, or other users may read or write it.
pub(crate) fn read_secret(path: &Path) -> Result<[u8; CLUSTER_SECRET_BYTES], String> {
    let bytes = read_private("--cluster-secret", path, CLUSTER_SECRET_BYTES)?;
    <[u8; CLUSTER_SECRET_BYTES]>::try_from(bytes).map_err(|bytes| {
        let path = path.display();
        let length = bytes.len();
        let length = if length > CLUSTER_SECRET_BYTES { "more".to_owned() } else { length.to_string() };
        format!(
            "--cluster-secret {path} has {length} bytes, expected {CLUSTER_SECRET_BYTES}; create it with \
             `head -c {CLUSTER_SECRET_BYTES} /dev/urandom > FILE`"
        )
    })
}

/// Refuses a URL with a user or a password: it would be in the list of processes.
///
/// # Errors
/// The flag, without the URL.
pub(crate) fn refuse_userinfo(flag_name: &str, url: &str) -> Result<(), String> {
    if contains_userinfo(url) {
        return Err(format!(
            "{flag_name} has a user or a password; remove it, and name a file with --cluster-creds or --cluster-nkey"
        ));
    }
    Ok(())
}

/// Returns whether a URL of any scheme has a user or a password.
fn contains_userinfo(url: &str) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest).split('/').next();
    authority.is_some_and(|authority| authority.contains('@'))
}

/// The source of the snapshots, as the scheme of its URL selects it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SnapshotSource {
    /// A bucket in the object store of JetStream.
    Nats { servers: Vec<String>, bucket: String },
    /// A bucket with the API of S3, and the prefix of all names in it.
    Bucket { bucket: String, prefix: String },
    /// A directory of a web server. The URL ends with a slash.
    Http { url: String },
    /// A directory of this machine, such as a network file system.
    Directory(PathBuf),
}

impl SnapshotSource {
    /// Parses the URL of a source.
    ///
    /// # Errors
    /// The accepted forms.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let refusal = || {
            "expected nats://HOST/BUCKET, tls://HOST/BUCKET, s3://BUCKET/PREFIX, https://HOST/DIR/ or file:///DIR/"
                .to_owned()
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(refusal)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        match scheme {
            "nats" | "tls" => {
                let servers = parse_servers(&format!("{scheme}://{authority}"))?;
                let bucket =
                    parse_name(path.trim_end_matches('/')).map_err(|error| format!("bucket: {error}"))?;
                Ok(Self::Nats { servers: server_addresses(&servers), bucket })
            }
            "s3" if !authority.is_empty() => {
                Ok(Self::Bucket { bucket: authority.to_owned(), prefix: path.trim_matches('/').to_owned() })
            }
            "http" | "https" => {
                let uri: Uri = url.parse().map_err(|_| refusal())?;
                let has_host = uri.host().is_some_and(|host| !host.is_empty());
                if !has_host || uri.query().is_some() {
                    return Err(refusal());
                }
                Ok(Self::Http { url: format!("{}/", url.trim_end_matches('/')) })
            }
            "file" if authority.is_empty() && !path.is_empty() => {
                Ok(Self::Directory(Path::new("/").join(path)))
            }
            _ => Err(refusal()),
        }
    }
}

/// Accepts the URL of a source of snapshots. [`ClusterConfig::check`] refuses one with a password.
pub(crate) fn parse_source(text: &str) -> Result<String, String> {
    if !has_userinfo(text) && !contains_userinfo(text) {
        SnapshotSource::parse(text)?;
    }
    Ok(text.to_owned())
}

/// Accepts addresses of NATS servers. [`ClusterConfig::check`] refuses those with a password.
pub(crate) fn parse_servers(text: &str) -> Result<String, String> {
    let refusal =
        || "expected nats://HOST:PORT or tls://HOST:PORT, several hosts separated by commas".to_owned();
    let (scheme, hosts) = text.split_once("://").ok_or_else(refusal)?;
    let is_host = |host: &str| {
        let uri: Option<Uri> = format!("http://{host}/").parse().ok();
        uri.is_some_and(|uri| uri.host().is_some_and(|host| !host.is_empty()) && !host.contains('/'))
    };
    let is_valid = matches!(scheme, "nats" | "tls") && hosts.split(',').all(is_host);
    if is_valid { Ok(text.to_owned()) } else { Err(refusal()) }
}

/// Splits the value of `--cluster` into the URL of each server.
pub(crate) fn server_addresses(text: &str) -> Vec<String> {
    let (scheme, hosts) = text.split_once("://").unwrap_or(("nats", text));
    hosts.split(',').map(|host| format!("{scheme}://{host}")).collect()
}

/// Accepts a name that can be a part of a subject.
pub(crate) fn parse_name(text: &str) -> Result<String, String> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.bytes().all(is_valid) {
        return Err(format!("expected a name of 1 to {NAME_BYTES_MAX} of A-Z, a-z, 0-9, _ and -"));
    }
    Ok(text.to_owned())
}

/// Accepts the name of a node.
fn parse_node(text: &str) -> Result<String, String> {
    if text == CONTROL {
        return Err(format!("`{CONTROL}` belongs to the messages of the operator; choose another name"));
    }
    parse_name(text)
}

/// Accepts the monitoring address of a NATS server.
pub(crate) fn parse_monitor(text: &str) -> Result<String, String> {
    let uri: Option<Uri> = text.parse().ok();
    let is_valid =
        uri.is_some_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some());
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err("expected a URL such as http://127.0.0.1:8222".to_owned())
    }
}
