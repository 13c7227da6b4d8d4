//! Starts a node: checks the servers, restores the table, and starts the task of the thread `cluster`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::timeout;

use super::era::FOLD_VERSION;
use super::erasing::{self, ErasureThread};
use super::erasure_progress::ErasureProgress;
use super::identity::Identity;
use super::join::Readiness;
use super::link::{UnboundThreadLink, link};
use super::message::Sender;
use super::node::{Node, NodeParts};
use super::positions::PositionsFile;
use super::replaced;
use super::restore::{NodeRestoreError, RestoredNode, load_producer, restore};
use super::secret::ClusterKeys;
use super::servers;
use super::session::{self, SessionSettings};
use super::shared_log::SharedLog;
use super::state::SavedState;
use super::stream::ClusterStream;
use crate::clock;
use crate::config::cluster::{ClusterConfig, TimeSpan, read_secret, server_addresses};
use crate::log::{LogId, SeqRange};
use crate::metrics::cluster::{ClusterMetrics, ClusterState, NotReady};
use crate::nats::connect::NatsSettings;
use crate::nats::thread::{RenewalRequests, Task};
use crate::storage::disk::Disk;
use crate::visitors::checkpoint::directory::CheckpointDirectory;

/// Time limit of the checks at a start. After it the node starts alone.
const CHECK_TIMEOUT: Duration = Duration::from_secs(4);

/// A node before its log is opened.
pub(crate) struct StartingNode {
    pub(crate) keys: ClusterKeys,
    pub(crate) restored: RestoredNode,
    identity: Identity,
    settings: SessionSettings,
}

/// The directories of a node.
#[derive(Clone, Copy)]
pub(crate) struct Directories<'a> {
    /// That of the log of the cluster, with all other files.
    pub(crate) data: &'a Path,
    /// That of the own log.
    pub(crate) outbox: &'a Path,
}

/// The own log at a start.
#[derive(Clone, Copy)]
pub(crate) struct OwnLogEnd {
    pub(crate) log_id: LogId,
    pub(crate) last_seq: u64,
}

/// A node, and the task that connects it with the stream.
pub(crate) struct StartedNode {
    pub(crate) node: Node,
    pub(crate) session: UnboundSession,
    pub(crate) metrics: Arc<ClusterMetrics>,
    /// The thread that makes own records void.
    pub(crate) erasures: ErasureThread,
    pub(crate) erased: ErasureProgress,
}

/// The task that connects a node with the stream, before the log writer exists.
pub(crate) struct UnboundSession {
    settings: SessionSettings,
    link: UnboundThreadLink,
}

impl UnboundSession {
    /// Returns a constructor of the task. `wake_writer` makes the log writer run a step.
    pub(crate) fn bind(
        self,
        wake_writer: impl Fn() + Send + 'static,
        renewals: RenewalRequests,
    ) -> impl FnOnce() -> Task + Send + 'static {
        let Self { settings, link } = self;
        move || Box::pin(session::run(settings, link.bind(Box::new(wake_writer)), renewals))
    }
}

