//! `parallax test`: runs the cases in the directory `tests` of a site directory, and reports the decisions that differ from the
//! expected ones.
//!
//! ```text
//! tests/*.json --cases: check all names--> invented: the response for the page --> expectations --> report, junit
//! ```
//!
//! `invented` has the server in memory, so this module evaluates no rule and writes no response.

mod cases;
mod expectations;
mod explanation;
mod junit;
mod page_names;
mod report;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use self::cases::{CheckedCase, TestFiles, check_none};
use self::expectations::compare;
use self::junit::render_junit;
use self::report::{CaseResult, Results};
use super::other_version::open_compiled;
use super::site_directory::{Target, compile_files, counted, read_files};
use super::{CliError, output_error, print_line};
use crate::clock;
use crate::invented::{VisitedSite, respond};
use crate::local_files;
use crate::site::source::diagnostics::Diagnostics;

pub(super) const EXAMPLES: &str = "\
Run all cases of a site:
  parallax test my-site

Run the cases whose file or name contains a text:
  parallax test my-site --filter returning

Write a report for CI, and the text to standard output:
  parallax test my-site --format junit -o junit.xml

Exit codes: 0 all cases pass; 1 a case fails, a file has an error, or there is no case; 2 a bad command line; 3 a report cannot
be written.";

#[derive(Debug, Args)]
pub(super) struct TestArgs {
    /// The directory of the site: site.json, routes/, tests/ ...
    site: PathBuf,
    /// Run only the cases whose file or name contains this text. Upper and lower case differ. At least one case must contain it.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Format of the report.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The file to write the report to. It appears under its name when it is complete. Standard output then has the text
    /// [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each case, the reasons of each failure, and a summary.
    Text,
    /// One object with the result of each case.
    Json,
    /// JUnit XML, which most CI systems read.
    Junit,
}

/// Runs the cases of a site directory.
pub(super) fn test(args: &TestArgs) -> Result<(), CliError> {
    let files = read_files(&args.site)?;
    let directory = compile_files(&files, Target::default(), |_| Ok(0))?;
    let site = VisitedSite::new(Arc::new(open_compiled(&directory.compiled.bytes)?));
    let (tests, diagnostics) = TestFiles::read(&args.site)?;
    let cases = select_cases(args, tests.check(diagnostics, &directory, site.site())?)?;
    let results = run_cases(&site, &tests, &cases)?;
    let results = Results { site: &directory.site, files: &tests.files, results };
    let report = match args.format {
        Format::Text => results.to_text(),
        Format::Json => format!("{:#}", results.to_json()),
        Format::Junit => render_junit(&results),
    };
    match &args.output {
        None => print_line(&report)?,
        Some(path) => {
            let written = local_files::write_atomic(path, format!("{report}\n").as_bytes());
            written.map_err(|error| output_error(path, &error))?;
            print_line(&results.to_text())?;
        }
    }
    match results.failed_count() {
        0 => Ok(()),
        failed => Err(CliError::Source(format!(
            "error: {failed} of {} failed",
            counted(results.results.len(), "case")
        ))),
    }
}

/// Returns the cases that the filter selects.
fn select_cases<'t>(
    args: &TestArgs,
    mut cases: Vec<CheckedCase<'t>>,
) -> Result<Vec<CheckedCase<'t>>, CliError> {
    let site = args.site.display();
    if cases.is_empty() {
        let text = format!("{site} has no case; write one in {site}/tests/, such as that of `parallax init`");
        return Err(CliError::Input(text));
    }
    if let Some(filter) = &args.filter {
        let count = cases.len();
        cases.retain(|case| case.visit.file.contains(filter) || case.case.name.contains(filter));
        if cases.is_empty() {
            let cases = counted(count, "case");
            let text = format!("--filter {filter:?} is in no file and no name of the {cases} of {site}");
            return Err(CliError::Input(text));
        }
    }
    Ok(cases)
}

/// Runs each case with a server of its own.
///
/// # Errors
/// The server refuses a request of a case.
fn run_cases<'t>(
    site: &VisitedSite,
    tests: &TestFiles,
    cases: &[CheckedCase<'t>],
) -> Result<Vec<CaseResult<'t>>, CliError> {
    let mut diagnostics = Diagnostics::default();
    let results = cases.iter().map(|case| run_case(site, case, &mut diagnostics)).collect();
    check_none(&diagnostics, &tests.files)?;
    Ok(results)
}

/// Runs a case. Adds a diagnostic for each part of it that the server refuses.
fn run_case<'t>(site: &VisitedSite, case: &CheckedCase<'t>, diagnostics: &mut Diagnostics) -> CaseResult<'t> {
    let begun = clock::instant();
    let body = respond(site, &case.visit, diagnostics);
    CaseResult {
        case: case.clone(),
        failures: compare(&case.case.expect, &body),
        body,
        duration: clock::instant() - begun,
    }
}
