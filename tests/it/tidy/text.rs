//! Splits Rust source text into code and literals, and finds words in code.

/// A string literal.
pub(super) struct Literal {
    /// Byte offset in the code.
    pub(super) at: usize,
    /// Its text on one line: without quotes and continuations, a line feed as `\n`, a quote without backslash. Other
    /// escapes are as written.
    pub(super) text: String,
}

/// Returns `text` with comments and literals replaced by spaces. Every line keeps its number.
pub(super) fn code(text: &str) -> String {
    split(text).0
}

/// Returns the code, with comments and literals replaced by spaces, and the string literals.
pub(super) fn split(text: &str) -> (String, Vec<Literal>) {
    let mut code = String::with_capacity(text.len());
    let mut literals = Vec::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let skipped = not_code(rest, code.chars().next_back());
        let (piece, after) = rest.split_at(skipped.max(next.len_utf8()));
        match skipped {
            0 => code.push_str(piece),
            _ => {
                literals.extend(literal_text(piece).map(|text| Literal { at: code.len(), text }));
                code.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            }
        }
        rest = after;
    }
    (code, literals)
}

/// Returns the text of a string literal, or `None` for a comment or a character.
fn literal_text(piece: &str) -> Option<String> {
    let prefix = piece.trim_start_matches(['b', 'c', 'r']);
    let is_raw = piece[..piece.len() - prefix.len()].contains('r');
    let inner = prefix.trim_matches('#').strip_prefix('"')?;
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    if is_raw {
        return Some(inner.replace('\n', "\\n"));
    }
    let (mut text, mut rest) = (String::new(), inner);
    while let Some((before, escaped)) = rest.split_once('\\') {
        text.push_str(&before.replace('\n', "\\n"));
        let Some(c) = escaped.chars().next() else { break };
        rest = &escaped[c.len_utf8()..];
        match c {
            '\n' => rest = rest.trim_start(),
            '"' => text.push('"'),
            c => text.extend(['\\', c]),
        }
    }
    Some(text + &rest.replace('\n', "\\n"))
}

/// Returns the length of the comment or literal that `rest` begins with, or 0 if it begins with code.
fn not_code(rest: &str, before: Option<char>) -> usize {
    let in_word = before.is_some_and(is_word);
    let raw = rest.trim_start_matches(['b', 'c']);
    match rest.as_bytes() {
        [b'/', b'/', ..] => rest.find('\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment(rest),
        [b'"', ..] => quoted(rest, 1, '"'),
        [b'b' | b'c', b'"', ..] if !in_word => quoted(rest, 2, '"'),
        [b'b', b'\'', ..] if !in_word => quoted(rest, 2, '\''),
        [b'r' | b'b' | b'c', ..] if !in_word && raw.starts_with('r') => raw_literal(rest),
        [b'\'', ..] => character(rest),
        _ => 0,
    }
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

fn quoted(rest: &str, opening: usize, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest[opening..].char_indices() {
        if c == quote && !escaped {
            return opening + at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    rest.len()
}

/// Returns the length of `r"..."`, `r#"..."#` or `br##"..."##`, or 0 for a raw identifier.
fn raw_literal(rest: &str) -> usize {
    let after = rest.trim_start_matches(['b', 'c', 'r']);
    let inner = after.trim_start_matches('#');
    if !inner.starts_with('"') {
        return 0;
    }
    let opening = rest.len() - inner.len() + 1;
    let closing = format!("\"{}", "#".repeat(after.len() - inner.len()));
    rest[opening..].find(&closing).map_or(rest.len(), |at| opening + at + closing.len())
}

/// Returns the length of a character literal, or 0 for a lifetime.
fn character(rest: &str) -> usize {
    let inner = &rest[1..];
    let is_literal = inner.starts_with('\\') || inner.chars().nth(1) == Some('\'');
    if is_literal { quoted(rest, 1, '\'') } else { 0 }
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the offsets of `word` in `code`, as a whole word.
pub(super) fn words<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = usize> + 'c {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let (before, after) = (&code[..*at], &code[at + word.len()..]);
        !before.ends_with(is_word) && !after.starts_with(is_word)
    })
}

/// Returns the line, from 1, of an offset.
pub(super) fn line(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[test]
fn comments_and_literals_are_not_code() {
    let text = r##"let a = "x \" y"; // z
/* b /* c */ d */ let e = r#"f " g"#; let h = '"'; let i: &'static str = b"\\"; let j = '\''; let r#k = b'l';"##;
    let kept: Vec<String> =
        code(text).lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(kept, ["let a = ;", "let e = ; let h = ; let i: &'static str = ; let j = ; let r#k = ;"]);
    assert_eq!(words("unsafe unsafely x.unsafe", "unsafe").collect::<Vec<_>>(), [0, 18]);
    assert_eq!(line("a\nb\nc", 4), 3);
}

#[test]
fn a_literal_is_one_line_at_its_offset_in_the_code() {
    let source = "// \"no\"\nf(\"ä \\\"b\\\" \\\n   c\\n\", r#\"d \"e\" \\\nf\"#, '\"', b\"g\", \"\")";
    let (code, literals) = split(source);
    let texts: Vec<&str> = literals.iter().map(|literal| literal.text.as_str()).collect();
    assert_eq!(texts, ["ä \"b\" c\\n", "d \"e\" \\\\nf", "g", ""]);
    assert!(literals.iter().all(|literal| code[..literal.at].trim_end().ends_with(['(', ','])));
}
