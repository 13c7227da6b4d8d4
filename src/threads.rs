//! Starts the threads of the process. A thread that the system cannot start is an error of the caller, never a panic.

use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Starts a thread. The name is visible in `top -H`.
///
/// # Errors
/// The system starts no thread. The text of the error has the name.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
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
    Builder::new().name(name.to_owned()).spawn_scoped(scope, work).map_err(|cause| with_name(name, &cause))
}

fn with_name(name: &str, cause: &io::Error) -> io::Error {
    io::Error::new(cause.kind(), format!("{name}: {cause}"))
}
