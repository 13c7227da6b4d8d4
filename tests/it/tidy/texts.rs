//! Compares all texts for users with `tests/golden/texts.txt`, so that a reviewer reads them in one sitting.
//!
//! A literal of `src/` is such a text if one of these holds:
//!
//! * It is an argument of a known call and has a letter outside of braces: a log macro, `#[error(...)]`, a call that
//!   creates a `Problem` or a `Refusal`, a metric, or a macro that prints.
//! * A variable or constant that it is bound to is named `sentence`, `expected`, `text`, `detail` or `title`.
//! * It has two words with a space between them, wherever it is. So a text that is bound to another variable, returned by
//!   a function or passed through several calls is found without knowing the way that it takes.
//!
//! A line of a header (it ends with `\r\n`) is no such text, nor is an argument of `#[serde(...)]` or
//! `#[schemars(...)]`, nor a literal of `src/cli/`, `src/config.rs` or `src/config/` that the command-line
//! help repeats. The name, type and help text of a metric are one line, also if a method names the type. The help of
//! the commands is the output of `--help`. A line of the file is `file: kind: text`, in the order of the sources. Run
//! the test with `PARALLAX_BLESS=1` to write the file again.

use std::collections::BTreeSet;
use std::process::Command;

use super::text::{Literal, is_word, split};
use super::{File, files, root};

const GOLDEN_PATH: &str = "tests/golden/texts.txt";

/// Kinds of literals that no known call contains, by the beginning of the path.
const KINDS_BY_PATH: &[(&str, &str)] = &[
    ("src/admin/metrics.rs", "metric"),
    ("src/admin/metrics/", "metric"),
    ("src/condition/", "diagnostic"),
    ("src/site/compile/", "diagnostic"),
    ("src/site/source/", "diagnostic"),
    ("src/problem.rs", "title"),
];

/// Methods that write a metric of the type that they name.
const METRIC_TYPES: [&str; 2] = ["counter", "gauge"];

/// Variables and constants whose literals are texts, even of one word.
const TEXT_NAMES: &[&str] = &["sentence", "expected", "text", "detail", "title"];

/// An open bracket in code.
struct Frame<'c> {
    /// The function, macro or attribute before it, or "".
    callee: &'c str,
    is_attribute: bool,
    /// Offset of its first argument.
    begin: usize,
}

impl<'c> Frame<'c> {
    fn new(code: &'c str, bracket_at: usize) -> Self {
        let before = code[..bracket_at].trim_end();
        let begin = before.rfind(|c| !is_word(c) && c != ':' && c != '!').map_or(0, |at| at + 1);
        let callee = before[begin..].trim_matches(':');
        // Before a brace only a macro is a call.
        let is_call = !code[bracket_at..].starts_with('{') || callee.ends_with('!');
        Self {
            callee: if is_call { callee } else { "" },
            is_attribute: before[..begin].ends_with("#["),
            begin: bracket_at + 1,
        }
    }

    /// Returns the kind of the literals in this call, or `None` if the call is not a known one.
    fn kind(&self) -> Option<&'static str> {
        let name = self.callee.rsplit("::").next().unwrap_or_default();
        match name {
            "error" if self.is_attribute => Some("error"),
            "error!" => Some("log error"),
            "warn!" => Some("log warn"),
            "info!" => Some("log info"),
            "debug!" | "trace!" => Some("log debug"),
            "begin_family" => Some("metric"),
            _ if METRIC_TYPES.contains(&name) => Some("metric"),
            "malformed" => Some("problem"),
            "print_line" | "print!" | "println!" | "eprint!" | "eprintln!" | "write!" | "writeln!" => {
                Some("output")
            }
            "expect" | "panic!" | "unreachable!" | "assert!" | "assert_eq!" | "debug_assert!"
            | "debug_assert_eq!" => Some("panic"),
            _ if name.starts_with("refuse") => Some("problem"),
            _ if ["Problem::", "Refusal::", "Detail::"].iter().any(|t| self.callee.contains(t)) => {
                Some("problem")
            }
            _ => None,
        }
    }

    /// Returns whether a literal in this bracket is an argument of the call around it.
    fn is_transparent(&self) -> bool {
        !self.is_attribute && ["", "format!", "Some"].contains(&self.callee)
    }
}

