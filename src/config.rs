//! The settings of a server. `cli` reads them from flags, environment and file, with the parsers and defaults
//! that are declared here.
//!
//! The doc of a field is its `--help` text. Its flag is also its key in the settings file, and names its
//! environment variable: `--busy-poll-us` is `PARALLAX_BUSY_POLL_US`.

pub mod access;
#[cfg(feature = "cluster")]
pub(crate) mod cluster;
pub mod key_file;
mod memory_size;
mod secret_file;

use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{RangedU64ValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use ipnet::IpNet;
use ureq::http::Uri;
use ureq::http::uri::Authority;

pub use self::memory_size::MemorySize;
use self::memory_size::memory_size_parser;
use crate::acknowledgement::Ack;
use crate::addresses::parse_address;
use crate::identity_keys::IdentityKeys;
use crate::ids::parse_tracking_id;
use crate::limits::scrub::{SCRUB_RATE_BYTES_DEFAULT, SCRUB_RATE_BYTES_MIN};
use crate::limits::{
    ADMIN_CONNECTIONS_DEFAULT, AUDIT_RETAIN_DAYS_DEFAULT, BUSY_POLL_US_MAX, CHECKPOINT_LOG_BYTES_DEFAULT,
    INSIGHTS_MEMORY_BYTES_MIN, PROFILES_SHARE_DEFAULT, SEGMENT_BYTES_DEFAULT, WORKERS_MAX,
};
use crate::visitor_keys::VisitorKeys;

/// The snapshots directory if none is set.
pub(crate) const SNAPSHOTS_DIRECTORY_DEFAULT: &str = "snapshots";

/// The I/O interface of the workers, as the user chose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DriverChoice {
    /// io_uring, or epoll with a warning in the log if io_uring is forbidden.
    Auto,
    /// io_uring. The server does not start without it.
    Uring,
    /// epoll.
    Epoll,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// A number of bytes. As text it may have a unit, such as `512MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// The units, the largest power of 1024 first. Powers of 1000 follow.
    const UNITS: [(&'static str, u64); 8] = [
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("KB", 1_000),
    ];

    /// Parses a whole number with an optional unit of either case.
    ///
    /// # Errors
    /// Returns a text if there is no number, the unit is unknown, or the size exceeds 64 bits.
    pub fn parse(text: &str) -> Result<Self, String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let units = || Self::UNITS.map(|(name, _)| name).join(", ");
        if digits == 0 {
            return Err(format!("expected a whole number, alone or with a unit: {}", units()));
        }
        let factor = match Self::UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
            Some((_, factor)) => *factor,
            None if unit.is_empty() => 1,
            None => return Err(format!("unknown unit {unit:?}, expected one of {}", units())),
        };
        let bytes = number.parse().ok().and_then(|number: u64| number.checked_mul(factor));
        bytes.map(Self).ok_or_else(|| format!("{text} exceeds {} bytes", u64::MAX))
    }
}

impl fmt::Display for ByteSize {
    /// Writes the size with the largest power of 1024 that divides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = *self;
        let mut units = Self::UNITS.iter().take(4);
        match units.find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor)) {
            Some((name, factor)) => write!(f, "{}{name}", bytes / factor),
            None => write!(f, "{bytes}"),
        }
    }
}

/// The timeouts of a connection, one for each thing that it can wait for.
#[derive(Debug, Clone, Copy, Args)]
pub struct Timeouts {
    /// Timeout for a request head to arrive, in milliseconds. A slower one gets 408.
    #[arg(long = "timeout-head-ms", value_name = "MS", help_heading = LIMITS, default_value = "10000", value_parser = timeout_parser())]
    pub head: Duration,
    /// Time, in milliseconds, over which the rate of a request body is measured. A body that arrives at less
    /// than 1 KB/s in the last such time gets 408.
    #[arg(long = "timeout-body-ms", value_name = "MS", help_heading = LIMITS, default_value = "10000", value_parser = timeout_parser())]
    pub body: Duration,
    /// Timeout for a connection without a request, in milliseconds. Then it is closed.
    #[arg(long = "timeout-idle-ms", value_name = "MS", help_heading = LIMITS, default_value = "75000", value_parser = timeout_parser())]
    pub idle: Duration,
    /// Timeout for a client that reads no byte of its response, in milliseconds. Then the connection is
    /// closed.
    #[arg(long = "timeout-write-ms", value_name = "MS", help_heading = LIMITS, default_value = "30000", value_parser = timeout_parser())]
    pub write: Duration,
}

