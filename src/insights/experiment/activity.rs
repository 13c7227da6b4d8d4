//! The times of exposures and page views. They tell whether the exposures of an experiment have stopped while the site is visited.

/// The time without an exposure after which the exposures have stopped, in milliseconds. A day has the quiet hours of each
/// site.
const STALLED_MS: i64 = 24 * 60 * 60 * 1_000;
/// The number of exposed visitors that this time must have on average. With fewer, a day without an exposure can be chance: with
/// this number, it is chance once in 20,000 days.
const EXPECTED_VISITORS_MIN: u64 = 10;

/// The times of exposures and page views in the range of a question, in milliseconds.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct Activity {
    pub first_exposure_ms: Option<i64>,
    pub last_exposure_ms: Option<i64>,
    /// The latest page view of the site.
    pub last_page_ms: Option<i64>,
}

impl Activity {
    pub(super) fn add_exposure(&mut self, time_ms: i64) {
        self.first_exposure_ms =
            Some(self.first_exposure_ms.map_or(time_ms, |first_ms| first_ms.min(time_ms)));
        self.last_exposure_ms = self.last_exposure_ms.max(Some(time_ms));
    }

    pub(super) fn add_page(&mut self, time_ms: i64) {
        self.last_page_ms = self.last_page_ms.max(Some(time_ms));
    }

    /// Returns whether the exposures have stopped. `exposed` is the number of exposed visitors.
    pub(super) fn has_stalled(&self, exposed: u64) -> bool {
        let Some(first_ms) = self.first_exposure_ms else { return false };
        let Some(last_ms) = self.last_exposure_ms else { return false };
        let Some(page_ms) = self.last_page_ms else { return false };
        let elapsed_ms = last_ms.saturating_sub(first_ms).max(STALLED_MS) as u128;
        page_ms.saturating_sub(last_ms) > STALLED_MS
            && u128::from(exposed) * STALLED_MS as u128 >= u128::from(EXPECTED_VISITORS_MIN) * elapsed_ms
    }
}
