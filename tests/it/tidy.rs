//! The house's own rules, held by tests: floors, fences, lengths, and where the unusual may stand.
//!
//! Each rule is a function from a text to complaints; it is run over every file, and over a text that
//! breaks it, so that a rule which sees nothing is found out. Texts are looked at without their
//! comments and literals, which may say anything.

mod fences;
mod floors;
mod lengths;
mod places;
mod text;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use parallax::problem;

/// A source file.
struct File {
    /// Relative to the repository.
    path: String,
    /// As written.
    text: String,
    /// Without comments and literals, line for line.
    code: String,
}

impl File {
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), code: text::code(text) }
    }

    /// The path under `src/`, or None.
    fn in_src(&self) -> Option<&str> {
        self.path.strip_prefix("src/")
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files under these folders of the repository.
fn files(folders: &[&str]) -> Vec<File> {
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    let mut files = Vec::new();
    while let Some(path) = open.pop() {
        // Where another package's build lies.
        if path.ends_with("target") {
            continue;
        }
        if path.is_dir() {
            open.extend(path.read_dir().expect("a folder").map(|entry| entry.expect("an entry").path()));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            let relative = path.strip_prefix(root()).expect("inside").to_string_lossy().into_owned();
            files.push(File::new(&relative, &text));
        }
    }
    assert!(!files.is_empty(), "no Rust files in {folders:?}");
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Runs a rule over every file.
fn hold(files: &[File], rule: impl Fn(&File) -> Vec<String>) {
    let complaints: Vec<String> = files.iter().flat_map(rule).collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

fn opens_with_docs(file: &File) -> Vec<String> {
    let opens = file.text.starts_with("//! ");
    let complaint = || {
        format!("{}: begin it with `//!` and what it is, what comes in and goes out, what holds", file.path)
    };
    if opens { Vec::new() } else { vec![complaint()] }
}

#[test]
fn every_file_opens_with_what_it_is() {
    hold(&files(&["src", "tests", "loadtest/src"]), opens_with_docs);
    assert_eq!(opens_with_docs(&File::new("src/x.rs", "use std::io;\n//! late\n")).len(), 1);
}

fn doubled<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut met = BTreeSet::new();
    words.filter(|word| !met.insert(*word)).collect()
}

#[test]
fn a_problem_s_code_and_title_stand_once_in_the_table() {
    assert_eq!(
        doubled(problem::ALL.iter().map(|kind| kind.code)),
        [""; 0],
        "give each problem a code of its own"
    );
    assert_eq!(
        doubled(problem::ALL.iter().map(|kind| kind.title)),
        [""; 0],
        "say what is particular to each"
    );
    assert_eq!(doubled(["a", "b", "a"].into_iter()), ["a"]);
    for kind in problem::ALL {
        assert!((400..600).contains(&kind.status), "{}: {} is no refusal", kind.code, kind.status);
        assert!(
            kind.code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
            "{}: not snake_case",
            kind.code
        );
    }
}
