//! `check --contains`: the search for remains of a visitor.

use std::fs;
use std::path::Path;

use parallax::testing::cli::byte_search::Needle;
use parallax::testing::cli::contains::{ListedFile, SearchSummary, search_all};
use parallax::testing::limits::{MATCHES_SHOWN_MAX, READ_CHUNK_BYTES};
use parallax::testing::log::Options;

use super::{Log, Row, as_arg, run, segments, tear_tail, write_sealed_log};
use crate::dice::Dice;
use crate::harness::{temporary_directory, times};

/// Returns all forms of a character in a JSON string, with hex digits in lower case.
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

/// Returns the length of any form of `text` at the start of `bytes`.
fn match_length(bytes: &[u8], text: &[char]) -> Option<usize> {
    let [first, rest @ ..] = text else { return Some(0) };
    forms(*first).into_iter().find_map(|form| {
        let (own, after) = bytes.split_at_checked(form.len())?;
        let is_equal = if form.starts_with("\\u") {
            own.starts_with(b"\\u") && own.to_ascii_lowercase() == form.as_bytes()
        } else {
            own == form.as_bytes()
        };
        is_equal.then(|| match_length(after, rest)).flatten().map(|more| form.len() + more)
    })
}

fn naive_matches(bytes: &[u8], text: &str) -> Vec<u64> {
    let characters: Vec<char> = text.chars().collect();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let raw = rest.starts_with(text.as_bytes()).then_some(text.len());
        match raw.or_else(|| match_length(rest, &characters)) {
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
fn a_text_is_found_in_every_json_form_across_chunk_boundaries() {
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
        let text: String = (0..1 + dice.below(3)).map(|_| *dice.pick(&characters)).collect();
        let mut bytes = vec![b'x'; READ_CHUNK_BYTES - 1 - dice.below(60)];
        let filler = bytes.len();
        (0..dice.below(40)).for_each(|_| bytes.extend_from_slice(dice.pick(&pieces).as_bytes()));
        let mut found = Vec::new();
        let needle = Needle::new(&text).expect("a text");
        let read = needle.find_all(&mut &bytes[..], &mut |at| found.push(at)).expect("read");
        let expected: Vec<u64> =
            naive_matches(&bytes[filler..], &text).iter().map(|at| at + filler as u64).collect();
        assert_eq!((read, &found), (bytes.len() as u64, &expected), "seed {seed}: {text:?}");
        hits += found.len();
    }
    assert!(hits > 100, "too few matches: {hits}");
    assert!(Needle::new("").is_none());
}

#[test]
fn a_match_is_reported_with_its_file_offset_and_seq() {
    let directory = temporary_directory();
    let mut rows: Vec<Row> = (0..100).map(|n| Row::of(&format!("visitor-{n:03}"))).collect();
    rows[70].payload = r#"{"mail":"an\u0061\u0040example.com"}"#.to_owned();
    write_sealed_log(directory.path(), &rows);
    let contains = |text: &str| run(&["check", as_arg(directory.path()), "--contains", text]);
    let found = contains("visitor-041");
    found.assert_exit(1, &["found the text in 2 places", ", in the record with seq 42\n"]);
    let line = found.out.lines().next().expect("a match");
    let (file, place) = line.split_once(": at offset ").expect("a file and an offset");
    let at: usize = place.split(',').next().and_then(|at| at.parse().ok()).expect("an offset");
    assert_eq!(&fs::read(file).expect("readable")[at..at + 11], b"visitor-041");
    contains("ana@example.com").assert_exit(1, &["found the text in 1 places", "in the record with seq 71"]);
    let files = directory.path().read_dir().expect("a directory").count();
    contains("visitor-100").assert_exit(0, &["not found in", &format!("{files} files")]);
    contains("").assert_exit(2, &["--contains"]);
    run(&["check", as_arg(&segments(directory.path())[0]), "--contains", "visitor-000"])
        .assert_exit(1, &["seq 1\n"]);
    run(&["check", as_arg(&directory.path().join("nowhere")), "--contains", "x"])
        .assert_exit(1, &["No such file"]);
}

#[test]
fn a_text_is_found_in_a_fold_input_at_every_offset() {
    let text = "ana@example.com";
    for at in 0..40 {
        // A fold input has a zero byte at each multiple of 8, and seven bytes of content after it.
        let content = [&b"x".repeat(at)[..], text.as_bytes(), b"yz"].concat();
        let words: Vec<u8> = content.chunks(7).flat_map(|word| [&[0], word].concat()).collect();
        for padding in [8, READ_CHUNK_BYTES - 16, READ_CHUNK_BYTES - 8, READ_CHUNK_BYTES] {
            let bytes = [&b"p".repeat(padding)[..], &words].concat();
            let mut found = Vec::new();
            let needle = Needle::new(text).expect("a text");
            needle.find_all(&mut &bytes[..], &mut |at| found.push(at)).expect("read");
            assert_eq!(found, [(padding + at / 7 * 8 + at % 7 + 1) as u64], "{at} {padding}");
        }
    }
    // Zeros at other offsets are no fold input.
    let mut found = Vec::new();
    let needle = Needle::new("abcd").expect("a text");
    needle.find_all(&mut &b"ab\0cd...ab\0\0cd"[..], &mut |at| found.push(at)).expect("read");
    assert_eq!(found, [0; 0]);
}

#[test]
fn a_search_beside_a_server_finds_files_that_are_renamed_or_rewritten_meanwhile() {
    let file = |name: &str, inode| ListedFile { path: name.into(), inode };
    let mut listings = [
        vec![file("1.segment", 1), file("new", 2)],
        vec![file("1.segment", 1), file("7.checkpoint", 2)],
        vec![file("1.segment", 3), file("7.checkpoint", 2)],
        vec![file("1.segment", 3), file("7.checkpoint", 2)],
    ]
    .into_iter();
    let mut searched = Vec::new();
    let mut search = |path: &Path| {
        searched.push(path.display().to_string());
        Ok::<_, ()>((path != Path::new("new")).then_some(10))
    };
    let mut list = || Ok(listings.next().expect("the last two listings are equal"));
    let summary = search_all(&mut list, &mut search).expect("nothing fails");
    assert_eq!(summary, SearchSummary { files: 3, bytes: 30 });
    assert_eq!(searched, ["1.segment", "new", "7.checkpoint", "1.segment"]);
}

#[test]
fn torn_tails_and_subdirectories_are_searched_too() {
    let directory = temporary_directory();
    let mut log = Log::open(directory.path(), Options::default());
    log.push(&[Row::of("whole")]);
    log.push(&[Row::of("cut off")]);
    drop(log);
    let file = &segments(directory.path())[0];
    tear_tail(file);
    let contains = |text: &str| run(&["check", as_arg(directory.path()), "--contains", text]);
    contains("cut off").assert_exit(1, &[" at "]);
    // Recovery quarantines the torn tail.
    let mut log = Log::open(directory.path(), Options::default());
    log.push(&[Row::of("later")]);
    log.close();
    contains("cut off").assert_exit(1, &[".torn-1: at offset "]);
    contains("whole").assert_exit(1, &["in the record with seq 1"]);
    fs::create_dir(directory.path().join("inner")).expect("created");
    fs::write(directory.path().join("inner/.hidden"), b"\xFF\x00hidden words").expect("written");
    contains("hidden words").assert_exit(1, &["inner/.hidden: at offset 2\n"]);
}

#[test]
fn all_matches_are_counted_and_a_limited_number_is_printed() {
    let directory = temporary_directory();
    for (places, remark) in [(MATCHES_SHOWN_MAX, None), (MATCHES_SHOWN_MAX + 1, Some("and 1 more places"))] {
        fs::write(directory.path().join("a"), "x ".repeat(places)).expect("written");
        let output = run(&["check", as_arg(directory.path()), "--contains", "x"]);
        output.assert_exit(1, &[&format!("found the text in {places} places")]);
        assert_eq!(output.out.matches("/a: at offset ").count(), MATCHES_SHOWN_MAX);
        assert_eq!(output.out.contains("more"), remark.is_some());
        output.assert_exit(1, remark.as_slice());
    }
}
