//! `parallax cluster`: makes nkeys, founds a cluster, begins a new era, shows the state of the stream, and removes members.

use std::io::{self, ErrorKind, IsTerminal};
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{CliError, print_line};
use crate::cluster::found::{self, NewEra};
use crate::cluster::members::REACHABLE_MS;
use crate::cluster::operate::{self, HeardHeartbeat, NodeStatus, PresentEra, StreamStatus};
use crate::cluster::servers::{SyncSetting, sync_setting};
use crate::config::cluster::{
    ConnectionFiles, parse_monitor, parse_name, parse_servers, read_secret, refuse_userinfo, server_addresses,
};
use crate::config::{ByteSize, size_parser};
use crate::limits::PROFILES_MEMORY_BYTES_DEFAULT;
use crate::nats::connect::NatsSettings;
use crate::nats::key;

/// Keys in the duplicate window of an era, if none is given: 24 hours at 115 events per second.
const DUPLICATES_MAX_DEFAULT: u64 = 10_000_000;

pub(super) const EXAMPLES: &str = "\
Make the nkey of a node. The output is its public key, for users.conf of the NATS servers:
  parallax cluster key -o node-a.nk

Found a cluster without visitors, or with the visitors of a stopped server:
  head -c 32 /dev/urandom > secret && chmod 600 secret
  parallax cluster found -o era.checkpoint --cluster nats://nats-1,nats-2,nats-3 --cluster-secret secret
  parallax cluster found --from data/ -o era.checkpoint --cluster nats://nats-1,nats-2,nats-3 --cluster-secret secret

Copy era.checkpoint and secret to each machine, and start each node with an empty data directory, or with data/:
  parallax serve --cluster nats://nats-1,nats-2,nats-3 --cluster-secret secret --node a --bootstrap era.checkpoint

Exit codes: 0 success; 1 the data directory cannot be used, or the stream refuses; 2 bad command line.";

/// Digits of the era that the operator types to replace it: so many that a wrong cluster has others.
const ERA_DIGITS: usize = 8;

#[derive(Debug, Args)]
pub(super) struct ClusterArgs {
    #[command(subcommand)]
    action: ClusterAction,
}

#[derive(Debug, Subcommand)]
enum ClusterAction {
    /// Make an nkey for a node or an operator.
    ///
    /// Writes the seed to a file that only its owner can read, and prints the public key for users.conf of
    /// the NATS servers. An existing file is refused.
    Key(KeyArgs),
    /// Found a cluster: create the stream, and write the checkpoint with which all nodes begin.
    ///
    /// Refused if the stream has an era already.
    Found(FoundArgs),
    /// Begin a new era of a cluster: after the stream was lost, or to change its settings.
    ///
    /// The events that the present stream has, and that the data directory lacks, are known to their own nodes only, and are
    /// sent again by them. All nodes then need --bootstrap with the written file. Refused while a node was heard within 30
    /// seconds, unless --force is set.
    NewEra(NewEraArgs),
    /// Show the members with their positions and unreturned records, whether their profiles are equal, the era and the
    /// extent of the stream, and whether the NATS servers sync each message.
    Status(StatusArgs),
    /// Remove a member that will not return, so that erasures and dropped ties no longer wait for it.
    ///
    /// The node must have been silent for 30 seconds. If it returns, it becomes a member again.
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
struct KeyArgs {
    /// The file to write, for --cluster-nkey. Its mode is 0600.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Debug, Args)]
struct FoundArgs {
    /// The data directory of a stopped server whose visitors and log the cluster begins with [default: no visitors].
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    #[command(flatten)]
    era: EraArgs,
}

#[derive(Debug, Args)]
struct NewEraArgs {
    /// The data directory of a stopped node. Take the node with the greatest position.
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// The first 8 digits of the era that is replaced, as `parallax cluster status` prints it [default: ask on
    /// a terminal].
    #[arg(long, value_name = "DIGITS")]
    replace: Option<String>,
    /// Replace the era although nodes were heard within 30 seconds. They are alone until they have the new checkpoint.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    era: EraArgs,
}

/// The settings of an era.
#[derive(Debug, Args)]
struct EraArgs {
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
        ClusterAction::Key(args) => make_key(args),
        ClusterAction::Found(args) => begin_era(args.from.clone(), &args.era, &mut refuse_present),
        ClusterAction::NewEra(args) => {
            begin_era(Some(args.from.clone()), &args.era, &mut |present| confirm_replacement(args, present))
        }
        ClusterAction::Status(args) => status(args),
        ClusterAction::Forget(args) => forget(args),
    }
}

fn make_key(args: &KeyArgs) -> Result<(), CliError> {
    let path = args.output.display();
    let made = key::make(&args.output).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => CliError::Input(format!(
            "{path}: the file exists, and its key may be in use; choose another name, or delete the file"
        )),
        _ => CliError::System(format!("cannot write {path}: {error}")),
    });
    print_line(&made?)
}

