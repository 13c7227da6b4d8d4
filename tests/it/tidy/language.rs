//! The language ratchet: counts words and sentences of the comments in `src/`, as `style.md` defines in its section
//! *Counting*.
//!
//! Every number has a limit. Most limits are the present number, so a change can only lower it. A number below its
//! limit fails too, with the advice to lower the constant.

use super::text::{is_word, words};
use super::{File, files, ratchet};

/// Limit of what-sentences, in percent of all sentences.
const WHAT_SENTENCES_PERCENT_MAX: usize = 2;
/// Limit of doc blocks that open with What, Who, Which and so on, in percent of all doc blocks.
const WHAT_DOC_BLOCKS_PERCENT_MAX: usize = 3;

/// Present number of what-sentences. This constant may only fall.
const WHAT_SENTENCES: usize = 0;
/// Present number of doc blocks that open with What, Who, Which and so on. This constant may only fall.
const WHAT_DOC_BLOCKS: usize = 0;
/// Present number of sentences with each word of the falling-only list. These constants may only fall.
const FALLING_ONLY: &[(&str, usize)] =
    &[("whoever", 0), ("who asks", 0), ("folder", 0), ("behind", 0), ("stands", 0), ("lies", 0), ("came", 0)];

/// Words and phrases that no sentence may contain.
const BANNED: &[&str] =
    &["anew", "let go of", "to be had", "hander", "in come", "out go", "out goes", "mend", "mends", "mended"];
/// The words of a what-sentence.
const WHAT: &[&str] = &["what", "whatever", "whatsoever"];
/// The first words of a doc block that opens with What.
const WHAT_OPENINGS: &[&str] = &["What", "Who", "Which", "Whose", "Whom", "Whoever", "Whatever"];

/// The advice for a new sentence that is over a limit.
const REWRITE: &str = "Rewrite the new one in the voice of style.md";

/// A sentence has at least this many words.
const SENTENCE_WORDS_MIN: usize = 3;

/// A block of comment lines with the same mark.
struct Block {
    /// Its first line, from 1.
    line: usize,
    /// True if the mark is `//!` or `///`.
    is_doc: bool,
    /// Its lines without mark, joined, without code between marks of three backticks.
    text: String,
}

/// Returns the mark of a comment line.
fn mark(line: &str) -> Option<&'static str> {
    ["//!", "///", "//"].into_iter().find(|mark| line.trim_start().starts_with(mark))
}

/// Returns the comment blocks of a source file.
fn blocks(source: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open_mark = None;
    for (index, line) in source.lines().enumerate() {
        let found = mark(line);
        if let Some(mark) = found {
            let text = line.trim_start()[mark.len()..].trim();
            match blocks.last_mut().filter(|_| found == open_mark) {
                Some(block) => {
                    block.text.push(' ');
                    block.text.push_str(text);
                }
                None => {
                    blocks.push(Block { line: index + 1, is_doc: mark != "//", text: text.to_owned() });
                }
            }
        }
        open_mark = found;
    }
    for block in &mut blocks {
        block.text = without_code(&block.text);
    }
    blocks
}

/// Removes everything from one mark of three backticks to the next. A mark without a second one stays.
fn without_code(text: &str) -> String {
    let (mut kept, mut rest) = (String::new(), text);
    while let Some((before, opened)) = rest.split_once("```") {
        let Some((_, after)) = opened.split_once("```") else { break };
        kept.push_str(before);
        rest = after;
    }
    kept + rest
}

impl Block {
    /// Returns whether this is a doc block whose first word is What, Who, Which and so on.
    fn opens_with_what(&self) -> bool {
        let text = self.text.trim_start_matches(['#', ' ']);
        let first = &text[..text.find(|c| !is_word(c)).unwrap_or(text.len())];
        self.is_doc && WHAT_OPENINGS.contains(&first)
    }

