//! Starts the threads of the process. A thread that the system cannot start is an error of the caller, never a panic.

use std::hint::black_box;
use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Memory that a thread needs to start: a stack of 2 MiB, and the allocations of glibc and of the standard library, which grow
/// the heap by 1 MiB at a time.
const THREAD_BYTES: usize = 6 << 20;

/// Starts a thread. The name is visible in `top -H`.
///
/// # Errors
/// The system starts no thread. The text of the error has the name.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    require_memory();
    Builder::new().name(name.to_owned()).spawn(work).map_err(|cause| with_name(name, &cause))
}

/// Starts a thread that ends with `scope`.
///
/// # Errors
/// As for [`spawn`].
pub(crate) fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    require_memory();
    Builder::new().name(name.to_owned()).spawn_scoped(scope, work).map_err(|cause| with_name(name, &cause))
}

/// Allocates and frees the memory of a new thread. Without it the allocator of the program ends the process with a sentence. glibc
/// would abort it while the thread starts.
fn require_memory() {
    black_box(Vec::<u8>::with_capacity(THREAD_BYTES));
}

fn with_name(name: &str, cause: &io::Error) -> io::Error {
    io::Error::new(cause.kind(), format!("{name}: {cause}"))
}