impl Timeouts {
    /// Returns the shortest of the four timeouts.
    pub fn shortest(&self) -> Duration {
        self.head.min(self.body).min(self.idle).min(self.write)
    }
}

/// The limits for the connections of one thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// The timeouts of each connection.
    pub timeouts: Timeouts,
    /// Open connections, over all threads that serve the same address.
    pub max: usize,
    /// True if a connection over `max` closes the one that has waited longest for its client.
    pub closes_waiting: bool,
    /// Bytes of this thread for responses not yet sent.
    pub memory_bytes_max: usize,
    /// Bytes of this thread for request bodies being received.
    pub body_memory_bytes_max: usize,
    /// Bytes of output buffers that this thread keeps for its next responses.
    pub output_pool_bytes_max: usize,
    /// True if each response is written to the access log.
    pub access_log: bool,
}

/// Headings of `--help`.
const EVENTS: &str = "Events";
const ADDRESSES: &str = "Addresses";
const WORKERS: &str = "Workers";
const RESPONSES: &str = "Responses";
const SNAPSHOTS: &str = "Snapshots";
const LIMITS: &str = "Limits and timeouts";
const LOG: &str = "Log";

/// The settings of `parallax serve`.
#[derive(Debug, Clone, Args)]
pub struct Config {
    /// The directory of the snapshots. Every *.snapshot file in it is published [default: snapshots].
    #[arg(long, value_name = "DIR", help_heading = SNAPSHOTS)]
    pub snapshots: Option<PathBuf>,
    /// The directory of the event log. Only one server at a time can use it.
    #[arg(long, value_name = "DIR", help_heading = EVENTS, default_value = "data")]
    pub data: PathBuf,
    /// The group that may read the data directory, by name or number, such as that of a backup job. Its files
    /// then have the mode 0640, and the directory 0750 [default: only the server's user, 0600 and 0700].
    #[arg(long, value_name = "NAME", help_heading = EVENTS)]
    pub data_group: Option<String>,
    /// When to acknowledge an event.
    #[arg(long, help_heading = EVENTS, value_enum, default_value_t = Ack::Disk)]
    pub ack: Ack,
    /// Size at which a segment of the log is sealed and the next one begins, in bytes or with a unit.
    #[arg(long, value_name = "SIZE", help_heading = EVENTS, default_value_t = ByteSize(SEGMENT_BYTES_DEFAULT), value_parser = size_parser(65_536..=1 << 40))]
    pub segment_bytes: ByteSize,
    /// Retention of events in days; older segments are deleted whole. After a jump of the system clock, age is
    /// counted by a clock that moves at most one hour per minute [default: unlimited].
    #[arg(long, value_name = "N", help_heading = EVENTS, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub retain_days: Option<u32>,
    /// Retention of events by size of the log, in bytes or with a unit. Above it the oldest segments are
    /// deleted, but no event of the last 24 hours [default: unlimited].
    #[arg(long, value_name = "SIZE", help_heading = EVENTS, value_parser = size_parser(0..=u64::MAX))]
    pub retain_bytes: Option<ByteSize>,
    /// Retention of the audit log in days. Files are deleted whole, so a line is kept for up to 31 days longer.
    #[arg(long, value_name = "N", help_heading = EVENTS, default_value_t = AUDIT_RETAIN_DAYS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub audit_retain_days: u32,
    /// A digest of the effective settings, without secrets, for the audit log. No flag sets it.
    #[arg(skip)]
    pub settings_digest: String,
    /// The public address: resolve, variants, routes, query, page, track. A port alone is one of 127.0.0.1. If the service
    /// manager passed a socket for an address, the server listens on it and does not bind the address.
    #[arg(long, value_name = "ADDRESS", help_heading = ADDRESSES, default_value = "127.0.0.1:8080", value_parser = parse_address)]
    pub listen: SocketAddr,
    /// Serve the event endpoints on this address only, and no longer on --listen [default: the public address].
    #[arg(long, value_name = "ADDRESS", help_heading = ADDRESSES, value_parser = parse_address)]
    pub events_listen: Option<SocketAddr>,
    /// The admin address: health, metrics, visitor data, and explanations of decisions.
    #[arg(long, value_name = "ADDRESS", help_heading = ADDRESSES, default_value = "127.0.0.1:9090", value_parser = parse_address)]
    pub admin: SocketAddr,
    /// The Bearer token for the admin address. Every request needs it, except health and metrics. Without
    /// it, or if it is empty, only reads from loopback are allowed, and not through a proxy.
    #[arg(long, value_name = "TOKEN", help_heading = ADDRESSES, hide_env_values = true)]
    pub admin_token: Option<String>,
    /// The tokens and people that may use the admin address.
    #[command(flatten)]
    pub access: access::AccessConfig,
    /// A file with the keys of sites that verify user IDs ("identity" in site.json): in each line a site ID, a blank, and
    /// a key of 32 to 256 characters. Without a key of its site, no user ID counts. SIGHUP reads the file again.
    #[arg(long, value_name = "FILE", help_heading = EVENTS)]
    pub identity_keys: Option<PathBuf>,
    /// A file with the keys that seal visitor tokens: in each line an ID of 1 to 8 letters or digits, a blank, and a key of 32 to
    /// 256 characters, at most 4 lines. The first key seals. Without this file there are no tokens. SIGHUP reads it again.
    #[arg(long, value_name = "FILE", help_heading = EVENTS)]
    pub visitor_keys: Option<PathBuf>,
    /// Worker threads [default: one for each CPU that this process may use].
    #[arg(long, value_name = "N", help_heading = WORKERS, value_parser = RangedU64ValueParser::<usize>::new().range(1..=WORKERS_MAX as u64))]
    pub workers: Option<usize>,
    /// The I/O interface of the workers.
    #[arg(long, help_heading = WORKERS, value_enum, default_value_t = DriverChoice::Auto)]
    pub driver: DriverChoice,
    /// Microseconds that an idle worker polls before it sleeps; 0: it sleeps at once. Polling lowers the
    /// latency of requests that follow each other closely, and uses CPU time. After several polls without a
    /// request, the worker sleeps at once.
    #[arg(long = "busy-poll-us", value_name = "N", help_heading = WORKERS, default_value = "0", value_parser = RangedU64ValueParser::<u64>::new().range(..=BUSY_POLL_US_MAX).map(Duration::from_micros))]
    pub busy_poll: Duration,
    /// Answer explain=1 on the public address. It shows visitor profiles to every client.
    #[arg(long, help_heading = RESPONSES)]
    pub explain: bool,
    /// True in `parallax dev`, where the public address answers `now`. No flag sets it.
    #[arg(skip)]
    pub is_dev: bool,
    /// The header in which your proxy sends the visitor's country, such as CF-IPCountry.
    #[arg(long, value_name = "HEADER", help_heading = RESPONSES, value_parser = parse_header_name)]
    pub country_header: Option<String>,
    /// Memory limit for snapshots, old and new versions together, in bytes or with a unit. A snapshot beyond
    /// it is rejected [default: half of the memory that the other limits leave].
    #[arg(long, value_name = "SIZE", help_heading = SNAPSHOTS, value_parser = size_parser(0..=1 << 48))]
    pub snapshots_memory: Option<ByteSize>,
    /// Memory limit for visitor profiles (about 400 bytes each), in bytes, with a unit, or as a share, such as
    /// 40%, of the memory of the machine or container that the other limits leave. When full, single-visit
    /// visitors are evicted first, then the least recently seen.
    #[arg(long, value_name = "SIZE", help_heading = EVENTS, default_value_t = MemorySize::Share(PROFILES_SHARE_DEFAULT), value_parser = memory_size_parser())]
    pub profiles_memory: MemorySize,
    /// Memory limit of Insights, in bytes or with a unit, at least 64MiB. A question about more visitors than
    /// fit counts them in several passes. 0 switches Insights off and deletes its column files [default: a 32nd
    /// of the memory, at most 128MiB].
    #[arg(long, value_name = "SIZE", help_heading = EVENTS, value_parser = zero_or_size_parser(INSIGHTS_MEMORY_BYTES_MIN..=1 << 48))]
    pub insights_memory: Option<ByteSize>,
    /// Size of new log after which visitor profiles are saved to a checkpoint, in bytes or with a unit. A
    /// start reads the checkpoint and only the log after it.
    #[arg(long, value_name = "SIZE", help_heading = EVENTS, default_value_t = ByteSize(CHECKPOINT_LOG_BYTES_DEFAULT), value_parser = size_parser(1..=1 << 40))]
    pub checkpoint_bytes: ByteSize,
    /// Rate at which the scrub reads the data directory to find damage, in bytes per second or with a unit, at
    /// least 256KiB. It reads each file once a week. 0 switches it off.
    #[arg(long, value_name = "SIZE", help_heading = EVENTS, default_value_t = ByteSize(SCRUB_RATE_BYTES_DEFAULT), value_parser = zero_or_size_parser(SCRUB_RATE_BYTES_MIN..=1 << 40))]
    pub scrub_rate: ByteSize,
    /// Open connections of the public address. A connection beyond the limit gets 503 [default: as many as
    /// the descriptor limit and a 32nd of the memory allow, at most 65536].
    #[arg(long, value_name = "N", help_heading = LIMITS, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    pub connections: Option<usize>,
    /// Open connections of the admin address. A connection beyond the limit closes the one that has been idle
    /// longest. With a low descriptor limit there are fewer.
    #[arg(long, value_name = "N", help_heading = LIMITS, default_value_t = ADMIN_CONNECTIONS_DEFAULT, value_parser = RangedU64ValueParser::<usize>::new().range(1..=65_536))]
    pub admin_connections: usize,
    /// Memory limit for responses not yet sent, over all connections (at least 4 MiB per worker), in bytes or
    /// with a unit. Requests beyond it get 503 [default: a 32nd of the memory, at most 512MiB].
    #[arg(long, value_name = "SIZE", help_heading = LIMITS, value_parser = size_parser(0..=1 << 44))]
    pub connections_memory: Option<ByteSize>,
    /// Memory limit for request bodies being received, over all connections (at least 1 MiB per worker), in
    /// bytes or with a unit. Beyond it the slowest body gets 408 [default: a 32nd of the memory, at most 384MiB].
    #[arg(long, value_name = "SIZE", help_heading = LIMITS, value_parser = size_parser(0..=1 << 44))]
    pub bodies_memory: Option<ByteSize>,
    /// A proxy or network whose X-Forwarded-For is trusted, such as 10.0.0.0/8. Separate several by commas.
    #[arg(long, value_name = "CIDR", help_heading = ADDRESSES, value_delimiter = ',', value_parser = parse_network)]
    pub trusted_proxy: Vec<IpNet>,
    /// Rate limit for one client address (IPv6: one /64), in requests per second, with a burst of the same
    /// size. Requests beyond it get 429 [default: no limit].
    #[arg(long, value_name = "R", help_heading = LIMITS, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate_limit_per_ip: Option<u32>,
    /// Rate limit for one site, in requests per second, with a burst of the same size. Requests beyond it get
    /// 429 [default: no limit].
    #[arg(long, value_name = "R", help_heading = LIMITS, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate_limit_per_site: Option<u32>,
    /// The timeouts of each connection.
    #[command(flatten)]
    pub timeouts: Timeouts,
    /// Milliseconds between two scans of the snapshots directory. They complement inotify, which reports
    /// neither changes of a link's target nor changes that another machine makes on a network file system.
    #[arg(long = "rescan-ms", value_name = "MS", help_heading = SNAPSHOTS, default_value = "500", hide = true, value_parser = RangedU64ValueParser::<u64>::new().map(|ms| Duration::from_millis(ms.max(1))))]
    pub rescan_interval: Duration,
    /// Serve only snapshots with this tracking ID, and its previews. Separate several by commas. A snapshot with another
    /// tracking ID is refused, so that staging and production never serve the content of each other [default: all tracking IDs].
    #[arg(long, value_name = "ID", help_heading = SNAPSHOTS, value_delimiter = ',', value_parser = parse_tracking_id)]
    pub tracking_id: Vec<String>,
    /// Send each new version of a site to this URL when the server begins to serve it: a POST with a JSON object
    /// of site, trackingId, version and since. Sent again until the response is 2xx: after 1 s, doubled up to 60 s.
    #[arg(long, value_name = "URL", help_heading = SNAPSHOTS, value_parser = parse_receiver_url)]
    pub on_publish: Option<String>,
    /// The Bearer token that the server sends to the URL of --on-publish.
    #[arg(long, value_name = "TOKEN", help_heading = SNAPSHOTS, hide_env_values = true)]
    pub on_publish_token: Option<String>,
    /// Milliseconds that one POST to --on-publish may take.
    #[arg(long = "on-publish-timeout-ms", value_name = "MS", help_heading = SNAPSHOTS, default_value = "10000", hide = true, value_parser = timeout_parser())]
    pub on_publish_timeout: Duration,
    /// The settings of a node.
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    pub cluster: cluster::ClusterConfig,
    /// Format of log lines on standard error.
    #[arg(long, help_heading = LOG, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Log each response: method, path, site, route, status, bytes, time. Client addresses and visitor data
    /// are never logged.
    #[arg(long, help_heading = LOG)]
    pub access_log: bool,
}

