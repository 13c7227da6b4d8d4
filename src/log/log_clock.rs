//! The log clock in the data directory.
//!
//! The file `clock` has the last saved value, so that it survives a restart. The header of each segment has
//! the value at its creation. So the header of the next segment says how old the records of a closed segment
//! are at least. The received times of records do not: a wrong wall clock may have written them.
//!
//! ```text
//! CLOCK, a separate file
//! 0       8     magic           FF 50 4C 58 43 4C 4F 4B ("\xFFPLXCLOK")
//! 8       8     value           of the log clock, milliseconds
//! 16      4     zero
//! 20      4     crc             CRC-32C of bytes 0..20
//! ```

use std::io;

use super::directory::LogDirectory;
use super::format::{NUMBER_FILE_BYTES, number_from_bytes, number_to_bytes};
use super::verify::{Damage, DamageKind, SegmentEntry, damage_in};
use crate::clock::{Clock, LogClock};
use crate::storage::disk::append_all;

/// Move of the log clock after which its value is saved, in ms. After a kill the log clock continues at the saved
/// value, and catches up in seconds.
pub const LOG_CLOCK_SAVE_MS: i64 = 10 * 60 * 1_000;
/// Jump of the wall clock above which the log writer logs a warning, in ms. Smaller ones are corrections.
const WALL_CLOCK_JUMP_MS: i64 = 60 * 60 * 1_000;
const CLOCK: &str = "clock";
const CLOCK_MAGIC: [u8; 8] = *b"\xFFPLXCLOK";

/// The content of the file `clock`.
enum SavedClock {
    /// There is no such file: no segment has been written yet.
    Absent,
    /// The value of the log clock in milliseconds.
    Ms(i64),
    Damaged,
}

/// Returns the log clock of a directory. It continues at the greatest value in the file `clock` and in the
/// headers of the segments. The second value is the damage of the file.
///
/// # Errors
/// An I/O error.
pub(super) fn restore(
    directory: &LogDirectory,
    segments: &[SegmentEntry],
    clock: &dyn Clock,
) -> io::Result<(LogClock, Option<Damage>)> {
    let created_ms = segments.iter().filter_map(|segment| segment.created_ms).max();
    let (saved_ms, damage) = match read_saved(directory)? {
        SavedClock::Absent => (None, None),
        SavedClock::Ms(saved_ms) => (Some(saved_ms), None),
        SavedClock::Damaged => (None, Some(damage())),
    };
    let log_clock = LogClock::new(saved_ms.max(created_ms), clock);
    warn_if_jumped(log_clock.wall_ahead_ms().min(0));
    Ok((log_clock, damage))
}

/// Returns the damage of the file `clock`, if it is damaged.
///
/// # Errors
/// An I/O error.
pub(super) fn find_damage(directory: &LogDirectory) -> io::Result<Option<Damage>> {
    Ok(matches!(read_saved(directory)?, SavedClock::Damaged).then(damage))
}

fn damage() -> Damage {
    damage_in(CLOCK, 0, 0, DamageKind::Clock, 0..0)
}

fn read_saved(directory: &LogDirectory) -> io::Result<SavedClock> {
    let Some(bytes) = directory.read_small(CLOCK, NUMBER_FILE_BYTES)? else { return Ok(SavedClock::Absent) };
    let value = number_from_bytes(CLOCK_MAGIC, &bytes);
    Ok(value.map_or(SavedClock::Damaged, |value| SavedClock::Ms(value.cast_signed())))
}

/// Logs a jump of the wall clock that is no correction.
pub(super) fn warn_if_jumped(jump_ms: i64) {
    if jump_ms.abs() > WALL_CLOCK_JUMP_MS {
        let jump_s = jump_ms / 1_000;
        tracing::warn!(jump_s, "the wall clock jumped; retention and the dedup window follow it slowly");
    }
}

/// Saves the value of the log clock durably.
///
/// # Errors
/// An I/O error.
pub(super) fn save(directory: &LogDirectory, log_ms: i64) -> io::Result<()> {
    let bytes = number_to_bytes(CLOCK_MAGIC, log_ms.cast_unsigned());
    directory.install(CLOCK, &mut |file| append_all(file, &bytes)).map(drop)
}