/// Returns the brackets that are open at each literal, outermost first.
fn with_frames<'c>(code: &'c str, literals: &[Literal], mut visit: impl FnMut(&Literal, &[Frame<'c>])) {
    let mut stack: Vec<Frame> = Vec::new();
    let mut next = literals.iter().peekable();
    for (at, c) in code.char_indices() {
        if let Some(literal) = next.next_if(|literal| literal.at == at) {
            visit(literal, &stack);
        }
        match c {
            '(' | '[' | '{' => stack.push(Frame::new(code, at)),
            ')' | ']' | '}' => drop(stack.pop()),
            _ => {}
        }
    }
}

/// Returns whether the literal has two words with a space between them.
fn has_two_words(text: &str) -> bool {
    let words: Vec<&str> = text.split(' ').collect();
    let is_wordy = |word: &str| word.chars().any(char::is_alphanumeric);
    words.windows(2).any(|pair| is_wordy(pair[0]) && is_wordy(pair[1])) && has_letter(text)
}

/// Returns whether the literal has a letter outside of braces.
fn has_letter(text: &str) -> bool {
    let mut depth = 0;
    text.replace("\\n", " ").replace("{{", "").replace("}}", "").chars().any(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        depth == 0 && c.is_alphabetic()
    })
}

/// Returns whether the statement around `at` binds a name of `TEXT_NAMES`.
fn is_bound_to_text(code: &str, at: usize) -> bool {
    let statement = &code[code[..at].rfind(';').map_or(0, |at| at + 1)..at];
    ["let ", "const ", "static "].iter().any(|keyword| {
        let Some(begin) = statement.rfind(keyword) else { return false };
        if ["if ", "while "].iter().any(|condition| statement[..begin].ends_with(condition)) {
            return false;
        }
        let Some((pattern, _)) = statement[begin + keyword.len()..].split_once('=') else { return false };
        let pattern = pattern.split(|c| !is_word(c)).map(str::to_lowercase);
        pattern.into_iter().any(|name| TEXT_NAMES.contains(&&*name))
    })
}

/// Returns the names of the fields in the arguments of a log macro.
fn fields(arguments: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut parts) = (0, 0, Vec::new());
    for (at, c) in arguments.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => {
                parts.push(&arguments[begin..at]);
                break;
            }
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&arguments[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    let names = parts.into_iter().filter_map(|part| {
        let part = part.trim().trim_start_matches(['%', '?']);
        let end = part.find(|c| !is_word(c) && c != '.').unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        let rest = rest.trim_start();
        (!name.is_empty() && (rest.is_empty() || rest.starts_with('=') && !rest.starts_with("==")))
            .then_some(name)
    });
    names.collect()
}

