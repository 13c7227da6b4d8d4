//! The ratchets of tuples in `src/`: parameters that are tuples, and patterns that take apart a tuple which the same
//! statement builds. Both hide arguments and lines of code.
//!
//! A parameter counts if its type, after references, is a tuple, or if its pattern names the members of an array. A
//! pattern counts if it has two or more names and its value is a tuple expression, in `let` (also after `if` and
//! `while`), in `match`, where all arms count once, and in an assignment.

use std::collections::BTreeSet;

use super::exceptions::is_rewritten;
use super::params::{Param, closing, params, split, split_once_outside};
use super::text::{is_word, line, words};
use super::{File, files, ratchet};

/// Present number of parameters that are tuples. This constant may only fall.
const TUPLE_PARAMS: usize = 3;
/// Present number of patterns that take apart a tuple of the same statement. This constant may only fall.
const TUPLE_PATTERNS: usize = 30;

/// Returns whether a parameter is a tuple or an array of unlike members.
fn is_tuple(param: &Param<'_>) -> bool {
    let members = param.kind.strip_prefix('(').map(|_| &param.kind[1..closing(param.kind)]);
    let names = param.pattern.strip_prefix('[').map(|_| &param.pattern[1..closing(param.pattern)]);
    members.is_some_and(|members| !members.trim().is_empty())
        || names.is_some_and(|names| split(names, ',').len() > 1)
}

fn tuple_params(file: &File) -> Vec<String> {
    let params = params(&file.code).into_iter().filter(is_tuple);
    params
        .map(|param| format!("{}:{}: {}: {}", file.path, param.line, param.function, param.pattern))
        .collect()
}

/// Returns the names that a pattern binds, or those of a part if it is an alternative.
fn names(pattern: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    let mut rest = pattern;
    while let Some(start) = rest.find(is_word) {
        let before = rest[..start].trim_end();
        let word = &rest[start..];
        let end = word.find(|c| !is_word(c)).unwrap_or(word.len());
        let after = word[end..].trim_start();
        let name = &word[..end];
        // A path, a variant with members, a macro, and the name of a field before its pattern.
        let is_other =
            before.ends_with("::") || before.ends_with('.') || after.starts_with(['(', '{', '!', ':']);
        let is_name = name.starts_with(|c: char| c == '_' || c.is_ascii_lowercase());
        if is_name && !is_other && !["_", "ref", "mut", "true", "false"].contains(&name) {
            names.insert(name);
        }
        rest = &word[end..];
    }
    names
}

/// Returns the length of the tuple that `text` begins with, or `None` if it begins with something else.
fn tuple(text: &str) -> Option<usize> {
    let end = text.starts_with('(').then(|| closing(text))?;
    let members = split(&text[1..end], ',').len();
    let after = text[end + 1..].trim_start();
    // A method, a field or an operator after it makes another value of it.
    let is_whole = after.is_empty()
        || after.starts_with([';', '{', ',', '}'])
        || after.starts_with("else")
        || after.starts_with("&&");
    (members > 1 && is_whole).then_some(end + 1)
}

/// Returns whether `text`, which follows a `let`, has two or more names for the tuple after them.
fn is_let_of_tuple(text: &str) -> bool {
    let Some((pattern, value)) = text.split_once(" = ") else { return false };
    let pattern = split_once_outside(pattern, ':').map_or(pattern, |parts| parts.0);
    !pattern.contains(';') && names(pattern).len() > 1 && tuple(value.trim_start()).is_some()
}

/// Returns whether `text`, which follows a `match`, has an arm with two or more names for the tuple at its beginning.
fn is_match_of_tuple(text: &str) -> bool {
    let text = text.trim_start();
    let body = tuple(text).map(|end| text[end..].trim_start()).filter(|body| body.starts_with('{'));
    body.is_some_and(|body| has_arm_with_names(&body[1..closing(body)]))
}

/// Returns whether the parenthesis at an offset begins an assignment of a tuple.
fn is_assignment_of_tuple(code: &str, at: usize) -> bool {
    let before = code[..at].trim_end();
    let target = &code[at..];
    let value = target[closing(target) + 1..].strip_prefix(" = ");
    (before.ends_with([';', '{', '}']) || before.ends_with("=>"))
        && value.is_some_and(|value| tuple(value).is_some())
}

/// Returns whether an arm of the body of a `match` has two or more names.
fn has_arm_with_names(body: &str) -> bool {
    let mut rest = body.trim_start();
    while let Some((pattern, after)) = rest.split_once("=>") {
        let pattern = pattern.split_once(" if ").map_or(pattern, |parts| parts.0);
        if names(pattern).len() > 1 {
            return true;
        }
        let after = after.trim_start();
        rest = if after.starts_with('{') {
            after[closing(after) + 1..].trim_start_matches(|c: char| c == ',' || c.is_whitespace())
        } else {
            split_first(after)
        };
    }
    false
}

