//! Checks that a module names only modules on lower floors. The floors are in comments of `src/lib.rs`.
//!
//! A heading `// Floor 3` or `// Floor 3: some text.` gives the floor of the `mod` lines below it. A line
//! with a path and nothing else, such as `// Floor 2: visitors::log`, gives a directory or file inside a
//! module a floor of its own, and does not change the floor of the lines below it. A file belongs to the
//! longest module path that matches, and so does each path that it names.

use std::collections::BTreeMap;

use super::paths::{module_path, named_paths};
use super::text::{is_word, line};
use super::{File, assert_no_violations, files};

/// Floors by the path of a module.
type Floors = BTreeMap<Vec<String>, u32>;

/// Returns the name in a line that declares a module.
fn declared(line: &str) -> Option<&str> {
    let line = ["pub ", "pub(crate) "].iter().find_map(|prefix| line.strip_prefix(prefix)).unwrap_or(line);
    line.strip_prefix("mod ")?.strip_suffix(';')
}

/// Reads the comments and the `mod` lines of `src/lib.rs`.
fn floors(lib: &str) -> Floors {
    let (mut heading, mut floors) = (None, Floors::new());
    for line in lib.lines() {
        if let Some(rest) = line.strip_prefix("// Floor ") {
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next().expect("split has a first part");
            let floor: u32 = digits.parse().expect("a number after `// Floor`");
            let text = rest[digits.len()..].trim_start_matches(": ");
            if text.contains("::") {
                assert!(
                    text.split("::").all(|part| !part.is_empty() && part.chars().all(is_word)),
                    "src/lib.rs: `{line}`: give each nested module a line of its own, such as `// Floor 2: a::b`"
                );
                floors.insert(text.split("::").map(str::to_owned).collect(), floor);
            } else {
                heading = Some(floor);
            }
        } else if let Some(name) = declared(line) {
            floors.insert(vec![name.to_owned()], heading.expect("a floor above the first module"));
        }
    }
    floors
}

/// Returns the longest module path in `floors` that `path` begins with, and its floor.
fn longest_match<'p>(floors: &Floors, path: &'p [String]) -> Option<(&'p [String], u32)> {
    let prefixes = (1..=path.len()).rev().map(|length| &path[..length]);
    prefixes.into_iter().find_map(|prefix| Some((prefix, *floors.get(prefix)?)))
}

fn check_file(file: &File, floors: &Floors) -> Vec<String> {
    let Some(path) = file.in_src().filter(|path| !["main.rs", "lib.rs"].contains(path)) else {
        return Vec::new();
    };
    let own_path = module_path(path);
    let Some((own, floor)) = longest_match(floors, &own_path) else {
        return vec![format!(
            "{}: `{}` has no floor; give it one in src/lib.rs",
            file.path,
            own_path.join("::")
        )];
    };
    let mut violations = Vec::new();
    for named in named_paths(path, &file.code) {
        let place = format!("{}:{}", file.path, line(&file.code, named.at));
        let other = longest_match(floors, &named.target);
        let is_allowed = other.is_some_and(|(module, other)| module == own || other < floor);
        if named.leaves_by_super {
            violations.push(format!("{place}: `super` leads to the crate root; write `crate::` instead"));
        } else if !is_allowed {
            let (own, target) = (own.join("::"), named.target.join("::"));
            let on = other.map_or("no floor".to_owned(), |(_, other)| format!("floor {other}"));
            violations.push(format!(
                "{place}: `{own}` (floor {floor}) names `{target}` ({on}); move the shared part to a lower floor, or \
                 pass it in as a parameter"
            ));
        }
    }
    violations
}

/// Checks that each nested module with a floor exists and is below its parent.
fn check_nested(floors: &Floors, files: &[File]) -> Vec<String> {
    let modules: Vec<Vec<String>> = files.iter().filter_map(File::in_src).map(module_path).collect();
    let check = |(path, floor): (&Vec<String>, &u32)| {
        let name = path.join("::");
        let parent = floors.get(&path[..1]);
        if !modules.iter().any(|module| module.starts_with(path)) {
            return Some(format!("src/lib.rs: `{name}` has a floor but does not exist; delete its line"));
        }
        let is_lower = parent.is_some_and(|parent| floor < parent);
        (path.len() > 1 && !is_lower)
            .then(|| format!("src/lib.rs: `{name}` is not below `{}`; delete its line", path[0]))
    };
    floors.iter().filter_map(check).collect()
}

