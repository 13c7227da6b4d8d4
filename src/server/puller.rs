//! The puller of snapshots, as a task of the thread `cluster`. Without `--snapshots-from` there is none.

use super::BootError;
use crate::admin::Metrics;
use crate::cluster::{pull, thread};
use crate::config::Config;
use crate::metrics::PullCounters;
use crate::site::catalog::files::CurrentFiles;

/// Creates the task on the thread `cluster`.
pub(super) type MakeTask = Box<dyn FnOnce() -> thread::Task + Send>;

/// Checks the settings of the puller, and adds its counters to the metrics.
pub(super) fn prepare(
    config: &Config,
    states: CurrentFiles,
    metrics: Metrics,
) -> Result<(Metrics, Option<MakeTask>), BootError> {
    let counters = PullCounters::default();
    let task = pull::task(&config.cluster, config.snapshots_directory(), states, counters.clone());
    match task.map_err(BootError::Puller)? {
        Some(task) => Ok((metrics.with_puller(counters), Some(Box::new(task)))),
        None => Ok((metrics, None)),
    }
}

/// Starts the thread `cluster` if it has a task: the puller, or the session of a node.
pub(super) fn start(puller: Option<MakeTask>, session: Option<MakeTask>) -> Result<(), BootError> {
    let tasks: Vec<MakeTask> = puller.into_iter().chain(session).collect();
    if tasks.is_empty() {
        return Ok(());
    }
    thread::start(move || tasks.into_iter().map(|task| task()).collect()).map_err(BootError::Thread)
}
