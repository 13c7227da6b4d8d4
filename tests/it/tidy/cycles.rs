//! Checks that the directories of `site/` and of `visitors/`, and the files of `api/`, do not use each other
//! in a cycle.
//!
//! The files directly in `site/` count as one directory, and so do those in `visitors/`. The latter are above
//! the others: no directory of `visitors/` uses them. A directory inside `api/` counts as one file. Every
//! path counts, in whichever form it is written. A name that `mod.rs` imports or exports from a part counts
//! as a use of that part.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::paths::{module_path, named_paths};
use super::text::line;
use super::{File, files};

/// A directory of `src/` whose parts may use each other without a cycle.
struct Group {
    /// Its module.
    module: &'static str,
    /// True if each file directly in it is a part of its own. Otherwise these files are one part together.
    is_by_file: bool,
    /// True if the files directly in it are above its directories.
    is_top_above: bool,
}

const GROUPS: &[Group] = &[
    Group { module: "site", is_by_file: false, is_top_above: false },
    Group { module: "visitors", is_by_file: false, is_top_above: true },
    Group { module: "api", is_by_file: true, is_top_above: false },
];

/// Pairs of parts of which the first uses the second, each with one place.
type Uses = BTreeMap<(String, String), String>;

impl Group {
    /// Returns the names of the modules in it that are parts of their own.
    fn parts(&self, files: &[File]) -> BTreeSet<String> {
        let inside = files.iter().filter_map(File::in_src);
        let inside = inside.filter_map(|path| path.strip_prefix(self.module)?.strip_prefix('/'));
        let part = |path: &str| match path.split_once('/') {
            Some((directory, _)) => Some(directory.to_owned()),
            None => {
                Some(path.trim_end_matches(".rs").to_owned()).filter(|name| self.is_by_file && name != "mod")
            }
        };
        inside.filter_map(part).collect()
    }

    /// Returns the part that a path belongs to, or `None` if it is outside of the group.
    fn part(&self, path: &[String], parts: &BTreeSet<String>) -> Option<String> {
        let (_, inner) = path.split_first().filter(|(first, _)| *first == self.module)?;
        let part = inner.first().filter(|name| parts.contains(*name));
        Some(part.map_or(self.module.to_owned(), |part| format!("{}::{part}", self.module)))
    }

    /// Returns the parts of the names that `mod.rs` imports from them.
    fn exports(&self, files: &[File], parts: &BTreeSet<String>) -> BTreeMap<String, String> {
        let path = format!("{}/mod.rs", self.module);
        let file = files.iter().find(|file| file.in_src() == Some(&path));
        let named = file.map(|file| named_paths(&path, &file.code)).unwrap_or_default();
        let export = |target: &[String]| {
            let part = self.part(target, parts).filter(|part| part != self.module)?;
            Some((target.last()?.clone(), part))
        };
        named.iter().filter_map(|named| export(&named.target)).collect()
    }

    fn uses(&self, files: &[File]) -> Uses {
        let parts = self.parts(files);
        let exports = self.exports(files, &parts);
        let mut uses = Uses::new();
        for file in files {
            let Some(path) = file.in_src() else { continue };
            let Some(own) = self.part(&module_path(path), &parts) else { continue };
            for named in named_paths(path, &file.code) {
                let place = || format!("{}:{}", file.path, line(&file.code, named.at));
                let part = self.part(&named.target, &parts).map(|part| match named.target.get(1) {
                    Some(name) if part == self.module => exports.get(name).cloned().unwrap_or(part),
                    _ => part,
                });
                match part {
                    Some(other) if other != own => {
                        uses.entry((own.clone(), other)).or_insert_with(place);
                    }
                    _ => {}
                }
            }
        }
        uses
    }

    fn violations(&self, files: &[File]) -> Vec<String> {
        let uses = self.uses(files);
        let mut violations = Vec::new();
        for ((from, to), place) in uses.iter().filter(|_| self.is_top_above) {
            if to == self.module {
                violations.push(format!(
                    "{place}: `{from}` uses a file directly in `{to}`, which is above it; move the shared part down"
                ));
            }
        }
        if let Some(cycle) = shortest_cycle(&uses) {
            let steps: Vec<String> = cycle
                .iter()
                .map(|(from, to)| format!("  `{from}` uses `{to}` in {}", uses[&(from.clone(), to.clone())]))
                .collect();
            violations.push(format!(
                "src/{}: a cycle; move the shared part to the lower one, or to a part of its own:\n{}",
                self.module,
                steps.join("\n")
            ));
        }
        violations
    }
}