    /// Returns the sentences, with single spaces between words.
    fn sentences(&self) -> Vec<String> {
        let (mut sentences, mut begin) = (Vec::new(), 0);
        for (at, c) in self.text.char_indices() {
            let after = &self.text[at + c.len_utf8()..];
            let is_end = match c {
                '.' | '!' | '?' => after.starts_with(char::is_whitespace),
                ':' => after.starts_with(char::is_whitespace) && is_list_item(after.trim_start()),
                _ => false,
            };
            if is_end {
                sentences.push(&self.text[begin..at + c.len_utf8()]);
                begin = at + c.len_utf8();
            }
        }
        sentences.push(&self.text[begin..]);
        let words = sentences.into_iter().map(|sentence| sentence.split_whitespace().collect::<Vec<_>>());
        words.filter(|words| words.len() >= SENTENCE_WORDS_MIN).map(|words| words.join(" ")).collect()
    }
}

/// Returns whether the text begins with `*` and white space.
fn is_list_item(text: &str) -> bool {
    text.strip_prefix('*').is_some_and(|item| item.starts_with(char::is_whitespace))
}

/// Returns whether the sentence contains the whole word or phrase, in any case.
fn contains(sentence: &str, phrase: &str) -> bool {
    words(&sentence.to_lowercase(), phrase).next().is_some()
}

/// Sentences and doc blocks, each with its place, and the totals.
#[derive(Default)]
struct Counts {
    sentences: usize,
    doc_blocks: usize,
    what_doc_blocks: Vec<String>,
    what_sentences: Vec<String>,
    banned: Vec<String>,
    /// In the order of `FALLING_ONLY`.
    falling_only: Vec<Vec<String>>,
}

impl Counts {
    fn of(files: &[File]) -> Self {
        let mut counts = Self { falling_only: vec![Vec::new(); FALLING_ONLY.len()], ..Self::default() };
        for file in files {
            for block in blocks(&file.text) {
                counts.add(&file.path, &block);
            }
        }
        counts
    }

    fn add(&mut self, path: &str, block: &Block) {
        let sentences = block.sentences();
        let place = |text: &str| format!("{path}: comment at line {}: {text}", block.line);
        self.sentences += sentences.len();
        self.doc_blocks += usize::from(block.is_doc);
        if block.opens_with_what() {
            self.what_doc_blocks.push(place(sentences.first().unwrap_or(&block.text)));
        }
        for sentence in &sentences {
            let has_any = |phrases: &[&str]| phrases.iter().any(|phrase| contains(sentence, phrase));
            if has_any(WHAT) {
                self.what_sentences.push(place(sentence));
            }
            if has_any(BANNED) {
                self.banned.push(place(sentence));
            }
            for ((word, _), found) in FALLING_ONLY.iter().zip(&mut self.falling_only) {
                if contains(sentence, word) {
                    found.push(place(sentence));
                }
            }
        }
    }

    /// Returns a message for each number that differs from its limit.
    fn violations(
        &self,
        what_sentences: usize,
        what_doc_blocks: usize,
        falling_only: &[usize],
    ) -> Vec<String> {
        let mut violations = vec![
            share(
                "what-sentences",
                self.what_sentences.len(),
                self.sentences,
                WHAT_SENTENCES_PERCENT_MAX,
                "Name the noun: \"the remaining bytes\", not \"what is left\".",
            ),
            share(
                "doc blocks that open with What",
                self.what_doc_blocks.len(),
                self.doc_blocks,
                WHAT_DOC_BLOCKS_PERCENT_MAX,
                "Begin the doc of a type with an article and a noun, that of a function with a verb.",
            ),
            ratchet("WHAT_SENTENCES", "what-sentences", &self.what_sentences, what_sentences, REWRITE),
            ratchet(
                "WHAT_DOC_BLOCKS",
                "doc blocks that open with What",
                &self.what_doc_blocks,
                what_doc_blocks,
                REWRITE,
            ),
        ];
        if !self.banned.is_empty() {
            let found = self.banned.join("\n  ");
            violations.push(Some(format!("banned words; use everyday words (style.md):\n  {found}")));
        }
        for (((word, _), found), limit) in FALLING_ONLY.iter().zip(&self.falling_only).zip(falling_only) {
            let name = format!("sentences with \"{word}\"");
            violations.push(ratchet(&format!("FALLING_ONLY for \"{word}\""), &name, found, *limit, REWRITE));
        }
        violations.into_iter().flatten().collect()
    }
}

