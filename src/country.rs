//! Codes of countries (ISO 3166-1 alpha-2), as requests, events and rules name them.

/// Codes that content delivery networks send for an unknown country. Their codes for proxies and satellites have a digit.
const UNKNOWN: [[u8; 2]; 2] = [*b"XX", *b"ZZ"];

/// Codes that people use for a country, with the assigned code.
const ALIASES: [([u8; 2], [u8; 2]); 2] = [(*b"UK", *b"GB"), (*b"EL", *b"GR")];

/// Returns the code of a country in upper case. Returns `None` if the text names none.
pub(crate) fn country_code(text: &[u8]) -> Option<[u8; 2]> {
    let code = <[u8; 2]>::try_from(text).ok()?.map(|byte| byte.to_ascii_uppercase());
    if !code.iter().all(u8::is_ascii_uppercase) || UNKNOWN.contains(&code) {
        return None;
    }
    Some(ALIASES.iter().find(|(alias, _)| *alias == code).map_or(code, |(_, assigned)| *assigned))
}
