//! Finds the route for a path. In each segment a literal precedes a parameter, and a parameter precedes `*`.

use super::path::RoutePath;
use crate::json;
use crate::percent;
use crate::site::snapshot::format::{
    ArchivedBranch, ArchivedPage, ArchivedRedirect, ArchivedRoute, ArchivedRouteTarget, ArchivedSite,
    ArchivedTargetPart,
};
use crate::site::snapshot::hash_index;

/// Finds the route for `path`. Returns its index, too.
pub(crate) fn find<'s>(site: &'s ArchivedSite, path: &RoutePath) -> Option<(u32, &'s ArchivedRoute)> {
    let index = path
        .literal()
        .and_then(|text| find_literal(site, text))
        .or_else(|| find_pattern(site, 0, path, 0))?;
    Some((index, site.routes.get(index as usize)?))
}

/// Finds a literal route by the whole path. The pattern tree would find the same route, because a literal
/// precedes a parameter in each segment.
fn find_literal(site: &ArchivedSite, path: &str) -> Option<u32> {
    hash_index::find(&site.literals, path.as_bytes(), |at| *site.routes[at].path == *path)
}

/// Searches the pattern tree from `branch_index` on. Visits each branch at most once, because a branch has only one
/// depth.
fn find_pattern(site: &ArchivedSite, branch_index: u32, path: &RoutePath, depth: usize) -> Option<u32> {
    let branch: &ArchivedBranch = site.tree.get(branch_index as usize)?;
    if depth == path.len() {
        return branch.route.as_ref().map(|route| route.to_native());
    }
    let segment = path.segment(depth);
    let literal = branch
        .literals
        .binary_search_by(|entry| entry.0.as_str().cmp(segment))
        .ok()
        .and_then(|at| find_pattern(site, branch.literals[at].1.to_native(), path, depth + 1));
    literal
        .or_else(|| find_pattern(site, branch.param.as_ref()?.to_native(), path, depth + 1))
        .or_else(|| branch.rest.as_ref().map(|route| route.to_native()))
}

/// Returns the page of a route, or `None` for a redirect.
pub(crate) fn page<'s>(site: &'s ArchivedSite, route: &ArchivedRoute) -> Option<&'s ArchivedPage> {
    match &route.target {
        ArchivedRouteTarget::Page(index) => Some(&site.pages[index.to_native() as usize]),
        ArchivedRouteTarget::Redirect(_) => None,
    }
}

/// Appends the target of a redirect as a JSON string. The segments of `path` that replace parameters are escaped. The
/// path must match the pattern of the redirect.
pub(crate) fn write_target(redirect: &ArchivedRedirect, path: &RoutePath, out: &mut Vec<u8>) {
    out.push(b'"');
    for part in redirect.parts.iter() {
        match part {
            ArchivedTargetPart::Text(text) => json::write_escaped(out, text),
            ArchivedTargetPart::Segment(at) => {
                percent::encode(out, path.segment(usize::from(at.to_native())));
            }
            ArchivedTargetPart::Rest(at) => path.encode_rest(usize::from(at.to_native()), out),
        }
    }
    out.push(b'"');
}

/// Returns the names and values of the parameters of `pattern`, in order. The name of the rest is `*`. The
/// path must match the pattern.
pub(crate) fn params<'r>(pattern: &'r str, path: &'r RoutePath) -> impl Iterator<Item = (&'r str, &'r str)> {
    let segments = pattern[1..].split('/').enumerate();
    segments.filter_map(move |(i, segment)| match segment.strip_prefix(':') {
        Some(name) => Some((name, path.segment(i))),
        None if segment == "*" => Some(("*", path.rest(i))),
        None => None,
    })
}
