//! The memory sum: an upper limit for the memory of a server, and the part of each holder.
//!
//! The server logs it at startup, and `/metrics` reports it. The server's memory never exceeds it. Kernel
//! memory for sockets and rings is not part of it.

use super::access::{LINK_BYTES_MAX, LINKS_MAX};
use super::log_lines::LOG_LINES_BYTES_MAX;
use crate::limits::{
    ANSWER_BYTES_MAX, ANSWER_PIECES_MAX, ANSWERS_PREPARED, AUDIT_BATCH_BYTES_MAX, AUDIT_QUEUE_LINES_MAX,
    AUDIT_RECORD_BYTES_MAX, BATCH_BYTES_MAX, BODIES_MEMORY_BYTES_MIN, CHECKPOINT_CHUNK_BYTES,
    CHECKPOINT_CHUNKS, CHECKPOINT_RUN_BYTES, CHECKPOINT_RUNS, CONNECTIONS_MEMORY_BYTES_MIN,
    FOLD_INPUT_BYTES_MAX, FOOTER_BYTES_MAX, PHASES_BYTES_MAX, QUEUE_BYTES_MAX, RATE_LIMIT_BUCKETS_MAX,
    RECENT_TIES_MAX, SITE_IDS_KNOWN_MAX, UNSYNCED_BYTES_MAX,
};

/// Memory limit of the prepared lists of routes of all sites, in both codings. It holds the lists of 100,000 routes, or those
/// of many small sites. Beyond it the list that was not used for longest is dropped, and prepared again when it is
/// requested.
pub(crate) const PREPARED_LISTS_BYTES_MAX: usize = 32 << 20;

/// Memory of an idle connection: its read buffer, its task and its timeout entry. We measured about 5 KiB.
pub(crate) const CONNECTION_BYTES: usize = 8 * 1024;

/// One holder of memory and its limit.
#[derive(Debug, Clone)]
pub struct Term {
    /// The holder's name in `/metrics`.
    pub holder: &'static str,
    /// Limit of its memory.
    pub bytes: u64,
}

/// A thread's stack: Rust's default. Little of it is ever touched. The system sets the main thread's stack to
/// 8 MiB.
const STACK_BYTES: u64 = 2 << 20;
const MAIN_STACK_BYTES: u64 = 8 << 20;
/// Memory of a handler, its counters and its thread's ring: the members of a body (100,000 of 64 bytes,
/// doubled while the buffer grows), buffers for a page of routes and its lists (5 MiB), histograms (0.9 MiB),
/// the cache of User-Agents (0.5 MiB), header sections (0.3 MiB), an inflated body (1 MiB), and smaller things.
const HANDLER_BYTES: u64 = 24 << 20;
/// A table of prepared answers: for each its bytes, the ranges of its pieces, and 12 bytes of lengths.
const ANSWERS_BYTES: u64 = (ANSWERS_PREPARED * (ANSWER_BYTES_MAX + 16 * ANSWER_PIECES_MAX + 12)) as u64;
/// The program, its libraries, the demo site, log lines, and the scan of a directory of 100,000 names, which
/// needs about 1 KB for each.
const PROGRAM_BYTES: u64 = 160 << 20;
/// Buffers that decode a body with the most values that one can hold (`[1,1,1` and so on), and pooled record
/// buffers.
const EVENT_BUFFERS_BYTES: u64 = 28 << 20;
/// Entries on their way to a checkpoint. The last entries added to a buffer may exceed its size.
const CHUNKS_BYTES: u64 = (CHECKPOINT_CHUNKS * (CHECKPOINT_CHUNK_BYTES + (1 << 20))) as u64;
/// An entry of ownership.
const TIE_BYTES: usize = 56;
/// The filter of the IDs that lost their alias, and its copy for a checkpoint.
const LOST_ALIASES_BYTES: u64 = 2 * (16 << 20);
/// The IDs of known sites, of 64 bytes and an entry of a set each, and their copy for a checkpoint.
const SITES_BYTES: u64 = 2 * (SITE_IDS_KNOWN_MAX as u64) * 120;
/// Memory of the puller: a part of 8 MiB of an object as it arrives and as it is parsed, or the 32 MiB that
/// nats-server sends before it waits for the client, the list, and the stacks of its three threads.
const PULLER_BYTES: u64 = (40 << 20) + 3 * STACK_BYTES;
/// A token bucket of a rate limit.
const BUCKET_BYTES: u64 = 16;

/// Returns the size of the part of a table of `table_bytes` that is sorted in memory at once.
fn run_bytes(table_bytes: u64) -> u64 {
    (table_bytes / CHECKPOINT_RUNS).max(CHECKPOINT_RUN_BYTES as u64)
}

