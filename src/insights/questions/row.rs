//! A row: an event of a visitor, with the flags that questions count.

/// A page event.
pub(crate) const PAGE: u16 = 1;
/// A track or screen event.
pub(crate) const ACTION: u16 = 1 << 1;
/// A filter rejects the event.
pub(crate) const REJECTED: u16 = 1 << 2;
/// The filter `event` has the name of the event.
pub(crate) const EVENT_HIT: u16 = 1 << 3;
/// The event has a variant that the filter `variant` names.
pub(crate) const VARIANT_HIT: u16 = 1 << 4;
/// The event has a variant that is not `default`.
pub(crate) const PERSONALIZED: u16 = 1 << 5;
/// If a visit begins with this page event, the filter `source` has the source of the visit.
pub(crate) const SOURCE_HIT: u16 = 1 << 6;
/// If a visit begins with this page event, the filter `campaign` has the campaign of the visit.
pub(crate) const CAMPAIGN_HIT: u16 = 1 << 7;

// Questions about experiments use the bits 8 to 10 for flags of their rows.

/// The event begins or extends a visit. Other events can be in a visit, but do not change its end.
pub(crate) const OF_VISIT: u16 = 1 << 11;

/// The number of low bits of a key that are flags. The time is in the bits above.
const FLAG_BITS: u32 = 16;

/// An event of a visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// The value by which the question groups, as an index into [`Values`](super::values::Values).
    pub value: u32,
    /// The time in milliseconds, and the flags.
    key: i64,
}

impl Row {
    pub(crate) fn new(value: u32, time_ms: i64, flags: u16) -> Self {
        Self { value, key: time_ms << FLAG_BITS | i64::from(flags) }
    }

    pub(crate) fn time_ms(self) -> i64 {
        self.key >> FLAG_BITS
    }

    pub(crate) fn flags(self) -> u16 {
        self.key as u16
    }

    /// Returns whether all of these flags are set.
    pub(crate) fn has(self, flags: u16) -> bool {
        self.key as u16 & flags == flags
    }
}
