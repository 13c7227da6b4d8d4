//! Parallax hands every visitor of a website their own version of a page within microseconds.
//!
//! # The flow of the data
//!
//! ```text
//! published    site directory --compile--> snapshot file --copy into snapshots/--> sealed, mapped, verified --> catalog
//! recorded     POST --decode--> record --queue--> log writer: append, fdatasync --> segment files (the log)
//!                                                 `--fold--> profiles (memory, checkpoints) --> acknowledged
//! answered     resolve(snapshot, profile, request) = bytes                          a pure function
//! ```
//!
//! Three nouns carry the design: the *snapshot* holds everything that a site published, the *log* everything
//! that visitors did, and the *profile* is the fold of one visitor's records. `ARCHITECTURE.md` has a map of the
//! code, the threads, and the way of a request, an event, a publication, a question and a message through the files.
//!
//! # Rooms
//!
//! | room | modules |
//! |---|---|
//! | published | [`site`]: source, compile, snapshot, catalog, query, typescript |
//! | recorded | [`record`]: the types and bytes of one record. [`events`]: the body of a request to records. [`log`]: the append-only log. [`visitors`]: the fold of the log, its table and its checkpoints. [`import`]: exports and other logs to a new log |
//! | answered | [`condition`], [`resolve`], [`api`], [`http`], [`worker`]. [`invented`]: the decision for a visitor who exists only in a question |
//! | counted | [`insights`]: columns, questions, experiment, zones, statistics |
//! | shared | `cluster`: several nodes that fold one stream |
//! | delivered | `distribute`: the puller and the publisher of snapshots. `nats`: the connection that it shares with `cluster` |
//! | elsewhere | `hosted`: the published and the answered rooms, and the fold, without a server (without the feature `server`) |
//! | around | [`cli`], [`server`], [`admin`], [`webhook`], [`scrub`], [`backups`] and the small modules below |
//!
//! # Floors
//!
//! A module uses only modules on lower floors. Modules on one floor do not use each other. An external crate
//! is named only in its own directory or files. The parts of a module do not use each other in a cycle. Tests check these
//! rules (`tests/it/tidy/`).
//!
//! # Invariants
//!
//! * [`resolve`] and [`condition`] know no HTTP, no sockets and no clock. Time is a parameter. [`record`] names no file, thread or
//!   clock.
//! * A GET takes no lock, touches no file, and allocates nothing once the buffers of its connection exist. Explanations, visitor
//!   tokens, held requests and the first list of a page of `/v1/routes` in each version are the exceptions. `tests/allocations.rs` counts.
//! * Status 200 for an event means that it is on disk once, stays there, and is known to the next resolve: it is appended, synced
//!   (only with `--ack disk`), folded and acknowledged, in this order. On a node of a cluster the fold follows the stream, and a
//!   receipt with `"visible":false` is sent before it. After a failed append or sync, the writer never uses that
//!   descriptor again. The log writer only delays requests that wait for its acknowledgement.
//! * The table of visitors is exactly the fold of the log, or of a checkpoint and the records after it, evictions included.
//! * The *watermark* is the greatest seq that is proven durable. Damage at or below it is loud: `parallax check` exits with 1, the
//!   metric `parallax_log_damaged` is above 0, and a start writes an ERROR line. Damage above it is a torn tail, which is
//!   quarantined and cut.
//! * A request sees one snapshot from its first byte to its last.
//! * Mapped bytes cannot change: they are sealed first and verified after that.
//! * Every queue, buffer, table, loop and recursion has a bound, in [`limits`] or beside its only user.
//! * Only `allocator.rs`, `server/memory.rs`, two files of `site/snapshot/` and two of `visitors/store/` have `unsafe`. Each block
//!   has its proof.
//! * All file operations of the log go through [`storage`], all time through [`clock`], all randomness through [`ids`], and all
//!   starts of threads through [`threads`].
//! * A public response contains no data of a visitor or of the client.
//! * A panic in a handler closes one connection. A panic in the log writer ends the process.

