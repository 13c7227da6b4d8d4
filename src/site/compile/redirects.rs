//! Compiles the targets of redirects, and finds redirects that never end.

use std::collections::BTreeMap;

use super::paths::{param_name, param_names};
use crate::limits::{REDIRECTS_IN_A_ROW_MAX, ROUTE_BYTES_MAX};
use crate::nearest::nearest;
use crate::nfc;
use crate::percent;
use crate::site::snapshot::format::{Branch, Redirect, Route, RouteTarget, TargetPart};
use crate::site::source::diagnostics::{Diagnostic, Diagnostics};
use crate::site::source::types;

const TO: &str = "/redirect/to";

/// Splits the target `to` of the redirect of `path` at its parameters. Reports parameters that the path does not have.
pub(super) fn compile_target(
    file: &str,
    path: &str,
    to: &str,
    mistakes: &mut Diagnostics,
) -> Vec<TargetPart> {
    check_form(file, to, mistakes);
    let (mut parts, mut text) = (Vec::new(), String::new());
    let (prefix, mut rest) = to.split_at(authority_end(to));
    text.push_str(prefix);
    while let Some(at) = rest.find([':', '*']) {
        let length = param_length(&rest[at..]);
        let (literal, param) = rest[..at + length].split_at(at);
        rest = &rest[at + length..];
        text.push_str(literal);
        match find_param(path, param) {
            // A colon without a name.
            _ if param == ":" => text.push(':'),
            Some(part) => {
                if !text.is_empty() {
                    parts.push(TargetPart::Text(std::mem::take(&mut text)));
                }
                parts.push(part);
            }
            None => report_unknown_param(file, path, param, mistakes),
        }
    }
    text.push_str(rest);
    if !text.is_empty() {
        parts.push(TargetPart::Text(text));
    }
    parts
}

/// Reports a target that is neither a path nor a URL. A browser takes it as a path beside that of the page.
fn check_form(file: &str, to: &str, mistakes: &mut Diagnostics) {
    let (title, nearest) = match scheme(to).as_deref() {
        _ if to.starts_with('/') => return,
        Some(scheme) if ["http", "https"].contains(&scheme) => {
            let host = to[scheme.len() + 1..].strip_prefix("//").unwrap_or_default();
            if !host.is_empty() && !host.starts_with(['/', '?', '#']) {
                return;
            }
            (format!("the redirect leads to {to:?}, a URL without a host"), None)
        }
        Some(scheme) if !["javascript", "data", "vbscript", "file"].contains(&scheme) => return,
        Some(_) => (format!("the redirect leads to {to:?}, which no browser follows"), None),
        None => {
            let first = to.split(['/', '?', '#']).next().unwrap_or(to);
            let is_host = first.contains(['.', ':']) && !first.starts_with(['.', ':']);
            let begin = if is_host { "https://" } else { "/" };
            let title = format!("the redirect leads to {to:?}, which is neither a path nor a URL");
            (title, Some(format!("{begin}{to}")))
        }
    };
    let expected = "a path that begins with `/`, or a URL such as `https://www.example.com/offers`";
    let diagnostic = Diagnostic::at_value(file, TO, expected, format!("{to:?}")).with_title(title);
    mistakes.add(diagnostic.with_nearest(nearest));
}

/// Returns the scheme of a URL in lower case. A host name with a port has none.
fn scheme(to: &str) -> Option<String> {
    let (scheme, rest) = to.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-".contains(&b));
    let is_number = matches!(scheme, "tel" | "sms");
    let is_port = rest.starts_with(|c: char| c.is_ascii_digit()) && !is_number;
    (is_scheme && !is_port).then(|| scheme.to_ascii_lowercase())
}

/// Returns the length of the scheme and the authority of a URL (RFC 3986 section 3). A path has neither.
fn authority_end(to: &str) -> usize {
    let is_scheme = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    };
    let scheme = to.split_once(':').filter(|(scheme, _)| is_scheme(scheme));
    let rest = scheme.map_or(to, |(_, rest)| rest);
    let end = rest
        .strip_prefix("//")
        .map_or(rest, |host| &host[host.find(['/', '?', '#']).unwrap_or(host.len())..]);
    to.len() - end.len()
}

/// Returns the length of the parameter at the start of `text`: `*`, or `:` and a name.
fn param_length(text: &str) -> usize {
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || *b == b'-';
    match text.starts_with(':') {
        true => 1 + text.bytes().skip(1).take_while(|b| is_name(b)).count(),
        false => 1,
    }
}

/// Returns the place of the parameter `param` (`:name` or `*`) in `path`.
fn find_param(path: &str, param: &str) -> Option<TargetPart> {
    let at = path[1..].split('/').position(|segment| segment == param)? as u16;
    Some(if param == "*" { TargetPart::Rest(at) } else { TargetPart::Segment(at) })
}

