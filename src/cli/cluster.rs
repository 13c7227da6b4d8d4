//! `parallax cluster`: founds a cluster, begins a new era, and shows the state of the stream.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{CliError, print_line};
use crate::cluster::found::{self, NewEra};
use crate::cluster::operate::{self, StreamStatus};
use crate::cluster::servers::{SyncSetting, sync_setting};
use crate::config::cluster::{
    ConnectionFiles, parse_monitor, parse_name, parse_servers, read_secret, refuse_userinfo, server_addresses,
};
use crate::config::{ByteSize, size_parser};
use crate::limits::PROFILES_MEMORY_BYTES_DEFAULT;
use crate::nats::connect::NatsSettings;

/// Keys in the duplicate window of an era, if none is given: 24 hours at 115 events per second.
const DUPLICATES_MAX_DEFAULT: u64 = 10_000_000;

pub(super) const EXAMPLES: &str = "\
Found a cluster from the data directory of a stopped server, or from an empty one:
  head -c 32 /dev/urandom > secret && chmod 600 secret
  parallax cluster new-era --from data/ -o era.checkpoint --cluster nats://nats-1,nats-2,nats-3 --cluster-secret secret

Copy era.checkpoint and secret to each machine, and start each node with an empty data directory, or with data/:
  parallax serve --cluster nats://nats-1,nats-2,nats-3 --cluster-secret secret --node a --bootstrap era.checkpoint

Exit codes: 0 success; 1 the data directory cannot be used, or the stream refuses; 2 bad command line.";

#[derive(Debug, Args)]
pub(super) struct ClusterArgs {
    #[command(subcommand)]
    action: ClusterAction,
}

#[derive(Debug, Subcommand)]
enum ClusterAction {
    /// Found a cluster, or begin a new era of it: after the stream was lost, or to change its settings.
    ///
    /// Creates the stream if it is missing, and writes the checkpoint with which all nodes begin. Stop the
    /// server of the directory first. All nodes then need --bootstrap with this file.
    NewEra(NewEraArgs),
    /// Show the nodes and whether their profiles are equal, the era and the extent of the stream, and whether
    /// the NATS servers sync each message.
    Status(StatusArgs),
    /// Forget a node that will not return, so that erasures and dropped ties no longer wait for it.
    ///
    /// The node must have been silent for 30 seconds. If it returns with its data directory, it stays alone.
    Forget(ForgetArgs),
}

/// The stream of the cluster.
#[derive(Debug, Args)]
struct StreamArgs {
    /// The NATS servers of the cluster, as nats://A,B,C or tls://A,B,C.
    #[arg(long, value_name = "URL", value_parser = parse_servers)]
    cluster: String,
    /// Name of the cluster. Its stream is PLX_NAME.
    #[arg(long, value_name = "NAME", default_value = "parallax", value_parser = parse_name)]
    cluster_name: String,
    #[command(flatten)]
    files: ConnectionFiles,
    /// Monitoring addresses of all NATS servers, such as http://a:8222. Separate several by commas.
    #[arg(long, value_name = "URL", value_delimiter = ',', value_parser = parse_monitor)]
    cluster_monitor: Vec<String>,
}

impl StreamArgs {
    fn settings(&self) -> Result<NatsSettings, CliError> {
        refuse_userinfo("--cluster", &self.cluster)
            .and_then(|()| self.files.check())
            .map_err(CliError::Usage)?;
        let servers = server_addresses(&self.cluster);
        Ok(NatsSettings { servers, name: "control".to_owned(), files: self.files.clone() })
    }
}

#[derive(Debug, Args)]
struct NewEraArgs {
    /// The data directory whose visitors and log the cluster begins with. An empty one begins without visitors.
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// The checkpoint to write.
    #[arg(short, long, value_name = "FILE", default_value = "era.checkpoint")]
    output: PathBuf,
    /// A file of 32 random bytes, the same on all nodes, with the mode 0600 or 0400.
    #[arg(long, value_name = "FILE")]
    cluster_secret: PathBuf,
    /// Memory limit of the profiles on every node.
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(PROFILES_MEMORY_BYTES_DEFAULT), value_parser = size_parser(0..=1 << 48))]
    profiles_memory: ByteSize,
    /// Events by which duplicates are detected. Each takes 31 bytes of memory on every node. An event counts
    /// again if more events, or 24 hours, are between it and its repetition.
    #[arg(long, value_name = "N", default_value_t = DUPLICATES_MAX_DEFAULT, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    duplicates: u64,
    /// Copies of the stream. Three NATS servers are needed for 3.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=5))]
    replicas: u64,
    /// Size of the stream. At the limit the oldest messages are dropped, and a node that still needs them
    /// needs --bootstrap.
    #[arg(long, value_name = "SIZE", default_value = "100GiB", value_parser = size_parser(1 << 20..=1 << 48))]
    max_bytes: ByteSize,
    #[command(flatten)]
    stream: StreamArgs,
}

