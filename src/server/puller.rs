//! The tasks of the thread `cluster`: the puller of snapshots with `--snapshots-from`, and the session of a node with
//! `--cluster`. Without both there is no such thread.

use super::BootError;
use super::event_log::EventLog;
use crate::admin::Metrics;
use crate::config::Config;
use crate::distribute::pull;
use crate::metrics::PullCounters;
use crate::nats::thread::{self, Renewal};
use crate::site::catalog::files::CurrentFiles;

/// Creates the task on the thread `cluster`.
pub(super) type MakeTask = Box<dyn FnOnce() -> thread::Task + Send>;

/// Checks the settings of the puller, and adds its counters to the metrics.
pub(super) fn prepare(
    config: &Config,
    files: CurrentFiles,
    metrics: Metrics,
    renewal: &Renewal,
) -> Result<(Metrics, Option<MakeTask>), BootError> {
    let metrics = metrics.with_node(config.cluster.cluster.is_some());
    let counters = PullCounters::default();
    let directory = config.snapshots_directory();
    let task = pull::task(&config.cluster, directory, files, counters.clone(), renewal.requests());
    match task.map_err(BootError::Puller)? {
        Some(task) => Ok((metrics.with_puller(counters), Some(Box::new(task)))),
        None => Ok((metrics, None)),
    }
}

/// Starts the thread `cluster` if it has a task: the puller, or the session of a node.
pub(super) fn start(
    make_puller: Option<MakeTask>,
    event_log: &mut EventLog,
    renewal: &Renewal,
) -> Result<(), BootError> {
    let session = event_log.take_session(renewal.requests());
    let tasks: Vec<MakeTask> = make_puller.into_iter().chain(session).collect();
    if tasks.is_empty() {
        return Ok(());
    }
    thread::start(move || tasks.into_iter().map(|task| task()).collect()).map_err(BootError::Thread)
}
