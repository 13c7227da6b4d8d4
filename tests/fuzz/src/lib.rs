//! What is fuzzed: each target takes any bytes, and panics where something does not hold.
//!
//! `fuzz_targets/` hands them what libFuzzer makes up; the quick tests hand them the seeds, and mistakes made of these.

pub mod body;
pub mod condition;
pub mod event;
pub mod head;
pub mod memory;
pub mod query_string;
pub mod segment;
pub mod site;
pub mod snapshot;
pub mod variants;

/// A target: its name, which is also that of its seeds' folder, and what is done with the bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 8] = [
    ("body", body::body),
    ("condition", condition::condition),
    ("event", event::event),
    ("head", head::head),
    ("query_string", query_string::query_string),
    ("segment", segment::segment),
    ("snapshot", snapshot::snapshot),
    ("variants", variants::variants),
];