/// Returns the steps of a shortest cycle.
fn shortest_cycle(uses: &Uses) -> Option<Vec<(String, String)>> {
    let starts: BTreeSet<&String> = uses.keys().map(|(from, _)| from).collect();
    let cycles = starts.into_iter().filter_map(|start| {
        let mut previous: BTreeMap<&String, &String> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(part) = queue.pop_front() {
            for (_, to) in uses.keys().filter(|(from, _)| from == part) {
                if !previous.contains_key(to) {
                    previous.insert(to, part);
                    queue.push_back(to);
                }
            }
        }
        let mut steps = vec![(previous.get(start)?.to_string(), start.clone())];
        while steps[0].0 != *start {
            let step = (previous[&steps[0].0].clone(), steps[0].0.clone());
            steps.insert(0, step);
        }
        Some(steps)
    });
    cycles.min_by_key(Vec::len)
}

#[test]
fn directories_and_files_do_not_use_each_other_in_a_cycle() {
    let files = files(&["src"]);
    let violations: Vec<String> = GROUPS.iter().flat_map(|group| group.violations(&files)).collect();
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
    for group in GROUPS {
        assert!(!group.uses(&files).is_empty(), "src/{} has no parts that use each other", group.module);
    }
}

fn count(module: &str, sources: &[(&str, &str)]) -> usize {
    let files: Vec<File> = sources.iter().map(|(path, text)| File::new(path, text)).collect();
    GROUPS.iter().find(|group| group.module == module).expect("a group").violations(&files).len()
}

#[test]
fn a_cycle_of_directories_is_found_however_it_is_written() {
    let (a, b, c) = ("src/site/a/x.rs", "src/site/b/mod.rs", "src/site/c/y/z.rs");
    assert_eq!(
        count("site", &[(a, "use crate::site::b::B;"), (b, ""), (c, "use super::super::super::a;")]),
        0
    );
    assert_eq!(count("site", &[(a, "use crate::site::b::B;"), (b, "use super::a::x::A;")]), 1);
    assert_eq!(count("site", &[(a, "use super::super::b;"), (b, "fn f() { crate::site::a::x::g(); }")]), 1);
    let long =
        [(a, "use crate::site::{b::B};"), (b, "use super::{c::y};"), (c, "use super::super::super::a;")];
    assert_eq!(count("site", &long), 1);
    assert_eq!(count("site", &[(a, "// crate::site::b"), (b, "use super::a;")]), 0);
    assert_eq!(count("site", &[(a, "use crate::site::a::y; use super::z; use crate::api::b;")]), 0);
    let top = ("src/site/mod.rs", "mod a;\npub use a::x::A;");
    assert_eq!(count("site", &[top, (a, "use crate::site::b::B;"), (b, "")]), 0);
    assert_eq!(count("site", &[top, (a, "use crate::site::b::B;"), (b, "use super::A;")]), 1);
    assert_eq!(count("site", &[top, (a, "use crate::site::A;")]), 0, "its own name");
    let glob = ("src/site/mod.rs", "mod a;\npub use a::x::*;");
    assert_eq!(count("site", &[glob, (a, ""), (b, "use super::A;")]), 0);
    assert_eq!(count("site", &[glob, (a, "use crate::site::A;")]), 1, "a name of `mod.rs` itself");
    assert_eq!(count("site", &[("src/site/fields.rs", ""), (a, "use crate::site::fields::F;")]), 0);
}

#[test]
fn files_directly_in_visitors_are_above_its_directories() {
    let (live, store) = ("src/visitors/live.rs", "src/visitors/store/table.rs");
    assert_eq!(count("visitors", &[(live, "use super::store::table::T; use super::apply;"), (store, "")]), 0);
    assert_eq!(count("visitors", &[(live, ""), (store, "use crate::visitors::live::L;")]), 1);
    assert_eq!(count("visitors", &[(live, ""), (store, "use super::super::live::L;")]), 1);
}

#[test]
fn a_cycle_of_files_in_api_is_found() {
    let (a, b, c) = ("src/api/a.rs", "src/api/b.rs", "src/api/c/d.rs");
    assert_eq!(count("api", &[(a, "use super::b::B;"), (b, "use super::c::d::D;"), (c, "")]), 0);
    assert_eq!(count("api", &[(a, "use super::b::B;"), (b, "use super::{a};")]), 1);
    assert_eq!(count("api", &[(a, "use super::c::D;"), (c, "use super::super::a::A;")]), 1);
    let top = ("src/api/mod.rs", "mod a;\nmod b;\npub use a::A;");
    assert_eq!(count("api", &[top, (a, "use super::b::B;"), (b, "use super::A;")]), 1, "by `mod.rs`");
    assert_eq!(count("api", &[top, (a, ""), (b, "use crate::api::A;")]), 0);
}