#[test]
fn a_module_names_only_modules_on_lower_floors() {
    let lib = include_str!("../../../src/lib.rs");
    let floors = floors(lib);
    let declared = lib.lines().filter(|line| declared(line).is_some()).count();
    let at_top = floors.keys().filter(|path| path.len() == 1).count();
    assert_eq!(at_top, declared, "src/lib.rs: declare each module once");
    let files = files(&["src"]);
    assert_no_violations(&files, |file| check_file(file, &floors));
    let nested = check_nested(&floors, &files);
    assert!(nested.is_empty(), "\n{}", nested.join("\n"));
}

#[test]
fn a_path_to_a_higher_floor_is_found_however_it_is_written() {
    let floors = floors("// Floor 2: top\npub mod high;\npub(crate) mod beside;\n// Floor 1\nmod low;\n");
    let count = |path: &str, text: &str| check_file(&File::new(path, text), &floors).len();
    assert_eq!(count("src/high/a.rs", "use crate::low::X; use crate::high::Y; use std::io;"), 0);
    assert_eq!(count("src/low.rs", "use crate::high::X;"), 1);
    assert_eq!(count("src/low.rs", "fn f() { crate::high::g(); }"), 1);
    assert_eq!(count("src/high/a.rs", "use crate::beside;"), 1);
    assert_eq!(count("src/low.rs", "use crate::{low::{a, high}, beside::{c, d}, high};"), 3);
    assert_eq!(count("src/low.rs", "// crate::high\nconst X: &str = \"crate::high\";"), 0);
    assert_eq!(count("src/high/mod.rs", "use super::low;"), 1);
    assert_eq!(count("src/high/a.rs", "use super::b; use super::super::low;"), 1);
    assert_eq!(count("src/high/a/b.rs", "use super::super::c;"), 0);
    assert_eq!(count("src/high/a.rs", "use crate::macro_at_the_root;"), 1);
    assert_eq!(count("src/stray.rs", ""), 1);
}

#[test]
fn a_nested_module_has_the_floor_of_its_own_line() {
    let lib = "// Floor 4: top\n// Floor 2: high::log\n// Floor 3: high::deep::er\npub mod high;\n// Floor 3\nmod mid;\n// Floor 2\nmod low;\n";
    let floors = floors(lib);
    let count = |path: &str, text: &str| check_file(&File::new(path, text), &floors).len();
    assert_eq!(count("src/mid.rs", "use crate::high::log::queue::Queue;"), 0);
    assert_eq!(count("src/mid.rs", "use crate::high::{log, live};"), 1);
    assert_eq!(count("src/mid.rs", "use crate::high::logs;"), 1, "a longer name is another module");
    assert_eq!(count("src/low.rs", "use crate::high::log;"), 1, "the same floor");
    assert_eq!(count("src/high/log/a.rs", "use crate::high::log::b; use super::c;"), 0);
    assert_eq!(count("src/high/log/a.rs", "use super::super::live::X;"), 1);
    assert_eq!(count("src/high/log.rs", "use super::live::X;"), 1);
    assert_eq!(count("src/high/log/mod.rs", "use crate::high;"), 1);
    assert_eq!(count("src/high/live.rs", "use super::log::X; use super::deep::er::Y; use super::store;"), 0);
    assert_eq!(count("src/high/deep/er.rs", "use super::x; use crate::high::log;"), 1);
    let nested = |paths: &[&str]| {
        let files: Vec<File> = paths.iter().map(|path| File::new(path, "")).collect();
        check_nested(&floors, &files).len()
    };
    let at_top = ["src/high/mod.rs", "src/mid.rs", "src/low.rs"];
    assert_eq!(nested(&[&at_top[..], &["src/high/log/mod.rs", "src/high/deep/er/a.rs"]].concat()), 0);
    assert_eq!(nested(&[&at_top[..], &["src/high/logs.rs"]].concat()), 2);
    let inverted = self::floors("// Floor 1\n// Floor 1: a::b\nmod a;\n");
    assert_eq!(check_nested(&inverted, &[File::new("src/a/b.rs", "")]).len(), 1);
}

#[test]
#[should_panic(expected = "a line of its own")]
fn a_line_with_two_nested_modules_is_refused() {
    floors("// Floor 2: a::b, a::c\nmod a;\n");
}
