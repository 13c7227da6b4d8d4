//! Files and functions stay short enough to be read in one go.

use super::text::{line, words};
use super::{File, files, hold};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;

/// What may be longer, and why. The list only ever gets shorter.
const LONGER: &[(&str, &str, &str)] = &[];

/// The functions of a text that have a body: name, first line, number of lines.
fn functions(code: &str) -> Vec<(&str, usize, usize)> {
    let mut functions = Vec::new();
    for at in words(code, "fn") {
        // A type such as `fn(&str)` has no name.
        let Some(behind) = code[at + "fn".len()..].strip_prefix(' ') else { continue };
        let name = &behind[..behind.find(|c| !super::text::is_word(c)).unwrap_or(0)];
        let Some(open) = behind.find(['{', ';']) else { continue };
        // A declaration in a trait has no body.
        if behind[open..].starts_with('{') {
            let (first, last) = (line(code, at), line(code, at + "fn ".len() + open + body(&behind[open..])));
            functions.push((name, first, last - first + 1));
        }
    }
    functions
}

/// Bytes of the block that `text` begins with.
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

/// Whether a function (or, with the name "", a file) is on the list.
fn may_be_longer(path: &str, function: &str) -> bool {
    LONGER.iter().any(|(p, f, _)| (*p, *f) == (path, function))
}

fn rule(file: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX && !may_be_longer(&file.path, "") {
        complaints
            .push(format!("{}: {lines} lines, at most {FILE_LINES_MAX}: it is about two things", file.path));
    }
    for (name, first, lines) in functions(&file.code) {
        if lines > FUNCTION_LINES_MAX && !may_be_longer(&file.path, name) {
            complaints.push(format!(
                "{}:{first}: `{name}` has {lines} lines, at most {FUNCTION_LINES_MAX}: give its parts names",
                file.path,
            ));
        }
    }
    complaints
}

#[test]
fn files_and_functions_are_short() {
    let files = files(&["src", "tests", "loadtest/src"]);
    hold(&files, rule);
    for (path, function, reason) in LONGER {
        assert!(!reason.is_empty(), "{path} {function}: why may it be longer?");
        let file = files.iter().find(|file| file.path == *path).expect("a file that is there");
        let lines = functions(&file.code).into_iter().find(|(name, ..)| name == function);
        let still = lines.map_or(file.text.lines().count() > FILE_LINES_MAX, |f| f.2 > FUNCTION_LINES_MAX);
        assert!(still, "{path} {function} has become short: take it off the list");
    }
}

#[test]
fn a_long_one_is_found_and_one_at_the_bound_is_not() {
    let file = |lines: usize| rule(&File::new("src/x.rs", &"\n".repeat(lines))).len();
    assert_eq!((file(FILE_LINES_MAX), file(FILE_LINES_MAX + 1)), (0, 1));
    let function = |lines: usize| {
        let text = format!(
            "trait T {{ fn a(&self); }}\nfn b(f: fn(u8)) {{{}{{}} }}\nfn c() {{}}",
            "\n".repeat(lines - 1)
        );
        rule(&File::new("src/x.rs", &text)).len()
    };
    assert_eq!((function(FUNCTION_LINES_MAX), function(FUNCTION_LINES_MAX + 1)), (0, 1));
}
