//! The spelling of page paths: Unicode normalization form C (UAX #15).
//!
//! `é` can be written as one character, or as `e` and a combining accent. Browsers and file systems use both. A path in form C
//! has one spelling, so a page has one path wherever it is compared: in routes, requests, events, conditions and questions.

use std::borrow::Cow;

use icu_normalizer::ComposingNormalizerBorrowed;

const NORMALIZER: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfc();

/// Returns whether a text is in form C. ASCII always is.
pub(crate) fn is_normalized(text: &str) -> bool {
    text.is_ascii() || NORMALIZER.is_normalized(text)
}

/// Appends a text in form C. It is at most three times as long.
pub(crate) fn append(out: &mut String, text: &str) {
    // Writing to a `String` does not fail.
    let _ = NORMALIZER.normalize_to(text, out);
}

/// Returns a text in form C.
pub fn normalize(text: &str) -> Cow<'_, str> {
    if text.is_ascii() { Cow::Borrowed(text) } else { NORMALIZER.normalize(text) }
}