#![warn(unreachable_pub)]
#![cfg_attr(
    not(feature = "server"),
    allow(
        dead_code,
        unreachable_pub,
        unused_imports,
        unfulfilled_lint_expectations,
        clippy::enum_variant_names,
        clippy::wrong_self_convention,
        reason = "the server uses and exports more of the shared modules"
    )
)]

#[cfg(feature = "server")]
pub use allocator::ExitingAllocator;
#[cfg(feature = "server")]
pub use cli::run;

// Floor 11: the core without a server.
#[cfg(not(feature = "server"))]
pub mod hosted;

// Floor 10: commands and flags. `main` is above it.
#[cfg(any(feature = "server", feature = "cli"))]
#[cfg_attr(not(feature = "server"), path = "cli/without_server.rs")]
mod cli;
// Floor 9: startup and shutdown; starts the threads.
#[cfg(feature = "server")]
mod server;
// Floor 8: the admin address.
#[cfg(feature = "server")]
mod admin;
// Floor 7: one pinned thread and its connections.
#[cfg(feature = "server")]
mod worker;
// Floor 7: visits of invented visitors.
#[cfg(any(feature = "server", feature = "author"))]
mod invented;
// Floor 7: a slow reader of all files, which finds damage.
#[cfg(feature = "server")]
mod scrub;
// Floor 6: HTTP request in, HTTP response out.
mod api;
// Floor 6: exports and data directories to a new data directory.
#[cfg(feature = "server")]
mod import;
// Floor 6: counts of recorded events, and the statistics of experiments.
#[cfg(feature = "server")]
mod insights;
// Floor 5: snapshot, visitor and request to bytes.
mod resolve;
// Floor 5: backups of a data directory, beside a running server.
#[cfg(feature = "server")]
mod backups;
// Floor 5: several nodes that fold one stream.
#[cfg(feature = "cluster")]
mod cluster;
// Floor 5: the puller and the publisher of snapshots.
#[cfg(feature = "cluster")]
mod distribute;
// Floor 4: the profiles folded from records.
mod visitors;
// Floor 4: who looked at, exported, erased or changed data.
#[cfg(feature = "server")]
mod audit;
// Floor 4: messages about publications to a receiver.
#[cfg(feature = "server")]
mod webhook;
// Floor 3: the body of a request to records.
mod events;
// Floor 3: published sites.
mod site;
// Floor 3: the connection to NATS.
#[cfg(feature = "cluster")]
mod nats;
// Floor 2: parsing and evaluation.
mod condition;
// Floor 2: the sealed past of a visitor.
mod visitor_token;
// Floor 2: the settings.
#[cfg(feature = "server")]
mod config;
// Floor 2: the protocol.
mod http;
// Floor 2: the file operations of the authoring commands.
#[cfg_attr(not(feature = "server"), path = "hosted/local_files.rs")]
mod local_files;
// Floor 2: the append-only log.
#[cfg_attr(not(feature = "server"), path = "hosted/log.rs")]
mod log;
// Floor 1: the types and bytes of one record.
mod record;
// Floor 1: the rights at the admin address.
#[cfg(feature = "server")]
mod access;
// Floor 1: counters, files, log lines, keys, URLs.
mod identity_keys;
#[cfg(feature = "server")]
mod log_lines;
#[cfg_attr(not(feature = "server"), path = "hosted/metrics.rs")]
mod metrics;
#[cfg_attr(not(feature = "server"), path = "hosted/parallel.rs")]
mod parallel;
#[cfg(feature = "server")]
mod storage;
mod url;
mod visitor_keys;
// Floor 0
mod acknowledgement;
mod addresses;
#[cfg(feature = "server")]
mod allocator;
mod checksum;
#[cfg_attr(not(feature = "server"), path = "hosted/clock.rs")]
mod clock;
#[cfg_attr(not(feature = "server"), path = "hosted/console.rs")]
mod console;
mod country;
mod data_files;
mod ids;
mod json;
mod limits;
mod little_endian;
mod nearest;
mod nfc;
mod node_gate;
mod percent;
mod problem;
mod providers;
#[cfg(feature = "server")]
mod threads;
mod varint;

// Floor 12: the internals for tests, benchmarks and the load generator. No module uses it.
#[cfg(feature = "server")]
pub mod testing;
