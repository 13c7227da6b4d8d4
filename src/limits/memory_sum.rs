//! The memory of a server as a sum: who may hold how much. It is printed at boot, shown in `/metrics`, and never passed; what the
//! kernel holds for sockets and rings is the kernel's and not in it.

use crate::config::Config;
use crate::limits::{
    BATCH_BYTES_MAX, CHECKPOINT_CHUNK_BYTES, CHECKPOINT_CHUNKS, CHECKPOINT_RUN_BYTES, CHECKPOINT_RUNS,
    CONNECTION_BYTES, CONNECTIONS_MEMORY_BYTES_MIN, DUPLICATES_MAX, FOOTER_BYTES_MAX,
    OPERATOR_CONNECTIONS_MAX, POOLED_BYTES_MAX, QUEUE_BYTES_MAX, THROTTLED_MAX, UNSYNCED_BYTES_MAX,
    VERSIONS_BYTES_MAX,
};

/// One holder, and the most it may hold.
#[derive(Debug, Clone)]
pub struct Term {
    /// Its name in `/metrics`.
    pub holder: &'static str,
    /// Its bound.
    pub bytes: u64,
}

/// A thread's stack, of which little is ever touched (Rust's default; the main thread's is the system's, 8 MiB).
const STACK_BYTES: u64 = 2 << 20;
const MAIN_STACK_BYTES: u64 = 8 << 20;
/// What a desk, its counters and its thread's ring hold: the members of a body (100,000 of 64 bytes, doubled while they grow), room
/// for a page of routes and its lists (5 MiB), histograms (0.9 MiB), agents (0.5 MiB), an inflated body (1 MiB), and smaller things.
const DESK_BYTES: u64 = 24 << 20;
/// The program, its libraries, the demo site, log lines, and what a scan of a folder of 100,000 names needs, some 1 KB for each.
const PROGRAM_BYTES: u64 = 160 << 20;
/// A body of the most values that one can hold, `[1,1,1` and so on, and buffers of records that came back.
const READER_BYTES: u64 = 28 << 20;
/// Entries on their way to a checkpoint; each buffer may be passed by the last entries that came into it.
const CHUNKS_BYTES: u64 = (CHECKPOINT_CHUNKS * (CHECKPOINT_CHUNK_BYTES + (1 << 20))) as u64;
/// A place in a table of buckets.
const BUCKET_BYTES: u64 = 16;

/// What of a table of so many bytes is sorted at once.
fn run_bytes(table_bytes: u64) -> u64 {
    (table_bytes / CHECKPOINT_RUNS).max(CHECKPOINT_RUN_BYTES as u64)
}

/// The terms, for so many workers and connections of the public address, and what is known of visitors.
pub fn terms(config: &Config, workers: usize, connections: usize, visitors_bytes: u64) -> Vec<Term> {
    // Beside the workers the operator's address has a thread that serves.
    let serving = workers as u64 + 1;
    let throttles = [config.address_limit, config.site_limit].into_iter().flatten().count() as u64;
    let term = |holder, bytes| Term { holder, bytes };
    let mut terms = vec![
        // Sealed copies, and the tables of their regular expressions: past it a snapshot is refused.
        term("snapshots", config.snapshots_memory),
        // Paths and hashes of the last versions, for `since`.
        term("versions", VERSIONS_BYTES_MAX as u64),
        // Each with what it waits with.
        term("connections", ((connections + OPERATOR_CONNECTIONS_MAX) * CONNECTION_BYTES) as u64),
        // Bodies on their way, records that wait, and answers that are not taken yet.
        term("transfers", (workers * config.held_bytes_max(workers) + CONNECTIONS_MEMORY_BYTES_MIN) as u64),
        // Profiles, their places in the table, and what is replaced but still being read or copied.
        term("visitors", visitors_bytes),
        // A part of a checkpoint while it is sorted, with the places of its entries, and entries on their way to it.
        term("checkpoint", 2 * run_bytes(config.profiles_memory) + CHUNKS_BYTES),
        // Events between workers and writer, and the writer's batches: one that is written, one that fills.
        term("log", (QUEUE_BYTES_MAX + 2 * BATCH_BYTES_MAX + UNSYNCED_BYTES_MAX) as u64 + FOOTER_BYTES_MAX),
        // Ids of the last 24 hours: 24 bytes of ring and 7 of table each.
        term("duplicates", DUPLICATES_MAX as u64 * 31),
        // What each worker reads events with: their text four times, and a place for each value in it. The log's writer reads
        // payloads, which a batch's context makes twice as long as a body.
        term("readers", (workers as u64 + 2) * READER_BYTES),
        // Buffers that wait for the next answer.
        term("buffers", serving * POOLED_BYTES_MAX as u64),
        term("desks", serving * DESK_BYTES),
        term("limits", throttles * THROTTLED_MAX as u64 * BUCKET_BYTES),
        // The serving threads', the watcher's and inotify's, the main thread's.
        term("stacks", (serving + 2) * STACK_BYTES + MAIN_STACK_BYTES),
        term("program", PROGRAM_BYTES),
    ];
    // What the allocator cannot give back at once, of all that it gives: snapshots are mapped, stacks too.
    let is_mapped =
        |term: &&Term| matches!(term.holder, "snapshots" | "visitors" | "duplicates" | "stacks" | "program");
    let allocated: u64 = terms.iter().filter(|term| !is_mapped(term)).map(|term| term.bytes).sum();
    terms.push(term("allocator", allocated / 4));
    terms
}
