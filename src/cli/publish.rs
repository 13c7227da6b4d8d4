//! `parallax publish`: adds a snapshot to a source that nodes pull from, and rolls back.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};

use super::{CliError, print_line};
use crate::config::cluster::{ConnectionFiles, SnapshotSource, parse_source, refuse_userinfo};
use crate::distribute::list::{FILE_BYTES_MAX, SourceFile};
use crate::distribute::publish::{Change, NewSnapshot, PublishError, change_source};
use crate::site::snapshot::open::{Snapshot, SnapshotBudget};

/// Most versions of a site in a source. Each one takes memory on every node.
const KEEP_MAX: u64 = 100;

pub(super) const EXAMPLES: &str = "\
Publish a version on all nodes, which run with --snapshots-from nats://nats-1,nats-2,nats-3/snapshots:
  parallax compile site/ --version 43 -o build/
  parallax publish build/acme-43.snapshot --to nats://nats-1,nats-2,nats-3/snapshots

Go back to the version before:
  parallax publish --list --to nats://nats-1/snapshots
  parallax publish --remove acme-43.snapshot --to nats://nats-1/snapshots

Exit codes: 0 success; 1 the snapshot is damaged, or the source refuses the change; 2 bad command line; 3 the source does not answer.";

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("change").required(true).args(["file", "remove", "list"]))]
pub(super) struct PublishArgs {
    /// The snapshot to add.
    file: Option<PathBuf>,
    /// The source: nats://HOST/BUCKET or tls://HOST/BUCKET (object store of NATS), s3://BUCKET/PREFIX (credentials and
    /// endpoint from AWS_...), or file:///DIR/ (a directory, such as one that a web server serves).
    #[arg(long, value_name = "URL", value_parser = parse_source)]
    to: String,
    /// Versions of the site that stay in the source. The nodes have all of them in memory. With 1, a rollback needs the
    /// file of the version before.
    #[arg(long, value_name = "N", default_value_t = 2, requires = "file", value_parser = clap::value_parser!(u64).range(1..=KEEP_MAX))]
    keep: u64,
    /// Remove the snapshot of this name from the source. The nodes then serve the version before.
    #[arg(long, value_name = "NAME")]
    remove: Option<String>,
    /// List the snapshots in the source.
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    files: ConnectionFiles,
}

pub(super) fn publish(args: &PublishArgs) -> Result<(), CliError> {
    refuse_userinfo("--to", &args.to).and_then(|()| args.files.check()).map_err(CliError::Usage)?;
    let source = SnapshotSource::parse(&args.to).map_err(CliError::Usage)?;
    let change = match (&args.file, &args.remove) {
        (Some(file), _) => Change::Add { snapshot: read_snapshot(file)?, keep: args.keep as usize },
        (None, Some(name)) => Change::Remove(name.clone()),
        (None, None) => Change::Nothing,
    };
    let files = change_source(&source, &args.files, &change).map_err(|error| match error {
        PublishError::Failed(text) => CliError::System(format!("{}: {text}", args.to)),
        refused => CliError::Input(format!("{}: {refused}", args.to)),
    })?;
    print_result(&change, &files, &args.to)
}

fn print_result(change: &Change, files: &[SourceFile], source_url: &str) -> Result<(), CliError> {
    match change {
        Change::Add { snapshot: NewSnapshot { site, version, .. }, .. } => {
            let names = files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>().join(", ");
            print_line(&format!(
                "{source_url}: published version {version} of site {site}; the source has {names}"
            ))
        }
        Change::Remove(name) => print_line(&format!("{source_url}: removed {name}")),
        Change::Nothing => {
            files.iter().try_for_each(|file| print_line(&format!("{}  {} bytes", file.name, file.bytes)))
        }
    }
}

/// Reads and verifies a snapshot, so that no damaged one reaches a source.
fn read_snapshot(path: &Path) -> Result<NewSnapshot, CliError> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| CliError::System(format!("cannot read {shown}: {error}"));
    let length = fs::metadata(path).map_err(unreadable)?.len();
    if length > FILE_BYTES_MAX {
        return Err(CliError::Input(format!("{shown}: {length} bytes, the limit is {FILE_BYTES_MAX}")));
    }
    let mut file = File::open(path).map_err(unreadable)?;
    let snapshot = Snapshot::open_file(&mut file, length, &SnapshotBudget::new(u64::MAX))
        .map_err(|error| CliError::Input(format!("{shown}: {error}")))?;
    let site = snapshot.site().site.to_string();
    let version = snapshot.version();
    let bytes = fs::read(path).map_err(unreadable)?;
    if bytes.len() as u64 != length {
        return Err(CliError::Input(format!(
            "{shown}: the file changed while it was read; publish it again"
        )));
    }
    Ok(NewSnapshot { site, version, bytes })
}
