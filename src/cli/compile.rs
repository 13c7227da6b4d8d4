//! `parallax compile`: a site's folder becomes a snapshot, or all its mistakes are told at once.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::progress::Progress;
use super::{DEFAULT_SNAPSHOTS, Failure, say};
use crate::site::compile::{Compiled, compile};
use crate::site::snapshot::format::VERSION_MAX;
use crate::site::source::files::Files;
use crate::site::source::read::{Source, read};
use crate::{clock, storage};

#[derive(Debug, Args)]
pub(super) struct Compile {
    /// The site's folder: site.json, audiences.json, routes/ ...
    site: PathBuf,
    /// Where the snapshot goes [default: snapshots/<site>-<version>.snapshot].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The version of this publication; the highest is served [default: site.json's, else
    /// SOURCE_DATE_EPOCH, else the present second].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=VERSION_MAX))]
    version: Option<u64>,
}

pub(super) fn compile_folder(typed: &Compile) -> Result<(), Failure> {
    let folder = &typed.site;
    let files = Files::from_folder(folder).map_err(|error| Failure::Input(error.to_string()))?;
    let bar = Progress::on_terminal();
    let (source, mistakes) = read(&files, &|done, all| step(&bar, "reading", done, all));
    let (version, origin) = version(typed.version, &source)?;
    let compiled = compile(&source, mistakes, version, &|done, all| step(&bar, "compiling", done, all));
    drop(bar);
    let Compiled { bytes, routes, warnings } = compiled.map_err(|mistakes| {
        Failure::Input(format!("nothing was written, the site has mistakes\n\n{}", mistakes.report(&files)))
    })?;
    if !warnings.is_empty() {
        // Where standard error is closed there is nobody to warn.
        let _ = writeln!(std::io::stderr(), "{}\n", warnings.report(&files).of_warnings());
    }
    let site = source.site.as_ref().map_or("", |site| &site.site);
    let default = || Path::new(DEFAULT_SNAPSHOTS).join(format!("{site}-{version}.snapshot"));
    let path = typed.output.clone().unwrap_or_else(default);
    let folder_is_there =
        if typed.output.is_none() { std::fs::create_dir_all(DEFAULT_SNAPSHOTS) } else { Ok(()) };
    folder_is_there.and_then(|()| storage::replace(&path, &bytes)).map_err(|error| {
        Failure::Machine(format!("{} cannot be written: {error}; name another place by -o", path.display()))
    })?;
    say(&format!(
        "{}: site {site}, version {version} ({origin}), {} routes, {} bytes",
        path.display(),
        routes,
        bytes.len(),
    ))
}

fn version(typed: Option<u64>, source: &Source) -> Result<(u64, &'static str), Failure> {
    if let Some(version) = typed {
        return Ok((version, "from --version"));
    }
    if let Some(version) = source.site.as_ref().and_then(|site| site.version) {
        return Ok((version, "from site.json"));
    }
    let Some(epoch) = std::env::var_os("SOURCE_DATE_EPOCH") else {
        return Ok((clock::now_s(), "the present second"));
    };
    let seconds = epoch.to_str().and_then(|text| text.parse().ok()).filter(|v| *v <= VERSION_MAX);
    let wrong =
        || Failure::Input(format!("SOURCE_DATE_EPOCH is {epoch:?}, expected whole seconds since 1970"));
    Ok((seconds.ok_or_else(wrong)?, "from SOURCE_DATE_EPOCH"))
}

fn step(bar: &Progress, what: &'static str, done: usize, all: usize) {
    if done == 1 {
        bar.begin(what, all as u64);
    }
    bar.step(done as u64);
}
