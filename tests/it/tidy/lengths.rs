//! Checks the lengths of files and functions.

use super::text::{line, words};
use super::{File, assert_no_violations, files};

/// Most lines of a file. A longer file has more than one subject.
const FILE_LINES_MAX: usize = 500;
/// Most lines of a function, its signature included. Its parts deserve names of their own.
const FUNCTION_LINES_MAX: usize = 70;

/// Exceptions: path, function ("" for the file) and reason.
const LONGER: &[(&str, &str, &str)] = &[
    ("src/server/mod.rs", "start", "the numbered steps of a start, in their order"),
    ("src/server/event_log/node.rs", "start", "the numbered steps of the start of a node, in their order"),
];

/// Returns the functions that have a body: name, first line, number of lines.
fn functions(code: &str) -> Vec<(&str, usize, usize)> {
    let mut functions = Vec::new();
    for at in words(code, "fn") {
        // A type such as `fn(&str)` has no name.
        let Some(after) = code[at + "fn".len()..].strip_prefix(' ') else { continue };
        let name = &after[..after.find(|c| !super::text::is_word(c)).unwrap_or(0)];
        let Some(open) = after.find(['{', ';']) else { continue };
        // A declaration in a trait has no body.
        if after[open..].starts_with('{') {
            let (first, last) = (line(code, at), line(code, at + "fn ".len() + open + body(&after[open..])));
            functions.push((name, first, last - first + 1));
        }
    }
    functions
}

/// Returns the offset of the brace that closes the block at the beginning of `text`.
fn body(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return at,
            '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns whether a function (or, with the name "", a file) is an exception.
fn may_be_longer(path: &str, function: &str) -> bool {
    LONGER.iter().any(|(p, f, _)| (*p, *f) == (path, function))
}

fn check_file(file: &File) -> Vec<String> {
    let mut violations = Vec::new();
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX && !may_be_longer(&file.path, "") {
        violations.push(format!(
            "{}: {lines} lines; the limit is {FILE_LINES_MAX}. Split the file: each part gets one subject",
            file.path
        ));
    }
    for (name, first, lines) in functions(&file.code) {
        if lines > FUNCTION_LINES_MAX && !may_be_longer(&file.path, name) {
            violations.push(format!(
                "{}:{first}: `{name}` has {lines} lines; the limit is {FUNCTION_LINES_MAX}. Move parts of it into \
                 functions whose names are verbs",
                file.path,
            ));
        }
    }
    violations
}

#[test]
fn files_and_functions_are_short() {
    let files = files(&["src", "tests", "loadtest/src", "loadtest/compare/src"]);
    assert_no_violations(&files, check_file);
    for (path, function, reason) in LONGER {
        assert!(!reason.is_empty(), "{path} {function}: give the reason");
        let file = files.iter().find(|file| file.path == *path).expect("an existing file");
        let lines = functions(&file.code).into_iter().find(|(name, ..)| name == function);
        let is_long = lines.map_or(file.text.lines().count() > FILE_LINES_MAX, |f| f.2 > FUNCTION_LINES_MAX);
        assert!(is_long, "{path} {function} is short now; delete its entry");
    }
}

#[test]
fn one_line_over_the_limit_is_found() {
    let file = |lines: usize| check_file(&File::new("src/x.rs", &"\n".repeat(lines))).len();
    assert_eq!((file(FILE_LINES_MAX), file(FILE_LINES_MAX + 1)), (0, 1));
    let function = |lines: usize| {
        let text = format!(
            "trait T {{ fn a(&self); }}\nfn b(f: fn(u8)) {{{}{{}} }}\nfn c() {{}}",
            "\n".repeat(lines - 1)
        );
        check_file(&File::new("src/x.rs", &text)).len()
    };
    assert_eq!((function(FUNCTION_LINES_MAX), function(FUNCTION_LINES_MAX + 1)), (0, 1));
}
