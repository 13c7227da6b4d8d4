//! The tables of regular expressions as bytes.

use parallax::testing::condition::{Patterns, TABLE_FORMAT};
use parallax::testing::limits::{PATTERN_DFA_BYTES_MAX, PATTERNS_MAX};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::harness::times;

const SOURCES: [&str; 12] = [
    "a+",
    "^a[bc]*$",
    "(?i)straße",
    r"(?-u:\b)get(?-u:\b)",
    "[^a-z]{2,4}",
    "",
    "^$",
    "é|ü",
    r"\p{Greek}+",
    "(?:ab|ac|ad){3}",
    ".{3}x",
    r"\.(?:png|jpe?g)$",
];

/// Texts with many matches of these expressions, and none.
fn text() -> impl Strategy<Value = String> {
    "[abcdx é.\u{3b1}Gget pngjSTRASSEß]{0,12}"
}

fn read(tables: &[Vec<u8>]) -> Result<Patterns, &'static str> {
    Patterns::read(tables.iter().map(Vec::as_slice))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(times(500, 1_000_000) as u32))]

    #[test]
    fn a_table_that_was_read_finds_the_matches_of_the_built_one(texts in prop::collection::vec(text(), 20)) {
        let built = Patterns::new(&SOURCES).expect("valid expressions");
        let read = read(&built.tables()).expect("sound tables");
        for text in texts {
            for (index, source) in SOURCES.iter().enumerate() {
                let expected = built.is_match(index, &text);
                prop_assert_eq!(read.is_match(index, &text), expected, "{} in {:?}", source, text);
            }
        }
    }

    #[test]
    fn a_damaged_table_is_refused_or_searched_without_a_panic(
        source in select(&SOURCES[..]),
        changes in prop::collection::vec((any::<Index>(), any::<u8>(), 0..8u32), 1..4),
        texts in prop::collection::vec(text(), 100),
    ) {
        let mut tables = Patterns::new(&[source]).expect("a valid expression").tables();
        for (at, byte, bit) in changes {
            // Half of the changes flip a bit, so that many numbers stay in their range.
            let place = at.index(tables[0].len());
            tables[0][place] = if byte % 2 == 0 { tables[0][place] ^ (1 << bit) } else { byte };
        }
        if let Ok(read) = read(&tables) {
            texts.iter().for_each(|text| { read.is_match(0, text); });
        }
    }
}

#[test]
fn the_tables_have_the_format_that_the_library_writes() {
    for table in Patterns::new(&SOURCES).expect("valid expressions").tables() {
        let label = b"rust-regex-automata-dfa-dense\0\0\0";
        assert!(table.starts_with(label), "{:?}", &table[..40]);
        // A mark of the byte order is before the number.
        assert_eq!(
            table[36..40],
            TABLE_FORMAT.to_le_bytes(),
            "set TABLE_FORMAT, and raise the format of snapshots"
        );
    }
}

#[test]
fn a_table_is_read_at_any_address() {
    let table = Patterns::new(&["^a+$"]).expect("a valid expression").tables().remove(0);
    for offset in 0..8 {
        let shifted = [vec![0; offset], table.clone()].concat();
        let read = Patterns::read([&shifted[offset..]].into_iter()).expect("a sound table");
        assert!(read.is_match(0, "aa") && !read.is_match(0, "ab"));
    }
}

#[test]
fn a_table_with_bytes_before_or_after_it_is_refused() {
    let table = Patterns::new(&["a"]).expect("a valid expression").tables().remove(0);
    for damaged in [&table[1..], &table[..table.len() - 1], &[&table[..], &[0; 4]].concat(), &[]] {
        assert_eq!(read(&[damaged.to_vec()]).err(), Some("the table of a regular expression is damaged"));
    }
}

#[test]
fn tables_have_the_limits_of_expressions() {
    let table = Patterns::new(&["a"]).expect("a valid expression").tables().remove(0);
    for count in [PATTERNS_MAX - 1, PATTERNS_MAX, PATTERNS_MAX + 1] {
        assert_eq!(read(&vec![table.clone(); count]).is_ok(), count <= PATTERNS_MAX, "{count}");
    }
    // A table has up to 4 KiB beside its numbers.
    let bytes_max = PATTERN_DFA_BYTES_MAX + 4_096;
    for bytes in [bytes_max - 1, bytes_max, bytes_max + 1] {
        let fault = if bytes > bytes_max { "too large" } else { "damaged" };
        let refusal = read(&[vec![0; bytes]]).expect_err("no table is only zeros");
        assert_eq!(refusal, format!("the table of a regular expression is {fault}"), "{bytes}");
    }
    // The largest table that can be built is read.
    let letters = (1..24).rev().find(|letters| Patterns::new(&[format!("a[ab]{{{letters}}}c")]).is_ok());
    let largest =
        Patterns::new(&[format!("a[ab]{{{}}}c", letters.expect("one is built"))]).expect("it is built");
    assert!(read(&largest.tables()).is_ok());
}
