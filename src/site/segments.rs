//! The values that the filters of questions and of segments allow.

use crate::limits::KEY_BYTES_MAX;

/// The devices that events can have.
const DEVICES: [&str; 4] = ["desktop", "mobile", "tablet", "bot"];

/// Returns the values that a filter allows, as a noun phrase, if it does not allow this one. Returns `None` if it does.
pub(crate) fn expected_value(filter_name: &str, value: &str) -> Option<&'static str> {
    match filter_name {
        "variant" if !is_variant(value) => Some("'zone:key' with a key other than 'default'"),
        "device" if !DEVICES.contains(&value) => Some("'desktop', 'mobile', 'tablet' or 'bot'"),
        _ => None,
    }
}

fn is_variant(text: &str) -> bool {
    text.split_once(':').is_some_and(|(zone, key)| is_key(zone) && is_key(key) && key != "default")
}

fn is_key(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=KEY_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_letter)
}
