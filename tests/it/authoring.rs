//! Reading a site's folder, and what an author is told.

mod content;
mod folder;
mod limits;
mod mistakes;
mod patterns;
mod properties;
mod reading;

use parallax::site::source::diagnostics::{Placed, Report};
use parallax::site::source::files::Files;
use parallax::site::source::read::{Source, read};

const SITE: (&str, &str) = ("site.json", r#"{"site":"acme","trackingId":"track_acme","name":"Acme"}"#);

fn files<'a>(texts: &[(&'a str, &'a str)]) -> Files {
    Files::from_memory(texts.iter().map(|(path, text)| (*path, text.as_bytes())))
}

fn read_files(files: &Files) -> (Source, Report) {
    let (source, mistakes) = read(files, &|_, _| {});
    (source, mistakes.report(files))
}

/// Reads these files and a sound `site.json`.
fn read_texts(texts: &[(&str, &str)]) -> (Source, Report) {
    read_files(&files(&[&[SITE], texts].concat()))
}

/// A mistake on one line: `file:line:column pointer | expected | came`, and `| nearest` where there is one.
fn line(placed: &Placed) -> String {
    let Placed { mistake, line, column, .. } = placed;
    let nearest = mistake.nearest.iter().map(|name| format!(" | {name}"));
    format!(
        "{}:{line}:{column} {} | {} | {}{}",
        mistake.file,
        mistake.pointer,
        mistake.expected,
        mistake.came,
        nearest.collect::<String>()
    )
}

/// The mistakes in these files beside a sound `site.json`.
fn told(texts: &[(&str, &str)]) -> Vec<String> {
    read_texts(texts).1.shown.iter().map(line).collect()
}

/// The mistakes in this one file.
fn told_of(file: &str, text: &str) -> Vec<String> {
    told(&[(file, text)])
}
