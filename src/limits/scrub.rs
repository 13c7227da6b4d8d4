//! Limits of the scrub, and of the damage that a server knows.

/// Bytes that the scrub reads in a second, unless `--scrub-rate` says otherwise. It reads 12 TB in a week, and leaves
/// most of the slowest disk to the log.
pub(crate) const SCRUB_RATE_BYTES_DEFAULT: u64 = 20_000_000;
/// Smallest rate of the scrub: one read in a second. It holds a deleted file open for no longer than the pause after a
/// read.
pub(crate) const SCRUB_RATE_BYTES_MIN: u64 = 256 * 1024;
/// Time from the start of a pass of the scrub to the next one, in ms: one week. A pass that takes longer is followed by
/// the next one at once.
pub const SCRUB_PERIOD_MS: i64 = 7 * 24 * 60 * 60 * 1_000;
/// Time between two looks of the scrub at the files with known damage, in ms. A file that was replaced or deleted
/// counts as damaged for no longer than this. The scrub saves its progress as often.
pub const SCRUB_LOOK_MS: u64 = 60_000;
/// Reads of one file from its beginning, because the file was replaced under the scrub. After them the next pass reads
/// it, so that a file which changes all the time does not stop the scrub.
pub const SCRUB_ATTEMPTS_MAX: u32 = 3;
/// Time for which a shutdown waits for the scrub, in ms. It ends at the next read, and only a hanging disk takes longer.
pub(crate) const SCRUB_STOP_MS: u64 = 1_000;
/// Damaged places that a server knows. Each is logged once, so the limit bounds the memory and the lines. Further
/// places are not counted. One line says that there are more, and `parallax check` lists them.
pub const DAMAGED_PLACES_MAX: usize = 1_000;
/// Size of the file with the progress of the scrub: twice as much as the known damage takes in JSON. A larger file is
/// damage and is not read.
pub const SCRUB_PROGRESS_BYTES_MAX: u64 = 128 * DAMAGED_PLACES_MAX as u64;
