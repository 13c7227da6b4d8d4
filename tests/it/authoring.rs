//! Reading the source directory of a site, and the diagnostics for its author.

mod content;
mod directory;
mod experiments;
mod goals;
mod items;
mod limits;
mod mistakes;
mod names;
mod patterns;
mod properties;
mod puck;
mod reading;
mod schemas;
mod segments;
mod silent_mistakes;
mod warnings;

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use parallax::testing::checksum::hash128;
use parallax::testing::site::source::diagnostics::{LocatedDiagnostic, Report};
use parallax::testing::site::source::files::Files;
use parallax::testing::site::source::read::{Source, read};
use parallax::testing::site::source::schema::{FileKind, schema};

const SITE: (&str, &str) = ("site.json", r#"{"site":"acme","trackingId":"track_acme","name":"Acme"}"#);

fn files<'a>(texts: &[(&'a str, &'a str)]) -> Files {
    keep_site(texts);
    Files::from_memory(texts.iter().map(|(path, text)| (*path, text.as_bytes())))
}

/// Writes the files of a site into a directory of its own below that of the variable PARALLAX_SITES, if it is set. So `tests/cli/run`
/// reads the sites of these tests.
fn keep_site(texts: &[(&str, &str)]) {
    let Some(parent) = std::env::var_os("PARALLAX_SITES") else { return };
    let hash = hash128(format!("{texts:?}").as_bytes());
    let directory = Path::new(&parent).join(format!("{hash:032x}"));
    for (path, text) in texts {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("created");
        // A test may have a file and a directory of one name.
        let _ = fs::write(path, text);
    }
}

fn read_files(files: &Files) -> (Source, Report) {
    let (source, diagnostics) = read(files, &|_, _| {});
    (source, diagnostics.report(files))
}

/// Reads these files and a valid `site.json`.
fn read_texts(texts: &[(&str, &str)]) -> (Source, Report) {
    read_files(&files(&[&[SITE], texts].concat()))
}

/// Formats a diagnostic as `file:line:column pointer | expected | actual`, and `| nearest` if there is one.
fn line(placed: &LocatedDiagnostic) -> String {
    let LocatedDiagnostic { diagnostic, line, column, .. } = placed;
    let nearest = diagnostic.nearest.iter().map(|name| format!(" | {name}"));
    format!(
        "{}:{line}:{column} {} | {} | {}{}",
        diagnostic.file,
        diagnostic.pointer,
        diagnostic.expected,
        diagnostic.actual,
        nearest.collect::<String>()
    )
}

/// Returns the diagnostics of these files and a valid `site.json`.
fn report_lines(texts: &[(&str, &str)]) -> Vec<String> {
    read_texts(texts).1.diagnostics.iter().map(line).collect()
}

/// Returns the diagnostics of this one file.
fn report_lines_of(file: &str, text: &str) -> Vec<String> {
    report_lines(&[(file, text)])
}

/// Returns the errors that an editor shows in a file of this kind, by its schema.
pub fn editor_errors(kind: FileKind, file: &serde_json::Value) -> Vec<String> {
    static VALIDATORS: LazyLock<Vec<jsonschema::Validator>> = LazyLock::new(|| {
        let compile = |kind| jsonschema::validator_for(&schema(kind)).expect("a schema");
        FileKind::ALL.into_iter().map(compile).collect()
    });
    let at = FileKind::ALL.iter().position(|known| *known == kind).expect("a kind of the list");
    VALIDATORS[at].iter_errors(file).map(|error| format!("{}: {error}", error.instance_path())).collect()
}
