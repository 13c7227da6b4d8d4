//! What may stand in one place only: `unsafe`, the clock, randomness.

use super::text::{line, words};
use super::{File, files, hold};

/// Files of the harness that may say `unsafe`, for system calls of its own.
const UNSAFE_IN_HARNESS: &[&str] =
    &["loadtest/src/buffers.rs", "loadtest/src/floor.rs", "loadtest/src/load/ring.rs"];

/// A word, and the only files of `src/` that may say it.
struct Rule {
    word: &'static str,
    places: &'static [&'static str],
    instead: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        word: "unsafe",
        places: &["src/site/snapshot/open.rs", "src/visitors/store/table.rs"],
        instead: "find a safe way; there is one",
    },
    Rule { word: "SystemTime", places: &["src/clock.rs"], instead: "ask `clock`" },
    Rule { word: "Instant::now", places: &["src/clock.rs"], instead: "ask `clock::instant`" },
    Rule { word: "elapsed", places: &[], instead: "subtract from `clock::instant()`" },
    Rule { word: "Timestamp::now", places: &[], instead: "ask `clock`" },
    Rule { word: "Zoned::now", places: &[], instead: "ask `clock`" },
    Rule { word: "getrandom", places: &["src/ids.rs"], instead: "ask `ids::random`" },
    Rule { word: "RandomState", places: &[], instead: "ask `ids::random`" },
    Rule { word: "thread_rng", places: &[], instead: "ask `ids::random`" },
];

impl Rule {
    fn broken(&self, file: &File) -> Vec<String> {
        let stray = words(&file.code, self.word).filter(|_| !self.places.contains(&&*file.path));
        let complaint =
            |at| format!("{}:{}: `{}`: {}", file.path, line(&file.code, at), self.word, self.instead);
        stray.map(complaint).collect()
    }
}

fn rule(file: &File) -> Vec<String> {
    RULES.iter().flat_map(|rule| rule.broken(file)).collect()
}

/// The harness is outside the server: of the words above only this one is told to it.
fn is_safe_elsewhere(file: &File) -> Vec<String> {
    let rule = Rule { word: "unsafe", places: UNSAFE_IN_HARNESS, instead: "find a safe way; there is one" };
    rule.broken(file)
}

/// Every `unsafe` has a comment right above its statement that says what makes it sound.
fn is_sound_because(file: &File) -> Vec<String> {
    let lines: Vec<&str> = file.text.lines().collect();
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let bare = words(&file.code, "unsafe").map(|at| line(&file.code, at)).filter(|line| {
        let above = lines[..line - 1].iter().rev().take_while(|line| is_comment(line));
        !above.into_iter().any(|line| line.trim_start().starts_with("// SAFETY: "))
    });
    bare.map(|line| format!("{}:{line}: put `// SAFETY: ` and the facts above it", file.path)).collect()
}

#[test]
fn unsafe_the_clock_and_randomness_stand_in_one_place() {
    hold(&files(&["src"]), rule);
    hold(&files(&["loadtest/src"]), is_safe_elsewhere);
    hold(&files(&["src", "tests", "loadtest/src"]), is_sound_because);
}

#[test]
fn a_stray_word_is_found() {
    let complaints = |path: &str, text: &str| rule(&File::new(path, text)).len();
    for rule in RULES {
        assert_eq!(
            complaints("src/edge/x.rs", &format!("fn f() {{ a::{}(); }}", rule.word)),
            1,
            "{}",
            rule.word
        );
        assert_eq!(complaints("src/edge/x.rs", &format!("// {}\nlet a = \"{0}\";", rule.word)), 0);
    }
    assert_eq!(complaints("src/clock.rs", "SystemTime::now(); Instant::now()"), 0);
    let in_harness = |path| is_safe_elsewhere(&File::new(path, "unsafe { a() }")).len();
    assert_eq!((in_harness("loadtest/src/floor.rs"), in_harness("loadtest/src/main.rs")), (0, 1));
    let bare = |text: &str| is_sound_because(&File::new("src/x.rs", text)).len();
    assert_eq!(bare("// SAFETY: because\n// of this\nlet a = unsafe { b };"), 0);
    assert_eq!(bare("// SAFETY: because\n\nlet a = unsafe { b };"), 1);
    assert_eq!(bare("// it is safe\nlet a = unsafe { b };"), 1);
}
