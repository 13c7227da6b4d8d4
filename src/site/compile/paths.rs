//! Route paths: validation, and the two indexes for lookups (literal paths and the tree of patterns).

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::ROUTE_BYTES_MAX;
use crate::nfc;
use crate::percent;
use crate::site::snapshot::format::{Branch, Route};
use crate::site::snapshot::hash_index;
use crate::site::source::diagnostics::Diagnostics;

/// Returns a percent-encoded path as events have it: decoded, in Unicode normalization form C. If the decoded bytes are not
/// UTF-8, the path stays encoded.
pub(super) fn decode(path: &str) -> String {
    let mut decoded = Vec::new();
    percent::decode(path.as_bytes(), &mut decoded);
    let decoded = String::from_utf8(decoded).unwrap_or_else(|_| path.to_owned());
    nfc::normalize(&decoded).into_owned()
}

pub(in crate::site) fn is_pattern(path: &str) -> bool {
    path.split('/').any(|segment| param_name(segment).is_some())
}

/// Returns the names of a pattern's parameters; `*` is the name of the rest.
pub(super) fn param_names(path: &str) -> impl Iterator<Item = &str> {
    path[1..].split('/').filter_map(param_name)
}

/// Returns the name of the parameter if the segment is one.
pub(in crate::site) fn param_name(segment: &str) -> Option<&str> {
    segment.strip_prefix(':').or_else(|| (segment == "*").then_some(segment))
}

/// Returns a sort key for the order of matching: by segment, literals before parameters before the rest
/// (`*`).
pub(super) fn precedence(path: &str) -> Vec<u8> {
    let kind = |segment: &str| match param_name(segment) {
        None => 0,
        Some("*") => 2,
        Some(_) => 1,
    };
    path[1..].split('/').map(kind).collect()
}

/// Reports errors in a path. Schema validation has already checked that it begins with `/`.
pub(super) fn check_path(file: &str, path: &str, diagnostics: &mut Diagnostics) {
    let mut wrong = |expected: String| {
        let title = format!("invalid path {path:?}");
        diagnostics.add_titled(file, "/path", title, expected, format!("{path:?}"));
    };
    if path.len() > ROUTE_BYTES_MAX {
        wrong(format!("a path of at most {ROUTE_BYTES_MAX} bytes"));
    }
    if path.contains(['%', '?', '#']) {
        wrong("a decoded path, without `%`, `?` and `#`".to_owned());
    }
    if path.contains("//") || path.len() > 1 && path.ends_with('/') {
        wrong("a path without empty segments, such as `/blog` instead of `/blog/`".to_owned());
    }
    let segments: Vec<&str> = path[1..].split('/').collect();
    let mut names = BTreeSet::new();
    for (i, segment) in segments.iter().enumerate() {
        if let Some(name) = segment.strip_prefix(':') {
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') {
                wrong("a name of A-Z a-z 0-9 _ - after `:`".to_owned());
            } else if !names.insert(name) {
                wrong(format!("each parameter once, but `:{name}` occurs twice"));
            }
        } else if *segment == "*" && i + 1 < segments.len() {
            wrong("`*` as the last segment only".to_owned());
        }
    }
}

pub(super) struct PathIndex {
    pub(super) literals: Vec<u32>,
    pub(super) tree: Vec<Branch>,
}

/// Reports authored paths that match the same URLs.
pub(super) fn check_shapes<'s>(
    files_and_paths: impl Iterator<Item = (&'s str, &'s str)>,
    diagnostics: &mut Diagnostics,
) {
    let mut shapes: BTreeMap<String, &str> = BTreeMap::new();
    for (file, path) in files_and_paths {
        let shape = path_shape(path);
        if let Some(other) = shapes.get(&shape) {
            let expected = format!("a path that matches other URLs than the path in `{other}`");
            let title = format!("duplicate path {path:?}");
            diagnostics.add_titled(file, "/path", title, expected, format!("{path:?}"));
            continue;
        }
        shapes.insert(shape, file);
    }
}

/// Indexes routes that are sorted by path.
pub(super) fn build_index(routes: &[Route]) -> PathIndex {
    let mut tree = TreeBuilder { branches: vec![BranchBuilder::default()] };
    let patterns = routes.iter().zip(0..).filter(|(route, _)| route.is_pattern);
    patterns.for_each(|(route, at)| tree.add(&route.path, at));
    let literal = routes.iter().zip(0..).filter(|(route, _)| !route.is_pattern);
    let texts = literal.clone().map(|(route, at)| (at, route.path.as_bytes()));
    PathIndex { literals: hash_index::build(literal.clone().count(), texts), tree: tree.finish() }
}

/// Returns the path without the names of its parameters. Two paths with the same shape match the same URLs.
fn path_shape(path: &str) -> String {
    let segments = path.split('/').map(|s| if s.starts_with(':') { ":" } else { s });
    segments.collect::<Vec<_>>().join("/")
}

#[derive(Default)]
struct BranchBuilder {
    literals: BTreeMap<String, u32>,
    param: Option<u32>,
    rest: Option<u32>,
    route: Option<u32>,
}

/// A tree under construction. A branch is created after its parent, so indexes increase along every path.
struct TreeBuilder {
    branches: Vec<BranchBuilder>,
}

impl TreeBuilder {
    fn add(&mut self, path: &str, route_index: u32) {
        let mut at = 0;
        for segment in path[1..].split('/') {
            if segment == "*" {
                self.branches[at].rest = Some(route_index);
                return;
            }
            let made = self.branches.len() as u32;
            let onward = match segment.starts_with(':') {
                true => *self.branches[at].param.get_or_insert(made),
                false => *self.branches[at].literals.entry(segment.to_owned()).or_insert(made),
            };
            if onward == made {
                self.branches.push(BranchBuilder::default());
            }
            at = onward as usize;
        }
        self.branches[at].route = Some(route_index);
    }

    fn finish(self) -> Vec<Branch> {
        let finish = |growing: BranchBuilder| Branch {
            literals: growing.literals.into_iter().collect(),
            param: growing.param,
            rest: growing.rest,
            route: growing.route,
        };
        self.branches.into_iter().map(finish).collect()
    }
}
