//! The runtime of a thread and its I/O driver: io_uring or epoll.
//!
//! io_uring is set up with `SINGLE_ISSUER | COOP_TASKRUN`. Without these flags the server handles half as
//! many requests. Kernels before 6.0 lack the flags and get a plain ring. Most container runtimes forbid
//! io_uring. The server then uses epoll.

use std::future::Future;
use std::io;
use std::sync::mpsc::SyncSender;

use io_uring::IoUring;
use monoio::{IoUringDriver, LegacyDriver, RuntimeBuilder};

use crate::config::DriverChoice;

/// An I/O driver that was tested on this machine and works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// io_uring that delivers completions when the thread asks for them.
    Uring,
    /// io_uring without `SINGLE_ISSUER` and `COOP_TASKRUN`, on kernels before 6.0.
    PlainUring,
    Epoll,
}

impl Driver {
    /// Returns the name for log lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uring => "io_uring",
            Self::PlainUring => "io_uring without flags",
            Self::Epoll => "epoll",
        }
    }

    /// Returns the fastest driver that the setting allows and this machine supports, and a warning to log, if
    /// any.
    ///
    /// # Errors
    /// The setting requires io_uring and io_uring is unavailable.
    pub fn choose(choice: DriverChoice) -> io::Result<(Self, Option<String>)> {
        if choice == DriverChoice::Epoll {
            return Ok((Self::Epoll, None));
        }
        if uring_builder().build(RING_ENTRIES).is_ok() {
            return Ok((Self::Uring, None));
        }
        let plain: io::Result<IoUring> = IoUring::builder().build(RING_ENTRIES);
        match plain {
            Ok(_) => {
                let note = "io_uring lacks SINGLE_ISSUER and COOP_TASKRUN on this kernel: about half as many requests per second; use Linux 6.0 or later";
                Ok((Self::PlainUring, Some(note.to_owned())))
            }
            Err(error) if choice == DriverChoice::Uring => Err(error),
            Err(error) => {
                let note = format!(
                    "io_uring is unavailable ({error}); using epoll instead: up to 15 % more CPU per request"
                );
                Ok((Self::Epoll, Some(note)))
            }
        }
    }
}

/// Entries of an io_uring queue. When the queue is full, further operations wait in user space.
const RING_ENTRIES: u32 = 1024;

fn uring_builder() -> io_uring::Builder {
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_coop_taskrun();
    builder
}

/// Runs the future of `serve` on this thread until it ends. Reports through `start_sender` whether the runtime was
/// created.
pub(super) fn run<F: Future<Output = ()>>(
    driver: Driver,
    start_sender: &SyncSender<io::Result<()>>,
    serve: impl FnOnce() -> F,
) {
    let report = |result| {
        // The receiver is gone if startup failed elsewhere. Then nobody needs the result.
        let _ = start_sender.send(result);
    };
    let ring = match driver {
        Driver::Uring => uring_builder(),
        Driver::PlainUring | Driver::Epoll => IoUring::builder(),
    };
    macro_rules! block_on {
        ($driver:ty) => {
            match RuntimeBuilder::<$driver>::new()
                .with_entries(RING_ENTRIES)
                .uring_builder(ring)
                .enable_timer()
                .build()
            {
                Ok(mut runtime) => {
                    report(Ok(()));
                    runtime.block_on(serve());
                }
                Err(error) => report(Err(error)),
            }
        };
    }
    match driver {
        Driver::Uring | Driver::PlainUring => block_on!(IoUringDriver),
        Driver::Epoll => block_on!(LegacyDriver),
    }
}
