//! `parallax types`: writes the TypeScript types of a site directory.

use std::path::PathBuf;

use clap::Args;

use super::site_directory::{Target, compile_files, print_warnings, read_files};
use super::{CliError, output_error, print_line};
use crate::site::typescript;
use crate::storage;

pub(super) const EXAMPLES: &str = "\
Let the compiler of your website check components, queries and paths:
  parallax types site/ -o src/site.ts";

#[derive(Debug, Args)]
pub(super) struct TypesArgs {
    /// The directory of the site: site.json, audiences.json, routes/ ...
    site: PathBuf,
    /// The file to write. It appears under its name when it is complete [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn write_types(args: &TypesArgs) -> Result<(), CliError> {
    let files = read_files(&args.site)?;
    let directory = compile_files(&files, Target::default(), |_| Ok(0))?;
    print_warnings(&directory.compiled.warnings, &files);
    let text = typescript::declarations(&directory.source);
    let Some(path) = &args.output else { return print_line(text.trim_end()) };
    storage::write_atomic(path, text.as_bytes()).map_err(|error| output_error(path, &error))?;
    print_line(&format!("{}: types of site {}, {} bytes", path.display(), directory.site, text.len()))
}
