//! The attempts to store a message while the servers have no leader for its stream: right after their start,
//! and while they elect one.

use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{CreateStreamError, CreateStreamErrorKind};

/// Attempts to store a message, with a pause between two of them. A change of the leader takes 4 to 9 s.
pub const ATTEMPTS_MAX: u32 = 21;
const PAUSE: Duration = Duration::from_millis(500);

/// Waits until the next attempt. No server announces a leader, so there is nothing else to wait for.
pub(crate) async fn pause() {
    tokio::time::sleep(PAUSE).await;
}

/// Calls `attempt` until its error is another one than `is_refused` accepts, at most [`ATTEMPTS_MAX`] times.
///
/// # Errors
/// Those of `attempt`.
pub async fn until_stored<T, E>(
    pause: impl AsyncFn(),
    is_refused: impl Fn(&E) -> bool,
    mut attempt: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, E> {
    for _ in 1..ATTEMPTS_MAX {
        match attempt().await {
            Err(error) if is_refused(&error) => pause().await,
            result => return result,
        }
    }
    attempt().await
}

/// Tells whether a change of a stream's configuration may succeed soon: no leader answered it, or the leader
/// does not see enough servers yet.
pub(crate) fn is_early(error: &CreateStreamError) -> bool {
    match error.kind() {
        CreateStreamErrorKind::TimedOut | CreateStreamErrorKind::JetStreamUnavailable => true,
        CreateStreamErrorKind::JetStream(error) => {
            matches!(error.error_code(), ErrorCode::CLUSTER_NOT_AVAILABLE | ErrorCode::CLUSTER_NO_PEERS)
        }
        _ => false,
    }
}
