//! The connection to NATS, which the distribution of snapshots and a cluster use.
//!
//! [`thread`] is the one thread that runs everything that talks to other machines. [`connect`] makes the connection,
//! [`key`] makes the identity of a client, and [`leader`] repeats a request while the servers have no leader.

pub(crate) mod connect;
pub(crate) mod key;
pub mod leader;
pub(crate) mod thread;
