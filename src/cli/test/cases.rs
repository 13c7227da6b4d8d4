//! The checked cases of a site directory: each name that a case uses exists in the site.

use std::collections::HashSet;
use std::path::Path;

use super::page_names::PageNames;
use crate::cli::CliError;
use crate::cli::site_directory::{CompiledDirectory, print_warning};
use crate::invented::{NOW_DEFAULT_MS, Visit, anon_id_of, parse_now_ms};
use crate::nearest::nearest;
use crate::resolve::path::RoutePath;
use crate::resolve::route;
use crate::site::snapshot::format::{ArchivedRoute, ArchivedSite};
use crate::site::source::diagnostics::{Diagnostic, Diagnostics, find_lines};
use crate::site::source::files::Files;
use crate::site::source::read::read_tests;
use crate::site::source::types::{Case, Test};

/// The files in the directory `tests` of a site.
pub(super) struct TestFiles {
    pub(super) files: Files,
    tests: Vec<(String, Test)>,
}

/// A case without a mistake.
#[derive(Clone)]
pub(super) struct CheckedCase<'t> {
    /// The line of the case in its file, counted from 1.
    pub(super) line: usize,
    pub(super) case: &'t Case,
    pub(super) visit: Visit<'t>,
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
        let file_now_ms = parse_now_ms(file, "/now", test.now.as_deref(), &mut self.diagnostics);
        let mut names = HashSet::new();
        let mut cases = Vec::with_capacity(pointers.len());
        for ((case, pointer), line) in test.cases.iter().zip(pointers).zip(lines) {
            if !names.insert(&case.name) {
                let actual = format!("{:?} again", case.name);
                let title = format!("duplicate name {:?}", case.name);
                let expected = "a name that no other case of the file has";
                self.diagnostics.add_titled(file, format!("{pointer}/name"), title, expected, actual);
            }
            let now_pointer = format!("{pointer}/now");
            let own_now_ms = parse_now_ms(file, &now_pointer, case.now.as_deref(), &mut self.diagnostics);
            let visit = Visit {
                file,
                pointer,
                path: &case.path,
                url: case.url.as_deref(),
                referrer: case.referrer.as_deref(),
                forced: &case.r#override,
                visitor: &case.visitor,
                now_ms: own_now_ms.or(file_now_ms).unwrap_or(NOW_DEFAULT_MS),
                anon_id: anon_id_of(&case.visitor),
            };
            let checked = CheckedCase { line, case, visit };
            self.check_case(&checked);
            cases.push(checked);
        }
        cases
    }

    fn check_case(&mut self, checked: &CheckedCase<'_>) {
        let CheckedCase { case, visit: visit @ Visit { file, pointer, .. }, .. } = checked;
        visit.check(&mut self.diagnostics);
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
        let CheckedCase { case, visit: Visit { file, pointer, .. }, .. } = checked;
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
}
