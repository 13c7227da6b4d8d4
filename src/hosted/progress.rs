//! The progress bar of a command, which the core does not show.

/// A progress bar that is never visible.
pub(super) struct Progress;

impl Progress {
    pub(super) fn on_terminal() -> Self {
        Self
    }

    pub(super) fn start(&self, _activity: &'static str, _step_count: u64) {}

    pub(super) fn finish(self) {}

    pub(super) fn set_done(&self, _done_count: u64) {}
}