/// Returns the text with single spaces between words.
fn normalized(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether the help, with single spaces, repeats every line of a literal.
fn is_in_help(path: &str, text: &str, help: &str) -> bool {
    let may_be_help = path.starts_with("src/cli/") || path.starts_with("src/config");
    may_be_help && has_two_words(text) && text.split("\\n").all(|line| help.contains(&normalized(line)))
}

/// Returns the texts of a source file, each as a line of the golden file. `help` has single spaces.
fn texts(file: &File, help: &str) -> Vec<String> {
    let (code, literals) = split(&file.text);
    let by_path = KINDS_BY_PATH.iter().find(|(path, _)| file.path.starts_with(path));
    let mut lines: Vec<String> = Vec::new();
    let mut open_metric = None;
    with_frames(&code, &literals, |literal, frames| {
        let text = literal.text.as_str();
        let known = frames.iter().rev().find_map(Frame::kind);
        let kind = known.unwrap_or(by_path.map_or("text", |(_, kind)| kind));
        let nearest = frames.iter().rev().find(|frame| !frame.is_transparent());
        let is_argument = nearest.is_some_and(|frame| frame.kind().is_some());
        let is_metric_name =
            kind == "metric" && ["parallax_", "process_"].iter().any(|p| text.starts_with(p));
        let is_bound = is_bound_to_text(&code, literal.at);
        let is_text = has_two_words(text) || has_letter(text) && (is_argument || is_metric_name || is_bound);
        let in_schema = frames.iter().any(|f| f.is_attribute && ["serde", "schemars"].contains(&f.callee));
        if !is_text || in_schema || text.ends_with("\\r\\n") || is_in_help(&file.path, text, help) {
            return;
        }
        let call = frames.last().filter(|_| kind == "metric").map(|frame| frame.begin);
        match lines.last_mut().filter(|_| call.is_some() && call == open_metric) {
            Some(line) => *line = format!("{line} {text}"),
            None => {
                let callee = frames.last().map(|frame| frame.callee);
                let metric_type = callee.filter(|callee| METRIC_TYPES.contains(callee));
                let metric_type = metric_type.map_or_else(String::new, |name| format!(" {name}"));
                lines.push(format!("{}: {kind}: {text}{metric_type}", file.path));
            }
        }
        open_metric = call;
        if let Some(frame) = frames.last().filter(|_| kind.starts_with("log ")) {
            let before = code[frame.begin..literal.at].trim_end();
            let fields = fields(&code[frame.begin..]);
            if (before.is_empty() || before.ends_with(',')) && !fields.is_empty() {
                let line = lines.last_mut().expect("the line of this literal");
                *line = format!("{line} [{}]", fields.join(", "));
            }
        }
    });
    lines
}

/// Runs the program with `--help` for a command and its subcommands, and appends each command and its lines.
fn collect_help(command: &[String], pages: &mut Vec<(String, Vec<String>)>) {
    let program = Command::new(env!("CARGO_BIN_EXE_parallax"))
        .args(command)
        .arg("--help")
        // The help shows the values of environment variables.
        .env_clear()
        .env("COLUMNS", "100")
        .output()
        .expect("the program runs");
    assert!(program.status.success(), "{command:?} --help failed");
    let lines: Vec<String> = String::from_utf8(program.stdout)
        .expect("UTF-8")
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    let commands =
        lines.iter().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = commands
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
    let names: Vec<String> = names.filter(|name| *name != "help").map(str::to_owned).collect();
    let title = [&["parallax".to_owned()], command, &["--help".to_owned()]].concat().join(" ");
    pages.push((title, lines));
    for name in names {
        collect_help(&[command, &[name]].concat(), pages);
    }
}

/// Returns the content of the golden file.
fn all_texts() -> String {
    let mut pages = Vec::new();
    collect_help(&[], &mut pages);
    assert!(pages.len() > 1, "`parallax --help` lists no commands");
    let help = normalized(&pages.iter().map(|(_, lines)| lines.join("\n")).collect::<Vec<_>>().join("\n"));
    let page_lines = pages.iter().flat_map(|(title, lines)| {
        let lines = lines.iter().filter(|line| !line.is_empty());
        lines.map(move |line| format!("{title}: help: {line}"))
    });
    let mut all: Vec<String> = page_lines.collect();
    all.extend(files(&["src"]).iter().flat_map(|file| texts(file, &help)));
    all.join("\n") + "\n"
}

#[test]
fn the_texts_for_users_are_those_of_the_golden_file() {
    let path = root().join(GOLDEN_PATH);
    let actual = all_texts();
    if std::env::var_os("PARALLAX_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(&path, &actual).expect("the golden file is writable");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    if actual != golden {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        let (is, was) = (lines(&actual), lines(&golden));
        let removed = was.difference(&is).map(|line| format!("- {line}"));
        let changes: Vec<String> =
            removed.chain(is.difference(&was).map(|line| format!("+ {line}"))).collect();
        panic!(
            "the texts for users differ from {GOLDEN_PATH}; read them in the voice of style.md, then run this test with \
             PARALLAX_BLESS=1:\n{}",
            changes.join("\n")
        );
    }
}

fn found(path: &str, source: &str) -> Vec<String> {
    let lines = texts(&File::new(path, source), "All lines of the help");
    lines.into_iter().map(|line| line.split_once(": ").expect("a path").1.to_owned()).collect()
}

#[test]
fn a_text_is_found_however_it_is_passed() {
    let path = "src/a.rs";
    assert_eq!(
        found(path, r#"tracing::info!(records = n, %site, "rebuilt"); x("y");"#),
        ["log info: rebuilt [records, site]"]
    );
    assert_eq!(found(path, r#"warn!("{}: {error}"); error!("a {b}", b);"#), ["log error: a {b} [b]"]);
    assert_eq!(found(path, r#"warn!(state = "one", "two");"#), ["log warn: one", "log warn: two [state]"]);
    assert_eq!(found(path, r#"#[error("gone: {0}")] A(u8), #[serde(rename = "a")] B"#), ["error: gone: {0}"]);
    let problem = "Err(Problem::new(\n KIND, &format!(\"A \\\"b\\\" \\\n    c.\")).at(\"d\"))";
    assert_eq!(found(path, problem), ["problem: A \"b\" c."]);
    assert_eq!(
        found(path, r#"location.refuse(K, match a { 1 => "one", _ => "two" })"#),
        ["problem: one", "problem: two"]
    );
    assert_eq!(
        found(path, r#"let sentence = if a { "one" } else { "b c" }; let other = "two";"#),
        ["text: one", "text: b c"]
    );
    assert_eq!(
        found(path, r##"const EXPECTED: &str = r#"one"#; let (kind, text) = (K, "two");"##),
        ["text: one", "text: two"]
    );
    assert_eq!(
        found(path, r#"fn f() -> &'static str { "two words" } const A: &str = "one";"#),
        ["text: two words"]
    );
    assert_eq!(found("src/site/compile/a.rs", "f(\"two words\")"), ["diagnostic: two words"]);
    assert_eq!(found("src/problem.rs", "kinds! { A \"a\" 400 \"Not valid\" }"), ["title: Not valid"]);
    let metric = "page.begin_family(\"a_total\", \"counter\", \"Events\"); page.sample(&[(\"a\", b)])";
    assert_eq!(found("src/admin/metrics.rs", metric), ["metric: a_total counter Events"]);
    let metric = "page.gauge(\"a_bytes\", \"Memory\", b)";
    assert_eq!(found("src/admin/metrics.rs", metric), ["metric: a_bytes gauge Memory"]);
    let rows = "[(\"parallax_a\", A, \"Its a\"), (\"parallax_b\", B, \"Its b\")]";
    assert_eq!(found("src/admin/metrics.rs", rows), ["metric: parallax_a Its a", "metric: parallax_b Its b"]);
    assert_eq!(found("src/cli/a.rs", "const A: &str = \"of\\n  the help\";"), [""; 0]);
    assert_eq!(found(path, "#[serde(with = \"Vec<A, B>\")] #[error(\"a b\")] C"), ["error: a b"]);
    assert_eq!(found(path, "print_line(&format!(\"none\"))?; println!(\"{a} {b}\")"), ["output: none"]);
    assert_eq!(
        found(path, "a.expect(\"two words\"); let s = \"A b\\r\\n\"; // \"two words\""),
        ["panic: two words"]
    );
    assert_eq!(found(path, "let a = \"two\nlines here\";"), ["text: two\\nlines here"]);
}
