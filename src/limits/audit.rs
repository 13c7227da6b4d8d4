//! Limits of the audit log.

/// Size of an audit file after which the next one begins, in bytes. A start copies the last file, so the limit bounds the time
/// of a start. Retention deletes whole files.
pub const AUDIT_FILE_BYTES_MAX: u64 = 4 << 20;
/// Age of an audit file after which the next one begins, in ms: 31 days. A line is deleted at most this long after its
/// retention has ended.
pub const AUDIT_FILE_MS_MAX: i64 = 31 * 24 * 60 * 60 * 1_000;
/// Size of the JSON of an audit record, in bytes. Its texts are cut, so a record of this release has at most 2,400. A reader takes a
/// greater length for damage, and reads no more into memory.
pub const AUDIT_RECORD_BYTES_MAX: usize = 4_096;
/// Size of the name of an actor, in bytes. A longer one is cut.
pub const AUDIT_NAME_BYTES_MAX: usize = 64;
/// Size of the detail of an audit record, in bytes: some numbers and words. A longer one is cut.
pub const AUDIT_DETAIL_BYTES_MAX: usize = 200;
/// Lines that wait for the thread `audit`. At the limit, requests that need a line get 503.
pub const AUDIT_QUEUE_LINES_MAX: usize = 1_024;
/// Size of the lines that are written and synced together, in bytes. Further lines wait for the next sync.
pub(crate) const AUDIT_BATCH_BYTES_MAX: usize = 256 << 10;
/// Time that a request waits until its line is synced, in ms. Then it gets 503. A sync of a busy disk takes a second.
pub(crate) const AUDIT_WAIT_MS: u64 = 10_000;
/// Time that a stop waits until its line is synced, in ms. It is a part of the 10 s of a stop.
pub(crate) const AUDIT_STOP_MS: u64 = 1_000;
/// Pause between two attempts to write the audit log after a failure, in ms.
pub(crate) const AUDIT_RETRY_MS: u64 = 1_000;
/// Time between two searches for audit files whose retention has ended, in ms.
pub(crate) const AUDIT_RETENTION_INTERVAL_MS: i64 = 60 * 60 * 1_000;
/// Retention of the audit log without `--audit-retain-days`, in days: a year, and time to look at it afterwards.
pub(crate) const AUDIT_RETAIN_DAYS_DEFAULT: u32 = 400;
/// Damaged places that a reader reports of one audit file. After them it does not read the file on, because the search for
/// the next record of a damaged place takes time.
pub const AUDIT_DAMAGE_OF_FILE_MAX: usize = 16;
