//! Extracts the paths of this crate that a source file names, each resolved to its full path from the crate root.
//!
//! `crate::`, `super::` and `self::` begin such a path, and so does the name of a child module that the file declares.
//! Lists in `use` are expanded. Paths of visibilities such as `pub(in crate::a)` do not count: they name a parent.

use super::text::{is_word, words};

/// A path in a source file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NamedPath {
    /// Byte offset in the code.
    pub(super) at: usize,
    /// The full path, without `crate`: modules, then perhaps an item.
    pub(super) target: Vec<String>,
    /// True if `super` leads to the crate root.
    pub(super) leaves_by_super: bool,
}

/// Returns the path of the module that a file under `src/` contains.
pub(super) fn module_path(path: &str) -> Vec<String> {
    let path = path.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.split('/').filter(|part| !["lib", "main"].contains(part)).map(str::to_owned).collect()
}

/// Returns all paths of this crate that a file under `src/` names.
pub(super) fn named_paths(path: &str, code: &str) -> Vec<NamedPath> {
    let context = Context { module: module_path(path), code, children: children(code) };
    let mut written = Vec::new();
    let mut uses = Vec::new();
    for at in words(code, "use") {
        let Some(tree) = code[at + "use".len()..].strip_prefix(' ') else { continue };
        let end = at + "use ".len() + tree.find(';').unwrap_or(tree.len());
        parse_tree(&mut code[at + "use ".len()..end].trim(), &[], &mut |segments| {
            written.push((at, segments))
        });
        uses.push(at..end);
    }
    let starts = ["crate", "super", "self"].into_iter().chain(context.children.iter().copied());
    for start in starts {
        for at in words(code, start) {
            let before = &code[..at];
            let is_start = !before.ends_with("::") && !before.ends_with('.') && !before.ends_with("(in ");
            if is_start && code[at + start.len()..].starts_with("::") && !uses.iter().any(|r| r.contains(&at))
            {
                written.push((at, segments(&code[at..])));
            }
        }
    }
    let mut paths: Vec<NamedPath> =
        written.into_iter().filter_map(|(at, segments)| context.resolve(at, &segments)).collect();
    paths.sort_by_key(|path| path.at);
    paths
}

/// Returns the child modules that a file declares without a body.
fn children(code: &str) -> Vec<&str> {
    let names = words(code, "mod").map(|at| &code[at + "mod".len()..]);
    let declared = names.filter_map(|rest| Some(rest.split_once(';')?.0.trim()));
    declared.filter(|name| !name.is_empty() && name.chars().all(is_word)).collect()
}

/// Returns the segments of the path that `text` begins with.
fn segments(text: &str) -> Vec<String> {
    let end = text.find(|c| !is_word(c) && c != ':').unwrap_or(text.len());
    text[..end].split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Parses one tree of a `use` item from the front of `text`, and passes each of its paths to `emit`.
fn parse_tree(text: &mut &str, prefix: &[String], emit: &mut dyn FnMut(Vec<String>)) {
    *text = text.trim_start().trim_start_matches("::").trim_start();
    if let Some(list) = text.strip_prefix('{') {
        *text = list;
        loop {
            *text = text.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            if let Some(after) = text.strip_prefix('}') {
                *text = after;
                return;
            }
            if text.is_empty() {
                return;
            }
            parse_tree(text, prefix, emit);
        }
    }
    let end = text.find(|c| !is_word(c) && c != '*' && c != '#').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let mut path = prefix.to_vec();
    // `a::{self}` and `a::*` name `a`.
    let is_prefix_itself = name == "*" || name == "self" && !prefix.is_empty();
    if !name.is_empty() && !is_prefix_itself {
        path.push(name.to_owned());
    }
    *text = rest;
    if rest.trim_start().starts_with("::") {
        return parse_tree(text, &path, emit);
    }
    // An `as` and the new name, up to the next member.
    *text = &text[text.find([',', '}']).unwrap_or(text.len())..];
    emit(path);
}

/// A file, for resolving its paths.
struct Context<'c> {
    module: Vec<String>,
    code: &'c str,
    children: Vec<&'c str>,
}

