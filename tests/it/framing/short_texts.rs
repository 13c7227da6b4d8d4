//! Searches and checks that read 16 bytes at a time, compared with loops over the bytes.

use parallax::testing::http::head_parser::HeadParser;
use parallax::testing::http::request::{ParseOutcome, parse};
use parallax::testing::http::short_search::{contains, position, position_or_non_ascii};

use crate::dice::Dice;

#[test]
fn a_search_finds_the_first_wanted_byte_of_a_text_of_any_length() {
    let mut dice = Dice(1);
    let mut found = 0;
    for _ in 0..100_000 {
        let length = dice.below(70);
        let text: Vec<u8> = (0..length).map(|_| *dice.pick(b"aaaaaaaaaaaaaaaa\x00\xff=&%+")).collect();
        for wanted in [*b"&=", *b"%+", *b"&&", *b"&\0"] {
            let from = dice.below(length + 1);
            for from in [0, from, length] {
                let naive = (from..length).find(|at| wanted.contains(&text[*at]));
                let texts = (wanted.escape_ascii(), text.escape_ascii());
                assert_eq!(position(&text, from, wanted), naive, "{} in {} from {from}", texts.0, texts.1);
                let naive = (from..length).find(|at| wanted.contains(&text[*at]) || !text[*at].is_ascii());
                let found = position_or_non_ascii(&text, from, wanted);
                assert_eq!(found, naive, "{} in {} from {from}", texts.0, texts.1);
            }
            let naive = text.iter().position(|byte| wanted.contains(byte));
            assert_eq!(contains(&text, wanted), naive.is_some(), "{}", text.escape_ascii());
            found += usize::from(naive.is_some_and(|at| at >= 16));
        }
    }
    assert!(found > 10_000, "{found} of the bytes are after the first 16");
}

#[test]
fn a_target_has_only_visible_ascii_without_a_hash_sign_at_each_place() {
    let mut heads = HeadParser::new(None);
    for length in (2..40).chain([63, 64, 65]) {
        for at in 1..length {
            for byte in 0..=u8::MAX {
                let mut target = vec![b'/'; length];
                target[at] = byte;
                let head = [b"GET ", &target[..], b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
                let expected = byte.is_ascii_graphic() && byte != b'#';
                // The first parser reads all fields, the second one knows them.
                for outcome in [parse(&head, None), heads.parse(0, &head)] {
                    let is_complete = matches!(outcome, ParseOutcome::Complete(..));
                    assert_eq!(is_complete, expected, "{}", head.escape_ascii());
                }
            }
        }
    }
}
