//! Parsed parameters equal those of a naive parser of the query string.

use parallax::testing::http::params::{Param, ParamGroup, Params};
use parallax::testing::limits::QUERY_PARAMS_MAX;

const PARAMS: [Param; 18] = [
    Param::TrackingId,
    Param::Site,
    Param::Query,
    Param::Route,
    Param::AnonId,
    Param::Variants,
    Param::Strict,
    Param::Explain,
    Param::Url,
    Param::Referrer,
    Param::UserAgent,
    Param::Locale,
    Param::Country,
    Param::Prefix,
    Param::Since,
    Param::Limit,
    Param::Cursor,
    Param::Include,
];

/// Parses a query string. Ignores bytes that are not UTF-8.
pub fn query_string(bytes: &[u8]) {
    let Ok(query) = std::str::from_utf8(bytes) else { return };
    let pairs: Vec<Pair> = query.split('&').map(pair).collect();
    check_params(query, &pairs);
    check_group(query, &pairs);
}

/// A decoded name and value.
type Pair = (Vec<u8>, Vec<u8>);

fn pair(text: &str) -> Pair {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    (decoded(name), decoded(value))
}

fn decoded(text: &str) -> Vec<u8> {
    let text = text.replace('+', " ").into_bytes();
    let (mut decoded, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let digits =
            text.get(at + 1..at + 3).filter(|two| text[at] == b'%' && two.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|two| std::str::from_utf8(two).ok());
        decoded.push(digits.map_or(text[at], |digits| u8::from_str_radix(digits, 16).expect("two digits")));
        at += if digits.is_some() { 3 } else { 1 };
    }
    decoded
}

fn check_params(query: &str, pairs: &[Pair]) {
    let values = |param: Param| -> Vec<&[u8]> {
        let of = pairs.iter().filter(|(name, _)| name == param.name().as_bytes());
        of.map(|(_, value)| &value[..]).collect()
    };
    let is_right = |param: &Param| match values(*param)[..] {
        [] => true,
        [value] => std::str::from_utf8(value).is_ok(),
        _ => false,
    };
    let mut scratch = Vec::new();
    match Params::parse(query, &mut scratch) {
        Err(problem) => assert!(!PARAMS.iter().all(is_right), "{}", problem.kind.code),
        Ok(params) => {
            for param in PARAMS {
                let sent: Vec<&[u8]> =
                    params.get_even_if_empty(param).into_iter().map(str::as_bytes).collect();
                assert_eq!(sent, values(param), "{}", param.name());
            }
        }
    }
}

fn check_group(query: &str, pairs: &[Pair]) {
    let group = pairs.iter().filter_map(|(name, value)| Some((name.strip_prefix(b"params.")?, &value[..])));
    let group: Vec<(&[u8], &[u8])> = group.take(QUERY_PARAMS_MAX + 1).collect();
    let is_text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
    let is_right = |at: usize| {
        let (name, value) = group[at];
        is_text(name) && is_text(value) && group[..at].iter().all(|(other, _)| *other != name)
    };
    let mut scratch = Vec::new();
    match ParamGroup::parse(query, "params", &mut scratch) {
        Err(problem) => assert!(!(0..group.len()).all(is_right), "{}", problem.kind.code),
        Ok(read) => {
            let read: Vec<_> =
                read.pairs().iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            assert_eq!(read, group);
        }
    }
}
