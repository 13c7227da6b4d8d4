//! Compiles the directory of a site for the commands, and prints its diagnostics.

use std::path::Path;

use super::CliError;
use super::progress::Progress;
use super::snapshot_list::SnapshotId;
use crate::clock;
use crate::console;
use crate::site::catalog::snapshot_names::list_snapshot_names;
use crate::site::compile::{CompiledSite, compile, warn_about_past};
use crate::site::snapshot::format::VERSION_MAX;
use crate::site::snapshot::sealed::read_version;
use crate::site::source::diagnostics::Diagnostics;
use crate::site::source::files::Files;
use crate::site::source::read::{Source, read};

/// A compiled site directory.
pub(super) struct CompiledDirectory {
    /// The site ID.
    pub(super) site: String,
    pub(super) version: u64,
    pub(super) source: Source,
    pub(super) compiled: CompiledSite,
}

/// The differences of a publication from the site that its files describe.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Target<'a> {
    /// The tracking ID, if it is not that of `site.json`.
    pub(super) tracking_id: Option<&'a str>,
    /// The name of the preview, if it is one.
    pub(super) preview_name: Option<&'a str>,
}

/// Returns the time of the environment variable `SOURCE_DATE_EPOCH`, in seconds since 1970, if it is set.
pub(super) fn source_date_epoch() -> Result<Option<u64>, CliError> {
    let Some(epoch) = console::variable("SOURCE_DATE_EPOCH") else { return Ok(None) };
    let seconds = epoch.to_str().and_then(|text| text.parse().ok()).filter(|v| *v <= VERSION_MAX);
    let wrong =
        || CliError::Input(format!("SOURCE_DATE_EPOCH is {epoch:?}, expected whole seconds since 1970"));
    seconds.ok_or_else(wrong).map(Some)
}

/// Returns the time of `SOURCE_DATE_EPOCH`, else that of the clock, in milliseconds since 1970. An invalid time is an error only
/// where it gives the version.
pub(super) fn present_ms() -> i64 {
    let epoch_s = source_date_epoch().ok().flatten();
    epoch_s.map_or_else(clock::now_ms, |seconds| seconds.saturating_mul(1_000) as i64)
}

/// Reads the files of a site directory.
pub(super) fn read_files(directory: &Path) -> Result<Files, CliError> {
    Files::from_directory(directory).map_err(|error| CliError::Input(error.to_string()))
}

/// A site directory with errors.
pub(super) struct Rejected {
    /// The site ID, if `site.json` is valid.
    pub(super) site: Option<String>,
    pub(super) errors: Diagnostics,
}

impl Rejected {
    /// Returns the error of a command, with the report of the compiler.
    pub(super) fn to_error(&self, files: &Files) -> CliError {
        CliError::Source(self.errors.report(files).to_string())
    }
}

/// Compiles the files of a site for a target.
pub(super) fn compile_files(
    files: &Files,
    target: Target<'_>,
    choose_version: impl FnOnce(&Source) -> Result<u64, CliError>,
) -> Result<CompiledDirectory, CliError> {
    compile_or_reject(files, target, choose_version)?.map_err(|rejected| rejected.to_error(files))
}

/// Compiles the files of a site for a target, or returns the errors of the site.
pub(super) fn compile_or_reject(
    files: &Files,
    target: Target<'_>,
    choose_version: impl FnOnce(&Source) -> Result<u64, CliError>,
) -> Result<Result<CompiledDirectory, Rejected>, CliError> {
    let bar = Progress::on_terminal();
    let (mut source, mut diagnostics) = read(files, &|done, all| report_progress(&bar, "reading", done, all));
    if let Some(site) = &mut source.site
        && let Some(tracking_id) = target.tracking_id
    {
        site.tracking_id = tracking_id.to_owned();
    }
    if let Some(name) = target.preview_name {
        turn_into_preview(&mut source, name, &mut diagnostics);
    }
    let version = choose_version(&source)?;
    let compiled =
        compile(&source, diagnostics, version, &|done, all| report_progress(&bar, "compiling", done, all));
    bar.finish();
    let site = source.site.as_ref().map(|site| site.site.to_string());
    Ok(match compiled {
        Ok(mut compiled) => {
            warn_about_past(&source, present_ms(), &mut compiled.warnings);
            Ok(CompiledDirectory { site: site.unwrap_or_default(), version, source, compiled })
        }
        Err(errors) => Err(Rejected { site, errors }),
    })
}

