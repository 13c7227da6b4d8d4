//! The rate at which a body arrives, over a sliding window.
//!
//! The window is divided into slots. The sum covers the whole window and the begun slot, so a body is never
//! measured over less than the window. A burst leaves the sum at most one slot late.

/// Number of slots of the window. A body that stalls is noticed at most a fortieth of the window late.
const SLOTS: u64 = 40;

/// Shortest time over which a rate is computed, in ms. A younger body counts as this old.
const AGE_MS_MIN: u64 = 1;

/// A measurement of the bytes that arrived in a sliding window.
#[derive(Debug, Clone)]
pub struct ReceiveRate {
    window_ms: u64,
    started_ms: u64,
    /// The slot of the last bytes, counted from time 0.
    newest_slot: u64,
    /// Bytes of the newest slot and of those before it, by slot number modulo the length.
    slots: [u32; SLOTS as usize + 1],
}

impl ReceiveRate {
    /// Begins a measurement over `window_ms`, which is at least 1.
    pub fn new(window_ms: u64, now_ms: u64) -> Self {
        let newest_slot = slot_at(now_ms, window_ms);
        Self { window_ms, started_ms: now_ms, newest_slot, slots: [0; SLOTS as usize + 1] }
    }

    /// Adds bytes that arrived at `now_ms`, which is never before an earlier time.
    pub fn record(&mut self, bytes: usize, now_ms: u64) {
        let slot = slot_at(now_ms, self.window_ms);
        for expired in (self.newest_slot + 1..=slot).take(self.slots.len()) {
            self.slots[index_of(expired)] = 0;
        }
        self.newest_slot = slot;
        let count = &mut self.slots[index_of(slot)];
        *count = count.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Returns the bytes of the last window.
    pub fn window_bytes(&self, now_ms: u64) -> u64 {
        let oldest = slot_at(now_ms, self.window_ms).saturating_sub(SLOTS);
        let first = self.newest_slot.saturating_sub(SLOTS).max(oldest);
        (first..=self.newest_slot).map(|slot| u64::from(self.slots[index_of(slot)])).sum()
    }

    /// Returns the rate over the last window, or since the start if that is later.
    pub fn bytes_per_s(&self, now_ms: u64) -> u64 {
        let measured_ms = self.age_ms(now_ms).clamp(AGE_MS_MIN, self.window_ms);
        self.window_bytes(now_ms) * 1000 / measured_ms
    }

    /// Returns whether a whole window has passed and fewer than `bytes_per_s` arrived in the last one.
    pub fn is_below(&self, bytes_per_s: u64, now_ms: u64) -> bool {
        self.age_ms(now_ms) >= self.window_ms
            && self.window_bytes(now_ms) < bytes_per_s * self.window_ms / 1000
    }

    /// Returns the time since the start.
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        now_ms - self.started_ms
    }
}

fn slot_at(now_ms: u64, window_ms: u64) -> u64 {
    now_ms * SLOTS / window_ms
}

fn index_of(slot: u64) -> usize {
    (slot % (SLOTS + 1)) as usize
}
