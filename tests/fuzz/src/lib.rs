//! The fuzz targets. Each takes any bytes and panics if a property does not hold.
//!
//! `fuzz_targets/` calls them with inputs of libFuzzer. The quick tests call them with the seeds and with
//! mutated seeds.

pub mod body;
pub mod columns;
pub mod condition;
pub mod event;
pub mod head;
pub mod memory;
pub mod query_string;
pub mod segment;
pub mod site;
pub mod snapshot;
pub mod variants;

/// A target: its name, which is also the name of its seed directory, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 9] = [
    ("body", body::body),
    ("columns", columns::columns),
    ("condition", condition::condition),
    ("event", event::event),
    ("head", head::head),
    ("query_string", query_string::query_string),
    ("segment", segment::segment),
    ("snapshot", snapshot::snapshot),
    ("variants", variants::variants),
];
