//! `--format json` of the authoring commands: the errors and warnings of a site directory as objects.

use clap::ValueEnum;
use serde_json::{Value as Json, json};

use super::site_directory::{CompiledDirectory, Rejected};
use super::{CliError, print_line};
use crate::site::source::diagnostics::Diagnostics;
use crate::site::source::files::Files;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Lines for people.
    Text,
    /// One object, with each error and each warning.
    Json,
}

/// Returns the document of a site without errors.
pub(super) fn of_compiled(directory: &CompiledDirectory, files: &Files) -> Json {
    let mut document = json!({ "site": directory.site, "routes": directory.compiled.routes.len() });
    add_diagnostics(&mut document, &Diagnostics::default(), &directory.compiled.warnings, files);
    document
}

/// Prints the document of a site with errors. Returns the error of the command, with the report for people.
pub(super) fn print_rejected(rejected: &Rejected, files: &Files) -> CliError {
    let mut document = json!({ "site": rejected.site, "routes": null });
    add_diagnostics(&mut document, &rejected.errors, &Diagnostics::default(), files);
    match print_line(&format!("{document:#}")) {
        Ok(()) => rejected.to_error(files),
        Err(error) => error,
    }
}

fn add_diagnostics(document: &mut Json, errors: &Diagnostics, warnings: &Diagnostics, files: &Files) {
    document["errorCount"] = json!(errors.len());
    document["warningCount"] = json!(warnings.len());
    document["errors"] = objects(errors, files);
    document["warnings"] = objects(warnings, files);
}

/// Returns the objects of the diagnostics that a report shows.
fn objects(diagnostics: &Diagnostics, files: &Files) -> Json {
    let located = diagnostics.report(files).diagnostics;
    located.iter().map(|diagnostic| diagnostic.to_json()).collect()
}
