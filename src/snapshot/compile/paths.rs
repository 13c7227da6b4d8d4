//! Route paths: which are allowed, and the two indices that find them.

use std::collections::{BTreeMap, BTreeSet};

use super::Drafted;
use crate::checksum;
use crate::limits::ROUTE_BYTES_MAX;
use crate::snapshot::format::{Branch, Route};
use crate::snapshot::mistake::{Mistake, Mistakes};

pub(super) fn is_pattern(path: &str) -> bool {
    path.split('/').any(|segment| segment.starts_with(':') || segment == "*")
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

/// Indexes routes that are sorted by path; two of one shape are a mistake.
pub(super) fn index(routes: &[Drafted<'_>], mistakes: &mut Mistakes) -> Index {
    let mut shapes: BTreeMap<String, &str> = BTreeMap::new();
    let mut tree = Tree { branches: vec![Growing::default()] };
    for (i, drafted) in routes.iter().enumerate() {
        let shape = shape(&drafted.route.path);
        if let Some(other) = shapes.get(&shape) {
            let expected = format!("a path that no other route has; that of `{other}` matches the same");
            let came = format!("{:?}", drafted.route.path);
            mistakes.add(Mistake::of_value(drafted.file, "/path", expected, came));
            continue;
        }
        shapes.insert(shape, drafted.file);
        if drafted.route.pattern {
            tree.add(&drafted.route.path, i as u32);
        }
    }
    Index { literals: literals(routes.iter().map(|d| &d.route)), tree: tree.finish() }
}

/// The path with its parameters' names left out: two of one shape match the same paths.
fn shape(path: &str) -> String {
    let segments = path.split('/').map(|s| if s.starts_with(':') { ":" } else { s });
    segments.collect::<Vec<_>>().join("/")
}

fn literals<'r>(routes: impl Iterator<Item = &'r Route> + Clone) -> Vec<u32> {
    let literal = routes.enumerate().filter(|(_, route)| !route.pattern);
    let count = literal.clone().count();
    let mut slots = vec![0; (2 * count).next_power_of_two().max(2)];
    for (i, route) in literal {
        let mask = slots.len() - 1;
        let mut slot = checksum::table(route.path.as_bytes()) as usize & mask;
        while slots[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        slots[slot] = i as u32 + 1;
    }
    slots
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
