//! How often a message is sent to servers without a leader. `tests/cluster/run` publishes right after the
//! start of the servers.

use std::cell::Cell;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use parallax::testing::nats::leader::{ATTEMPTS_MAX, until_stored};

/// Stores after this many refusals. Returns the result, the number of attempts and the number of pauses.
fn store_after(refusals: u32, error: &'static str) -> (Result<u32, &'static str>, u32, u32) {
    let (attempts, pauses) = (Cell::new(0), Cell::new(0));
    let attempt = async || {
        attempts.set(attempts.get() + 1);
        if attempts.get() <= refusals { Err(error) } else { Ok(attempts.get()) }
    };
    let pause = async || pauses.set(pauses.get() + 1);
    let stored = pin!(until_stored(pause, |error| *error == "no leader", attempt));
    let Poll::Ready(result) = stored.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("nothing waits")
    };
    (result, attempts.get(), pauses.get())
}

#[test]
fn a_message_is_sent_21_times_while_there_is_no_leader() {
    assert_eq!(ATTEMPTS_MAX, 21);
    assert_eq!(store_after(0, "no leader"), (Ok(1), 1, 0));
    assert_eq!(store_after(19, "no leader"), (Ok(20), 20, 19));
    assert_eq!(store_after(20, "no leader"), (Ok(21), 21, 20));
    assert_eq!(store_after(21, "no leader"), (Err("no leader"), 21, 20));
}

#[test]
fn another_error_ends_the_attempts() {
    assert_eq!(store_after(1, "the storage is full"), (Err("the storage is full"), 1, 0));
}
