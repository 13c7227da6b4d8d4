//! The connection to NATS, which the distribution of snapshots and a cluster use.
//!
//! [`thread`] is the one thread that runs everything that talks to other machines. [`connect`] makes the connection,
//! and [`leader`] repeats a request while the servers have no leader.

pub(crate) mod connect;
pub mod leader;
pub(crate) mod thread;
