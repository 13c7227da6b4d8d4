//! Checks that `unsafe`, threads, the clock and randomness are used only in the files that wrap them.

use super::text::{line, words};
use super::{File, assert_no_violations, files};

/// Files of the load generator that may use `unsafe`, for system calls.
const UNSAFE_IN_LOADTEST: &[&str] =
    &["loadtest/src/buffers.rs", "loadtest/src/floor.rs", "loadtest/src/load/ring.rs"];

/// A word, and the only files of `src/` that may use it.
struct Rule {
    word: &'static str,
    places: &'static [&'static str],
    instead: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        word: "unsafe",
        places: &[
            "src/allocator.rs",
            "src/server/memory.rs",
            "src/site/snapshot/open.rs",
            "src/visitors/store/memory.rs",
            "src/visitors/store/table.rs",
        ],
        instead: "use a safe interface instead",
    },
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
    Rule { word: "getrandom", places: &["src/ids.rs"], instead: "call `ids::random`" },
    Rule { word: "RandomState", places: &[], instead: "call `ids::random`" },
    Rule { word: "thread_rng", places: &[], instead: "call `ids::random`" },
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

/// Checks a file of the load generator, for which only the rule about `unsafe` applies.
fn check_loadtest_file(file: &File) -> Vec<String> {
    let rule = Rule { word: "unsafe", places: UNSAFE_IN_LOADTEST, instead: "use a safe interface instead" };
    rule.check_file(file)
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
    assert_no_violations(&files(&["loadtest/src", "loadtest/compare/src"]), check_loadtest_file);
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
    let in_loadtest = |path| check_loadtest_file(&File::new(path, "unsafe { a() }")).len();
    assert_eq!((in_loadtest("loadtest/src/floor.rs"), in_loadtest("loadtest/src/main.rs")), (0, 1));
    let bare = |text: &str| check_safety_comments(&File::new("src/x.rs", text)).len();
    assert_eq!(bare("// SAFETY: because\n// of this\nlet a = unsafe { b };"), 0);
    assert_eq!(bare("// SAFETY: because\n\nlet a = unsafe { b };"), 1);
    assert_eq!(bare("// it is safe\nlet a = unsafe { b };"), 1);
}
