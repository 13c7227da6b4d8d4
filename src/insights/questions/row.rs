//! A row is an event of a visitor. A row has a value, a time and flags.

/// The row is a page event.
pub(crate) const PAGE: u16 = 1;
/// The row is a track or screen event.
pub(crate) const ACTION: u16 = 1 << 1;
/// The filter `page`, `country`, `language` or `device` rejects the event.
pub(crate) const REJECTED: u16 = 1 << 2;
/// The filter `event` accepts the name of the event.
pub(crate) const EVENT_HIT: u16 = 1 << 3;
/// The event has a variant that the filter `variant` accepts.
pub(crate) const VARIANT_HIT: u16 = 1 << 4;
/// The event has a variant that is not `default`.
pub(crate) const PERSONALIZED: u16 = 1 << 5;
/// If this is the first page event of a visit, the filter `source` accepts the visit.
pub(crate) const SOURCE_HIT: u16 = 1 << 6;
/// If this is the first page event of a visit, the filter `campaign` accepts the visit.
pub(crate) const CAMPAIGN_HIT: u16 = 1 << 7;

// Questions about experiments use the bits 8, 9, 10 and 14 for their own flags.

/// The event begins or extends a visit. An event without this flag can be in a visit, but does not extend the visit.
pub(crate) const OF_VISIT: u16 = 1 << 11;

/// The event reaches a goal of the question. `order` is the index of its conversions.
pub(crate) const GOAL_HIT: u16 = 1 << 12;
/// If this is the first page event of a visit, the source of the visit is `(direct)`.
pub(crate) const DIRECT_SOURCE: u16 = 1 << 13;

/// The number of flag bits. They are the low bits of a key. The time is in the other bits.
const FLAG_BITS: u32 = 16;

/// An event of a visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// The value of the row, as an index into [`Values`](super::values::Values).
    pub value: u32,
    /// The number of the event in the order of the log, or the mask of the steps of the plan that accept the event. 0 if the
    /// question needs neither.
    pub order: u32,
    /// The time in milliseconds, shifted by [`FLAG_BITS`], and the flags.
    key: i64,
}

impl Row {
    pub(crate) fn new(value: u32, time_ms: i64, flags: u16) -> Self {
        Self { value, order: 0, key: time_ms << FLAG_BITS | i64::from(flags) }
    }

    /// Returns the row with this number in the order of the log.
    pub(crate) fn with_order(self, order: u32) -> Self {
        Self { order, ..self }
    }

    /// Returns the row with these flags too.
    pub(crate) fn with_flags(self, flags: u16) -> Self {
        Self { key: self.key | i64::from(flags), ..self }
    }

    pub(crate) fn time_ms(self) -> i64 {
        self.key >> FLAG_BITS
    }

    pub(crate) fn flags(self) -> u16 {
        self.key as u16
    }

    /// Returns true if all of these flags are set.
    pub(crate) fn has(self, flags: u16) -> bool {
        self.key as u16 & flags == flags
    }
}
