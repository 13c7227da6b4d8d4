//! Parallax hands every visitor of a website their own version of a page within microseconds.
//!
//! # The flow of the data
//!
//! ```text
//! published    site directory --compile--> snapshot file --copy into snapshots/--> sealed, mapped, verified --> catalog
//! recorded     POST --decode--> record --queue--> log writer: append, fdatasync --> segment files (the log)
//!              `--fold--> profiles (memory, checkpoints) --> acknowledged
//! response     resolve(snapshot, profile, request) = bytes                          a pure function
//! ```
//!
//! Three nouns carry the design: the *snapshot* holds everything that a site published, the *log* everything
//! that visitors did, and the *profile* is the fold of one visitor's records.
//!
//! The directory of a site becomes one file ([`site::compile`]). The server copies it into sealed memory and
//! verifies it ([`site::snapshot::open`]), selects the file to serve for each site
//! ([`site::catalog::directory`]), and swaps one pointer ([`site::catalog::catalog`]). A [`worker`] receives
//! a request, [`http`] parses it, [`api`] takes it to its endpoint, [`resolve`] decides and renders, and the
//! worker sends the response from the buffer into which it was rendered. An event is decoded and validated
//! ([`visitors::events`]) and queued as a record. It is acknowledged when the log writer ([`visitors::log`])
//! has synced it and has folded it into the profile of its visitor ([`visitors`]).
//!
//! # Floors
//!
//! A module uses only modules on lower floors. Modules on one floor do not use each other. An external crate
//! is named only in its own directory. Tests check both rules.
//!
//! # Invariants
//!
//! * [`resolve`] and [`condition`] know no HTTP, no sockets and no clock. Time is a parameter.
//! * A GET takes no lock, touches no file, and allocates nothing once the buffers of its connection exist. Explanations are the
//!   exception.
//! * Status 200 for an event means that it is on disk once, stays there, and is known to the next resolve. The log writer only
//!   delays requests that wait for its acknowledgement.
//! * The table of visitors is exactly the fold of the log, or of a checkpoint and the records after it, evictions included.
//! * A request sees one snapshot from its first byte to its last.
//! * Mapped bytes cannot change: they are sealed first and verified after that.
//! * Every queue, buffer, table, loop and recursion has a bound, in [`limits`] or beside its only user.
//! * Only `allocator.rs`, `server/memory.rs`, `site/snapshot/open.rs` and two files of `visitors/store/` have `unsafe`. Each block
//!   has its proof.
//! * A public response contains no data of a visitor or of the client.

#![warn(unreachable_pub)]

pub use allocator::ExitingAllocator;
pub use cli::run;

// Floor 10: commands and flags. `main` is above it.
mod cli;
// Floor 9: startup and shutdown; starts the threads.
mod server;
// Floor 8: the admin address.
mod admin;
// Floor 7: one pinned thread and its connections.
mod worker;
// Floor 7: a slow reader of all files, which finds damage.
mod scrub;
// Floor 6: HTTP request in, HTTP response out.
mod api;
// Floor 6: counts of recorded events, and the statistics of experiments.
mod insights;
// Floor 5: snapshot, visitor and request to bytes.
mod resolve;
// Floor 5: several nodes that fold one stream.
#[cfg(feature = "cluster")]
mod cluster;
// Floor 4: messages about publications to a receiver.
mod webhook;
// Floor 4: recorded events and the profiles folded from them. Three directories inside have floors of their own.
// Floor 3: visitors::events
// Floor 3: visitors::ties
// Floor 2: visitors::log
mod visitors;
// Floor 3: published sites.
mod site;
// Floor 2: parsing and evaluation.
mod condition;
mod http;
// Floor 1: settings, counters, files, IDs, log lines, URLs.
mod config;
mod ids;
mod log_lines;
mod metrics;
mod parallel;
mod storage;
mod url;
// Floor 0
mod allocator;
mod checksum;
mod clock;
mod country;
mod json;
mod limits;
mod nearest;
mod nfc;
mod percent;
mod problem;
mod providers;
mod threads;
mod varint;

// Floor 12: the internals for tests, benchmarks and the load generator. No module uses it.
pub mod testing;
