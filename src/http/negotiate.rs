//! What a request's own words choose: the coding, the language, whether the client has it already.

/// The highest weight, and that of an item which says none.
const WEIGHT_MAX: u32 = 1000;

/// Whether `Accept-Encoding` takes gzip (RFC 9110 section 12.5.3): named with a weight above
/// zero, or not named under a `*` with one.
pub fn accepts_gzip(accept_encoding: Option<&[u8]>) -> bool {
    let Some(list) = accept_encoding else {
        return false;
    };
    let mut star = false;
    for (coding, weight) in weighted(list) {
        if coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip") {
            return weight > 0;
        }
        star |= coding == b"*" && weight > 0;
    }
    star
}

/// The first language of the highest weight in `Accept-Language`; None for `*` and nonsense.
pub fn language(accept_language: &[u8]) -> Option<&str> {
    let mut best: Option<(&[u8], u32)> = None;
    for (range, weight) in weighted(accept_language) {
        if weight > best.map_or(0, |(_, w)| w) && range != b"*" {
            best = Some((range, weight));
            // Nothing behind it can weigh more.
            if weight == WEIGHT_MAX {
                break;
            }
        }
    }
    let text = std::str::from_utf8(best?.0).ok()?;
    let is_tag = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    (is_tag && !text.is_empty()).then_some(text)
}

/// Whether `If-None-Match` names `etag`, compared weakly as RFC 9110 section 13.1.2 asks.
pub fn has_etag(if_none_match: &[u8], etag: &[u8]) -> bool {
    if_none_match.trim_ascii() == b"*"
        || if_none_match.split(|b| *b == b',').any(|item| {
            let item = item.trim_ascii();
            item.strip_prefix(b"W/").unwrap_or(item) == etag
        })
}

/// The items of a list with their weights in thousandths, the highest where none or a broken one is given.
fn weighted(list: &[u8]) -> impl Iterator<Item = (&[u8], u32)> {
    list.split(|b| *b == b',').map(|item| {
        let mut parts = item.split(|b| *b == b';');
        let name = parts.next().unwrap_or_default().trim_ascii();
        let weight = parts.find_map(|p| {
            let p = p.trim_ascii();
            p.strip_prefix(b"q=").or_else(|| p.strip_prefix(b"Q="))
        });
        (name, weight.map_or(WEIGHT_MAX, thousandths))
    })
}

fn thousandths(weight: &[u8]) -> u32 {
    let [whole, rest @ ..] = weight else {
        return WEIGHT_MAX;
    };
    let digits = rest.strip_prefix(b".").unwrap_or_default();
    let digit = |i: usize| digits.get(i).map_or(0, |d| u32::from(d.wrapping_sub(b'0').min(9)));
    let fraction = digit(0) * 100 + digit(1) * 10 + digit(2);
    (u32::from(*whole == b'1') * WEIGHT_MAX + fraction).min(WEIGHT_MAX)
}
