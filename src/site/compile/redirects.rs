//! Compiles the targets of redirects, and finds redirects that never end.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use super::paths::{param_name, param_names};
use crate::limits::{REDIRECTS_IN_A_ROW_MAX, ROUTE_BYTES_MAX};
use crate::nearest::nearest;
use crate::nfc;
use crate::percent;
use crate::site::snapshot::format::{Branch, Redirect, Route, RouteTarget, TargetPart};
use crate::site::source::diagnostics::{Diagnostic, Diagnostics};
use crate::site::source::types;
use crate::url;

const TO: &str = "/redirect/to";

/// Schemes of targets that browsers do not open when a server redirects to them. Code of a page that assigns such a
/// target to `location` would run it, or fail.
const REFUSED_SCHEMES: [&str; 10] =
    ["about", "blob", "data", "file", "filesystem", "javascript", "vbscript", "view-source", "ws", "wss"];

/// Splits the target `target` of the redirect of `path` at its parameters. Reports a target that browsers do not read as
/// written, and parameters that the path does not have.
pub(super) fn compile_target(
    file: &str,
    path: &str,
    target: &str,
    diagnostics: &mut Diagnostics,
) -> Vec<TargetPart> {
    let prefix_bytes = match check_form(target) {
        Ok(prefix_bytes) => prefix_bytes,
        Err(fault) => {
            diagnostics.add(fault.diagnostic(file, target));
            return Vec::new();
        }
    };
    let mut parts = Vec::new();
    let mut text = String::new();
    let (prefix, mut rest) = target.split_at(prefix_bytes);
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
            None => report_unknown_param(file, path, param, diagnostics),
        }
    }
    text.push_str(rest);
    if !text.is_empty() {
        parts.push(TargetPart::Text(text));
    }
    parts
}

/// A fault of the form of a target.
struct FormFault {
    /// The part of the headline after the target.
    reason: &'static str,
    /// A similar target without a fault.
    nearest: Option<String>,
}

impl FormFault {
    fn diagnostic(self, file: &str, target: &str) -> Diagnostic {
        let expected = "a path that begins with one `/`, or a URL such as `https://www.example.com/offers`";
        let diagnostic = Diagnostic::at_value(file, TO, expected, format!("{target:?}"));
        let title = format!("the redirect leads to {target:?}, {}", self.reason);
        diagnostic.with_title(title).with_nearest(self.nearest)
    }
}

/// Checks that browsers read `target` as it is written. Returns the length of its scheme and authority (RFC 3986 section
/// 3). A path has neither.
fn check_form(target: &str) -> Result<usize, FormFault> {
    check_chars(target)?;
    if target.starts_with('/') && !target.starts_with("//") {
        return Ok(0);
    }
    let fault = |reason| Err(FormFault { reason, nearest: None });
    let Some(scheme) = scheme(target) else {
        // With `//` a browser takes the first segment as a host.
        let bare = target.trim_start_matches('/');
        let first = authority(bare);
        let is_host = first.contains(['.', ':']) && !first.starts_with(['.', ':']);
        let nearest = Some(format!("{}{bare}", if is_host { "https://" } else { "/" }));
        return Err(FormFault { reason: "which is neither a path nor a URL", nearest });
    };
    if REFUSED_SCHEMES.contains(&&*scheme) {
        return fault("which no browser follows");
    }
    let after_scheme = &target[scheme.len() + 1..];
    let authority = after_scheme.strip_prefix("//").map(authority);
    if matches!(&*scheme, "http" | "https") {
        match check_authority(authority.unwrap_or_default()) {
            Ok(()) => {}
            Err(reason) => return fault(reason),
        }
    }
    Ok(scheme.len() + 1 + authority.map_or(0, |authority| "//".len() + authority.len()))
}

/// Checks that `target` has no character that a browser removes or takes as another one (URL standard, section 4.4). A line
/// end would also begin another header field in the response of a page.
fn check_chars(target: &str) -> Result<(), FormFault> {
    let reason = target.chars().find_map(|c| match c {
        '\\' => Some("which has a backslash"),
        ' ' => Some("which has a space"),
        c if c.is_control() => Some("which has a control character"),
        _ => None,
    });
    let Some(reason) = reason else { return Ok(()) };
    let visible = target.replace(char::is_control, "");
    let corrected = visible.trim().replace('\\', "/").replace(' ', "%20");
    let nearest = Some(corrected).filter(|corrected| check_form(corrected).is_ok());
    Err(FormFault { reason, nearest })
}