/// Returns the text after the first comma outside of brackets.
fn split_first(text: &str) -> &str {
    let first = split(text, ',').first().map_or(0, |first| first.len());
    text[first..].trim_start_matches(|c: char| c == ',' || c.is_whitespace())
}

fn tuple_patterns(file: &File) -> Vec<String> {
    let code = &*file.code;
    let lets = words(code, "let").filter(|at| is_let_of_tuple(&code[at + "let".len()..]));
    let matches = words(code, "match").filter(|at| is_match_of_tuple(&code[at + "match".len()..]));
    let parentheses = code.match_indices('(').map(|(at, _)| at);
    let assignments = parentheses.filter(|at| is_assignment_of_tuple(code, *at));
    let lines = lets.chain(matches).chain(assignments).map(|at| line(code, at));
    let shown = |line: usize| file.text.lines().nth(line - 1).unwrap_or_default().trim();
    lines.map(|line| format!("{}:{line}: {}", file.path, shown(line))).collect()
}

/// Returns the files that the ratchets count.
fn counted_files() -> Vec<File> {
    files(&["src"]).into_iter().filter(|file| !is_rewritten(&file.path)).collect()
}

#[test]
fn tuples_that_hide_arguments_only_get_fewer() {
    let files = counted_files();
    let params: Vec<String> = files.iter().flat_map(tuple_params).collect();
    let patterns: Vec<String> = files.iter().flat_map(tuple_patterns).collect();
    let advice = "Name the members in a struct, or pass them one by one";
    let violations = [
        ratchet("TUPLE_PARAMS", "parameters that are tuples", &params, TUPLE_PARAMS, advice),
        ratchet(
            "TUPLE_PATTERNS",
            "patterns against a tuple that the same statement builds",
            &patterns,
            TUPLE_PATTERNS,
            "Write one statement for each name",
        ),
    ];
    let violations: Vec<String> = violations.into_iter().flatten().collect();
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

#[test]
fn a_tuple_parameter_is_found() {
    let count = |text: &str| tuple_params(&File::new("src/x.rs", text)).len();
    assert_eq!(count("fn f(&self, (a, b): (u8, u16)) {}"), 1);
    assert_eq!(count("fn f<'a>(a: &'a mut (u8, B<C, D>), e: u8, g: &&(u8, u8))"), 2);
    assert_eq!(count("fn f([first, last]: [u64; 2])"), 1);
    assert_eq!(count("fn f(a: &[(u8, u8)], b: Option<(u8, u8)>, c: (), d: fn(u8, u8) -> (u8, u8))"), 0);
    assert_eq!(count("fn f(a: [u8; 16], [b]: [u8; 1]) { g(|(c, d): (u8, u8)| c) }"), 0);
    assert_eq!(count("// fn f(a: (u8, u8))"), 0);
}

#[test]
fn a_pattern_against_a_tuple_of_its_statement_is_found() {
    let count = |text: &str| tuple_patterns(&File::new("src/x.rs", text)).len();
    for text in [
        "let (a, mut b) = (1, f(2, 3));",
        "let (a, b): (u8, A<B, C>) = (1, d);",
        "let (a,\n b) = (\n  c,\n d,\n);",
        "let (Some(a), B { c, .. }) = (d, e) else { return };",
        "if let (Some(a), Ok(b)) = (c, d) { e }",
        "while x && let (a, b) = (c, d) && e {}",
        "match (a, b) { (Some(c), Some(d)) => e, _ => f }",
        "match (a, b) { (A, B) => { f((c, d)) } (c, d) if c < d => g, }",
        "match (&a, b) { (A::B { c: d }, e) => f }",
        "let a; (b, c) = (d, e);",
        "match a { B => (self.b, c) = (d, e), }",
    ] {
        assert_eq!(count(text), 1, "{text}");
    }
    for text in [
        "let (a, b) = f(c, d);",
        "let (a, b) = (c, d).e();",
        "let (a, _) = (b, c);",
        "let a = (b, c); let d = (e)?;",
        "let (a, b) = if c { (d, e) } else { (f, g) };",
        "for (a, b) in [(c, d)] {}",
        "match (a, b) { (Some(c), None) => d(e, f), (None, Some(g)) => h, (A, f::B) => i }",
        "match a { (b, c) => (d, e) }",
        "f(|(a, b)| (b, a))",
        "let f = |a| (a, b); // let (c, d) = (e, f);",
    ] {
        assert_eq!(count(text), 0, "{text}");
    }
}
