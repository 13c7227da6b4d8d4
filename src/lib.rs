//! Parallax hands every visitor of a website their own version of a page within microseconds.
//!
//! # The data's path
//!
//! ```text
//! published    site folder --compile--> snapshot file --dropped into snapshots/--> sealed, mapped, checked --> catalog
//! recorded     POST --decode--> record --queue--> writer: append, fdatasync --> segment files (the log)
//!              `--fold--> the table of visitors (memory, kept in checkpoints) --> acknowledged
//! an answer    resolve(snapshot, visitor, request) = bytes                          a pure function
//! ```
//!
//! A site's folder becomes one file ([`site::snapshot::compile`]); the server copies it into sealed memory
//! and checks it ([`site::snapshot::open`]), decides what is served ([`site::snapshot::shelf`]) and swaps one
//! pointer ([`site::snapshot::current`]). A request is read by a [`worker`], parsed by [`http`], taken to
//! an endpoint by [`api`], decided and rendered by [`edge`], and sent from the buffer it was
//! rendered into. An event is decoded and judged ([`events`]), queued as a record, and answered once the log's
//! writer ([`segment`]) has it on disk and has folded it into what is known of its visitor ([`visitors`]).
//!
//! # Floors
//!
//! A module names only modules on a lower floor; modules on one floor do not know each other; an
//! outside crate is named only in its own folder. A test holds both.
//!
//! # What always holds
//!
//! * [`edge`] and [`condition`] know no HTTP, no sockets, no clock; time is a parameter.
//! * A GET takes no lock, touches no file, and allocates nothing once the connection's buffers
//!   exist (explain excepted).
//! * 200 for an event means that it is on disk, once, and stays there, and that the next resolve knows it;
//!   whoever writes the log holds nobody up but who waits for it.
//! * What is known of visitors is the fold of the log, exactly, whatever was evicted, or read from a checkpoint in its place.
//! * A request sees one snapshot from its first byte to its last.
//! * Mapped bytes cannot change: they are sealed first and checked then.
//! * Every queue, buffer, table, loop and recursion has a bound in [`limits`].
//! * `unsafe` stands in `site/snapshot/open.rs` and `visitors/store/table.rs` only, each block with what makes it sound.
//! * A public response contains nothing of a visitor or of its caller.

// Floor 10: commands and flags. `main` is above it.
pub mod cli;
// Floor 9: startup and shutdown; starts the threads.
pub mod server;
// Floor 8: the admin address.
pub mod admin;
// Floor 7: one pinned thread and its connections.
pub mod worker;
// Floor 6: HTTP request in, HTTP response out.
pub mod api;
// Floor 5: snapshot, visitor and request to bytes.
pub mod resolve;
// Floor 4: recorded events and the profiles folded from them. `visitors::events` is on floor 3, `visitors::log` on floor 2.
pub mod visitors;
// Floor 3: published sites.
pub mod site;
// Floor 2: parsing and evaluation.
pub mod condition;
pub mod http;
// Floor 1: settings, counters, files, IDs, URLs.
pub mod config;
pub mod ids;
pub mod metrics;
pub mod storage;
pub mod url;
// Floor 0
pub mod checksum;
pub mod clock;
pub mod json;
pub mod limits;
pub mod nearest;
pub mod percent;
pub mod problem;