#[derive(Debug, Args)]
struct StatusArgs {
    #[command(flatten)]
    stream: StreamArgs,
}

#[derive(Debug, Args)]
struct ForgetArgs {
    /// Name of the node, as its --node.
    #[arg(value_name = "NODE", value_parser = parse_name)]
    node: String,
    #[command(flatten)]
    stream: StreamArgs,
}

pub(super) fn cluster(args: &ClusterArgs) -> Result<(), CliError> {
    match &args.action {
        ClusterAction::NewEra(args) => new_era(args),
        ClusterAction::Status(args) => status(args),
        ClusterAction::Forget(args) => forget(args),
    }
}

fn new_era(args: &NewEraArgs) -> Result<(), CliError> {
    let secret = read_secret(&args.cluster_secret).map_err(CliError::Usage)?;
    let settings = NewEra {
        from: args.from.clone(),
        output: args.output.clone(),
        secret,
        cluster: args.stream.cluster_name.clone(),
        nats: args.stream.settings()?,
        cost_max: args.profiles_memory.0,
        duplicates_max: args.duplicates,
        replicas: args.replicas as usize,
        max_bytes: i64::try_from(args.max_bytes.0).unwrap_or(i64::MAX),
    };
    let founded = found::begin(&settings).map_err(CliError::Input)?;
    print_line(&format!(
        "{}: began era {} at position {} with {} visitors; copy this file to all nodes, and start them with --bootstrap",
        args.output.display(),
        founded.era,
        founded.position,
        founded.visitors
    ))
}

fn status(args: &StatusArgs) -> Result<(), CliError> {
    let settings = args.stream.settings()?;
    let status = operate::status(&settings, &args.stream.cluster_name).map_err(CliError::Input)?;
    print_line(&format!("server   nats-server {}", status.server_version))?;
    for monitor in &args.stream.cluster_monitor {
        let text = match sync_setting(monitor) {
            SyncSetting::Always => "each message",
            SyncSetting::Delayed => "delayed; set `sync_interval: always`",
            SyncSetting::Unknown => "unknown; the address does not answer",
        };
        print_line(&format!("sync     {monitor}: {text}"))?;
    }
    if args.stream.cluster_monitor.is_empty() {
        print_line("sync     unknown; set --cluster-monitor")?;
    }
    let StreamStatus { first, last, replicas, era_position, .. } = status;
    print_line(&format!("stream   positions {first} to {last}, {replicas} replicas"))?;
    print_nodes(&status)?;
    let Some(era) = status.era else { return print_line("era      none; run `parallax cluster new-era`") };
    let id = format!("{:032x}", u128::from_be_bytes(era.id.0));
    print_line(&format!("era      {id}, since position {era_position}, fold version {}", era.fold_version))?;
    print_line(&format!("limits   {} bytes of profiles, {} duplicates", era.cost_max, era.duplicates_max))
}

/// Prints a line for each node, and whether their profiles are equal.
fn print_nodes(status: &StreamStatus) -> Result<(), CliError> {
    for node in &status.nodes {
        let silent_s = node.silent_ms / 1_000;
        let heartbeat = match &node.heartbeat {
            Some(beat) => {
                let behind = status.last.saturating_sub(beat.position);
                format!("position {}, {behind} behind the stream", beat.position)
            }
            None => "no heartbeat lately".to_owned(),
        };
        print_line(&format!("node     {}: last message {silent_s} s ago; {heartbeat}", node.name))?;
    }
    match status.digests() {
        None => print_line("digest   fewer than two nodes to compare"),
        Some((position, groups)) if groups.len() == 1 => {
            let digests: Vec<&str> = groups.keys().map(String::as_str).collect();
            print_line(&format!("digest   equal at position {position}: {}", digests.join(", ")))
        }
        Some((position, groups)) => groups.iter().try_for_each(|(digest, names)| {
            print_line(&format!("digest   DIFFERS at position {position}: {digest} on {}", names.join(", ")))
        }),
    }
}

fn forget(args: &ForgetArgs) -> Result<(), CliError> {
    let settings = args.stream.settings()?;
    let position =
        operate::forget(&settings, &args.stream.cluster_name, &args.node).map_err(CliError::Input)?;
    print_line(&format!("forgot the node {} at position {position}", args.node))
}