fn turn_into_preview(source: &mut Source, name: &str, diagnostics: &mut Diagnostics) {
    let Some(site) = source.site.take() else { return };
    match site.clone().into_preview(name) {
        Ok(preview) => source.site = Some(preview),
        Err((member, chars_max)) => {
            let expected = format!("at most {chars_max} characters, because a preview adds `--{name}`");
            let length = if member == "site" { site.site.len() } else { site.tracking_id.len() };
            let title = format!("`{member}` is too long for the preview `{name}`");
            diagnostics.add_titled("site.json", format!("/{member}"), title, expected, format!("{length}"));
            source.site = Some(site);
        }
    }
}

/// Returns a count with its noun, which gets an `s` unless the count is 1.
pub(super) fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Prints warnings to standard error.
pub(super) fn print_warnings(warnings: &Diagnostics, files: &Files) {
    if !warnings.is_empty() {
        console::write_error_line(&format!("{}\n", warnings.report(files).as_warnings()));
    }
}

/// Prints one warning to standard error.
pub(super) fn print_warning(text: &str) {
    console::write_error_line(&format!("warning: {text}"));
}

/// Adds a warning for each file beside `output_path` that has an equal or higher version of the site, so that the
/// server does not serve `output_path`.
pub(super) fn warn_about_higher_versions(output_path: &Path, directory: &mut CompiledDirectory) {
    let parent = output_path.parent().unwrap_or(Path::new(""));
    let listed = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    // A directory that cannot be read has a worse error later, when the file is written.
    let names = list_snapshot_names(listed).unwrap_or_default();
    for path in
        names.iter().map(|name| parent.join(name)).filter(|path| path.file_name() != output_path.file_name())
    {
        if read_version(&path).is_none_or(|version| version < directory.version) {
            continue;
        }
        let Ok(other) = SnapshotId::read(&path) else { continue };
        if other.site == directory.site {
            let version = directory.version;
            let site = &directory.site;
            let other_version = other.version;
            let title = format!(
                "this file has version {other_version} of site {site}, so version {version} may not be served"
            );
            let expected = format!("a version above {other_version}, or no such file");
            let file = path.display().to_string();
            let actual = format!("version {version}");
            directory.compiled.warnings.add_titled(&file, "", title, expected, actual);
        }
    }
}

/// Adds a warning if `output_path` has another version of the site, or another site. Its content is lost, so a rollback
/// cannot serve it again.
pub(super) fn warn_about_replacement(output_path: &Path, directory: &mut CompiledDirectory) {
    let Ok(old) = SnapshotId::read(output_path) else { return };
    let site = &directory.site;
    let version = directory.version;
    let (title, expected) = if old.site != *site {
        let title = format!(
            "site {site} replaces site {} in this file, so a server no longer finds version {} of it here",
            old.site, old.version
        );
        (title, "a file of the same site, or a directory such as `-o snapshots/`")
    } else if old.version != version {
        let title = format!(
            "version {version} of site {site} replaces version {} in this file, so a rollback cannot serve it again",
            old.version
        );
        (title, "a directory such as `-o snapshots/`, which gets a file for each version")
    } else {
        return;
    };
    let actual = format!("version {} of site {}", old.version, old.site);
    directory.compiled.warnings.add_titled(&output_path.display().to_string(), "", title, expected, actual);
}

fn report_progress(progress: &Progress, activity: &'static str, done_count: usize, step_count: usize) {
    if done_count == 1 {
        progress.start(activity, step_count as u64);
    }
    progress.set_done(done_count as u64);
}
