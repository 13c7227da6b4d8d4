//! The difference between the clock of this machine and that of the NATS servers.
//!
//! `set` compares times, so with a wrong clock the wrong write wins, on all nodes alike. Nothing else depends
//! on clocks.

/// Greatest difference with which a node joins, in ms. A machine with a time service is within a second.
/// Beyond the limit the node stays alone, and looks again with each attempt to connect.
pub const JOIN_SKEW_MS_MAX: i64 = 60_000;

/// Least difference of which a node warns, in ms. The clocks of machines with a time service differ by some
/// milliseconds.
pub const SKEW_WARNING_MS: i64 = 250;

/// Returns whether a difference is a reason for a warning.
pub fn is_skewed(skew_ms: i64) -> bool {
    skew_ms.abs() >= SKEW_WARNING_MS
}

/// A reading of the servers' clock, and the own clock before and after it, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    pub sent_ms: i64,
    pub server_ms: i64,
    pub received_ms: i64,
}

impl ClockReading {
    /// Returns the least difference that explains the reading: the own clock minus that of the servers. 0 if
    /// the reading is between the own times.
    pub fn skew_ms(&self) -> i64 {
        let ahead_ms = self.sent_ms.saturating_sub(self.server_ms).max(0);
        let behind_ms = self.server_ms.saturating_sub(self.received_ms).max(0);
        ahead_ms - behind_ms
    }

    /// Checks that the node may join.
    ///
    /// # Errors
    /// The difference exceeds [`JOIN_SKEW_MS_MAX`].
    pub fn check(&self) -> Result<(), String> {
        let skew_ms = self.skew_ms();
        if skew_ms.abs() <= JOIN_SKEW_MS_MAX {
            return Ok(());
        }
        let direction = if skew_ms > 0 { "ahead of" } else { "behind" };
        Err(format!(
            "the clock of this machine is {} s {direction} that of the NATS servers, and a node joins with at most {} s; set the clock, and \
             check the time service of all machines",
            (skew_ms.abs() + 999) / 1_000,
            JOIN_SKEW_MS_MAX / 1_000
        ))
    }
}
