//! Finding a route of a site: literal before parameter before rest, segment by segment.

use super::path::RoutePath;
use crate::checksum;
use crate::snapshot::format::{ArchivedBranch, ArchivedRoute, ArchivedSite};

/// The route that shows `path`.
pub fn find<'s>(site: &'s ArchivedSite, path: &RoutePath) -> Option<&'s ArchivedRoute> {
    let index = path.literal().and_then(|text| literal(site, text)).or_else(|| pattern(site, 0, path, 0))?;
    site.routes.get(index as usize)
}

/// A path without parameters is found whole: the tree would come to the same route, since a
/// literal goes first at every segment.
fn literal(site: &ArchivedSite, text: &str) -> Option<u32> {
    let mask = site.literals.len().checked_sub(1)?;
    let mut slot = checksum::table(text.as_bytes()) as usize & mask;
    loop {
        let index = site.literals[slot].to_native().checked_sub(1)?;
        if site.routes[index as usize].path == *text {
            return Some(index);
        }
        slot = (slot + 1) & mask;
    }
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

/// The names and values of a pattern's parameters, in order; `*` is the name of the rest.
pub fn params<'r>(route: &'r ArchivedRoute, path: &'r RoutePath) -> impl Iterator<Item = (&'r str, &'r str)> {
    let segments = route.path.as_str()[1..].split('/').enumerate();
    segments.filter_map(move |(i, segment)| match segment.strip_prefix(':') {
        Some(name) => Some((name, path.segment(i))),
        None if segment == "*" => Some(("*", path.rest(i))),
        None => None,
    })
}
