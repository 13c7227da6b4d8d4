//! The results of the cases, as text and as JSON.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::cases::CheckedCase;
use super::expectations::Failure;
use super::explanation::explanation_lines;
use crate::cli::site_directory::counted;
use crate::invented::Visit;
use crate::site::source::diagnostics::{Diagnostics, LocatedDiagnostic, escape_invisible};
use crate::site::source::files::Files;

/// The result of a case.
pub(super) struct CaseResult<'t> {
    pub(super) case: CheckedCase<'t>,
    /// The expectations that the response does not meet. Empty: the case passes.
    pub(super) failures: Vec<Failure>,
    /// The body of the response.
    pub(super) body: Json,
    pub(super) duration: Duration,
}

/// The results of all cases.
pub(super) struct Results<'t> {
    /// The site ID.
    pub(super) site: &'t str,
    pub(super) files: &'t Files,
    pub(super) results: Vec<CaseResult<'t>>,
}

impl CaseResult<'_> {
    pub(super) fn has_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Returns the name of the case without invisible characters.
    pub(super) fn name(&self) -> String {
        escape_invisible(&self.case.case.name)
    }

    /// Returns the failures with their places in the file.
    pub(super) fn located_failures(&self, files: &Files) -> Vec<LocatedDiagnostic> {
        let mut diagnostics = Diagnostics::default();
        for Failure { pointer, title, expected, actual } in &self.failures {
            let pointer = format!("{}/expect{pointer}", self.case.visit.pointer);
            diagnostics.add_titled(self.case.visit.file, pointer, title, expected, actual);
        }
        diagnostics.report(files).diagnostics
    }

    /// Returns the failures with their places, and the explanation of the decision.
    pub(super) fn describe_failures(&self, files: &Files) -> String {
        let located = self.located_failures(files);
        let hidden = self.failures.len() - located.len();
        let mut lines: Vec<String> = located.iter().map(|failure| format!("error: {failure}")).collect();
        if hidden > 0 {
            lines.push(format!("{} not shown\n", counted(hidden, "more failure")));
        }
        let explanation = explanation_lines(&self.body);
        if !explanation.is_empty() {
            lines.push("The decision:".to_owned());
            lines.extend(explanation.iter().map(|line| format!("  {line}")));
        }
        lines.join("\n")
    }
}

impl Results<'_> {
    pub(super) fn failed_count(&self) -> usize {
        self.results.iter().filter(|result| result.has_failed()).count()
    }

    /// Returns a line for each case, the failures of each case, and a summary.
    pub(super) fn to_text(&self) -> String {
        let mut lines = Vec::new();
        for result in &self.results {
            let CheckedCase { line, visit: Visit { file, .. }, .. } = &result.case;
            let name = result.name();
            match result.has_failed() {
                false => lines.push(format!("pass  {file}: {name}")),
                true => {
                    lines.push(format!("FAIL  {file}:{line}: {name}"));
                    lines.push(format!("{}\n", result.describe_failures(self.files)));
                }
            }
        }
        let cases = counted(self.results.len(), "case");
        let failed = self.failed_count();
        let passed = self.results.len() - failed;
        lines.push(format!("site {}: {cases}, {passed} passed, {failed} failed", self.site));
        lines.join("\n")
    }

    pub(super) fn to_json(&self) -> Json {
        let failed = self.failed_count();
        json!({
            "site": self.site,
            "cases": self.results.len(),
            "passed": self.results.len() - failed,
            "failed": failed,
            "results": self.results.iter().map(|result| self.result_json(result)).collect::<Vec<_>>(),
        })
    }

    fn result_json(&self, result: &CaseResult<'_>) -> Json {
        let CheckedCase { line, case, visit: Visit { file, .. } } = &result.case;
        let status = if result.has_failed() { "failed" } else { "passed" };
        let mut document = json!({ "name": case.name, "file": file, "line": line, "status": status });
        if result.has_failed() {
            let failures = result.located_failures(self.files);
            document["failures"] = failures.iter().map(failure_json).collect();
            let explanation = ["decisions", "visitor"].map(|name| (name, result.body[name].clone()));
            document["explanation"] = explanation.into_iter().filter(|(_, value)| !value.is_null()).collect();
        }
        document
    }
}

fn failure_json(failure: &LocatedDiagnostic) -> Json {
    let LocatedDiagnostic { diagnostic, line, column, .. } = failure;
    json!({
        "line": line, "column": column, "pointer": diagnostic.pointer, "message": diagnostic.title,
        "expected": diagnostic.expected, "found": diagnostic.actual,
    })
}
