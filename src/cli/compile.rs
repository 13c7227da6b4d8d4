//! `parallax compile`: compiles the directory of a site to a snapshot, or reports all its errors at once.

use std::cmp::Reverse;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use super::site_directory::{
    CompiledDirectory, Target, compile_files, counted, print_warning, print_warnings, read_files,
    source_date_epoch, warn_about_higher_versions, warn_about_replacement,
};
use super::snapshot_list::{SnapshotId, parse_name, snapshot_name};
use super::{CliError, print_line};
use crate::ids::parse_tracking_id;
use crate::limits::PREVIEW_NAME_CHARS_MAX;
use crate::site::catalog::snapshot_names::list_snapshot_names;
use crate::site::snapshot::format::VERSION_MAX;
use crate::site::source::pattern::is_name_byte;
use crate::site::source::read::Source;
use crate::{clock, local_files};

/// Versions of a site that stay in the output directory by default. A server has all of them in memory.
const KEEP_DEFAULT: u64 = 5;

#[derive(Debug, Args)]
pub(super) struct CompileArgs {
    /// The directory of the site: site.json, audiences.json, routes/ ...
    site: PathBuf,
    /// The directory to write SITE-VERSION.snapshot to, so that `parallax rollback` finds the version before. A path
    /// that ends with / is created. Any other path is the snapshot file itself.
    #[arg(short, long, value_name = "DIR/", default_value = "snapshots/")]
    output: PathBuf,
    /// Versions of the site that stay in the output directory, the new one included, at least 2. Older ones are deleted
    /// if they have the name that compile gave them: a server has every file of its directory in memory [default: 5].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..))]
    keep: Option<u64>,
    /// The version of this publication. The server serves the highest version of a site [default: the version
    /// in site.json, else SOURCE_DATE_EPOCH, else the current Unix time in seconds].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=VERSION_MAX))]
    version: Option<u64>,
    /// The tracking ID of this publication, so that one site directory serves staging and production. The site ID stays.
    /// Servers that run with --tracking-id refuse the snapshots of the others [default: the tracking ID in site.json].
    #[arg(long, value_name = "ID", value_parser = parse_tracking_id)]
    tracking_id: Option<String>,
    /// Compile a preview: a separate site for drafts, with the site ID SITE--NAME and the tracking ID
    /// track_...--NAME. Its events are dropped, and no cache keeps its pages. `parallax rollback` with --unpublish
    /// ends it.
    #[arg(long, value_name = "NAME", value_parser = parse_preview_name)]
    preview: Option<String>,
}

pub(super) fn compile_site(args: &CompileArgs) -> Result<(), CliError> {
    local_files::announce(&args.output);
    let files = read_files(&args.site)?;
    let mut origin = "";
    let target = Target { tracking_id: args.tracking_id.as_deref(), preview_name: args.preview.as_deref() };
    let compiled = compile_files(&files, target, |source| {
        let (version, from) = choose_version(args.version, source)?;
        origin = from;
        Ok(version)
    });
    let mut directory = compiled.map_err(|error| match error {
        CliError::Source(report) => CliError::Source(format!("{report}; no snapshot was written")),
        error => error,
    })?;
    let path = output_path(args, &directory.site, directory.version)?;
    warn_about_higher_versions(&path, &mut directory);
    warn_about_replacement(&path, &mut directory);
    let CompiledDirectory { site, version, compiled, .. } = directory;
    print_warnings(&compiled.warnings, &files);
    local_files::write_atomic(&path, &compiled.bytes)
        .map_err(|error| directory_error("write", &path, &error))?;
    let shown = path.display();
    let routes = counted(compiled.routes.len(), "route");
    let bytes = compiled.bytes.len();
    print_line(&format!("{shown}: site {site}, version {version} ({origin}), {routes}, {bytes} bytes"))?;
    if is_directory(&args.output) {
        delete_older(&args.output, &site, version, args.keep.unwrap_or(KEEP_DEFAULT))?;
    }
    Ok(())
}

/// Returns the error for an output directory that cannot be created, or a file in it that cannot be written.
fn directory_error(verb: &str, path: &Path, error: &io::Error) -> CliError {
    let path = path.display();
    CliError::System(format!("cannot {verb} {path}: {error}; choose another directory with -o"))
}

/// Returns whether the output path is a directory, which gets a file per version.
fn is_directory(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/") || local_files::is_directory(path)
}

/// Returns the file to write. Creates its directory if the output path is one.
fn output_path(args: &CompileArgs, site: &str, version: u64) -> Result<PathBuf, CliError> {
    let output = &args.output;
    if is_directory(output) {
        local_files::create_directories(output).map_err(|error| directory_error("create", output, &error))?;
        return Ok(output.join(snapshot_name(site, version)));
    }
    if args.keep.is_some() {
        let shown = output.display();
        let text = format!(
            "--keep is for an output directory, and {shown} is a file; use -o {shown}/ for a directory"
        );
        return Err(CliError::Usage(text));
    }
    Ok(output.clone())
}

/// Deletes the oldest versions of a site from the output directory, so that `keep_count` of them stay up to `version`. Only
/// files with the name and the content of an older version are deleted.
///
/// # Errors
/// Standard output cannot be written. A file that cannot be deleted is a warning: the new version is published.
fn delete_older(directory: &Path, site: &str, version: u64, keep_count: u64) -> Result<(), CliError> {
    let names = list_snapshot_names(directory).unwrap_or_default();
    let names = names.iter().filter_map(|name| parse_name(name.to_str()?));
    let of_site = names.filter(|found| found.0 == site && found.1 <= version);
    let mut versions: Vec<u64> = of_site.map(|found| found.1).collect();
    versions.sort_unstable_by_key(|version| Reverse(*version));
    for older in versions.into_iter().skip(keep_count as usize) {
        let path = directory.join(snapshot_name(site, older));
        if SnapshotId::read(&path).is_ok_and(|id| id.site == site && id.version == older) {
            match local_files::delete_file(&path) {
                Ok(()) => print_line(&format!("deleted {}: --keep {keep_count}", path.display()))?,
                Err(error) => print_warning(&format!("cannot delete {}: {error}", path.display())),
            }
        }
    }
    Ok(())
}

/// Accepts the name of a preview.
fn parse_preview_name(text: &str) -> Result<String, String> {
    let is_valid = (1..=PREVIEW_NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_name_byte);
    let expected = || format!("expected 1 to {PREVIEW_NAME_CHARS_MAX} of A-Z a-z 0-9 _ -");
    is_valid.then(|| text.to_owned()).ok_or_else(expected)
}

fn choose_version(option: Option<u64>, source: &Source) -> Result<(u64, &'static str), CliError> {
    if let Some(version) = option {
        return Ok((version, "from --version"));
    }
    if let Some(version) = source.site.as_ref().and_then(|site| site.version) {
        return Ok((version, "from site.json"));
    }
    Ok(match source_date_epoch()? {
        Some(seconds) => (seconds, "from SOURCE_DATE_EPOCH"),
        None => (clock::now_s(), "the current time"),
    })
}
