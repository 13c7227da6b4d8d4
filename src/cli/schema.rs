//! `parallax schema`: prints the JSON Schema of a kind of source file.

use clap::Args;

use super::{CliError, print_line};
use crate::site::source::schema::{FileKind, schema};

#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    /// The kind of source file.
    #[arg(value_parser = FileKind::ALL.map(FileKind::name))]
    kind: String,
}

pub(super) fn print_schema(args: &SchemaArgs) -> Result<(), CliError> {
    let kind = FileKind::ALL.into_iter().find(|known| known.name() == args.kind);
    kind.map_or(Ok(()), |kind| print_line(&format!("{:#}", schema(kind))))
}
