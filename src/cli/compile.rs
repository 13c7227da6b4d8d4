//! `parallax compile`: compiles the directory of a site to a snapshot, or reports all its errors at once.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::progress::Progress;
use super::{CliError, print_line};
use crate::config::SNAPSHOTS_DIRECTORY_DEFAULT;
use crate::site::compile::{CompiledSite, compile};
use crate::site::snapshot::format::VERSION_MAX;
use crate::site::source::files::Files;
use crate::site::source::read::{Source, read};
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
}

pub(super) fn compile_site(args: &CompileArgs) -> Result<(), CliError> {
    let directory = &args.site;
    let files = Files::from_directory(directory).map_err(|error| CliError::Input(error.to_string()))?;
    let bar = Progress::on_terminal();
    let (source, diagnostics) = read(&files, &|done, all| report_progress(&bar, "reading", done, all));
    let (version, origin) = choose_version(args.version, &source)?;
    let compiled =
        compile(&source, diagnostics, version, &|done, all| report_progress(&bar, "compiling", done, all));
    drop(bar);
    let CompiledSite { bytes, routes, warnings } =
        compiled.map_err(|diagnostics| CliError::Source(diagnostics.report(&files).to_string()))?;
    if !warnings.is_empty() {
        // Ignore the error: if standard error is closed, nobody can read the warning.
        let _ = writeln!(std::io::stderr(), "{}\n", warnings.report(&files).as_warnings());
    }
    let site = source.site.as_ref().map_or("", |site| &site.site);
    let default = || Path::new(SNAPSHOTS_DIRECTORY_DEFAULT).join(format!("{site}-{version}.snapshot"));
    let path = args.output.clone().unwrap_or_else(default);
    let created =
        if args.output.is_none() { std::fs::create_dir_all(SNAPSHOTS_DIRECTORY_DEFAULT) } else { Ok(()) };
    created.and_then(|()| storage::write_atomic(&path, &bytes)).map_err(|error| {
        CliError::System(format!("cannot write {}: {error}; choose another file with -o", path.display()))
    })?;
    print_line(&format!(
        "{}: site {site}, version {version} ({origin}), {} routes, {} bytes",
        path.display(),
        routes,
        bytes.len(),
    ))
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

fn report_progress(bar: &Progress, what: &'static str, done: usize, all: usize) {
    if done == 1 {
        bar.start(what, all as u64);
    }
    bar.set_done(done as u64);
}
