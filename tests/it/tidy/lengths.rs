//! Checks the lengths of files and functions.

use super::exceptions::{Item, is_exception};
use super::text::{line, words};
use super::{File, assert_no_violations, files};

/// Most lines of a file. A longer file has more than one subject.
const FILE_LINES_MAX: usize = 500;
/// Most lines of a function, its signature included. Its parts deserve names of their own.
const FUNCTION_LINES_MAX: usize = 70;

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

pub(super) fn is_long_file(file: &File) -> bool {
    file.text.lines().count() > FILE_LINES_MAX
}

pub(super) fn has_long_function(file: &File, function: &str) -> bool {
    functions(&file.code).iter().any(|(name, _, lines)| *name == function && *lines > FUNCTION_LINES_MAX)
}

fn check_file(file: &File) -> Vec<String> {
    let mut violations = Vec::new();
    if is_long_file(file) && !is_exception(&file.path, &Item::File) {
        violations.push(format!(
            "{}: {} lines; the limit is {FILE_LINES_MAX}. Split the file into parts with one subject each, or add it \
             and the reason in `exceptions.rs`",
            file.path,
            file.text.lines().count()
        ));
    }
    for (name, first, lines) in functions(&file.code) {
        if lines > FUNCTION_LINES_MAX && !is_exception(&file.path, &Item::Function(name)) {
            violations.push(format!(
                "{}:{first}: `{name}` has {lines} lines; the limit is {FUNCTION_LINES_MAX}. Move parts of it into \
                 functions whose names are verbs, or add it and the reason in `exceptions.rs`",
                file.path,
            ));
        }
    }
    violations
}

#[test]
fn files_and_functions_are_short() {
    assert_no_violations(&files(&["src", "tests", "loadtest/src", "loadtest/compare/src"]), check_file);
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