impl Context<'_> {
    /// Returns the full path, or `None` if the path is not one of this crate.
    fn resolve(&self, at: usize, segments: &[String]) -> Option<NamedPath> {
        let (first, rest) = segments.split_first()?;
        let mut rest = rest;
        let mut leaves_by_super = false;
        let mut target = match first.as_str() {
            "crate" => Vec::new(),
            "self" => self.module_at(at),
            "super" => {
                let mut base = self.module_at(at);
                base.pop();
                base
            }
            child if self.children.contains(&child) => [self.module.clone(), vec![child.to_owned()]].concat(),
            _ => return None,
        };
        while rest.first().is_some_and(|segment| segment == "super") {
            target.pop();
            rest = &rest[1..];
        }
        if (first == "super" || first == "self") && target.is_empty() {
            leaves_by_super = true;
        }
        target.extend_from_slice(rest);
        Some(NamedPath { at, target, leaves_by_super })
    }

    /// Returns the path of the module at this place, modules with a body in this file included.
    fn module_at(&self, at: usize) -> Vec<String> {
        let mut module = self.module.clone();
        for begin in words(&self.code[..at], "mod") {
            let Some((name, _)) = self.code[begin + "mod".len()..at].split_once('{') else { continue };
            let body = begin + "mod".len() + name.len() + 1;
            let is_open = closing_brace(&self.code[body..]).is_none_or(|end| at < body + end);
            if name.trim().chars().all(is_word) && is_open {
                module.push(name.trim().to_owned());
            }
        }
        module
    }
}

/// Returns the offset of the brace that closes the block before `text`.
fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.char_indices().find_map(|(at, c)| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

#[test]
fn paths_are_resolved_however_they_are_written() {
    let targets = |path: &str, code: &str| -> Vec<String> {
        named_paths(path, code).iter().map(|path| path.target.join("::")).collect()
    };
    assert_eq!(targets("a/b.rs", "use crate::c::D; fn f() { crate::e::f::<u8>(); }"), ["c::D", "e::f"]);
    assert_eq!(
        targets("a.rs", "use crate::{a::{b, c::*}, d::{self, E as F}, g};"),
        ["a::b", "a::c", "d", "d::E", "g"]
    );
    assert_eq!(targets("a.rs", "pub(crate) use crate::\n    {b::c,\n d::e,\n};"), ["b::c", "d::e"]);
    assert_eq!(targets("a.rs", "use {crate::b, std::io}; use ::std::fmt; use std::{fmt, io};"), ["b"]);
    assert_eq!(targets("a/b.rs", "use super::c::D; let x = super::super::e::f();"), ["a::c::D", "e::f"]);
    assert_eq!(targets("a/mod.rs", "use super::c; use self::d::E;"), ["c", "a::d::E"]);
    assert_eq!(targets("a/b.rs", "use super::{c, super::d::E};"), ["a::c", "d::E"]);
    assert_eq!(
        targets("a/mod.rs", "mod b;\npub use b::C;\nfn f() { b::d(); x.b::<u8>(); e::b::g(); }"),
        ["a::b::C", "a::b::d"]
    );
    assert_eq!(targets("a/c.rs", "use b::C; b::d();"), [""; 0], "`b` is not a module of this file");
    assert_eq!(
        targets("a/b.rs", "mod t { use super::*; mod u { use super::super::X; } }\nuse super::c;"),
        ["a::b", "a::b::X", "a::c"]
    );
    assert_eq!(
        targets("a.rs", "pub(in crate::b) struct C; pub(super) fn d() {} fn e() -> impl T + use<'a> {}"),
        [""; 0]
    );
    let leaves = |path, code| named_paths(path, code).iter().any(|path| path.leaves_by_super);
    assert!(leaves("a/b.rs", "use super::super::c;") && !leaves("a/b.rs", "use super::c;"));
    assert!(leaves("a/b.rs", "use super::{super::c};") && !leaves("a/b/c.rs", "use super::super::d;"));
    assert_eq!(module_path("a/b/mod.rs"), ["a", "b"]);
    assert_eq!(module_path("lib.rs"), [""; 0]);
}
