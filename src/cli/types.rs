//! `parallax types`: writes the TypeScript types of a site directory.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::authoring_json::{self, Format};
use super::site_directory::{Target, compile_or_reject, print_warnings, read_files};
use super::{CliError, output_error, print_line};
use crate::local_files;
use crate::site::typescript;

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
    /// Format of standard output. With json it is one object, with the types in the member declarations unless a file gets them.
    /// Errors and warnings are text on standard error too.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn write_types(args: &TypesArgs) -> Result<(), CliError> {
    let files = read_files(&args.site)?;
    let is_json = args.format == Format::Json;
    let directory = match compile_or_reject(&files, Target::default(), |_| Ok(0))? {
        Ok(directory) => directory,
        Err(rejected) if is_json => return Err(authoring_json::print_rejected(&rejected, &files)),
        Err(rejected) => return Err(rejected.to_error(&files)),
    };
    print_warnings(&directory.compiled.warnings, &files);
    let text = typescript::declarations(&directory.source);
    if let Some(path) = &args.output {
        local_files::write_atomic(path, text.as_bytes()).map_err(|error| output_error(path, &error))?;
    }
    if is_json {
        let mut document = authoring_json::of_compiled(&directory, &files);
        document["bytes"] = json!(text.len());
        match &args.output {
            Some(path) => document["output"] = json!(path.to_string_lossy()),
            None => document["declarations"] = json!(text),
        }
        return print_line(&format!("{document:#}"));
    }
    match &args.output {
        Some(path) => {
            let path = path.display();
            print_line(&format!("{path}: types of site {}, {} bytes", directory.site, text.len()))
        }
        None => print_line(text.trim_end()),
    }
}
