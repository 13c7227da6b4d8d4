//! `parallax lint`: compiles the directory of a site without writing a file.

use std::path::PathBuf;

use clap::Args;

use super::site_directory::{Target, compile_files, counted, print_warnings, read_files};
use super::{CliError, print_line};

#[derive(Debug, Args)]
pub(super) struct LintArgs {
    /// The directory of the site: site.json, audiences.json, routes/ ...
    site: PathBuf,
}

pub(super) fn lint(args: &LintArgs) -> Result<(), CliError> {
    let files = read_files(&args.site)?;
    let directory = compile_files(&files, Target::default(), |_| Ok(0))?;
    let warnings = &directory.compiled.warnings;
    print_warnings(warnings, &files);
    let site = directory.site;
    let routes = counted(directory.compiled.routes.len(), "route");
    let warnings = counted(warnings.len(), "warning");
    print_line(&format!("site {site}: {routes}, 0 errors, {warnings}"))
}
