//! Content negotiation, conditional requests and preferences: `Accept`, `Accept-Encoding`, `Accept-Language`,
//! `If-Match`, `If-None-Match` and `Prefer`.

/// The highest weight, in thousandths. An item without a weight has this one.
const WEIGHT_MAX: u32 = 1000;

/// Returns whether `Accept-Encoding` accepts gzip (RFC 9110 section 12.5.3): by name with a weight above
/// zero, or by a `*` with such a weight if gzip is not named.
pub(crate) fn accepts_gzip<'a>(accept_encoding_lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut star = false;
    for (coding, weight) in accept_encoding_lines.flat_map(weighted_items) {
        if coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip") {
            return weight > 0;
        }
        star |= coding == b"*" && weight > 0;
    }
    star
}

/// Returns the first language with the highest weight in `Accept-Language`. Returns `None` if there is none,
/// or if it is not a valid tag. `*` does not count.
pub(crate) fn preferred_language(accept_language: &[u8]) -> Option<&[u8]> {
    // An item without a weight has the highest one. If it is the first item, no other one is preferred.
    let first_end =
        accept_language.iter().position(|b| matches!(b, b',' | b';')).unwrap_or(accept_language.len());
    let range = match (accept_language[..first_end].trim_ascii(), accept_language.get(first_end)) {
        (first, Some(b',') | None) if !matches!(first, b"*" | b"") => first,
        _ => best_range(accept_language)?,
    };
    let is_tag = !range.is_empty() && range.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-');
    is_tag.then_some(range)
}

/// Returns the first item with the highest weight, except `*`.
fn best_range(accept_language: &[u8]) -> Option<&[u8]> {
    let mut best: Option<(&[u8], u32)> = None;
    for (range, weight) in weighted_items(accept_language) {
        if weight > best.map_or(0, |(_, w)| w) && range != b"*" {
            best = Some((range, weight));
            // No later item can have a higher weight.
            if weight == WEIGHT_MAX {
                break;
            }
        }
    }
    best.map(|(range, _)| range)
}

/// Returns whether a line of `If-None-Match` matches `etag`, by the weak comparison of RFC 9110 section 13.1.2.
pub(crate) fn matches_etag(if_none_match_line: &[u8], etag: &[u8]) -> bool {
    if_none_match_line.trim_ascii() == b"*"
        || if_none_match_line.split(|b| *b == b',').any(|item| {
            let item = item.trim_ascii();
            item.strip_prefix(b"W/").unwrap_or(item) == etag
        })
}

/// Returns whether a line of `If-Match` matches `etag`, by the strong comparison of RFC 9110 section 13.1.1.
pub(crate) fn matches_strong_etag(if_match_line: &[u8], etag: &[u8]) -> bool {
    if_match_line.trim_ascii() == b"*"
        || if_match_line.split(|b| *b == b',').any(|item| item.trim_ascii() == etag)
}

/// Returns whether `Accept` in a header section names CSV. Most endpoints have one media type, so the field
/// is read from the section again.
pub(crate) fn accepts_csv(section: &[u8]) -> bool {
    field_lines(section, b"accept:")
        .flat_map(weighted_items)
        .any(|(name, weight)| weight > 0 && name.eq_ignore_ascii_case(b"text/csv"))
}

/// Returns the value of the first field of a header section with this name. `name` is in lower case and ends
/// in a colon. This is for fields that only the admin address reads, so that the parser does not compare the
/// names of all requests with them.
pub(crate) fn field<'a>(section: &'a [u8], name: &'static [u8]) -> Option<&'a [u8]> {
    field_lines(section, name).next().map(<[u8]>::trim_ascii)
}

/// Returns the value of a field that is there once. `None` if it is absent or repeated.
pub(crate) fn only_field<'a>(section: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut lines = field_lines(section, name);
    lines.next().filter(|_| lines.next().is_none()).map(<[u8]>::trim_ascii)
}

fn field_lines<'a, 'n>(section: &'a [u8], name: &'n [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
    section.split(|b| *b == b'\n').filter_map(move |line| {
        let (found, value) = line.split_at_checked(name.len())?;
        found.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// Returns whether a comma-separated list contains `token`, in any case.
pub(crate) fn has_token(list: &[u8], token: &[u8]) -> bool {
    list.split(|b| *b == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(token))
}

/// Returns whether a line of `Prefer` has the preference `name` with `value`, such as `return=minimal` (RFC 7240). The value
/// can be quoted, and parameters can follow.
pub(crate) fn has_preference(prefer_line: &[u8], name: &[u8], value: &[u8]) -> bool {
    prefer_line.split(|b| *b == b',').any(|item| {
        let preference = item.split(|b| *b == b';').next().unwrap_or_default();
        let mut parts = preference.splitn(2, |b| *b == b'=').map(<[u8]>::trim_ascii);
        let actual_name = parts.next().unwrap_or_default();
        let actual = parts.next().unwrap_or_default();
        let quoted = actual.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        actual_name.eq_ignore_ascii_case(name) && quoted.unwrap_or(actual).eq_ignore_ascii_case(value)
    })
}

/// Returns the items of a list with their weights in thousandths, without empty items (RFC 9110 section 5.6.1.2). A missing or
/// empty weight counts as the highest.
fn weighted_items(list: &[u8]) -> impl Iterator<Item = (&[u8], u32)> {
    list.split(|b| *b == b',').filter_map(|item| {
        let mut parts = item.split(|b| *b == b';');
        let name = parts.next().unwrap_or_default().trim_ascii();
        let weight = parts.find_map(|p| {
            let p = p.trim_ascii();
            p.strip_prefix(b"q=").or_else(|| p.strip_prefix(b"Q="))
        });
        (!name.is_empty()).then(|| (name, weight.map_or(WEIGHT_MAX, parse_weight)))
    })
}

fn parse_weight(weight: &[u8]) -> u32 {
    let [whole, rest @ ..] = weight else {
        return WEIGHT_MAX;
    };
    let digits = rest.strip_prefix(b".").unwrap_or_default();
    let digit = |i: usize| digits.get(i).map_or(0, |d| u32::from(d.wrapping_sub(b'0').min(9)));
    let fraction = digit(0) * 100 + digit(1) * 10 + digit(2);
    (u32::from(*whole == b'1') * WEIGHT_MAX + fraction).min(WEIGHT_MAX)
}
