//! Finding a route of a site: literal before parameter before rest, segment by segment.

use super::path::RoutePath;
use crate::site::snapshot::format::{
    ArchivedBranch, ArchivedPage, ArchivedRoute, ArchivedShows, ArchivedSite,
};
use crate::site::snapshot::hash_index;

/// The route that shows `path`.
pub fn find<'s>(site: &'s ArchivedSite, path: &RoutePath) -> Option<&'s ArchivedRoute> {
    let index = path.literal().and_then(|text| literal(site, text)).or_else(|| pattern(site, 0, path, 0))?;
    site.routes.get(index as usize)
}

/// A path without parameters is found whole: the tree would come to the same route, since a
/// literal goes first at every segment.
fn literal(site: &ArchivedSite, text: &str) -> Option<u32> {
    hash_index::find(&site.literals, text.as_bytes(), |at| site.routes[at].path == *text)
}

/// Visits each branch once at most: a branch stands for one depth only.
fn pattern(site: &ArchivedSite, branch: u32, path: &RoutePath, depth: usize) -> Option<u32> {
    let branch: &ArchivedBranch = site.tree.get(branch as usize)?;
    if depth == path.len() {
        return branch.route.as_ref().map(|route| route.to_native());
    }
    let segment = path.segment(depth);
    let literal = branch
        .literals
        .binary_search_by(|entry| entry.0.as_str().cmp(segment))
        .ok()
        .and_then(|at| pattern(site, branch.literals[at].1.to_native(), path, depth + 1));
    literal
        .or_else(|| pattern(site, branch.param.as_ref()?.to_native(), path, depth + 1))
        .or_else(|| branch.rest.as_ref().map(|route| route.to_native()))
}

/// The page that a route shows; None for a redirect.
pub fn page<'s>(site: &'s ArchivedSite, route: &ArchivedRoute) -> Option<&'s ArchivedPage> {
    match &route.shows {
        ArchivedShows::Page(index) => Some(&site.pages[index.to_native() as usize]),
        ArchivedShows::Redirect(_) => None,
    }
}

/// The names and values of the parameters of `pattern`, in order; `*` is the name of the rest. The path is one that it matches.
pub fn params<'r>(pattern: &'r str, path: &'r RoutePath) -> impl Iterator<Item = (&'r str, &'r str)> {
    let segments = pattern[1..].split('/').enumerate();
    segments.filter_map(move |(i, segment)| match segment.strip_prefix(':') {
        Some(name) => Some((name, path.segment(i))),
        None if segment == "*" => Some(("*", path.rest(i))),
        None => None,
    })
}
