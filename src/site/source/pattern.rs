//! The patterns for authored names, and `Name`, the most common one.
//!
//! Each pattern exists twice: as a regular expression for the schema (ECMA-262, evaluated by editors), and as
//! the function that validates here. A test checks that both agree.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::ids::is_tracking_id;
use crate::site::goals::PropertyPath;

/// A pattern that a schema can use.
pub struct Pattern {
    pub regex: &'static str,
    /// The phrase for [`Diagnostic::expected`](super::diagnostics::Diagnostic::expected).
    pub description: &'static str,
    pub matches: fn(&str) -> bool,
}

pub(crate) const NAME: Pattern =
    Pattern { regex: "^[A-Za-z0-9_-]{1,64}$", description: "1 to 64 of A-Z a-z 0-9 _ -", matches: is_name };

pub(crate) const VARIANT_KEY: Pattern = Pattern {
    regex: "^(?!default$)[A-Za-z0-9_-]{1,64}$",
    description: "1 to 64 of A-Z a-z 0-9 _ -, and not `default`, which is reserved",
    matches: |text| is_name(text) && text != "default",
};

pub(crate) const TRACKING_ID: Pattern = Pattern {
    regex: "^track_[A-Za-z0-9_-]{1,64}$",
    description: "`track_` and 1 to 64 of A-Z a-z 0-9 _ -",
    matches: is_tracking_id,
};

/// A token of RFC 9110, as RFC 6265 requires for the name of a cookie.
pub(crate) const COOKIE: Pattern = Pattern {
    regex: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$",
    description: "a cookie's name: 1 to 64 of A-Z a-z 0-9 ! # $ % & ' * + - . ^ _ ` | ~",
    matches: |text| {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        (1..=64).contains(&text.len()) && text.bytes().all(is_token)
    },
};

/// The form of browsers: lower case, without scheme and port. Letters outside ASCII are those of an internationalized
/// name. The compiler checks them.
pub(crate) const HOST: Pattern = Pattern {
    regex: "^([a-z0-9_-]|[^\\x00-\\x7F])+(\\.([a-z0-9_-]|[^\\x00-\\x7F])+)*$",
    description: "a host name in lower case such as `shop.example.com`, without scheme, port and path",
    matches: |text| {
        let is_letter = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte) || byte >= 0x80
        };
        text.split('.').all(|label| !label.is_empty() && label.bytes().all(is_letter))
    },
};

/// A host, or a domain with all its subdomains.
pub(crate) const HOSTS: Pattern = Pattern {
    regex: "^(\\*\\.)?[a-z0-9_-]+(\\.[a-z0-9_-]+)*$",
    description: "a host name in lower case such as `checkout.example.com`, or `*.example.com` for a domain and all its \
                  subdomains, without scheme, port and path",
    matches: |text| (HOST.matches)(text.strip_prefix("*.").unwrap_or(text)),
};

/// The compiler checks the rest of a path.
pub(crate) const ROUTE_PATH: Pattern = Pattern {
    regex: "^/",
    description: "a path that begins with `/`",
    matches: |text| text.starts_with('/'),
};

pub(crate) const ITEM_PATH: Pattern = Pattern {
    regex: "^(id|type|fields\\.[^\\r\\n]+)$",
    description: "`id`, `type`, or a field such as `fields.slug`",
    matches: |text| {
        let is_field = |path: &str| !path.is_empty() && !path.contains(['\n', '\r']);
        text == "id" || text == "type" || text.strip_prefix("fields.").is_some_and(is_field)
    },
};

pub(crate) const PROPERTY: Pattern = Pattern {
    regex: "^properties(\\.[^.*\"\\\\\\x00-\\x1F\\x7F-\\x9F]+)+$",
    description: "a property of events such as `properties.form`",
    matches: |text| PropertyPath::parse(text).is_some(),
};

/// All patterns that a schema can use.
pub const PATTERNS: [Pattern; 9] =
    [NAME, VARIANT_KEY, TRACKING_ID, COOKIE, HOST, HOSTS, ROUTE_PATH, ITEM_PATH, PROPERTY];

/// Length of a name, in characters, and of a tracking ID after `track_`. The patterns have the same number.
pub(crate) const NAME_CHARS_MAX: usize = 64;

fn is_name(text: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_name_byte)
}

/// Returns whether a name can contain this byte.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// A name of 1 to 64 letters, digits, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(inline, extend("pattern" = NAME.regex))]
pub struct Name(String);

impl TryFrom<String> for Name {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Name, Self::Error> {
        if (NAME.matches)(&text) { Ok(Name(text)) } else { Err(NAME.description) }
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
