//! The checked cases of a site directory: each name that a case uses exists in the site.

use std::collections::HashSet;
use std::path::Path;

use super::offset::{self, parse_offset_ms};
use super::page_names::PageNames;
use super::requests::{OFFSET, text_of};
use crate::cli::CliError;
use crate::cli::site_directory::{CompiledDirectory, print_warning};
use crate::country::country_code;
use crate::events::time::parse_instant;
use crate::events::visitor::{is_anon_id, is_placeholder};
use crate::limits::{CLOCK_FROM_S, CLOCK_UNTIL_S};
use crate::nearest::nearest;
use crate::resolve::path::RoutePath;
use crate::resolve::route;
use crate::site::snapshot::format::{ArchivedRoute, ArchivedSite};
use crate::site::source::diagnostics::{Diagnostic, Diagnostics, find_lines};
use crate::site::source::files::Files;
use crate::site::source::read::read_tests;
use crate::site::source::types::{Case, CaseVisitor, Test};

/// The present time of a case without one: 2026-01-01T12:00:00Z, a Thursday. It is fixed, so that no result changes with the
/// time.
const NOW_DEFAULT_MS: i64 = 1_767_268_800_000;

/// The files in the directory `tests` of a site.
pub(super) struct TestFiles {
    pub(super) files: Files,
    tests: Vec<(String, Test)>,
}

/// A case without a mistake.
#[derive(Clone)]
pub(super) struct CheckedCase<'t> {
    pub(super) file: &'t str,
    /// The line of the case in its file, counted from 1.
    pub(super) line: usize,
    /// The JSON pointer of the case in its file.
    pub(super) pointer: String,
    pub(super) case: &'t Case,
    pub(super) now_ms: i64,
    /// The anon ID of the visitor. `None` if only its user ID is known.
    pub(super) anon_id: Option<String>,
}

impl CheckedCase<'_> {
    /// Returns the case with another visitor: the one with this number, counted from 1.
    pub(super) fn with_visitor(&self, number: usize) -> Self {
        Self { anon_id: Some(numbered_id(number)), ..self.clone() }
    }
}

/// Returns the anon ID of a visitor whose case names none.
pub(super) fn numbered_id(number: usize) -> String {
    format!("visitor-{number}")
}

impl TestFiles {
    /// Reads the tests of a site directory, and returns their errors of syntax and schema.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(super) fn read(directory: &Path) -> Result<(Self, Diagnostics), CliError> {
        let files = Files::tests_from_directory(directory);
        let files = files.map_err(|error| CliError::Input(error.to_string()))?;
        for (path, expected) in files.skipped() {
            print_warning(&format!("{path} is not read, because it is not {expected}"));
        }
        let (tests, diagnostics) = read_tests(&files);
        Ok((Self { files, tests }, diagnostics))
    }

    /// Returns the cases, sorted by file and in the order of each file. `diagnostics` are the errors that [`read`](Self::read)
    /// returned.
    ///
    /// # Errors
    /// A file has an error, or a case names something that the site does not have.
    pub(super) fn check<'t>(
        &'t self,
        diagnostics: Diagnostics,
        directory: &CompiledDirectory,
        site: &ArchivedSite,
    ) -> Result<Vec<CheckedCase<'t>>, CliError> {
        let mut checker = CaseChecker { directory, site, diagnostics };
        let mut cases = Vec::new();
        for (file, test) in &self.tests {
            let bytes = self.files.bytes(file).unwrap_or_default();
            cases.extend(checker.check_file(file, bytes, test));
        }
        check_none(&checker.diagnostics, &self.files)?;
        Ok(cases)
    }
}

