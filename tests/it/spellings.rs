//! The form of paths: Unicode normalization form C, in one place for all users of paths.

use icu_normalizer::DecomposingNormalizerBorrowed;
use parallax::testing::nfc::normalize;
use parallax::testing::resolve::path::RoutePath;
use proptest::prelude::*;

const DECOMPOSER: DecomposingNormalizerBorrowed<'static> = DecomposingNormalizerBorrowed::new_nfd();

/// Generates texts with letters that decompose, combining characters in any order, Hangul, and characters that form C replaces.
fn any_text() -> impl Strategy<Value = String> {
    let char = prop_oneof![
        any::<char>(),
        proptest::char::range('a', 'z'),
        proptest::char::range('\u{c0}', '\u{17f}'),
        proptest::char::range('\u{300}', '\u{36f}'),
        proptest::char::range('\u{1100}', '\u{11ff}'),
        proptest::char::range('\u{ac00}', '\u{d7a3}'),
        proptest::char::range('\u{958}', '\u{95f}'),
        proptest::char::range('\u{1d15e}', '\u{1d164}'),
        proptest::sample::select(vec!['\u{212b}', '\u{2126}', '\u{f900}', '\u{338}', '=', '<']),
    ];
    prop::collection::vec(char, 0..12).prop_map(|chars| chars.into_iter().collect())
}

/// Parses a path. Returns its text, its segments, and its length in bytes.
fn parse(value: &str) -> Option<(String, Vec<String>)> {
    let mut path = RoutePath::new();
    path.parse("/the path before").expect("a path");
    path.parse(value).ok()?;
    Some((path.text().to_owned(), (0..path.len()).map(|i| path.segment(i).to_owned()).collect()))
}

fn escape(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

proptest! {
    #[test]
    fn a_normalized_text_stays_as_it_is_and_both_spellings_have_the_same(text in any_text()) {
        let normalized = normalize(&text);
        prop_assert_eq!(normalize(&normalized), &*normalized);
        let decomposed = DECOMPOSER.normalize(&text);
        prop_assert_eq!(normalize(&decomposed), &*normalized);
        prop_assert!(normalized.len() <= 3 * text.len());
    }

    #[test]
    fn a_path_has_the_same_segments_in_each_spelling(texts in prop::collection::vec(any_text(), 1..4)) {
        let segments: Vec<String> = texts.iter().map(|text| text.replace(['/', '%', '?', '#'], "")).collect();
        prop_assume!(segments.iter().all(|segment| !segment.is_empty()));
        let spelled = |spell: &dyn Fn(&str) -> String| {
            segments.iter().map(|segment| format!("/{}", spell(segment))).collect::<String>()
        };
        let expected: Vec<String> = segments.iter().map(|segment| normalize(segment).into_owned()).collect();
        let expected = Some((format!("/{}", expected.join("/")), expected));
        let decompose = |text: &str| DECOMPOSER.normalize(text).into_owned();
        for value in [
            spelled(&str::to_owned),
            spelled(&decompose),
            spelled(&escape),
            spelled(&|text| escape(&decompose(text))),
        ] {
            prop_assert_eq!(&parse(&value), &expected, "{:?}", value);
        }
    }
}

#[test]
fn a_slash_in_a_segment_and_a_slash_between_segments_stay_what_they_are() {
    let composed = parse("/a%2F\u{e9}/\u{338}x").expect("a path");
    assert_eq!(composed.1, ["a/\u{e9}", "\u{338}x"]);
    assert_eq!(parse("/a%2Fe\u{301}/%CC%B8x"), Some(composed));
}