/// Checks the authority of a web page. A host outside ASCII is one that browsers convert (RFC 5890).
fn check_authority(authority: &str) -> Result<(), &'static str> {
    if authority.contains('@') {
        // Readers take the user name for the host.
        return Err("a URL with a user name");
    }
    let Some(host) = url::host_of_authority(authority) else { return Err("a URL without a host") };
    let is_host_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_') || !c.is_ascii();
    let is_valid = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => host.contains(char::is_alphanumeric) && host.chars().all(is_host_char),
    };
    if !is_valid {
        return Err("a URL with an invalid host");
    }
    let after_host = authority[host.len()..].trim_start_matches('.');
    // The parser of numbers accepts a plus.
    let is_port = |port: &str| !port.starts_with('+') && port.parse::<u16>().is_ok();
    match after_host.strip_prefix(':') {
        Some(port) if !is_port(port) => Err("a URL with an invalid port"),
        _ => Ok(()),
    }
}

/// Returns the authority at the start of `text`.
fn authority(text: &str) -> &str {
    &text[..text.find(['/', '?', '#']).unwrap_or(text.len())]
}

/// Returns the scheme of a URL in lower case. A host name with a port has none.
fn scheme(target: &str) -> Option<String> {
    let (scheme, rest) = target.split_once(':')?;
    let scheme = scheme.to_ascii_lowercase();
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-".contains(&b));
    let is_number = matches!(&*scheme, "tel" | "sms");
    let is_port = rest.starts_with(|c: char| c.is_ascii_digit()) && !is_number;
    (is_scheme && !is_port).then_some(scheme)
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

fn report_unknown_param(file: &str, path: &str, param: &str, diagnostics: &mut Diagnostics) {
    let escape = if param == "*" { "%2A" } else { "%3A" };
    let expected = format!("a parameter of the path {path:?}, or `{escape}` in place of `{}`", &param[..1]);
    let known = nearest(&param[1..], param_names(path).filter(|name| *name != "*"));
    let diagnostic = Diagnostic::at_value(file, TO, expected, format!("`{param}`"));
    let diagnostic = diagnostic.with_title(format!("unknown parameter `{param}`"));
    diagnostics.add(diagnostic.with_nearest(known.map(|name| format!(":{name}"))));
}

/// Reports redirects that lead to each other in a circle, or in too long a chain. The check follows a
/// redirect with parameter values that no published path contains.
pub(super) fn check_circles(
    authored_routes: &[(String, types::Route)],
    routes: &[Route],
    tree: &[Branch],
    diagnostics: &mut Diagnostics,
) {
    let redirects = authored_routes.iter().filter_map(|(file, route)| match route {
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
            let title = format!("the redirect of {:?} leads in a circle, or in too long a chain", route.path);
            diagnostics.add_titled(file, TO, title, expected, format!("{:?}", route.redirect.to));
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
            redirect = found;
            segments = next;
        }
        true
    }

    fn redirect(&self, route_index: usize) -> Option<&'r Redirect> {
        match &self.routes[route_index].target {
            RouteTarget::Redirect(redirect) => Some(redirect),
            RouteTarget::Page(_) => None,
        }
    }

    /// Returns the index of the route of a path.
    fn find(&self, segments: &[String]) -> Option<usize> {
        let literal = self.literals.get(&*format!("/{}", segments.join("/"))).copied();
        literal.or_else(|| self.find_pattern(0, segments))
    }

    fn find_pattern(&self, branch_index: u32, segments: &[String]) -> Option<usize> {
        let branch = self.tree.get(branch_index as usize)?;
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

/// Returns the segments of the path to which a redirect leads from the path `segments`. Returns `None` if it
/// leads to another site, or if `segments` lacks a segment because the path of the redirect is invalid.
fn target_segments(redirect: &Redirect, segments: &[String]) -> Option<Vec<String>> {
    let mut to = String::new();
    for part in &redirect.parts {
        match part {
            TargetPart::Text(text) => to.push_str(text),
            TargetPart::Segment(at) => to.push_str(segments.get(usize::from(*at))?),
            TargetPart::Rest(at) => to.push_str(&segments.get(usize::from(*at)..)?.join("/")),
        }
    }
    let path = to.split(['?', '#']).next().filter(|path| path.starts_with('/'))?;
    let decode = |segment: &str| {
        let mut decoded = Vec::new();
        percent::decode(segment.as_bytes(), &mut decoded);
        nfc::normalize(&String::from_utf8_lossy(&decoded)).into_owned()
    };
    Some(path.split('/').filter(|segment| !segment.is_empty()).map(decode).collect())
}
