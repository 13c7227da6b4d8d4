//! The scrub of the data directory, while the event log runs.

use std::sync::Arc;

use super::EventLog;
use crate::clock::SystemClock;
use crate::config::Config;
use crate::scrub::{self, ScrubMetrics, ScrubThread};
use crate::server::BootError;
use crate::visitors::ownership::OwnershipSource;

/// The scrub, and its metrics.
#[derive(Default)]
pub(super) struct ScrubParts {
    metrics: Arc<ScrubMetrics>,
    /// `None` if the scrub is off.
    thread: Option<ScrubThread>,
}

impl ScrubParts {
    /// Ends the scrub.
    pub(super) fn stop(self) {
        self.thread.into_iter().for_each(ScrubThread::stop);
    }
}

impl EventLog {
    /// Starts the scrub, unless it is off.
    pub(in crate::server) fn start_scrub(&mut self, config: &Config) -> Result<(), BootError> {
        if config.scrub_rate.0 == 0 {
            return Ok(());
        }
        let OwnershipSource { disk, directory, damage, .. } = self.eraser.source.clone();
        let inputs = scrub::ScrubInputs {
            disk,
            directory,
            clock: Arc::new(SystemClock::new()),
            bytes_per_second: config.scrub_rate.0,
            damage,
            metrics: Arc::clone(&self.scrub.metrics),
        };
        self.scrub.thread = Some(scrub::start(inputs).map_err(BootError::Thread)?);
        Ok(())
    }

    /// Returns the metrics of the scrub.
    pub(in crate::server) fn scrub_metrics(&self) -> Arc<ScrubMetrics> {
        Arc::clone(&self.scrub.metrics)
    }
}
