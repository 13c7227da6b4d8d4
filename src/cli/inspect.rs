//! `parallax inspect`: shows the content of a snapshot, a segment of the log, or a checkpoint.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{CliError, checkpoints, print_line, segments};
use crate::cli::inspect_snapshot;
use crate::data_files::{CHECKPOINT_MAGIC, CHECKPOINT_SUFFIX, SEGMENT_MAGIC, SEGMENT_SUFFIX, seq_in_name};
use crate::local_files;
use crate::site::snapshot::format::MAGIC as SNAPSHOT_MAGIC;

/// Bytes at the begin of a file that tell its kind.
const MAGIC_BYTES: usize = 8;

pub(super) const EXAMPLES: &str = "\
  parallax inspect snapshots/shop-43.snapshot
  parallax inspect data/00000000000000000001.segment --json
  parallax inspect data/00000000000000000100.checkpoint

A damaged snapshot is not shown. Of a damaged segment, the readable part and the damage are shown.";

#[derive(Debug, Args)]
pub(super) struct InspectArgs {
    /// A snapshot, a segment or a checkpoint. Its first bytes tell which.
    file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn inspect_file(args: &InspectArgs) -> Result<(), CliError> {
    let path = &args.file;
    let text = match FileKind::detect(path)? {
        FileKind::Snapshot => {
            let snapshot = inspect_snapshot::open_snapshot(path)
                .map_err(|refusal| CliError::Input(format!("{}: {refusal}", path.display())))?;
            if args.json {
                inspect_snapshot::to_json(&snapshot)
            } else {
                inspect_snapshot::to_text(&snapshot)
            }
        }
        FileKind::Segment => segments::inspect(path, args.json)?,
        FileKind::Checkpoint => checkpoints::inspect(path, args.json)?,
    };
    print_line(&text)
}

/// The kind of a file.
pub(super) enum FileKind {
    Snapshot,
    Segment,
    Checkpoint,
}

impl FileKind {
    /// Detects the kind from the first bytes or, if these are damaged, from the name.
    pub(super) fn detect(path: &Path) -> Result<Self, CliError> {
        let magic = local_files::read_first_bytes(path, MAGIC_BYTES)
            .map_err(|error| CliError::Input(format!("cannot read {}: {error}", path.display())))?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if magic == SEGMENT_MAGIC {
            Ok(Self::Segment)
        } else if magic == CHECKPOINT_MAGIC || seq_in_name(name, CHECKPOINT_SUFFIX).is_some() {
            Ok(Self::Checkpoint)
        } else if magic == SNAPSHOT_MAGIC || name.ends_with(".snapshot") {
            Ok(Self::Snapshot)
        } else if seq_in_name(name, SEGMENT_SUFFIX).is_some() {
            Ok(Self::Segment)
        } else {
            Err(CliError::Input(format!(
                "{}: unknown kind of file: it begins with \"{}\", expected a snapshot (\"{}\"), a segment of the log (\"{}\") or a checkpoint (\"{}\")",
                path.display(),
                magic.escape_ascii(),
                SNAPSHOT_MAGIC.escape_ascii(),
                SEGMENT_MAGIC.escape_ascii(),
                CHECKPOINT_MAGIC.escape_ascii(),
            )))
        }
    }
}
