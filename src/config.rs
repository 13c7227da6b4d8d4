//! The settings of a server, checked; where they come from is `cli`'s business.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

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

/// Everything that `serve` can be told.
#[derive(Debug, Clone)]
pub struct Config {
    /// The folder whose snapshots are served.
    pub snapshots: PathBuf,
    /// Edge's address.
    pub listen: SocketAddr,
    /// The operator's address.
    pub admin: SocketAddr,
    /// The operator's token; None: GETs on loopback only.
    pub admin_token: Option<String>,
    /// Worker threads, 1 to `WORKERS_MAX`; None: one for each CPU of the affinity mask.
    pub workers: Option<usize>,
    /// The workers' kernel interface.
    pub driver: Driver,
    /// Whether Edge answers `explain=1`.
    pub explain: bool,
    /// The header in which a proxy names the visitor's country, lower case.
    pub country_header: Option<String>,
    /// Bytes that sealed snapshots, old and new together, may take.
    pub snapshots_memory: u64,
    /// How long connections may take.
    pub timeouts: Timeouts,
    /// The time between two looks at the whole folder, beside inotify.
    pub rescan: Duration,
}
