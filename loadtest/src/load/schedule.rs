//! The due times of an open loop: fixed intervals from a start, independent of the responses.

/// The sends of one thread, in nanoseconds of its clock.
pub struct Schedule {
    start: u64,
    interval: f64,
    /// Number of sends so far.
    sent: u64,
    /// End of the schedule. No send is due at or after it.
    end: u64,
}

impl Schedule {
    /// Creates a schedule of `per_second` sends from `start` to `end`.
    pub fn new(start: u64, end: u64, per_second: f64) -> Self {
        Self { start, interval: 1e9 / per_second, sent: 0, end }
    }

    /// Returns the time of the next send if it is due.
    pub fn next_due(&self, now: u64) -> Option<u64> {
        // Computed from the number of the send, so that rounding errors do not add up.
        let at = self.start + (self.sent as f64 * self.interval) as u64;
        (at <= now && at < self.end).then_some(at)
    }

    pub fn advance(&mut self) {
        self.sent += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::Schedule;

    fn all(schedule: &mut Schedule, now: u64) -> Vec<u64> {
        std::iter::from_fn(|| schedule.next_due(now).inspect(|_| schedule.advance())).collect()
    }

    #[test]
    fn sends_are_due_at_fixed_intervals_until_the_end() {
        let mut schedule = Schedule::new(1000, 1000 + 1_000_000_000, 3.0);
        assert_eq!(all(&mut schedule, 999), [0_u64; 0]);
        assert_eq!(all(&mut schedule, 1000), [1000]);
        assert_eq!(all(&mut schedule, 333_334_332), [0_u64; 0]);
        assert_eq!(all(&mut schedule, u64::MAX), [333_334_333, 666_667_666]);
    }
}
