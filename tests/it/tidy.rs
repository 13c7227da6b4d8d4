//! The rules of the source tree as tests: floors, cycles, crates, lengths, names, tuples, restricted words, language and texts.
//!
//! Each rule is a function from a file to its violations. A test runs it over every file, and over small
//! texts that break it, so that a rule that finds nothing is noticed. Rules about code see files without
//! comments and literals.

mod ci;
mod cycles;
mod exceptions;
mod fences;
mod floors;
mod language;
mod lengths;
mod names;
mod params;
mod paths;
mod places;
mod text;
mod texts;
mod tuples;

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use parallax::testing::problem;

/// A source file.
struct File {
    /// The path, relative to the repository.
    path: String,
    /// The text as written.
    text: String,
    /// The text without comments and literals. Every line keeps its number.
    code: String,
    in_src: Option<String>,
}

impl File {
    fn new(path: &str, text: &str) -> Self {
        let in_src = path.strip_prefix("src/").map(str::to_owned);
        Self { path: path.to_owned(), text: text.to_owned(), code: text::code(text), in_src }
    }

    /// Returns the path below `src/`, or `None` for a file elsewhere.
    fn in_src(&self) -> Option<&str> {
        self.in_src.as_deref()
    }
}

/// Returns the directory of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Reads all Rust files in these directories of the repository, in the order of their paths.
fn files(directories: &[&str]) -> Vec<File> {
    let mut open: Vec<PathBuf> = directories.iter().map(|directory| root().join(directory)).collect();
    let mut files = Vec::new();
    while let Some(path) = open.pop() {
        // The build directory of another package.
        if path.ends_with("target") {
            continue;
        }
        if path.is_dir() {
            open.extend(path.read_dir().expect("a directory").map(|entry| entry.expect("an entry").path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            let relative = path.strip_prefix(root()).expect("inside").to_string_lossy().into_owned();
            files.push(File::new(&relative, &text));
        }
    }
    assert!(!files.is_empty(), "no Rust files in {directories:?}");
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Checks a rule for every file.
fn assert_no_violations(files: &[File], rule: impl Fn(&File) -> Vec<String>) {
    let violations: Vec<String> = files.iter().flat_map(rule).collect();
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

/// Returns a message if the number of `found` differs from `limit`, which is the value of `constant`.
fn ratchet(constant: &str, name: &str, found: &[String], limit: usize, advice: &str) -> Option<String> {
    let count = found.len();
    let list = found.join("\n  ");
    match count.cmp(&limit) {
        Ordering::Greater => Some(format!("{count} {name}; the limit is {limit}. {advice}:\n  {list}")),
        Ordering::Less => Some(format!("{count} {name}; the limit is {limit}. Lower {constant} to {count}")),
        Ordering::Equal => None,
    }
}

/// Checks that a file begins with a module doc.
fn check_module_doc(file: &File) -> Vec<String> {
    let violation = || {
        format!(
            "{}: begin the file with a module doc (`//! `): name its subject with a noun or a verb in the third person, \
             then its input, output and invariants",
            file.path
        )
    };
    if file.text.starts_with("//! ") { Vec::new() } else { vec![violation()] }
}

#[test]
fn every_file_begins_with_a_module_doc() {
    assert_no_violations(&files(&["src", "tests", "loadtest/src", "loadtest/compare/src"]), check_module_doc);
    assert_eq!(check_module_doc(&File::new("src/x.rs", "use std::io;\n//! late\n")).len(), 1);
}

/// Returns the words that occur more than once.
fn duplicates<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    words.filter(|word| !seen.insert(*word)).collect()
}

#[test]
fn each_problem_has_a_code_and_a_title_of_its_own() {
    let codes = duplicates(problem::ALL.iter().map(|kind| kind.code));
    assert_eq!(codes, [""; 0], "give each problem a code of its own");
    let titles = duplicates(problem::ALL.iter().map(|kind| kind.title));
    assert_eq!(titles, [""; 0], "give each problem a title of its own that says what happened");
    assert_eq!(duplicates(["a", "b", "a"].into_iter()), ["a"]);
    for kind in problem::ALL {
        let (code, status) = (kind.code, kind.status);
        assert!((400..600).contains(&status), "{code}: {status} is not the status of an error");
        let is_snake_case = code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        assert!(is_snake_case, "{code}: write the code in snake_case");
    }
}
