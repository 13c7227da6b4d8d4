//! The errors that prevent the start of a server.

use std::io;
use std::path::{Path, PathBuf};

use crate::addresses::ListenError;
use crate::log::LogError;
use crate::visitors::checkpoint::restore::RestoreError;
use crate::worker::PassedSocketError;

/// An error that prevents the start of a server.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    #[error(transparent)]
    Address(#[from] ListenError),
    #[error(transparent)]
    PassedSocket(#[from] PassedSocketError),
    #[error("cannot read the snapshots directory {}: {cause}. Create it, or set --snapshots", directory.display())]
    Snapshots { directory: PathBuf, cause: io::Error },
    #[error(
        "cannot use the data directory {}: {cause}. Stop the server that uses it, fix the cause, or set --data", directory.display()
    )]
    Data { directory: PathBuf, cause: LogError },
    #[error("cannot restore visitor profiles from the data directory {}: {cause}", directory.display())]
    Visitors { directory: PathBuf, cause: RestoreError },
    #[error(
        "io_uring is unavailable: {0}. Use --driver auto or epoll, or enable io_uring (sysctl kernel.io_uring_disabled, seccomp profile of the container)"
    )]
    Driver(io::Error),
    #[error("{0}")]
    Keys(String),
    #[error("{what}: {cause}")]
    System { what: &'static str, cause: io::Error },
    #[error(
        "the descriptor limit of {limit} leaves no descriptor for clients. Raise it (ulimit -n, LimitNOFILE) by 1000 or more"
    )]
    Descriptors { limit: u64 },
    #[cfg(feature = "cluster")]
    #[error("cannot pull snapshots: {0}")]
    Puller(String),
    /// A setting of a node.
    #[cfg(feature = "cluster")]
    #[error("{0}")]
    Cluster(String),
    #[error(
        "cannot start a thread: {0}. Raise the limits on processes, on memory and on locked memory (ulimit -u, -v, -l; TasksMax of systemd; pids.max and memory.max of the container)"
    )]
    Thread(io::Error),
}

impl BootError {
    /// Returns the error of a start that cannot use the log in `directory`.
    pub(super) fn of_data(directory: &Path, cause: LogError) -> Self {
        match cause {
            LogError::Thread(cause) => Self::Thread(cause),
            cause => Self::Data { directory: directory.to_owned(), cause },
        }
    }

    /// Returns the error of a start that cannot use the checkpoints in `directory`.
    pub(super) fn of_visitors(directory: &Path, cause: RestoreError) -> Self {
        match cause {
            RestoreError::Thread(cause) => Self::Thread(cause),
            cause => Self::Visitors { directory: directory.to_owned(), cause },
        }
    }
}
