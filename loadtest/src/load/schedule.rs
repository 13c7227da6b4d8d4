//! When requests are due in an open loop: at uniform intervals from one moment, whatever the answers do.

/// The sends of one thread, in nanoseconds of its clock.
pub struct Schedule {
    start: u64,
    interval: f64,
    /// Sends that were taken.
    taken: u64,
    /// None is due from here on.
    end: u64,
}

impl Schedule {
    /// So many sends a second from `start` to `end`.
    pub fn new(start: u64, end: u64, per_second: f64) -> Self {
        Self { start, interval: 1e9 / per_second, taken: 0, end }
    }

    /// The oldest send that is due and was not taken.
    pub fn due(&self, now: u64) -> Option<u64> {
        // From the number, so that no rounding adds up.
        let at = self.start + (self.taken as f64 * self.interval) as u64;
        (at <= now && at < self.end).then_some(at)
    }

    pub fn take(&mut self) {
        self.taken += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::Schedule;

    fn all(schedule: &mut Schedule, now: u64) -> Vec<u64> {
        std::iter::from_fn(|| schedule.due(now).inspect(|_| schedule.take())).collect()
    }

    #[test]
    fn sends_are_due_at_uniform_intervals_until_the_end_however_late_one_asks() {
        let mut schedule = Schedule::new(1000, 1000 + 1_000_000_000, 3.0);
        assert_eq!(all(&mut schedule, 999), [0_u64; 0]);
        assert_eq!(all(&mut schedule, 1000), [1000]);
        assert_eq!(all(&mut schedule, 333_334_332), [0_u64; 0]);
        assert_eq!(all(&mut schedule, u64::MAX), [333_334_333, 666_667_666]);
    }
}
