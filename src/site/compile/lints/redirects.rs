//! Redirects to a path of the site that is not published, and goals and conditions on such a path.

use std::collections::HashSet;

use crate::nearest::nearest;
use crate::nfc;
use crate::site::compile::paths::{self, is_pattern, param_name};
use crate::site::experiment_metrics::Goal;
use crate::site::snapshot::format::Route;
use crate::site::source::diagnostics::{DIAGNOSTICS_SHOWN_MAX, Diagnostic, Diagnostics};

/// The paths that the server answers.
pub(super) struct PublishedPaths<'r> {
    literals: HashSet<&'r str>,
    patterns: Vec<&'r str>,
}

/// The page of a goal.
#[derive(Clone, Copy)]
pub(super) struct GoalPage<'p> {
    /// The text in the file, which can have a prefix.
    pub(super) authored_text: &'p str,
    pub(super) path: &'p str,
}

impl<'r> PublishedPaths<'r> {
    pub(super) fn new(routes: &'r [Route]) -> Self {
        let (patterns, literals): (Vec<&Route>, Vec<&Route>) =
            routes.iter().partition(|route| route.is_pattern);
        Self {
            literals: literals.into_iter().map(|route| &*route.path).collect(),
            patterns: patterns.into_iter().map(|route| &*route.path).collect(),
        }
    }

    /// Adds a warning if `target` is a path of this site that is not published.
    pub(super) fn check_target(&self, file: &str, target: &str, warnings: &mut Diagnostics) {
        if !target.starts_with('/') {
            return;
        }
        let path = decode_path(target);
        if path.split('/').any(has_inner_param) || self.contains(&path) {
            return;
        }
        let title = format!("the redirect leads to {target:?}, which is not published");
        self.warn(file, "/redirect/to", target, &path, title, warnings);
    }

    /// Adds a warning if the goal at `pointer` in `file` is a page that is not published, or a path that no event has.
    pub(super) fn check_goal(&self, file: &str, pointer: &str, goal: &str, warnings: &mut Diagnostics) {
        if let Some(Goal::Page(path)) = Goal::parse(goal) {
            self.check_goal_page(file, pointer, GoalPage { authored_text: goal, path }, warnings);
        }
    }

    /// Adds a warning if the page of a goal, at `pointer` in `file`, is not published, or is a path that no event has.
    pub(super) fn check_goal_page(
        &self,
        file: &str,
        pointer: &str,
        page: GoalPage<'_>,
        warnings: &mut Diagnostics,
    ) {
        let GoalPage { authored_text, path } = page;
        let (fixed, is_prefix) = path.strip_suffix('*').map_or((path, false), |prefix| (prefix, true));
        let recorded = if is_prefix { paths::decode(fixed) } else { decode_path(fixed) };
        let is_published = if is_prefix { self.contains_prefix(&recorded) } else { self.contains(&recorded) };
        let title = if is_pattern(fixed) {
            format!("the goal is the pattern {path:?}; choose the path of one page")
        } else if !is_published && is_prefix {
            format!("the goal is pages {path:?}, none of which is published")
        } else if !is_published {
            format!("the goal is the page {path:?}, which is not published")
        } else if nfc::normalize(fixed) == recorded {
            return;
        } else if is_prefix {
            format!("the goal is pages {path:?}, whose events have paths that begin with {recorded:?}")
        } else {
            format!("the goal is the page {path:?}, whose events have the path {recorded:?}")
        };
        self.warn(file, pointer, authored_text, &recorded, title, warnings);
    }

    /// Adds a warning if `page_path`, the path in `pages.<path>` at `pointer` in `file`, covers no published page.
    pub(super) fn check_page(&self, file: &str, pointer: &str, page_path: &str, warnings: &mut Diagnostics) {
        let is_param = |segment| param_name(segment).is_some_and(|param| param != "*");
        let has_param = page_path.split('/').any(is_param);
        let path = nfc::normalize(page_path);
        let prefix = path.strip_suffix('*');
        let is_published = prefix.map_or_else(|| self.contains(&path), |prefix| self.contains_prefix(prefix));
        let title = if has_param {
            format!("the condition is on the pattern {page_path:?}; end the path with `*` instead")
        } else if is_published {
            return;
        } else if prefix.is_some() {
            format!("the condition is on pages {page_path:?}, none of which is published")
        } else {
            format!("the condition is on the page {page_path:?}, which is not published")
        };
        self.warn(file, pointer, page_path, path.trim_end_matches('*'), title, warnings);
    }

    /// Returns whether the server answers a path that begins with `prefix`.
    fn contains_prefix(&self, prefix: &str) -> bool {
        let fits = |route: &&str| {
            let literal = route.find("/:").or_else(|| route.find("/*")).map_or(*route, |at| &route[..=at]);
            literal.starts_with(prefix) || literal.len() < route.len() && prefix.starts_with(literal)
        };
        self.literals.iter().any(|route| route.starts_with(prefix)) || self.patterns.iter().any(fits)
    }

    /// Adds a warning about an authored text with a path that is not published.
    fn warn(
        &self,
        file: &str,
        pointer: &str,
        authored_text: &str,
        path: &str,
        title: String,
        warnings: &mut Diagnostics,
    ) {
        let expected = "a path that this site publishes";
        let diagnostic =
            Diagnostic::at_value(file, pointer, expected, format!("{authored_text:?}")).with_title(title);
        // The search compares all paths. A report shows no more warnings than these.
        let is_shown = warnings.len() < DIAGNOSTICS_SHOWN_MAX;
        let nearest = if is_shown { nearest(path, self.literals.iter().copied()) } else { None };
        warnings.add(diagnostic.with_nearest(nearest));
    }

    /// Returns whether the server answers `path`. A parameter in it can have any value.
    fn contains(&self, path: &str) -> bool {
        let fits = |route: &&str| overlap(&mut path[1..].split('/'), &mut route[1..].split('/'));
        match is_pattern(path) {
            true => self.patterns.iter().any(fits) || self.literals.iter().any(fits),
            false => self.literals.contains(path) || self.patterns.iter().any(fits),
        }
    }
}

/// Returns whether a parameter is a part of a segment. Such a segment can be any of many.
fn has_inner_param(segment: &str) -> bool {
    let is_whole = segment == "*" || param_name(segment).is_some();
    segment.contains([':', '*']) && !is_whole
}

/// Returns the path of a redirect's target, as routes are written.
fn decode_path(target: &str) -> String {
    let path = target.split(['?', '#']).next().unwrap_or(target);
    let path = if path.len() > 1 { path.trim_end_matches('/') } else { path };
    paths::decode(path)
}

/// Returns whether some path matches both.
fn overlap<'s>(
    segments: &mut impl Iterator<Item = &'s str>,
    other_segments: &mut impl Iterator<Item = &'s str>,
) -> bool {
    loop {
        match (segments.next(), other_segments.next()) {
            (None, None) => return true,
            (Some("*"), Some(_)) | (Some(_), Some("*")) => return true,
            (Some(segments), Some(other_segments))
                if segments == other_segments
                    || param_name(segments).is_some()
                    || param_name(other_segments).is_some() => {}
            _ => return false,
        }
    }
}
