//! The results as JUnit XML: a suite for each file, and a failure with its text for each case that fails.

use std::time::Duration;

use super::report::{CaseResult, Results};

/// The type of each failure. There is one kind.
const FAILURE_TYPE: &str = "expectation";

/// Returns the document, without a line end after it.
pub(super) fn render_junit(results: &Results<'_>) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let counts = counts(&results.results);
    xml.push_str(&format!("<testsuites name=\"{}\" {counts}>\n", escape(results.site)));
    for suite in results.results.chunk_by(|one, other| one.case.visit.file == other.case.visit.file) {
        let file = escape(suite[0].case.visit.file);
        let counts = self::counts(suite);
        xml.push_str(&format!("  <testsuite name=\"{file}\" {counts} skipped=\"0\">\n"));
        suite.iter().for_each(|result| xml.push_str(&case_element(&file, result, results)));
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>");
    xml
}

/// Returns the attributes with the numbers of cases and failures, and the time of all cases.
fn counts(results: &[CaseResult<'_>]) -> String {
    let failures = results.iter().filter(|result| result.has_failed()).count();
    let time = seconds(results.iter().map(|result| result.duration).sum());
    format!("tests=\"{}\" failures=\"{failures}\" errors=\"0\" time=\"{time}\"", results.len())
}

fn case_element(file: &str, result: &CaseResult<'_>, results: &Results<'_>) -> String {
    let line = result.case.line;
    let name = escape(&result.case.case.name);
    let time = seconds(result.duration);
    let attributes =
        format!("classname=\"{file}\" name=\"{name}\" file=\"{file}\" line=\"{line}\" time=\"{time}\"");
    let [first, ..] = &result.failures[..] else { return format!("    <testcase {attributes}/>\n") };
    let title = escape(&format!("{}: expected {}, found {}", first.title, first.expected, first.actual));
    let text = escape(&result.describe_failures(results.files));
    format!(
        "    <testcase {attributes}>\n      <failure message=\"{title}\" type=\"{FAILURE_TYPE}\">{text}</failure>\n    \
         </testcase>\n"
    )
}

fn seconds(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64())
}

/// Escapes a text for an element or an attribute. A character that XML 1.0 cannot contain is replaced by U+FFFD.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => escaped.push_str(&format!("&#{};", u32::from(c))),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