impl Config {
    /// Checks the secrets, and settings that depend on each other or on files. A parser of the command line
    /// would print the value that it refuses.
    ///
    /// # Errors
    /// The flag at fault, and the accepted values.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.check_tokens()?;
        self.read_identity_keys()?;
        self.read_visitor_keys()?;
        self.check_access()?;
        #[cfg(feature = "cluster")]
        self.cluster.check(self.ack)?;
        Ok(())
    }

    /// Checks the settings of access to the admin address, and their file.
    ///
    /// # Errors
    /// The flag at fault, and the remedy.
    pub(crate) fn check_access(&self) -> Result<(), String> {
        self.access.check(!self.trusted_proxy.is_empty())
    }

    /// Checks that header fields can have the tokens as they are. A client could never send another one.
    fn check_tokens(&self) -> Result<(), String> {
        let tokens = [("--admin-token", &self.admin_token), ("--on-publish-token", &self.on_publish_token)];
        let is_invalid = |token: &String| !token.bytes().all(|byte| byte.is_ascii_graphic());
        if let Some((flag, _)) = tokens.iter().find(|(_, token)| token.as_ref().is_some_and(is_invalid)) {
            return Err(format!(
                "{flag} has a space or a character that is not ASCII; \
                 choose a token of visible ASCII characters, such as the output of `openssl rand -hex 32`"
            ));
        }
        if self.on_publish.as_ref().is_some_and(|url| has_userinfo(url)) {
            return Err("--on-publish has a user or a password; use --on-publish-token".to_owned());
        }
        Ok(())
    }

    /// Reads the file of `identity_keys`. Without it there are no keys.
    ///
    /// # Errors
    /// The flag, the file, and its fault.
    pub(crate) fn read_identity_keys(&self) -> Result<IdentityKeys, String> {
        self.identity_keys
            .as_deref()
            .map_or_else(|| Ok(IdentityKeys::default()), key_file::read_identity_keys)
    }

    /// Reads the file of `visitor_keys`. Without it there are no keys.
    ///
    /// # Errors
    /// The flag, the file, and its fault.
    pub(crate) fn read_visitor_keys(&self) -> Result<VisitorKeys, String> {
        self.visitor_keys.as_deref().map_or_else(|| Ok(VisitorKeys::default()), key_file::read_visitor_keys)
    }

    /// Returns whether the snapshots directory is filled by this server.
    pub(crate) fn pulls_snapshots(&self) -> bool {
        #[cfg(feature = "cluster")]
        let pulls = self.cluster.snapshots_from.is_some();
        #[cfg(not(feature = "cluster"))]
        let pulls = false;
        pulls
    }

    /// Returns whether the server is a node of a cluster.
    pub(crate) fn is_node(&self) -> bool {
        #[cfg(feature = "cluster")]
        let is_node = self.cluster.cluster.is_some();
        #[cfg(not(feature = "cluster"))]
        let is_node = false;
        is_node
    }

    /// Returns the directory of the snapshots that are served.
    pub fn snapshots_directory(&self) -> &Path {
        self.snapshots.as_deref().unwrap_or(Path::new(SNAPSHOTS_DIRECTORY_DEFAULT))
    }
}