fn begin_era(
    from: Option<PathBuf>,
    args: &EraArgs,
    confirm: &mut dyn FnMut(&PresentEra) -> Result<(), String>,
) -> Result<(), CliError> {
    let secret = read_secret(&args.cluster_secret).map_err(CliError::Usage)?;
    let settings = NewEra {
        from,
        output: args.output.clone(),
        secret,
        cluster: args.stream.cluster_name.clone(),
        nats: args.stream.settings()?,
        cost_max: args.profiles_memory.0,
        duplicates_max: args.duplicates,
        replicas: args.replicas as usize,
        max_bytes: i64::try_from(args.max_bytes.0).unwrap_or(i64::MAX),
    };
    let founded = found::begin(&settings, confirm).map_err(CliError::Input)?;
    print_line(&format!(
        "{}: began era {} at position {} with {} visitors; copy this file to all nodes, and start them with --bootstrap",
        args.output.display(),
        founded.era,
        founded.position,
        founded.visitors
    ))
}

/// Refuses to found a cluster that exists.
fn refuse_present(present: &PresentEra) -> Result<(), String> {
    match &present.id {
        Some(id) if present.is_in_stream => Err(format!(
            "the stream has the era {id} already; to replace it, use `parallax cluster new-era --replace {}`",
            first_digits(id)
        )),
        Some(_) => Err("the data directory is that of a node; use `parallax cluster new-era`".to_owned()),
        None => Ok(()),
    }
}

fn first_digits(era_id: &str) -> &str {
    era_id.get(..ERA_DIGITS).unwrap_or(era_id)
}

/// Shows the era and its nodes, and asks for the first digits of the era.
fn confirm_replacement(args: &NewEraArgs, present: &PresentEra) -> Result<(), String> {
    let Some(id) = &present.id else {
        return Err(
            "neither the stream nor the data directory has an era; use `parallax cluster found`".to_owned()
        );
    };
    let place = if present.is_in_stream { "the stream" } else { "the data directory" };
    eprintln!("{place} has the era {id}");
    for node in &present.nodes {
        eprintln!("node {}: last message {} s ago", node.name, node.silent_ms / 1_000);
    }
    let heard: Vec<&str> =
        present.nodes.iter().filter(|node| node.silent_ms < REACHABLE_MS).map(|node| &*node.name).collect();
    if !heard.is_empty() && !args.force {
        return Err(format!(
            "{} sent a message within {} s, and would be alone in the old era; stop the nodes, or set --force",
            heard.join(", "),
            REACHABLE_MS / 1_000
        ));
    }
    let digits = match &args.replace {
        Some(digits) => digits.clone(),
        None if io::stdin().is_terminal() => {
            eprint!("Type the first {ERA_DIGITS} digits of the era to replace it: ");
            let mut line = String::new();
            io::stdin().read_line(&mut line).map_err(|error| format!("cannot read the digits: {error}"))?;
            line.trim().to_owned()
        }
        None => return Err(format!("set --replace to the first {ERA_DIGITS} digits of the era")),
    };
    match digits == first_digits(id) {
        true => Ok(()),
        false => {
            Err(format!("{digits:?} are not the first {ERA_DIGITS} digits of the era; nothing was changed"))
        }
    }
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
    let Some(era) = status.era else { return print_line("era      none; run `parallax cluster found`") };
    let id = format!("{:032x}", u128::from_be_bytes(era.id.0));
    print_line(&format!("era      {id}, since position {era_position}, fold version {}", era.fold_version))?;
    print_line(&format!("limits   {} bytes of profiles, {} duplicates", era.cost_max, era.duplicates_max))
}

/// Prints a line for each node, and whether their profiles are equal.
fn print_nodes(status: &StreamStatus) -> Result<(), CliError> {
    for NodeStatus { name, member, silent_ms, heartbeat } in &status.nodes {
        let silent_s = silent_ms / 1_000;
        let standing = match member {
            Some(instance) => format!("member {:08x}", u128::from_be_bytes(instance.0) >> 96),
            None => "no member".to_owned(),
        };
        let progress = match heartbeat {
            Some(HeardHeartbeat { heartbeat, behind, .. }) => {
                format!(
                    "position {}, {behind} behind; {} unreturned records",
                    heartbeat.position, heartbeat.unreturned
                )
            }
            None => "no heartbeat lately".to_owned(),
        };
        print_line(&format!("node     {name}: {standing}; last message {silent_s} s ago; {progress}"))?;
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
    print_line(&format!("removed the member {} at position {position}", args.node))
}
