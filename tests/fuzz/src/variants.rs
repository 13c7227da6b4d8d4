//! A `variants` string is one by the grammar, and its canonical form is a fixed point.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use parallax::limits::{KEY_BYTES_MAX, PAIRS_MAX};
use parallax::resolve::decide::forced;
use parallax::resolve::variants::Asked;
use parallax::site::snapshot::format::ArchivedPage;
use parallax::site::snapshot::open::Snapshot;

use super::site::{self, FILES};
use super::snapshot::open;

static SNAPSHOT: LazyLock<Snapshot> =
    LazyLock::new(|| open(&site::snapshot(&FILES, 1)).expect("it was just compiled"));

/// A string, where it is text.
pub fn variants(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let page = SNAPSHOT.site().pages.iter().find(|page| page.path == *"/").expect("the front page");
    let pairs = pairs(text);
    assert_eq!(canonical(text, page), pairs.as_ref().map(due));
    if let Some(canonical) = canonical(text, page) {
        assert_eq!(self::canonical(&canonical, page).as_ref(), Some(&canonical));
        let unknown = Asked::read(&canonical, page).expect("it was just read").has_unknown();
        assert!(!unknown, "{canonical}");
    }
}

fn canonical(text: &str, page: &ArchivedPage) -> Option<String> {
    let asked = Asked::read(text, page).ok()?;
    let mut canonical = Vec::new();
    forced(page, &asked).canonical(page, &mut canonical);
    Some(String::from_utf8(canonical).expect("made of keys"))
}

/// By the grammar: pairs by zone, each once.
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

/// The page has a zone `hero`, and in its variant `b` a zone `inner` with a variant `c`.
fn due(pairs: &BTreeMap<&str, &str>) -> String {
    match (pairs.get("hero"), pairs.get("inner")) {
        (Some(&"b"), Some(&"c")) => "hero:b,inner:c".to_owned(),
        (Some(&"b"), _) => "hero:b".to_owned(),
        _ => String::new(),
    }
}
