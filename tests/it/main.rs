//! Behaviour, seen from outside: one binary, a module for each theme.
//!
//! `harness` starts servers and speaks HTTP to them byte by byte, `logged` reads what they keep, `strict` reads what they say to the letter, `dice` are random
//! numbers by a seed. Tests that use public cases find them by `PARALLAX_CASES` and say so where it is not set; long forms run
//! where `PARALLAX_LONG` is 1. The servers take their driver from `PARALLAX_DRIVER`.

mod dice;
#[path = "../fuzz/src/lib.rs"]
mod fuzz;
mod harness;
mod logged;
mod strict;

// Which mistakes of an author are told, and where.
mod authoring;
// What a User-Agent says.
mod agent;
// The example site of the format's description, compiled, published, replaced and removed.
mod example_site;
// Each bound of what a site may be.
mod bounds;
// Conditions and buckets, against GrowthBook's cases and naive oracles.
mod condition;
// Content queries, against an obvious evaluation.
mod queries;
// Every answer of Edge and of the operator's address, against the interface.
mod wire;
// What the server says of itself to programs, against what it answers.
mod openapi;
// The house's own rules: floors, fences, lengths, places.
mod tidy;
// Where requests end, against llhttp's cases.
mod framing;
// Requests with mistakes made by chance.
mod mutated;
// Slow clients, many.
mod storm;
// The fuzz targets, without a fuzzer.
mod fuzzed;
// The snapshot format, byte for byte.
mod golden;
// What is sent, as records.
mod events;
// Real traffic, as page views.
mod replayed;
// Who is known after a restart.
mod known_again;
// Visitors in crowds, and strange ones.
mod crowd;
// The event log, on a disk and a clock that are simulated.
mod log;
// What the log says of each visitor, against obvious models.
mod visitors;
// The table of visitors in files: what a start reads in place of the log.
mod checkpoints;
// Damaged, foreign and forged snapshots.
mod snapshot_damage;
// What is put into snapshots/, replaced and removed while a server runs.
mod publishing;
// Publications under load.
mod reload;
// Too much: connections, descriptors, memory, requests.
mod load;
// More events than the disk takes.
mod overload;
// Token buckets, against an obvious one.
mod throttle;
// The table of visitors, against an obvious one, and beside its readers.
mod visitors_table;
// What the operator can see.
mod metrics;
// What takes the operator's thread too long, on a thread of its own.
mod jobs;
// Pages and events at one address, or each at its own.
mod surfaces;
// How a server begins.
mod starting;
// A worker that polls before it parks.
mod spin;
// How a server ends.
mod stopping;
// What is kept where a server is killed, or stopped, under events.
mod killed;
// A disk without room.
mod full_disk;
// Settings by flag, environment and file.
mod settings;
// What is given to hosts, against what the server understands.
mod packaging;
// What the operator types, and what is said and written then.
mod command_line;
// What the operator asks of the log.
mod log_commands;
