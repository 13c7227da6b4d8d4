//! `parallax schema`: prints the JSON Schema of a kind of source file, or the vocabulary of conditions.

use clap::Args;

use super::{CliError, print_line};
use crate::site::source::condition_vocabulary::vocabulary;
use crate::site::source::schema::{FileKind, schema};

/// The name of the vocabulary of conditions.
const CONDITIONS: &str = "conditions";

#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    /// The kind of source file. `conditions`: no schema, but the paths of conditions with their types and values, the operators and the
    /// limits, for an editor that shows conditions as forms.
    #[arg(value_parser = names())]
    kind: String,
}

fn names() -> Vec<&'static str> {
    FileKind::ALL.map(FileKind::name).into_iter().chain([CONDITIONS]).collect()
}

pub(super) fn print_schema(args: &SchemaArgs) -> Result<(), CliError> {
    if args.kind == CONDITIONS {
        return print_line(&format!("{:#}", vocabulary()));
    }
    let kind = FileKind::ALL.into_iter().find(|known| known.name() == args.kind);
    kind.map_or(Ok(()), |kind| print_line(&format!("{:#}", schema(kind))))
}
