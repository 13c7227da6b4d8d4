//! Checks that `unsafe`, threads, the clock and randomness are used only in the files that wrap them.

use super::exceptions::{Item, is_exception};
use super::text::{line, words};
use super::{File, assert_no_violations, files};

/// A word, and the only files of `src/` that may use it.
struct Rule {
    word: &'static str,
    places: &'static [&'static str],
    instead: &'static str,
}

const RULES: &[Rule] = &[
    Rule { word: "thread::Builder", places: &[], instead: "call `threads::spawn`" },
    Rule { word: "thread::spawn", places: &[], instead: "call `threads::spawn`, because this one panics" },
    Rule {
        word: "scope.spawn",
        places: &[],
        instead: "call `threads::spawn_scoped`, because this one panics",
    },
    Rule {
        word: "SystemTime",
        places: &["src/clock.rs"],
        instead: "take the time from `clock`, or as a parameter",
    },
    Rule { word: "Instant::now", places: &["src/clock.rs"], instead: "call `clock::instant`" },
    Rule { word: "elapsed", places: &[], instead: "subtract from `clock::instant()`" },
    Rule { word: "Timestamp::now", places: &[], instead: "take the time from `clock`, or as a parameter" },
    Rule { word: "Zoned::now", places: &[], instead: "take the time from `clock`, or as a parameter" },
    Rule { word: "getrandom", places: &["src/ids/random.rs"], instead: "call `ids::random_u64`" },
    Rule { word: "RandomState", places: &[], instead: "call `ids::random_u64`" },
    Rule { word: "thread_rng", places: &[], instead: "call `ids::random_u64`" },
];

impl Rule {
    fn check_file(&self, file: &File) -> Vec<String> {
        let stray = words(&file.code, self.word).filter(|_| !self.places.contains(&&*file.path));
        let violation =
            |at| format!("{}:{}: `{}`: {}", file.path, line(&file.code, at), self.word, self.instead);
        stray.map(violation).collect()
    }
}

fn check_words(file: &File) -> Vec<String> {
    RULES.iter().flat_map(|rule| rule.check_file(file)).collect()
}

/// Checks that `unsafe` is only in the files of the list of exceptions.
fn check_unsafe(file: &File) -> Vec<String> {
    let stray = words(&file.code, "unsafe").filter(|_| !is_exception(&file.path, &Item::Unsafe));
    let instead = "use a safe interface, or add the file and the reason in `exceptions.rs`";
    stray.map(|at| format!("{}:{}: `unsafe`: {instead}", file.path, line(&file.code, at))).collect()
}

/// Checks that a SAFETY comment is directly above each statement with `unsafe`.
fn check_safety_comments(file: &File) -> Vec<String> {
    let lines: Vec<&str> = file.text.lines().collect();
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let bare = words(&file.code, "unsafe").map(|at| line(&file.code, at)).filter(|line| {
        let above = lines[..line - 1].iter().rev().take_while(|line| is_comment(line));
        !above.into_iter().any(|line| line.trim_start().starts_with("// SAFETY: "))
    });
    bare.map(|line| {
        format!("{}:{line}: write `// SAFETY: ` and the facts that make it sound directly above", file.path)
    })
    .collect()
}

#[test]
fn unsafe_threads_the_clock_and_randomness_are_in_their_files() {
    assert_no_violations(&files(&["src"]), check_words);
    assert_no_violations(&files(&["src", "loadtest/src", "loadtest/compare/src"]), check_unsafe);
    assert_no_violations(
        &files(&["src", "tests", "loadtest/src", "loadtest/compare/src"]),
        check_safety_comments,
    );
}

#[test]
fn a_stray_word_is_found() {
    let count = |path: &str, text: &str| check_words(&File::new(path, text)).len();
    for rule in RULES {
        assert_eq!(
            count("src/resolve/x.rs", &format!("fn f() {{ a::{}(); }}", rule.word)),
            1,
            "{}",
            rule.word
        );
        assert_eq!(count("src/resolve/x.rs", &format!("// {}\nlet a = \"{0}\";", rule.word)), 0);
    }
    assert_eq!(count("src/clock.rs", "SystemTime::now(); Instant::now()"), 0);
    let without_safety = |path| check_unsafe(&File::new(path, "unsafe { a() }")).len();
    assert_eq!(without_safety("loadtest/src/floor.rs"), 0);
    assert_eq!(without_safety("loadtest/src/main.rs"), 1);
    assert_eq!(check_unsafe(&File::new("src/x.rs", "// unsafe\nlet a = \"unsafe\";")).len(), 0);
    let bare = |text: &str| check_safety_comments(&File::new("src/x.rs", text)).len();
    assert_eq!(bare("// SAFETY: because\n// of this\nlet a = unsafe { b };"), 0);
    assert_eq!(bare("// SAFETY: because\n\nlet a = unsafe { b };"), 1);
    assert_eq!(bare("// it is safe\nlet a = unsafe { b };"), 1);
}
