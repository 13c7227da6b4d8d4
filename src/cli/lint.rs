//! `parallax lint`: compiles the directory of a site without writing a file, and compares it with another version.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value as Json, json};

use super::authoring_json::{self, Format};
use super::enrolments::{AdminAddress, count_in_profiles, count_on_server, fold_profiles};
use super::other_version::{OtherVersion, open_compiled};
use super::site_directory::{
    CompiledDirectory, Target, compile_or_reject, counted, present_ms, print_warnings, read_files,
};
use super::{CliError, print_line};
use crate::site::comparison::{SiteComparison, compare};
use crate::site::source::diagnostics::Diagnostics;
use crate::site::source::files::Files;

pub(super) const EXAMPLES: &str = "\
Report errors and warnings:
  parallax lint my-site

Say how each experiment changes if my-site replaces the version that a server serves:
  parallax lint my-site --against snapshots/

Also count the enrolled and the known visitors whom each change concerns:
  parallax lint my-site --against snapshots/ --data data/
  parallax lint my-site --against snapshots/ --server http://127.0.0.1:9090

Let a program read the errors and warnings:
  parallax lint my-site --format json

Let CI fail if a change moves the visitors of a running experiment to other arms:
  parallax lint my-site --against snapshots/ --deny new-phase

Exit codes: 0 success, also with warnings; 1 errors, a denied change, or nothing to compare with; 2 a bad command line;
3 a file cannot be read, or no server answers.";

#[derive(Debug, Args)]
pub(super) struct LintArgs {
    /// The directory of the site: site.json, audiences.json, routes/ ...
    site: PathBuf,
    /// Also say how each experiment, each zone and each audience changes if the site replaces another version of it: a snapshot, a snapshots directory,
    /// of which the served version counts, or the directory of a site. Standings are those at SOURCE_DATE_EPOCH, else now.
    #[arg(long, value_name = "FILE|DIR")]
    against: Option<PathBuf>,
    /// Also count the visitor IDs that are enrolled in the changed experiments, and the known visitors who get another variant of a zone, or
    /// enter or leave a changed audience, in the profiles of a data directory (serve --data). A server may use it meanwhile. It needs as much memory as
    /// the profiles.
    #[arg(long, value_name = "DIR", requires = "against")]
    data: Option<PathBuf>,
    /// Count in the profiles of a running server instead: the URL of its admin address, such as http://127.0.0.1:9090. The server gets the
    /// compiled site, and must serve the version of --against. It needs an --admin-token, and takes up to 60 s.
    #[arg(long, value_name = "ADMIN_URL", requires = "against", conflicts_with = "data")]
    server: Option<String>,
    /// The Bearer token of that address (serve --admin-token). Required with --server.
    #[arg(long, value_name = "TOKEN", env = "PARALLAX_ADMIN_TOKEN", hide_env_values = true)]
    admin_token: Option<String>,
    /// Report each change of this kind as an error, with its place. The exit code is 1.
    #[arg(long, value_name = "CHANGE", value_enum, requires = "against")]
    deny: Option<DeniedChange>,
    /// Format of standard output. Errors and warnings are text on standard error too.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DeniedChange {
    /// Another list of variants, other weights, another seed or another holdout of an experiment, or another share or seed of the
    /// holdout of the site.
    NewPhase,
}

pub(super) fn lint(args: &LintArgs) -> Result<(), CliError> {
    let files = read_files(&args.site)?;
    let directory = match compile_or_reject(&files, Target::default(), |_| Ok(0))? {
        Ok(directory) => directory,
        Err(rejected) if args.format == Format::Json => {
            return Err(authoring_json::print_rejected(&rejected, &files));
        }
        Err(rejected) => return Err(rejected.to_error(&files)),
    };
    print_warnings(&directory.compiled.warnings, &files);
    let Some(path) = &args.against else {
        return print_line(&match args.format {
            Format::Text => summarize(&directory, 0),
            Format::Json => format!("{:#}", authoring_json::of_compiled(&directory, &files)),
        });
    };
    let other = OtherVersion::read(path, &directory.site)?;
    let compiled = open_compiled(&directory.compiled.bytes)?;
    let mut comparison = compare(other.site(), compiled.site(), present_ms());
    if let Some(data) = &args.data {
        comparison = count_in_profiles(&fold_profiles(data)?, other.snapshot(), &compiled, comparison);
    } else if let Some(url) = &args.server {
        let token = args.admin_token.as_deref().filter(|token| !token.is_empty());
        let address = AdminAddress { url: url.trim_end_matches('/'), token };
        count_on_server(&address, &compiled, &directory.compiled.bytes, &mut comparison)?;
    }
    match args.format {
        Format::Text => {
            print_line(&format!("{}\n{comparison}", other.describe(&directory.site)))?;
            print_line(&summarize(&directory, comparison.warning_count()))?;
        }
        Format::Json => print_json(&other, &comparison, &directory, &files)?,
    }
    match args.deny {
        None => Ok(()),
        Some(DeniedChange::NewPhase) => {
            refuse_new_phases(&comparison.new_phase_errors(&directory.source), &files)
        }
    }
}

/// Returns the line about the directory. `comparison_warnings` is the number of warnings of the comparison.
fn summarize(directory: &CompiledDirectory, comparison_warnings: usize) -> String {
    let site = &directory.site;
    let routes = counted(directory.compiled.routes.len(), "route");
    let warnings = counted(directory.compiled.warnings.len() + comparison_warnings, "warning");
    format!("site {site}: {routes}, 0 errors, {warnings}")
}

fn print_json(
    other: &OtherVersion,
    comparison: &SiteComparison,
    directory: &CompiledDirectory,
    files: &Files,
) -> Result<(), CliError> {
    let mut document = comparison.to_json();
    if let Json::Object(members) = authoring_json::of_compiled(directory, files) {
        document.as_object_mut().into_iter().for_each(|document| document.extend(members.clone()));
    }
    document["warningCount"] = json!(directory.compiled.warnings.len() + comparison.warning_count());
    let version = other.version().map(|version| version.to_string());
    document["against"] = json!({ "path": other.path.to_string_lossy(), "version": version });
    print_line(&format!("{document:#}"))
}

/// Returns the error of `--deny new-phase` if there is a new phase.
fn refuse_new_phases(errors: &Diagnostics, files: &Files) -> Result<(), CliError> {
    if errors.is_empty() {
        return Ok(());
    }
    let report = errors.report(files);
    let errors_shown: String = report.diagnostics.iter().map(|error| format!("error: {error}\n")).collect();
    let phases = counted(errors.len(), "new phase");
    Err(CliError::Source(format!("{errors_shown}error: --deny new-phase does not allow {phases}")))
}
