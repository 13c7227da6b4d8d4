//! `parallax compile`: compiles the directory of a site to a snapshot, or reports all its errors at once.

use std::path::{Path, PathBuf};

use clap::Args;

use super::site_directory::{
    CompiledDirectory, compile_files, counted, print_warnings, read_files, warn_about_higher_versions,
};
use super::{CliError, print_line};
use crate::config::SNAPSHOTS_DIRECTORY_DEFAULT;
use crate::limits::PREVIEW_NAME_CHARS_MAX;
use crate::site::snapshot::format::VERSION_MAX;
use crate::site::source::pattern::is_name_byte;
use crate::site::source::read::Source;
use crate::{clock, storage};

#[derive(Debug, Args)]
pub(super) struct CompileArgs {
    /// The directory of the site: site.json, audiences.json, routes/ ...
    site: PathBuf,
    /// The snapshot file to write [default: snapshots/SITE-VERSION.snapshot].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The version of this publication. The server serves the highest version of a site [default: the version
    /// in site.json, else SOURCE_DATE_EPOCH, else the current Unix time in seconds].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=VERSION_MAX))]
    version: Option<u64>,
    /// Compile a preview: a separate site for drafts, with the site ID SITE--NAME and the tracking ID
    /// track_...--NAME. Its events are dropped, and no cache keeps its pages. Delete its file to end it.
    #[arg(long, value_name = "NAME", value_parser = parse_preview_name)]
    preview: Option<String>,
}

pub(super) fn compile_site(args: &CompileArgs) -> Result<(), CliError> {
    let files = read_files(&args.site)?;
    let mut origin = "";
    let mut directory = compile_files(&files, args.preview.as_deref(), |source| {
        let (version, from) = choose_version(args.version, source)?;
        origin = from;
        Ok(version)
    })?;
    let default = || {
        let name = format!("{}-{}.snapshot", directory.site, directory.version);
        Path::new(SNAPSHOTS_DIRECTORY_DEFAULT).join(name)
    };
    let path = args.output.clone().unwrap_or_else(default);
    warn_about_higher_versions(&path, &mut directory);
    let CompiledDirectory { site, version, compiled, .. } = directory;
    print_warnings(&compiled.warnings, &files);
    let created =
        if args.output.is_none() { std::fs::create_dir_all(SNAPSHOTS_DIRECTORY_DEFAULT) } else { Ok(()) };
    created.and_then(|()| storage::write_atomic(&path, &compiled.bytes)).map_err(|error| {
        CliError::System(format!("cannot write {}: {error}; choose another file with -o", path.display()))
    })?;
    print_line(&format!(
        "{}: site {site}, version {version} ({origin}), {}, {} bytes",
        path.display(),
        counted(compiled.routes.len(), "route"),
        compiled.bytes.len(),
    ))
}

/// Accepts the name of a preview.
fn parse_preview_name(text: &str) -> Result<String, String> {
    let is_valid = (1..=PREVIEW_NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_name_byte);
    let expected = || format!("expected 1 to {PREVIEW_NAME_CHARS_MAX} of A-Z a-z 0-9 _ -");
    is_valid.then(|| text.to_owned()).ok_or_else(expected)
}

fn choose_version(args: Option<u64>, source: &Source) -> Result<(u64, &'static str), CliError> {
    if let Some(version) = args {
        return Ok((version, "from --version"));
    }
    if let Some(version) = source.site.as_ref().and_then(|site| site.version) {
        return Ok((version, "from site.json"));
    }
    let Some(epoch) = std::env::var_os("SOURCE_DATE_EPOCH") else {
        return Ok((clock::now_s(), "the current time"));
    };
    let seconds = epoch.to_str().and_then(|text| text.parse().ok()).filter(|v| *v <= VERSION_MAX);
    let wrong =
        || CliError::Input(format!("SOURCE_DATE_EPOCH is {epoch:?}, expected whole seconds since 1970"));
    Ok((seconds.ok_or_else(wrong)?, "from SOURCE_DATE_EPOCH"))
}
