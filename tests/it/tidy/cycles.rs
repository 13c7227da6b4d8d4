//! Checks that the parts of a module do not use each other in a cycle.
//!
//! The parts of a group are the directories in its module, or the files and directories in it. The files directly in
//! a module whose directories are the parts count as one part together. Every path counts, in whichever form it is
//! written. A name that `mod.rs` imports or exports from a part counts as a use of that part.
//!
//! Two kinds of circles are allowed: that of a parent with its children, where each file is a part (`mod.rs` lists the
//! files, and has types that several of them use), and those of two files that are one subject, which [`Group::joined`]
//! lists.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::paths::{module_path, named_paths};
use super::text::line;
use super::{File, files};

/// A directory of `src/` whose parts may use each other without a cycle.
struct Group {
    /// Its module.
    module: &'static str,
    /// The parts: the directories, or the files and directories.
    parts: Parts,
    /// Files that count as a part of another file: the file, the other file, and the reason.
    joined: &'static [(&'static str, &'static str, &'static str)],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    /// Each directory. The files directly in the module are one part together.
    Directories,
    /// Each directory. The files directly in the module are above them.
    DirectoriesBelowFiles,
    /// Each file and each directory. `mod.rs` is the parent of all, and may use and be used by each.
    Files,
}

const GROUPS: &[Group] = &[
    Group { module: "site", parts: Parts::Directories, joined: &[] },
    Group { module: "insights", parts: Parts::Directories, joined: &[] },
    Group { module: "visitors", parts: Parts::DirectoriesBelowFiles, joined: &[] },
    Group { module: "admin", parts: Parts::Files, joined: &[] },
    Group { module: "api", parts: Parts::Files, joined: &[] },
    Group { module: "cli", parts: Parts::Files, joined: &[] },
    Group { module: "distribute", parts: Parts::Files, joined: &[] },
    Group { module: "events", parts: Parts::Files, joined: &[] },
    Group {
        module: "log",
        parts: Parts::Files,
        joined: &[(
            "batch",
            "format",
            "one format in two files: the layout of a segment, and of its batches",
        )],
    },
    Group { module: "insights::columns", parts: Parts::Files, joined: &[] },
    Group { module: "insights::questions", parts: Parts::Files, joined: &[] },
    Group { module: "insights::experiment", parts: Parts::Files, joined: &[] },
    Group { module: "insights::journeys", parts: Parts::Files, joined: &[] },
    Group { module: "insights::zones", parts: Parts::Files, joined: &[] },
    Group { module: "site::compile", parts: Parts::Files, joined: &[] },
    Group { module: "record", parts: Parts::Files, joined: &[] },
    Group { module: "visitors::checkpoint", parts: Parts::Files, joined: &[] },
];

/// Pairs of parts of which the first uses the second, each with one place.
type Uses = BTreeMap<(String, String), String>;

impl Group {
    /// Returns the directory of its module, below `src/`.
    fn directory(&self) -> String {
        self.module.replace("::", "/")
    }

    /// Returns the names of the modules in it that are parts of their own.
    fn parts(&self, files: &[File]) -> BTreeSet<String> {
        let directory = self.directory();
        let inside = files.iter().filter_map(File::in_src);
        let inside = inside.filter_map(|path| path.strip_prefix(&*directory)?.strip_prefix('/'));
        let part = |path: &str| match path.split_once('/') {
            Some((directory, _)) => Some(directory.to_owned()),
            None => {
                let name = path.trim_end_matches(".rs");
                (self.parts == Parts::Files && name != "mod").then(|| name.to_owned())
            }
        };
        inside.filter_map(part).collect()
    }

    /// Returns the part that a path belongs to, or `None` if it is outside of the group.
    fn part(&self, path: &[String], parts: &BTreeSet<String>) -> Option<String> {
        let module: Vec<&str> = self.module.split("::").collect();
        let is_inside = path.len() >= module.len() && path.iter().zip(&module).all(|(a, b)| a == b);
        let inner = path.get(module.len()..).filter(|_| is_inside)?;
        let Some(part) = inner.first().filter(|name| parts.contains(*name)) else {
            return Some(self.module.to_owned());
        };
        let joined = self.joined.iter().find(|(file, ..)| file == part);
        Some(format!("{}::{}", self.module, joined.map_or(part.as_str(), |(_, other, _)| other)))
    }

    /// Returns the parts of the names that `mod.rs` imports from them.
    fn exports(&self, files: &[File], parts: &BTreeSet<String>) -> BTreeMap<String, String> {
        let path = format!("{}/mod.rs", self.directory());
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
                let depth = self.module.split("::").count();
                let part = self.part(&named.target, &parts).map(|part| match named.target.get(depth) {
                    Some(name) if part == self.module => exports.get(name).cloned().unwrap_or(part),
                    _ => part,
                });
                let is_family =
                    |other: &str| self.parts == Parts::Files && [own.as_str(), other].contains(&self.module);
                if let Some(other) = part.filter(|other| *other != own && !is_family(other)) {
                    uses.entry((own.clone(), other)).or_insert_with(place);
                }
            }
        }
        uses
    }

    fn violations(&self, files: &[File]) -> Vec<String> {
        let uses = self.uses(files);
        let mut violations = Vec::new();
        for ((from, to), place) in &uses {
            if self.parts == Parts::DirectoriesBelowFiles && to == self.module {
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
                "{}: a cycle; move the shared part to the lower one, or to a part of its own:\n{}",
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
        assert!(!group.uses(&files).is_empty(), "{} has no parts that use each other", group.module);
        for (file, other, reason) in group.joined {
            assert!(!reason.is_empty(), "{} {file}: give the reason", group.module);
            let alone = Group { joined: &[], ..*group };
            let uses = alone.uses(&files);
            let part = |name| format!("{}::{name}", group.module);
            let is_circle = uses.contains_key(&(part(file), part(other)))
                && uses.contains_key(&(part(other), part(file)));
            assert!(
                is_circle,
                "{}: `{file}` and `{other}` are no circle now; delete the entry",
                group.module
            );
        }
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

#[test]
fn a_parent_and_its_files_may_use_each_other_and_joined_files_are_one_part() {
    let (batch, format, scan) = ("src/log/batch.rs", "src/log/format.rs", "src/log/scan.rs");
    let top =
        ("src/log/mod.rs", "mod batch;\nmod format;\nmod scan;\npub struct Options;\npub use batch::Batch;");
    assert_eq!(count("log", &[top, (batch, "use super::Options;"), (format, ""), (scan, "")]), 0);
    assert_eq!(count("log", &[top, (batch, "use super::format::X;"), (format, "use super::Batch;")]), 0);
    let three = [(batch, "use super::format::X;"), (format, "use super::scan;"), (scan, "use super::Batch;")];
    assert_eq!(count("log", &[&[top][..], &three].concat()), 1, "`scan` and the joined files");
    let (a, b) = ("src/visitors/checkpoint/a.rs", "src/visitors/checkpoint/b.rs");
    let circle = [(a, "use crate::visitors::checkpoint::b;"), (b, "use super::a;")];
    assert_eq!(count("visitors::checkpoint", &circle), 1);
    assert_eq!(count("visitors", &circle), 0);
}
