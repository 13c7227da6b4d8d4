//! Route paths: which are allowed, and the two indices that find them.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::ROUTE_BYTES_MAX;
use crate::site::snapshot::format::{Branch, Route};
use crate::site::snapshot::hash_index;
use crate::site::source::diagnostics::{Mistake, Mistakes};

pub(super) fn is_pattern(path: &str) -> bool {
    path.split('/').any(|segment| param_name(segment).is_some())
}

/// The names of a pattern's parameters; `*` is that of the rest.
pub(super) fn param_names(path: &str) -> impl Iterator<Item = &str> {
    path[1..].split('/').filter_map(param_name)
}

/// The name of the parameter that a segment is.
pub(super) fn param_name(segment: &str) -> Option<&str> {
    segment.strip_prefix(':').or_else(|| (segment == "*").then_some(segment))
}

/// Sorts patterns as matching tries them: segment by segment, literals before parameters before the rest.
pub(super) fn precedence(path: &str) -> Vec<u8> {
    let kind = |segment: &str| match param_name(segment) {
        None => 0,
        Some("*") => 2,
        Some(_) => 1,
    };
    path[1..].split('/').map(kind).collect()
}

/// Reports what is wrong with a path; that it begins with `/` was checked in reading.
pub(super) fn check(file: &str, path: &str, mistakes: &mut Mistakes) {
    let mut wrong = |expected: String| {
        mistakes.add(Mistake::of_value(file, "/path", expected, format!("{path:?}")));
    };
    if path.len() > ROUTE_BYTES_MAX {
        wrong(format!("a path of at most {ROUTE_BYTES_MAX} bytes"));
    }
    if path.contains(['%', '?', '#']) {
        wrong("a path as it reads when decoded, without `%`, `?` and `#`".to_owned());
    }
    if path.contains("//") || path.len() > 1 && path.ends_with('/') {
        wrong("a path without empty segments, such as `/blog` for `/blog/`".to_owned());
    }
    let segments: Vec<&str> = path[1..].split('/').collect();
    let mut names = BTreeSet::new();
    for (i, segment) in segments.iter().enumerate() {
        if let Some(name) = segment.strip_prefix(':') {
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') {
                wrong("a name behind `:`, made of A-Z a-z 0-9 _ -".to_owned());
            } else if !names.insert(name) {
                wrong(format!("each parameter once; `:{name}` stands twice"));
            }
        } else if *segment == "*" && i + 1 < segments.len() {
            wrong("`*` as the last segment only".to_owned());
        }
    }
}

pub(super) struct Index {
    pub(super) literals: Vec<u32>,
    pub(super) tree: Vec<Branch>,
}

/// Reports authored paths of one shape, which match the same.
pub(super) fn check_shapes<'s>(authored: impl Iterator<Item = (&'s str, &'s str)>, mistakes: &mut Mistakes) {
    let mut shapes: BTreeMap<String, &str> = BTreeMap::new();
    for (file, path) in authored {
        let shape = shape(path);
        if let Some(other) = shapes.get(&shape) {
            let expected = format!("a path that no other route has; that of `{other}` matches the same");
            mistakes.add(Mistake::of_value(file, "/path", expected, format!("{path:?}")));
            continue;
        }
        shapes.insert(shape, file);
    }
}

/// Indexes routes that are sorted by path.
pub(super) fn index(routes: &[Route]) -> Index {
    let mut tree = Tree { branches: vec![Growing::default()] };
    let patterns = routes.iter().zip(0..).filter(|(route, _)| route.pattern);
    patterns.for_each(|(route, at)| tree.add(&route.path, at));
    let literal = routes.iter().zip(0..).filter(|(route, _)| !route.pattern);
    let texts = literal.clone().map(|(route, at)| (at, route.path.as_bytes()));
    Index { literals: hash_index::slots(literal.clone().count(), texts), tree: tree.finish() }
}

/// The path with its parameters' names left out: two of one shape match the same paths.
fn shape(path: &str) -> String {
    let segments = path.split('/').map(|s| if s.starts_with(':') { ":" } else { s });
    segments.collect::<Vec<_>>().join("/")
}

#[derive(Default)]
struct Growing {
    literals: BTreeMap<String, u32>,
    param: Option<u32>,
    rest: Option<u32>,
    route: Option<u32>,
}

/// A branch is always made after the one that leads to it, so indices grow along every path.
struct Tree {
    branches: Vec<Growing>,
}

impl Tree {
    fn add(&mut self, path: &str, route: u32) {
        let mut at = 0;
        for segment in path[1..].split('/') {
            if segment == "*" {
                self.branches[at].rest = Some(route);
                return;
            }
            let made = self.branches.len() as u32;
            let onward = match segment.starts_with(':') {
                true => *self.branches[at].param.get_or_insert(made),
                false => *self.branches[at].literals.entry(segment.to_owned()).or_insert(made),
            };
            if onward == made {
                self.branches.push(Growing::default());
            }
            at = onward as usize;
        }
        self.branches[at].route = Some(route);
    }

    fn finish(self) -> Vec<Branch> {
        let finish = |growing: Growing| Branch {
            literals: growing.literals.into_iter().collect(),
            param: growing.param,
            rest: growing.rest,
            route: growing.route,
        };
        self.branches.into_iter().map(finish).collect()
    }
}