/// Returns a message if `count` is more than `percent_max` percent of `total`.
fn share(name: &str, count: usize, total: usize, percent_max: usize, advice: &str) -> Option<String> {
    let is_over = count * 100 > total * percent_max;
    is_over.then(|| format!("{count} of {total} are {name}; the limit is {percent_max} %. {advice}"))
}

#[test]
fn the_language_of_comments_only_gets_better() {
    let limits: Vec<usize> = FALLING_ONLY.iter().map(|(_, limit)| *limit).collect();
    let violations = Counts::of(&files(&["src"])).violations(WHAT_SENTENCES, WHAT_DOC_BLOCKS, &limits);
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

fn texts(source: &str) -> Vec<String> {
    blocks(source).into_iter().map(|block| block.text).collect()
}

#[test]
fn comment_lines_with_one_mark_are_one_block() {
    assert_eq!(texts("/// a\n/// b\n"), ["a b"]);
    assert_eq!(texts("  \t// a\n// b"), ["a b"], "white space before the mark does not count");
    assert_eq!(texts("let a = 1; // b\n"), [""; 0], "a comment after code is not counted");
    assert_eq!(texts("/// a\n///\n/// b"), ["a  b"], "an empty comment line does not end a block");
    assert_eq!(texts("/// a\n\n/// b"), ["a", "b"], "an empty line ends a block");
    assert_eq!(texts("/// a\nfn f() {}\n/// b"), ["a", "b"], "code ends a block");
    assert_eq!(texts("/// a\n#[inline]\n/// b"), ["a", "b"], "an attribute ends a block");
    assert_eq!(texts("//! a\n/// b\n// c\n//\n///\n/// d"), ["a", "b", "c ", " d"], "another mark ends it");
    let docs: Vec<bool> = blocks("//! a\n/// b\n// c").iter().map(|block| block.is_doc).collect();
    assert_eq!(docs, [true, true, false]);
    let lines: Vec<usize> = blocks("\n//! a\n//! a\n\n/// b").iter().map(|block| block.line).collect();
    assert_eq!(lines, [2, 5]);
}

#[test]
fn code_between_three_backticks_is_removed() {
    assert_eq!(texts("/// a\n/// ```text\n/// What is b.\n/// ```\n/// c"), ["a  c"]);
    assert_eq!(texts("/// ```a``` b ```c``` d"), [" b  d"]);
    assert_eq!(texts("/// a ```b``` c ``` d"), ["a  c ``` d"], "a last mark without a second one stays");
}

#[test]
fn a_doc_block_opens_with_what_only_with_its_first_word() {
    let opens = |source: &str| blocks(source)[0].opens_with_what();
    for word in WHAT_OPENINGS {
        assert!(opens(&format!("/// {word} is this")), "{word}");
        assert!(!opens(&format!("/// {}", word.to_lowercase())), "{word} in lower case");
    }
    assert!(opens("//! # What is this") && opens("///\n/// ## # Who."));
    assert!(opens("/// What's this") && opens("/// Which: a"));
    assert!(!opens("// What is this"), "not a doc block");
    assert!(!opens("/// Whatsoever") && !opens("/// Whence") && !opens("/// `What`") && !opens("/// A What"));
    assert!(opens("/// ```text\n/// a\n/// ```\n/// What is this"), "code is removed first");
    assert!(!opens("///"));
}

#[test]
fn a_sentence_ends_at_a_mark_before_white_space() {
    let sentences = |source: &str| blocks(source)[0].sentences();
    assert_eq!(sentences("/// A b c. D e f! G h\n/// i? J k l"), ["A b c.", "D e f!", "G h i?", "J k l"]);
    assert_eq!(sentences("/// See a.b or c!d now"), ["See a.b or c!d now"], "no white space after the mark");
    assert_eq!(sentences("/// One two. A b c."), ["A b c."], "fewer than three words are no sentence");
    assert_eq!(sentences("/// A b c:\n/// * d e f\n/// * g"), ["A b c:", "* d e f * g"]);
    assert_eq!(sentences("/// A b c:\n///\n/// * d e"), ["A b c:", "* d e"]);
    assert_eq!(sentences("/// A b c: d e"), ["A b c: d e"], "no list item after the colon");
    assert_eq!(sentences("/// A b: *c* d"), ["A b: *c* d"], "emphasis is not a list item");
    assert_eq!(sentences("/// A b:* c d"), ["A b:* c d"], "no white space after the colon");
    assert_eq!(sentences("/// A heading\n///\n/// and more"), ["A heading and more"]);
    assert_eq!(sentences("/// A b (c d.) e f."), ["A b (c d.) e f."], "a parenthesis follows the mark");
}

#[test]
fn words_are_found_whole_and_in_any_case() {
    let counts = |text: &str| Counts::of(&[File::new("src/x.rs", text)]);
    let what = |text: &str| counts(text).what_sentences.len();
    assert_eq!(what("/// Keep WHAT is left. Whatever it is. And whatsoever it is."), 3);
    assert_eq!(what("/// Keep what is what it is."), 1, "once per sentence");
    assert_eq!(what("/// Keep somewhat of whats left."), 0);
    assert_eq!(what("/// Take what's left."), 1);
    assert_eq!(what("/// What fits."), 0, "two words are no sentence");
    assert_eq!(what("let a = 1; // take what is left"), 0);
    let banned = |text: &str| counts(text).banned.len();
    for phrase in BANNED {
        assert_eq!(banned(&format!("// A text {} here.", phrase.to_uppercase())), 1, "{phrase}");
    }
    assert_eq!(banned("// A b to be\n// had by c."), 1, "a phrase may continue on the next line");
    assert_eq!(banned("// A b to be.\n// Had by c."), 0, "a phrase is in one sentence");
    assert_eq!(banned("// They recommend an amendment. Renew it."), 0);
    assert_eq!(banned("// Let go of it anew, mend it."), 1, "one sentence counts once");
    let falling = |text: &str| counts(text).falling_only.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(falling("// Who asks, and whoever asks. It lies behind the folder."), [1, 1, 1, 1, 0, 1, 0]);
    assert_eq!(falling("// The folders became empty; it understands."), [0; FALLING_ONLY.len()]);
}

#[test]
fn a_number_above_or_below_its_limit_is_a_violation_with_file_and_sentence() {
    let text = "//! What is this here.\n//! It stands here. ".to_owned() + &"A b c. ".repeat(200);
    let counts = Counts::of(&[File::new("src/x.rs", &text)]);
    let at_limits = [0, 0, 0, 0, 1, 0, 0];
    // One doc block of one is over 3 %.
    let percent = counts.violations(1, 1, &at_limits);
    assert!(percent.len() == 1 && percent[0].contains("1 of 1 are doc blocks"), "{percent:?}");
    let above = counts.violations(0, 1, &[0; FALLING_ONLY.len()]).join("\n");
    assert!(above.contains("src/x.rs: comment at line 1: What is this here."), "{above}");
    assert!(above.contains("src/x.rs: comment at line 1: It stands here."), "{above}");
    let below = counts.violations(2, 1, &[0, 0, 1, 0, 1, 0, 0]).join("\n");
    assert!(below.contains("Lower WHAT_SENTENCES to 1"), "{below}");
    assert!(below.contains("Lower FALLING_ONLY for \"folder\" to 0"), "{below}");
    assert!(share("a", 2, 100, 2, "").is_none() && share("a", 3, 100, 2, "").is_some());
    let banned = Counts::of(&[File::new("src/x.rs", "// It is anew.")]).violations(0, 0, &[0; 7]).join("");
    assert!(banned.contains("src/x.rs: comment at line 1: It is anew."), "{banned}");
}