/// Returns the error of `parallax test` if there is a diagnostic.
pub(super) fn check_none(diagnostics: &Diagnostics, files: &Files) -> Result<(), CliError> {
    if diagnostics.is_empty() {
        return Ok(());
    }
    let report = diagnostics.report(files);
    let errors: String = report.diagnostics.iter().map(|error| format!("error: {error}\n")).collect();
    let plural = if diagnostics.len() == 1 { "" } else { "s" };
    let not_shown = match report.hidden_count {
        0 => String::new(),
        hidden => format!(" ({hidden} not shown)"),
    };
    let count = diagnostics.len();
    Err(CliError::Source(format!(
        "{errors}error: the tests have {count} error{plural}{not_shown}; no result was reported"
    )))
}

struct CaseChecker<'s> {
    directory: &'s CompiledDirectory,
    site: &'s ArchivedSite,
    diagnostics: Diagnostics,
}

impl<'s> CaseChecker<'s> {
    /// Checks a file, and returns its cases.
    fn check_file<'t>(&mut self, file: &'t str, bytes: &[u8], test: &'t Test) -> Vec<CheckedCase<'t>> {
        let pointers: Vec<String> = (0..test.cases.len()).map(|at| format!("/cases/{at}")).collect();
        let lines = find_lines(bytes, &pointers);
        let file_now_ms = self.check_now(file, "/now", test.now.as_deref());
        let mut names = HashSet::new();
        let mut cases = Vec::with_capacity(pointers.len());
        for ((case, pointer), line) in test.cases.iter().zip(pointers).zip(lines) {
            if !names.insert(&case.name) {
                let actual = format!("{:?} again", case.name);
                let title = format!("duplicate name {:?}", case.name);
                let expected = "a name that no other case of the file has";
                self.diagnostics.add_titled(file, format!("{pointer}/name"), title, expected, actual);
            }
            let own_now_ms = self.check_now(file, &format!("{pointer}/now"), case.now.as_deref());
            let now_ms = own_now_ms.or(file_now_ms).unwrap_or(NOW_DEFAULT_MS);
            let CaseVisitor { anon_id, user_id, .. } = &case.visitor;
            let default_id = || user_id.is_none().then(|| numbered_id(1));
            let anon_id = anon_id.clone().or_else(default_id);
            let checked = CheckedCase { file, line, pointer, case, now_ms, anon_id };
            self.check_case(&checked);
            cases.push(checked);
        }
        cases
    }

    /// Returns the milliseconds of a present time. `None` if there is none, or an invalid one, which is reported.
    fn check_now(&mut self, file: &str, pointer: &str, text: Option<&str>) -> Option<i64> {
        let text = text?;
        let years = 1_000 * CLOCK_FROM_S..1_000 * CLOCK_UNTIL_S;
        let now_ms = parse_instant(text).filter(|now_ms| years.contains(now_ms));
        if now_ms.is_none() {
            let expected =
                "a time with an offset, such as `2026-12-24T18:00:00+01:00`, of the years 2020 to 2099";
            self.diagnostics.add_titled(file, pointer, "invalid `now`", expected, format!("{text:?}"));
        }
        now_ms
    }

