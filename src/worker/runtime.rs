//! Which kernel interface a thread uses, and its runtime.
//!
//! io_uring with `SINGLE_ISSUER | COOP_TASKRUN`: without these flags the same server does half the
//! work. Kernels before 6.0 do not have them and get a plain ring; where io_uring is forbidden, as
//! in most container runtimes, there is epoll.

use std::future::Future;
use std::io;
use std::sync::mpsc::SyncSender;

use io_uring::IoUring;
use monoio::{IoUringDriver, LegacyDriver, RuntimeBuilder};

use crate::config::Driver;

/// A kernel interface that was tried and works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// io_uring, its completions delivered when the thread asks.
    Uring,
    /// io_uring of a kernel without the flags.
    PlainUring,
    /// epoll.
    Epoll,
}

impl Kernel {
    /// Its name in a log line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uring => "io_uring",
            Self::PlainUring => "io_uring without flags",
            Self::Epoll => "epoll",
        }
    }

    /// The best interface that `driver` allows and this machine has, and what is to be said about it.
    ///
    /// # Errors
    /// io_uring was demanded and is not to be had.
    pub fn choose(driver: Driver) -> io::Result<(Self, Option<String>)> {
        if driver == Driver::Epoll {
            return Ok((Self::Epoll, None));
        }
        if flagged().build(ENTRIES).is_ok() {
            return Ok((Self::Uring, None));
        }
        let plain: io::Result<IoUring> = IoUring::builder().build(ENTRIES);
        match plain {
            Ok(_) => {
                let note = "this kernel's io_uring lacks SINGLE_ISSUER and COOP_TASKRUN (Linux 6.0): about half the requests a second";
                Ok((Self::PlainUring, Some(note.to_owned())))
            }
            Err(error) if driver == Driver::Uring => Err(error),
            Err(error) => {
                let note = format!(
                    "io_uring is not to be had ({error}), epoll serves in its place: up to 15 % more CPU a request"
                );
                Ok((Self::Epoll, Some(note)))
            }
        }
    }
}

/// Entries of a ring: more operations wait in user space until there is room.
const ENTRIES: u32 = 1024;

fn flagged() -> io_uring::Builder {
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_coop_taskrun();
    builder
}

/// Runs `serve` on this thread until it ends, and says through `started` whether it began.
pub(super) fn run<F: Future<Output = ()>>(
    kernel: Kernel,
    started: &SyncSender<io::Result<()>>,
    serve: impl FnOnce() -> F,
) {
    let say = |result| {
        // Nobody listens any more where booting failed elsewhere.
        let _ = started.send(result);
    };
    let ring = match kernel {
        Kernel::Uring => flagged(),
        Kernel::PlainUring | Kernel::Epoll => IoUring::builder(),
    };
    macro_rules! block_on {
        ($driver:ty) => {
            match RuntimeBuilder::<$driver>::new()
                .with_entries(ENTRIES)
                .uring_builder(ring)
                .enable_timer()
                .build()
            {
                Ok(mut runtime) => {
                    say(Ok(()));
                    runtime.block_on(serve());
                }
                Err(error) => say(Err(error)),
            }
        };
    }
    match kernel {
        Kernel::Uring | Kernel::PlainUring => block_on!(IoUringDriver),
        Kernel::Epoll => block_on!(LegacyDriver),
    }
}
