//! A `variants` string is valid exactly if it matches the grammar, and its canonical form is a fixed point.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use parallax::testing::limits::{KEY_BYTES_MAX, PAIRS_MAX};
use parallax::testing::resolve::decide::choose_forced;
use parallax::testing::resolve::variants::ForcedVariants;
use parallax::testing::site::snapshot::format::ArchivedPage;
use parallax::testing::site::snapshot::open::Snapshot;

use super::site::{self, FILES};
use super::snapshot::open;

static SNAPSHOT: LazyLock<Snapshot> =
    LazyLock::new(|| open(&site::snapshot(&FILES, 1)).expect("a valid snapshot"));

/// Parses a `variants` string. Ignores bytes that are not UTF-8.
pub fn variants(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let page = SNAPSHOT.site().pages.iter().find(|page| page.path == *"/").expect("the front page");
    let pairs = pairs(text);
    assert_eq!(canonical(text, page), pairs.as_ref().map(expected_canonical));
    if let Some(canonical) = canonical(text, page) {
        assert_eq!(self::canonical(&canonical, page).as_ref(), Some(&canonical));
        let unknown = ForcedVariants::parse(&canonical, page).expect("a canonical string").has_unknown();
        assert!(!unknown, "{canonical}");
    }
}

fn canonical(text: &str, page: &ArchivedPage) -> Option<String> {
    let forced = ForcedVariants::parse(text, page).ok()?;
    let mut canonical = Vec::new();
    choose_forced(page, &forced).write_canonical(page, &mut canonical);
    Some(String::from_utf8(canonical).expect("UTF-8"))
}

/// Parses pairs by the grammar. A zone occurs at most once.
fn pairs(text: &str) -> Option<BTreeMap<&str, &str>> {
    let is_key = |text: &str| {
        (1..=KEY_BYTES_MAX).contains(&text.len())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    };
    let texts: Vec<&str> = text.split(',').filter(|_| !text.is_empty()).collect();
    let pairs =
        texts.iter().map(|pair| pair.split_once(':').filter(|(zone, key)| is_key(zone) && is_key(key)));
    let pairs: BTreeMap<&str, &str> = pairs.collect::<Option<_>>()?;
    (pairs.len() == texts.len() && pairs.len() <= PAIRS_MAX).then_some(pairs)
}

/// Returns the expected canonical form. The page has a zone `hero`, whose variant `b` has a zone `inner`,
/// which has a variant `c`.
fn expected_canonical(pairs: &BTreeMap<&str, &str>) -> String {
    match (pairs.get("hero"), pairs.get("inner")) {
        (Some(&"b"), Some(&"c")) => "hero:b,inner:c".to_owned(),
        (Some(&"b"), _) => "hero:b".to_owned(),
        _ => String::new(),
    }
}