    fn check_case(&mut self, checked: &CheckedCase<'_>) {
        let CheckedCase { file, pointer, case, .. } = checked;
        self.check_visitor(checked);
        self.check_events(checked);
        let expect = &case.expect;
        let has_page =
            !(expect.variants.is_empty() && expect.experiments.is_empty() && expect.props.is_empty());
        if !has_page && expect.redirect.is_none() {
            let expected = "an expectation in `variants`, `experiments`, `props` or `redirect`";
            self.diagnostics.add_titled(
                file,
                format!("{pointer}/expect"),
                "the case expects nothing",
                expected,
                "none",
            );
        }
        let Some(route) = self.find_route(checked) else { return };
        match (route::page(self.site, route), &expect.redirect) {
            (Some(_), Some(_)) => {
                let title = "this path is not a redirect";
                let pointer = format!("{pointer}/expect/redirect");
                self.diagnostics.add_titled(file, pointer, title, "the path of a redirect", "a page");
            }
            (Some(page), None) => {
                let names = PageNames::new(self.site, &self.directory.source, page);
                names.check(checked, &mut self.diagnostics);
            }
            (None, _) if has_page || !case.r#override.is_empty() || !case.visitor.arms.is_empty() => {
                let title = "a redirect has no zones and no props";
                let expected = "only `redirect`, or the path of a page";
                self.diagnostics.add_titled(
                    file,
                    format!("{pointer}/path"),
                    title,
                    expected,
                    format!("{:?}", case.path),
                );
            }
            (None, _) => {}
        }
    }

    /// Finds the route of a case, or reports that the site has none.
    fn find_route(&mut self, checked: &CheckedCase<'_>) -> Option<&'s ArchivedRoute> {
        let CheckedCase { file, pointer, case, .. } = checked;
        let pointer = format!("{pointer}/path");
        if case.path.contains(['?', '#']) {
            let expected = "a path without query; write the query in `url`";
            let actual = format!("{:?}", case.path);
            self.diagnostics.add_titled(file, pointer, "`path` has a query or a fragment", expected, actual);
            return None;
        }
        let mut path = RoutePath::new();
        let found = path.parse(&case.path).ok().and_then(|()| route::find(self.site, &path));
        if found.is_none() {
            let paths = self.directory.compiled.routes.keys().map(String::as_str);
            let expected = "a path of the site";
            let diagnostic = Diagnostic::at_value(file, pointer, expected, format!("{:?}", case.path));
            let diagnostic = diagnostic.with_title(format!("unknown path {:?}", case.path));
            self.diagnostics.add(diagnostic.with_nearest(nearest(&case.path, paths)));
        }
        found.map(|(_, route)| route)
    }

    /// Checks the values of the visitor that the server would ignore.
    fn check_visitor(&mut self, checked: &CheckedCase<'_>) {
        let CheckedCase { file, pointer, case, .. } = checked;
        let CaseVisitor { anon_id, user_id, country, arms, .. } = &case.visitor;
        if !arms.is_empty() && (anon_id.is_some() || user_id.is_some()) {
            let title = "the visitor has both `arms` and an ID";
            let pointer = format!("{pointer}/visitor/arms");
            self.diagnostics.add_titled(file, pointer, title, "one of them", "both");
        }
        let invalid_anon_id = anon_id.as_deref().filter(|id| !is_anon_id(id) || is_placeholder(id));
        let invalid_user_id = user_id.as_deref().filter(|id| id.is_empty() || is_placeholder(id));
        let invalid_country = country.as_deref().filter(|code| country_code(code.as_bytes()).is_none());
        let anon_ids = "1 to 128 bytes of visible ASCII, and no placeholder such as `null`";
        let user_ids = "1 to 256 bytes of text, and no placeholder such as `null`";
        for (name, invalid, expected) in [
            ("anonId", invalid_anon_id, anon_ids),
            ("userId", invalid_user_id, user_ids),
            ("country", invalid_country, "the code of a country, such as `NO`"),
        ] {
            if let Some(value) = invalid {
                let pointer = format!("{pointer}/visitor/{name}");
                self.diagnostics.add(Diagnostic::at_value(file, pointer, expected, format!("{value:?}")));
            }
        }
    }

    fn check_events(&mut self, checked: &CheckedCase<'_>) {
        let CheckedCase { file, pointer, case, .. } = checked;
        for (index, event) in case.visitor.events.iter().enumerate() {
            let Some(value) = event.get(OFFSET) else { continue };
            let pointer = format!("{pointer}/visitor/events/{index}/{OFFSET}");
            if event.contains_key("timestamp") {
                let title = "the event has both `at` and `timestamp`";
                self.diagnostics.add_titled(file, pointer, title, "one time", "two times");
            } else if text_of(value).and_then(|text| parse_offset_ms(&text)).is_none() {
                self.diagnostics.add(Diagnostic::at_value(file, pointer, offset::EXPECTED, value));
            }
        }
    }
}
