//! The settings of a server, checked; where they come from is `cli`'s business.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use crate::limits::CONNECTIONS_MEMORY_BYTES_MIN;

/// Which kernel interface the workers use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// io_uring where the kernel allows it, else epoll, and said so.
    Auto,
    /// io_uring or not at all.
    Uring,
    /// epoll.
    Epoll,
}

/// When an event is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// Once it is on disk.
    Disk,
    /// Once it is in the file; it is on disk within 100 ms.
    Written,
}

/// How long a connection may take for what.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// From the first byte of a head to its end.
    pub head: Duration,
    /// From the end of a head on: after that a body has come at 1 KB a second at least.
    pub body: Duration,
    /// Between two requests, and before the first.
    pub idle: Duration,
    /// While nothing of an answer is taken.
    pub write: Duration,
}

impl Timeouts {
    /// The shortest of them.
    pub fn shortest(&self) -> Duration {
        self.head.min(self.body).min(self.idle).min(self.write)
    }
}

/// What the connections of a thread may take.
#[derive(Debug, Clone, Copy)]
pub struct Connections {
    /// How long.
    pub timeouts: Timeouts,
    /// How many there may be, of all threads of their address together.
    pub max: usize,
    /// Bytes of bodies on their way and of answers that are not taken yet, of this thread.
    pub held_bytes_max: usize,
    /// Whether each answer is logged.
    pub log: bool,
}

/// Everything that `serve` can be told.
#[derive(Debug, Clone)]
pub struct Config {
    /// The folder whose snapshots are served.
    pub snapshots: PathBuf,
    /// The folder of the log.
    pub data: PathBuf,
    /// When an event is acknowledged.
    pub ack: Ack,
    /// Bytes at which a segment of the log is sealed.
    pub segment_bytes: u64,
    /// Days for which events are kept; None: for ever.
    pub retain_days: Option<u32>,
    /// Bytes up to which events are kept; None: whatever they take.
    pub retain_bytes: Option<u64>,
    /// Bytes that what is known of visitors may take.
    pub profiles_memory: u64,
    /// Bytes of log after which that is kept in a file.
    pub checkpoint_bytes: u64,
    /// Edge's address.
    pub listen: SocketAddr,
    /// The address of events; None: they share Edge's.
    pub events_listen: Option<SocketAddr>,
    /// The operator's address.
    pub admin: SocketAddr,
    /// The operator's token; None: GETs on loopback only.
    pub admin_token: Option<String>,
    /// Worker threads, 1 to `WORKERS_MAX`; None: one for each CPU of the affinity mask.
    pub workers: Option<usize>,
    /// The workers' kernel interface.
    pub driver: Driver,
    /// How long a worker that has nothing to do polls before it parks, at most `SPIN_US_MAX`; zero: not at all.
    pub spin: Duration,
    /// Whether Edge answers `explain=1`.
    pub explain: bool,
    /// The header in which a proxy names the visitor's country, lower case.
    pub country_header: Option<String>,
    /// Bytes that sealed snapshots, old and new together, may take.
    pub snapshots_memory: u64,
    /// How long connections may take.
    pub timeouts: Timeouts,
    /// Connections of the public address; None: as many as descriptors allow, at most `CONNECTIONS_MAX`.
    pub connections: Option<usize>,
    /// Bytes of bodies on their way and of answers that are not taken yet, of all workers.
    pub connections_memory: usize,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Requests a second from one address.
    pub address_limit: Option<u32>,
    /// Requests a second for one site.
    pub site_limit: Option<u32>,
    /// Whether each answer is logged.
    pub access_log: bool,
    /// The time between two looks at the whole folder, beside inotify.
    pub rescan: Duration,
}

impl Config {
    /// What each of so many workers may hold of bodies on their way and answers that are not taken yet.
    pub fn held_bytes_max(&self, workers: usize) -> usize {
        (self.connections_memory / workers).max(CONNECTIONS_MEMORY_BYTES_MIN)
    }
}
