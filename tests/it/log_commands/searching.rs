//! `check --contains`: what is left of a visitor.

use std::fs;

use parallax::cli::byte_search::Needle;
use parallax::limits::{PLACES_SHOWN_MAX, READ_BYTES};
use parallax::visitors::log::Options;

use super::{Log, Row, run, sealed, segments, tear, word};
use crate::dice::Dice;
use crate::harness::{temporary_folder, times};

/// All ways to write a character in a JSON string, hex digits in lower case.
fn forms(c: char) -> Vec<String> {
    let plain = (c != '"' && c != '\\' && c >= ' ').then(|| c.to_string());
    let short = match c {
        '"' | '\\' | '/' => Some(format!("\\{c}")),
        '\n' => Some("\\n".to_owned()),
        '\t' => Some("\\t".to_owned()),
        _ => None,
    };
    let units = c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect();
    plain.into_iter().chain(short).chain([units]).collect()
}

/// The length of `text` in some form at the beginning of `bytes`.
fn length(bytes: &[u8], text: &[char]) -> Option<usize> {
    let [first, rest @ ..] = text else { return Some(0) };
    forms(*first).into_iter().find_map(|form| {
        let (own, behind) = bytes.split_at_checked(form.len())?;
        let is_equal = if form.starts_with("\\u") {
            own.starts_with(b"\\u") && own.to_ascii_lowercase() == form.as_bytes()
        } else {
            own == form.as_bytes()
        };
        is_equal.then(|| length(behind, rest)).flatten().map(|more| form.len() + more)
    })
}

fn naive(bytes: &[u8], text: &str) -> Vec<u64> {
    let characters: Vec<char> = text.chars().collect();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let raw = rest.starts_with(text.as_bytes()).then_some(text.len());
        match raw.or_else(|| length(rest, &characters)) {
            Some(length) => {
                found.push(at as u64);
                at += length;
            }
            None => at += 1,
        }
    }
    found
}

#[test]
fn a_text_is_found_in_every_form_that_json_has_for_it_across_whatever_is_read_at_once() {
    let pieces = [
        "a",
        "b",
        "é",
        "😀",
        "\"",
        "\\",
        "\\\\",
        "\\\"",
        "\\/",
        "/",
        "\n",
        "\\n",
        "n",
        "u",
        "0061",
        "\\u0061",
        "\\u00E9",
        "\\u00e9",
        "\\ud83d\\ude00",
        "\\uD83D",
        "\\uDE00",
        "\\u005c",
        "\\u0022",
        "\\u002F",
        "\\u000A",
    ];
    let characters = ['a', 'b', 'é', '😀', '"', '\\', '/', '\n', 'n'];
    let mut hits = 0;
    for seed in 0..times(300, 10_000) as u64 {
        let mut dice = Dice(seed);
        let text: String = (0..1 + dice.below(3)).map(|_| *dice.of(&characters)).collect();
        let mut bytes = vec![b'x'; READ_BYTES - 1 - dice.below(60)];
        let filler = bytes.len();
        (0..dice.below(40)).for_each(|_| bytes.extend_from_slice(dice.of(&pieces).as_bytes()));
        let mut found = Vec::new();
        let needle = Needle::new(&text).expect("a text");
        let read = needle.find_all(&mut &bytes[..], &mut |at| found.push(at)).expect("read");
        let expected: Vec<u64> = naive(&bytes[filler..], &text).iter().map(|at| at + filler as u64).collect();
        assert_eq!((read, &found), (bytes.len() as u64, &expected), "seed {seed}: {text:?}");
        hits += found.len();
    }
    assert!(hits > 100, "too few to prove anything: {hits}");
    assert!(Needle::new("").is_none());
}

#[test]
fn a_visitor_is_found_with_file_place_and_seq_and_one_who_is_not_there_is_not() {
    let folder = temporary_folder();
    let mut rows: Vec<Row> = (0..100).map(|n| Row::of(&format!("visitor-{n:03}"))).collect();
    rows[70].payload = r#"{"mail":"an\u0061\u0040example.com"}"#.to_owned();
    sealed(folder.path(), &rows);
    let contains = |text: &str| run(&["check", word(folder.path()), "--contains", text]);
    let found = contains("visitor-041");
    found.is(1, &["the text stands in 2 places", ", in the record of seq 42\n"]);
    let line = found.out.lines().next().expect("a place");
    let (file, place) = line.split_once(": at ").expect("a file and a place");
    let at: usize = place.split(',').next().and_then(|at| at.parse().ok()).expect("an offset");
    assert_eq!(&fs::read(file).expect("readable")[at..at + 11], b"visitor-041");
    contains("ana@example.com").is(1, &["the text stands in 1 places", "in the record of seq 71"]);
    let files = folder.path().read_dir().expect("a folder").count();
    contains("visitor-100").is(0, &["nowhere in", &format!("{files} files")]);
    contains("").is(2, &["--contains"]);
    run(&["check", word(&segments(folder.path())[0]), "--contains", "visitor-000"]).is(1, &["seq 1\n"]);
    run(&["check", word(&folder.path().join("nowhere")), "--contains", "x"]).is(1, &["No such file"]);
}

#[test]
fn what_is_torn_or_lies_in_an_inner_folder_is_searched_too() {
    let folder = temporary_folder();
    let mut log = Log::open(folder.path(), Options::default());
    log.push(&[Row::of("whole")]);
    log.push(&[Row::of("cut off")]);
    drop(log);
    let file = &segments(folder.path())[0];
    tear(file);
    let contains = |text: &str| run(&["check", word(folder.path()), "--contains", text]);
    contains("cut off").is(1, &[" at "]);
    // Recovery keeps it aside.
    let mut log = Log::open(folder.path(), Options::default());
    log.push(&[Row::of("later")]);
    log.close();
    contains("cut off").is(1, &[".torn-1: at "]);
    contains("whole").is(1, &["in the record of seq 1"]);
    fs::create_dir(folder.path().join("inner")).expect("made");
    fs::write(folder.path().join("inner/.hidden"), b"\xFF\x00hidden words").expect("written");
    contains("hidden words").is(1, &["inner/.hidden: at 2\n"]);
}

#[test]
fn many_places_are_counted_and_some_are_shown() {
    let folder = temporary_folder();
    for (places, said) in [(PLACES_SHOWN_MAX, None), (PLACES_SHOWN_MAX + 1, Some("and 1 places more"))] {
        fs::write(folder.path().join("a"), "x ".repeat(places)).expect("written");
        let done = run(&["check", word(folder.path()), "--contains", "x"]);
        done.is(1, &[&format!("stands in {places} places")]);
        assert_eq!(done.out.matches("/a: at ").count(), PLACES_SHOWN_MAX);
        assert_eq!(done.out.contains("more"), said.is_some());
        done.is(1, said.as_slice());
    }
}
