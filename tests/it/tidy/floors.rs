//! A module names only modules on lower floors. The floors are those of the comments in `src/lib.rs`.

use std::collections::BTreeMap;

use super::text::{is_word, line, words};
use super::{File, files, hold};

/// Floors by the name of a module at the top.
type Floors = BTreeMap<String, u32>;

/// Reads `// Floor 3: ...` and the `pub mod` lines under it.
fn floors(lib: &str) -> Floors {
    let (mut floor, mut floors) = (None, Floors::new());
    for line in lib.lines() {
        if let Some(rest) = line.strip_prefix("// Floor ") {
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next().expect("a part");
            floor = Some(digits.parse().expect("a number behind `// Floor`"));
        }
        let name = line.trim_start_matches("pub ").strip_prefix("mod ").and_then(|l| l.strip_suffix(';'));
        if let Some(name) = name {
            floors.insert(name.to_owned(), floor.expect("a floor above the first module"));
        }
    }
    floors
}

/// The module at the top that a file of `src/` belongs to.
fn module(path: &str) -> &str {
    path.split('/').next().unwrap_or(path).trim_end_matches(".rs")
}

/// The modules at the top that `code` names by `crate::`, with where.
fn named(code: &str) -> Vec<(usize, &str)> {
    let mut named = Vec::new();
    for at in words(code, "crate") {
        let Some(path) = code[at + "crate".len()..].strip_prefix("::") else { continue };
        let list = path.strip_prefix('{').and_then(|l| Some(&l[..closing(l)?]));
        match list {
            Some(list) => named.extend(members(list).map(|name| (at, name))),
            None => named.push((at, first_word(path))),
        }
    }
    named
}

fn first_word(text: &str) -> &str {
    let text = text.trim_start();
    &text[..text.find(|c| !is_word(c)).unwrap_or(text.len())]
}

/// Where the brace that was opened before `text` closes.
fn closing(text: &str) -> Option<usize> {
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

/// The first words of a list's members, those of inner lists left out.
fn members(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let ends = list.char_indices().filter(move |(_, c)| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        *c == ',' && depth == 0
    });
    let begins = std::iter::once(0).chain(ends.map(|(at, _)| at + 1));
    begins.map(|at| first_word(&list[at..])).filter(|name| !name.is_empty())
}

/// How many `super` it takes from a file of `src/` to the top.
fn depth(path: &str) -> usize {
    path.matches('/').count() + usize::from(!path.ends_with("/mod.rs"))
}

fn rule(file: &File, floors: &Floors) -> Vec<String> {
    let Some(path) = file.in_src().filter(|path| !["main.rs", "lib.rs"].contains(path)) else {
        return Vec::new();
    };
    let own = module(path);
    let Some(floor) = floors.get(own) else {
        return vec![format!("{}: give `{own}` a floor in src/lib.rs", file.path)];
    };
    let too_high = |name: &str| floors.get(name).is_none_or(|other| other >= floor) && name != own;
    let climbs = named(&file.code).into_iter().filter(|(_, name)| too_high(name)).map(|(at, name)| {
        let line = line(&file.code, at);
        format!(
            "{}:{line}: `{own}` (floor {floor}) names `{name}`: move what both need to a lower floor, or \
             have it handed in from above",
            file.path,
        )
    });
    let to_the_top = "super::".repeat(depth(path));
    let escapes = file.code.match_indices(&to_the_top).map(|(at, _)| {
        let line = line(&file.code, at);
        format!(
            "{}:{line}: `{to_the_top}` leaves the module: say `crate::`, so that its floor shows",
            file.path
        )
    });
    climbs.chain(escapes).collect()
}

#[test]
fn a_module_names_only_modules_on_lower_floors() {
    let lib = include_str!("../../../src/lib.rs");
    let floors = floors(lib);
    let declared = lib.lines().filter(|line| line.starts_with("pub mod ") || line.starts_with("mod "));
    assert_eq!(floors.len(), declared.count(), "every module at the top has one floor");
    hold(&files(&["src"]), |file| rule(file, &floors));
}

#[test]
fn climbing_is_found_however_it_is_written() {
    let floors = floors("// Floor 2: top\npub mod high;\npub mod beside;\n// Floor 1\npub mod low;\n");
    let complaints = |path: &str, text: &str| rule(&File::new(path, text), &floors).len();
    assert_eq!(complaints("src/high/a.rs", "use crate::low::X; use crate::high::Y; use std::io;"), 0);
    assert_eq!(complaints("src/low.rs", "use crate::high::X;"), 1);
    assert_eq!(complaints("src/low.rs", "fn f() { crate::high::g(); }"), 1);
    assert_eq!(complaints("src/high/a.rs", "use crate::beside;"), 1);
    assert_eq!(complaints("src/low.rs", "use crate::{low::{a, high}, beside::{c, d}, high};"), 2);
    assert_eq!(complaints("src/low.rs", "// crate::high\nconst X: &str = \"crate::high\";"), 0);
    assert_eq!(complaints("src/high/mod.rs", "use super::low;"), 1);
    assert_eq!(complaints("src/high/a.rs", "use super::b; use super::super::low;"), 1);
    assert_eq!(complaints("src/high/a/b.rs", "use super::super::c;"), 0);
    assert_eq!(complaints("src/stray.rs", ""), 1);
}