/// Accepts 100 ms to one day.
fn timeout_parser() -> impl TypedValueParser<Value = Duration> {
    RangedU64ValueParser::<u64>::new().range(100..=86_400_000).map(Duration::from_millis)
}

/// Accepts sizes in this range.
pub(crate) fn size_parser(range: RangeInclusive<u64>) -> impl TypedValueParser<Value = ByteSize> {
    move |text: &str| match ByteSize::parse(text)? {
        ByteSize(bytes) if !range.contains(&bytes) => {
            Err(format!("{bytes} is not in {}..={}", range.start(), range.end()))
        }
        size => Ok(size),
    }
}

/// Accepts 0, and sizes in this range.
fn zero_or_size_parser(range: RangeInclusive<u64>) -> impl TypedValueParser<Value = ByteSize> {
    move |text: &str| match ByteSize::parse(text)? {
        ByteSize(bytes) if bytes == 0 || range.contains(&bytes) => Ok(ByteSize(bytes)),
        _ => {
            let least = ByteSize(*range.start());
            let most = ByteSize(*range.end());
            Err(format!("expected 0, or a size from {least} to {most}"))
        }
    }
}

/// Parses a network or a single address.
fn parse_network(text: &str) -> Result<IpNet, String> {
    let alone = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse()
        .or_else(|_| alone())
        .map_err(|_| "expected a network such as 10.0.0.0/8, or an address".to_owned())
}

/// Accepts a URL of the schemes `http` and `https`. [`Config::check`] refuses one with a password.
fn parse_receiver_url(text: &str) -> Result<String, String> {
    let uri: Option<Uri> = text.parse().ok();
    let authority = uri.as_ref().filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
    match authority.and_then(Uri::authority) {
        Some(authority) if has_userinfo(text) || is_host_with_port(authority) => Ok(text.to_owned()),
        _ => Err("expected a URL such as http://localhost:3000/api/parallax/revalidate".to_owned()),
    }
}

/// Returns whether a URL has a user or a password. Both would be in the log of every proxy.
fn has_userinfo(url: &str) -> bool {
    let uri: Option<Uri> = url.parse().ok();
    uri.as_ref().and_then(Uri::authority).is_some_and(|authority| authority.as_str().contains('@'))
}

/// Returns whether the authority has a host, and no port or a valid one.
fn is_host_with_port(authority: &Authority) -> bool {
    let host = authority.host();
    !host.is_empty() && (authority.as_str().len() == host.len() || authority.port_u16().is_some())
}

/// Converts the name of a header to lower case.
fn parse_header_name(text: &str) -> Result<String, Infallible> {
    Ok(text.to_ascii_lowercase())
}
