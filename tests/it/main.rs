//! Behaviour, seen from outside: one binary, a module for each theme.
//!
//! `harness` starts servers and speaks HTTP to them byte by byte. Tests that use public cases find them by
//! `PARALLAX_CASES` and say so where it is not set; long forms run where `PARALLAX_LONG` is 1. The
//! servers take their driver from `PARALLAX_DRIVER`.

mod harness;

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
// The house's own rules: floors, fences, lengths, places.
mod tidy;
// Where requests end, against llhttp's cases.
mod framing;
// The snapshot format, byte for byte.
mod golden;
// Damaged, foreign and forged snapshots.
mod snapshot_damage;
// What is put into snapshots/, replaced and removed while a server runs.
mod publishing;
// Publications under load.
mod reload;
// How a server ends.
mod stopping;
// What the operator types, and what is said and written then.
mod command_line;