impl StartingNode {
    /// Checks the servers, and restores table and state.
    ///
    /// # Errors
    /// The setting at fault, and the remedy.
    pub(crate) fn restore(
        config: &ClusterConfig,
        servers_text: &str,
        directory: &CheckpointDirectory,
        data_directory: &Path,
        log_range: &SeqRange,
        report_progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, NodeRestoreError> {
        let secret = config.cluster_secret.as_deref();
        let secret = secret.ok_or_else(|| "--cluster needs --cluster-secret FILE".to_owned())?;
        let keys = ClusterKeys::derive(&read_secret(secret)?);
        let settings = session_settings(config, servers_text)?;
        replaced::check(data_directory, config.take_over)?;
        let identity = Identity::open(data_directory, &settings.node)?;
        if !servers::check_sync(&config.cluster_monitor)? {
            tracing::warn!(
                "cannot verify that the NATS servers sync each message; set --cluster-monitor to the monitoring addresses of all of them"
            );
        }
        check_stream(&settings, &keys)?;
        let restored = restore(
            directory,
            data_directory,
            log_range,
            config.bootstrap.as_deref(),
            &keys,
            report_progress,
        )?;
        Ok(Self { keys, restored, identity, settings })
    }

    /// Creates the node. `cost_max` is the setting of this node. The caller takes the table out of `restored` before.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn start(
        self,
        config: &ClusterConfig,
        disk: Arc<dyn Disk>,
        directories: Directories<'_>,
        own_log: OwnLogEnd,
        shared: SharedLog,
        cost_max: u64,
    ) -> std::io::Result<StartedNode> {
        let Directories { data: data_directory, outbox } = directories;
        let (producer, is_producer_saved) = load_producer(outbox, own_log.log_id);
        let (writer_link, thread_link) = link();
        let metrics = Arc::<ClusterMetrics>::default();
        let now_ms = clock::now_ms();
        metrics.set_state(ClusterState::Joining, "", Some(NotReady::Joining), now_ms);
        let readiness = readiness(config, &self.identity, self.restored.saved.as_ref(), now_ms);
        let positions = PositionsFile::open(outbox);
        let (erasure_link, erasures) =
            erasing::link(self.keys.seal.clone(), positions.orders(), outbox.to_owned());
        let erased = erasure_link.progress.clone();
        let node = Node::new(NodeParts {
            directory: data_directory.to_owned(),
            outbox: outbox.to_owned(),
            identity: self.identity,
            disk,
            keys: self.keys,
            producer,
            is_producer_saved,
            last_seq: own_log.last_seq,
            saved: self.restored.saved,
            return_timeout: config.return_timeout.0,
            readiness,
            cost_max,
            link: writer_link,
            shared,
            positions,
            erasures: erasure_link,
            metrics: Arc::clone(&metrics),
        })?;
        let session = UnboundSession { settings: self.settings, link: thread_link };
        Ok(StartedNode { node, session, metrics, erasures, erased })
    }
}

fn readiness(
    config: &ClusterConfig,
    identity: &Identity,
    saved: Option<&SavedState>,
    now_ms: i64,
) -> Readiness {
    let milliseconds = |span: TimeSpan| i64::try_from(span.0.as_millis()).unwrap_or(i64::MAX);
    let is_recent = |saved: &SavedState| now_ms - saved.clock_ms <= milliseconds(config.start_alone);
    let may_start_alone = identity.has_joined && saved.is_some_and(is_recent);
    Readiness::new(may_start_alone, config.ready_lag.map(milliseconds))
}

fn session_settings(config: &ClusterConfig, servers_text: &str) -> Result<SessionSettings, String> {
    let node = config.node_name()?;
    let nats = NatsSettings {
        servers: server_addresses(servers_text),
        name: node.clone(),
        files: config.files.clone(),
    };
    Ok(SessionSettings { nats, cluster: config.cluster_name.clone(), node })
}

/// Checks the servers and the era if a server answers.
fn check_stream(settings: &SessionSettings, keys: &ClusterKeys) -> Result<(), String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start an event loop: {error}"))?;
    let check = async {
        let client = match settings.nats.connect_once().await {
            Ok(client) => client,
            Err(error) => {
                tracing::warn!(%error, "no NATS server answers; starting alone");
                return Ok(());
            }
        };
        servers::check_version(&client.server_info())?;
        let stream = ClusterStream::new(client, &settings.cluster, Sender::Node(settings.node.clone()));
        let Some(published) = stream.info().await.ok().and_then(|info| info.era) else { return Ok(()) };
        if published.era.secret_check != keys.secret_check {
            return Err(
                "--cluster-secret is not the secret of this cluster; use the file of the other nodes"
                    .to_owned(),
            );
        }
        if published.era.fold_version != FOLD_VERSION {
            return Err(format!(
                "the era of the cluster has fold version {}, and this release has {FOLD_VERSION}; use the release of the other nodes",
                published.era.fold_version
            ));
        }
        Ok(())
    };
    runtime.block_on(async { timeout(CHECK_TIMEOUT, check).await }).unwrap_or(Ok(()))
}
