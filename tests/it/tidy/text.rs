//! Rust text without its comments and literals: in comes a source file, out goes what the compiler
//! reads of it, every line still on its line. And words of such a text.

/// `text` with comments and the insides of literals blanked.
pub(super) fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let skipped = not_code(rest, code.chars().next_back());
        let (piece, behind) = rest.split_at(skipped.max(next.len_utf8()));
        match skipped {
            0 => code.push_str(piece),
            _ => code.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' })),
        }
        rest = behind;
    }
    code
}

/// Bytes of the comment or literal that `rest` begins with, 0 where it is code.
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

/// `r"..."`, `r#"..."#`, `br##"..."##`; 0 for a raw identifier.
fn raw_literal(rest: &str) -> usize {
    let behind = rest.trim_start_matches(['b', 'c', 'r']);
    let inner = behind.trim_start_matches('#');
    if !inner.starts_with('"') {
        return 0;
    }
    let opening = rest.len() - inner.len() + 1;
    let closing = format!("\"{}", "#".repeat(behind.len() - inner.len()));
    rest[opening..].find(&closing).map_or(rest.len(), |at| opening + at + closing.len())
}

/// A character literal; 0 for a lifetime.
fn character(rest: &str) -> usize {
    let inner = &rest[1..];
    let is_literal = inner.starts_with('\\') || inner.chars().nth(1) == Some('\'');
    if is_literal { quoted(rest, 1, '\'') } else { 0 }
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where `word` stands in `code` as a whole word.
pub(super) fn words<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = usize> + 'c {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let (before, behind) = (&code[..*at], &code[at + word.len()..]);
        !before.ends_with(is_word) && !behind.starts_with(is_word)
    })
}

/// The line, from 1, of a place in a text.
pub(super) fn line(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[test]
fn comments_and_literals_are_no_code() {
    let text = r##"let a = "x \" y"; // z
/* b /* c */ d */ let e = r#"f " g"#; let h = '"'; let i: &'static str = b"\\"; let j = '\''; let r#k = b'l';"##;
    let kept: Vec<String> =
        code(text).lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(kept, ["let a = ;", "let e = ; let h = ; let i: &'static str = ; let j = ; let r#k = ;"]);
    assert_eq!(words("unsafe unsafely x.unsafe", "unsafe").collect::<Vec<_>>(), [0, 18]);
    assert_eq!(line("a\nb\nc", 4), 3);
}
