//! The tasks of the thread `cluster`: the puller of snapshots with `--snapshots-from`, and the session of a node with
//! `--cluster`. Without both there is no such thread.

#[cfg(feature = "cluster")]
pub(super) use self::with_cluster::{MakeTask, Renewal, prepare, start};
#[cfg(not(feature = "cluster"))]
pub(super) use self::without_cluster::{Renewal, prepare, start};

/// The puller in a build with the feature `cluster`.
#[cfg(feature = "cluster")]
mod with_cluster {
    use super::super::BootError;
    use super::super::event_log::EventLog;
    use crate::admin::Metrics;
    use crate::config::Config;
    use crate::distribute::pull;
    use crate::metrics::PullCounters;
    use crate::nats::thread;
    use crate::site::catalog::files::CurrentFiles;

    pub(in crate::server) use crate::nats::thread::Renewal;

    /// Creates the task on the thread `cluster`.
    pub(in crate::server) type MakeTask = Box<dyn FnOnce() -> thread::Task + Send>;

    /// Checks the settings of the puller, and adds its counters to the metrics.
    pub(in crate::server) fn prepare(
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
    pub(in crate::server) fn start(
        puller: Option<MakeTask>,
        event_log: &mut EventLog,
        renewal: &Renewal,
    ) -> Result<(), BootError> {
        let session = event_log.take_session(renewal.requests());
        let tasks: Vec<MakeTask> = puller.into_iter().chain(session).collect();
        if tasks.is_empty() {
            return Ok(());
        }
        thread::start(move || tasks.into_iter().map(|task| task()).collect()).map_err(BootError::Thread)
    }
}

/// A build without the feature `cluster` has no puller.
#[cfg(not(feature = "cluster"))]
mod without_cluster {
    use super::super::BootError;
    use super::super::event_log::EventLog;
    use crate::admin::Metrics;
    use crate::config::Config;
    use crate::site::catalog::files::CurrentFiles;

    /// A stub: a build without the feature `cluster` has no connection to renew.
    #[derive(Default)]
    pub(in crate::server) struct Renewal;

    impl Renewal {
        pub(in crate::server) fn request(&self) {}
    }

    /// There is no task.
    pub(in crate::server) type MakeTask = std::convert::Infallible;

    pub(in crate::server) fn prepare(
        _config: &Config,
        _files: CurrentFiles,
        metrics: Metrics,
        _renewal: &Renewal,
    ) -> Result<(Metrics, Option<MakeTask>), BootError> {
        Ok((metrics, None))
    }

    pub(in crate::server) fn start(
        _puller: Option<MakeTask>,
        _event_log: &mut EventLog,
        _renewal: &Renewal,
    ) -> Result<(), BootError> {
        Ok(())
    }
}