fn report_unknown_param(file: &str, path: &str, param: &str, mistakes: &mut Diagnostics) {
    let escape = if param == "*" { "%2A" } else { "%3A" };
    let expected = format!("a parameter of the path {path:?}, or `{escape}` in place of `{}`", &param[..1]);
    let known = nearest(&param[1..], param_names(path).filter(|name| *name != "*"));
    let diagnostic = Diagnostic::at_value(file, TO, expected, format!("`{param}`"));
    let diagnostic = diagnostic.with_title(format!("unknown parameter `{param}`"));
    mistakes.add(diagnostic.with_nearest(known.map(|name| format!(":{name}"))));
}

/// Reports redirects that lead to each other in a circle, or in too long a chain. The check follows a
/// redirect with parameter values that no published path contains.
pub(super) fn check_circles(
    source: &[(String, types::Route)],
    routes: &[Route],
    tree: &[Branch],
    mistakes: &mut Diagnostics,
) {
    let redirects = source.iter().filter_map(|(file, route)| match route {
        types::Route::Redirect(route) => Some((file, route)),
        types::Route::Page(_) => None,
    });
    let mut redirects = redirects.peekable();
    if redirects.peek().is_none() {
        return;
    }
    let finder = RouteFinder::new(routes, tree);
    for (file, route) in redirects {
        if finder.never_ends(&route.path) {
            let expected = format!(
                "a target that leads to a page, or out of the site, after at most {REDIRECTS_IN_A_ROW_MAX} redirects"
            );
            let diagnostic = Diagnostic::at_value(file, TO, expected, format!("{:?}", route.redirect.to));
            let title = format!("the redirect of {:?} leads in a circle, or in too long a chain", route.path);
            mistakes.add(diagnostic.with_title(title));
        }
    }
}

/// The routes of a site, for lookups during compilation.
struct RouteFinder<'r> {
    routes: &'r [Route],
    literals: BTreeMap<&'r str, usize>,
    tree: &'r [Branch],
}

impl<'r> RouteFinder<'r> {
    fn new(routes: &'r [Route], tree: &'r [Branch]) -> Self {
        let literals = routes.iter().enumerate().filter(|(_, route)| !route.is_pattern);
        Self { routes, literals: literals.map(|(at, route)| (&*route.path, at)).collect(), tree }
    }

    fn never_ends(&self, path: &str) -> bool {
        // No authored path contains the character NUL, so these values match parameters only.
        let value = |segment: &str| match param_name(segment) {
            Some(name) => format!("\0{name}"),
            None => segment.to_owned(),
        };
        let mut segments: Vec<String> = path[1..].split('/').filter(|s| !s.is_empty()).map(value).collect();
        let route = self.routes.binary_search_by(|route| (*route.path).cmp(path)).ok();
        let Some(mut redirect) = route.and_then(|route| self.redirect(route)) else { return false };
        for _ in 0..REDIRECTS_IN_A_ROW_MAX {
            let Some(next) = target_segments(redirect, &segments) else { return false };
            if next.iter().map(|segment| segment.len() + 1).sum::<usize>() > ROUTE_BYTES_MAX {
                return true;
            }
            let Some(found) = self.find(&next).and_then(|route| self.redirect(route)) else { return false };
            (redirect, segments) = (found, next);
        }
        true
    }

    fn redirect(&self, route: usize) -> Option<&'r Redirect> {
        match &self.routes[route].target {
            RouteTarget::Redirect(redirect) => Some(redirect),
            RouteTarget::Page(_) => None,
        }
    }

    /// Returns the index of the route of a path.
    fn find(&self, segments: &[String]) -> Option<usize> {
        let literal = self.literals.get(&*format!("/{}", segments.join("/"))).copied();
        literal.or_else(|| self.find_pattern(0, segments))
    }

    fn find_pattern(&self, branch: u32, segments: &[String]) -> Option<usize> {
        let branch = self.tree.get(branch as usize)?;
        let Some((segment, rest)) = segments.split_first() else {
            return branch.route.map(|route| route as usize);
        };
        let literal = branch.literals.iter().find(|(text, _)| text == segment);
        literal
            .and_then(|(_, next)| self.find_pattern(*next, rest))
            .or_else(|| self.find_pattern(branch.param?, rest))
            .or_else(|| branch.rest.map(|route| route as usize))
    }
}

/// Returns the segments of the path to which a redirect leads from the path `from`. Returns `None` if it
/// leads to another site, or if `from` lacks a segment because the path of the redirect is invalid.
fn target_segments(redirect: &Redirect, from: &[String]) -> Option<Vec<String>> {
    let mut to = String::new();
    for part in &redirect.parts {
        match part {
            TargetPart::Text(text) => to.push_str(text),
            TargetPart::Segment(at) => to.push_str(from.get(usize::from(*at))?),
            TargetPart::Rest(at) => to.push_str(&from.get(usize::from(*at)..)?.join("/")),
        }
    }
    let path = to.split(['?', '#']).next().filter(|path| path.starts_with('/') && !path.starts_with("//"))?;
    let decode = |segment: &str| {
        let mut decoded = Vec::new();
        percent::decode(segment.as_bytes(), &mut decoded);
        nfc::normalize(&String::from_utf8_lossy(&decoded)).into_owned()
    };
    Some(path.split('/').filter(|segment| !segment.is_empty()).map(decode).collect())
}