/// The settings and the machine's figures that the memory sum depends on.
#[derive(Debug, Clone, Copy)]
pub struct MemoryParams {
    /// Worker threads.
    pub workers: usize,
    /// Open connections of the public address.
    pub connections_max: usize,
    /// Open connections of the admin address.
    pub admin_connections_max: usize,
    /// Memory budgets of all workers for request bodies and unsent responses.
    pub budgets_bytes: usize,
    /// Rate limits that are set, 0 to 2.
    pub rate_limits: usize,
    /// Memory limit for snapshots.
    pub snapshots_bytes: u64,
    /// Memory limit for the paths and hashes of the last versions.
    pub versions_bytes: u64,
    /// Memory of the dedup window.
    pub dedup_bytes: u64,
    /// Memory limit of the pooled output buffers of one serving thread.
    pub output_pool_bytes: u64,
    /// True if the server fills its snapshots directory.
    pub pulls_snapshots: bool,
    /// Memory limit for visitor profiles.
    pub profiles_bytes: u64,
    /// Memory limit of Insights. 0 if it is switched off.
    pub insights_bytes: u64,
    /// Most memory that a table of visitors with that limit takes.
    pub table_bytes: u64,
}

/// Returns the memory limit of each holder.
pub(crate) fn terms(params: &MemoryParams) -> Vec<Term> {
    let workers = params.workers as u64;
    // The admin address has one serving thread in addition to the workers.
    let serving = workers + 1;
    let connections = params.connections_max + params.admin_connections_max;
    let admin_budgets = CONNECTIONS_MEMORY_BYTES_MIN + BODIES_MEMORY_BYTES_MIN;
    let term = |holder, bytes| Term { holder, bytes };
    let mut terms = vec![
        // Sealed copies of snapshots and the tables of their regular expressions. Beyond it a snapshot is
        // rejected.
        term("snapshots", params.snapshots_bytes),
        // Paths and hashes of the last versions, for `since`, and the content of their file.
        term("versions", 2 * params.versions_bytes),
        // Phases of experiments, those of the next publication, and the content of their file.
        term("phases", 3 * PHASES_BYTES_MAX as u64),
        // Shared links, and the content of their file while it is written.
        term("links", 3 * (LINKS_MAX * LINK_BYTES_MAX) as u64),
        // Idle connections with their read buffers.
        term("connections", (connections * CONNECTION_BYTES) as u64),
        // Request bodies being received, records waiting for the log, and responses not yet sent.
        term("transfers", (params.budgets_bytes + admin_budgets) as u64),
        // Profiles, their index in the table, and replaced entries that are still being read or copied.
        term("visitors", params.table_bytes),
        // A run of a checkpoint while it is sorted, the index of its entries, and the entries on their way to
        // it.
        term("checkpoint", 2 * run_bytes(params.profiles_bytes) + CHUNKS_BYTES),
        // Events between workers and the log writer, and the writer's two batches: one being written, one
        // being filled.
        term("log", (QUEUE_BYTES_MAX + 2 * BATCH_BYTES_MAX + UNSYNCED_BYTES_MAX) as u64 + FOOTER_BYTES_MAX),
        // Entries of ownership since the last checkpoint, once more while a checkpoint or an erasure sorts them, the
        // filter of lost aliases, once more while a checkpoint is written, and the known sites.
        term("ownership", (2 * RECENT_TIES_MAX * TIE_BYTES) as u64 + LOST_ALIASES_BYTES + SITES_BYTES),
        // The events that a question counts, and the columns of the active segment.
        term("insights", params.insights_bytes),
        // Message IDs of the last 24 hours.
        term("dedup", params.dedup_bytes),
        // Each worker's buffers for decoding events: their text four times, and an index entry for each value
        // in it. Then the fold input of one event.
        term("readers", workers * (EVENT_BUFFERS_BYTES + 2 * FOLD_INPUT_BYTES_MAX as u64)),
        // Pooled output buffers.
        term("buffers", serving * params.output_pool_bytes),
        term("handlers", serving * HANDLER_BYTES),
        // Prepared answers of resolve and variants.
        term("answers", serving * ANSWERS_BYTES),
        // Prepared lists of routes.
        term("lists", PREPARED_LISTS_BYTES_MAX as u64),
        term("rate_limits", (params.rate_limits * RATE_LIMIT_BUCKETS_MAX) as u64 * BUCKET_BYTES),
        // Log lines that wait for the reader of standard error, and those that are written.
        term("log_lines", 2 * LOG_LINES_BYTES_MAX as u64),
        // Lines of the audit log that wait for its thread, in the queue and for a disk that fails, and the batch that is written.
        term(
            "audit",
            (2 * AUDIT_QUEUE_LINES_MAX * AUDIT_RECORD_BYTES_MAX + 4 * AUDIT_BATCH_BYTES_MAX) as u64,
        ),
        // Stacks of the serving threads, the watcher, inotify, the webhook, the two threads of Insights, the scrub, the
        // one of the log lines, the one of the audit log and the main thread.
        term("stacks", (serving + 8) * STACK_BYTES + MAIN_STACK_BYTES),
        term("program", PROGRAM_BYTES),
    ];
    if params.pulls_snapshots {
        terms.push(term("puller", PULLER_BYTES));
    }
    // Memory that the allocator cannot give back at once, as a part of all that it allocates. Snapshots and
    // stacks are mapped.
    let is_mapped =
        |term: &&Term| matches!(term.holder, "snapshots" | "visitors" | "dedup" | "stacks" | "program");
    let allocated: u64 = terms.iter().filter(|term| !is_mapped(term)).map(|term| term.bytes).sum();
    terms.push(term("allocator", allocated / 4));
    terms
}

/// Returns the memory limit of all holders together.
pub(crate) fn sum(terms: &[Term]) -> u64 {
    terms.iter().map(|term| term.bytes).sum()
}
