//! The patterns that names of an author's have to match, and `Name`, the type of the commonest.
//!
//! Each pattern is there twice: as a regular expression for the schema (ECMA-262, which editors run) and as the function that
//! decides here. A test holds the two together.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use schemars::JsonSchema;
use serde::Deserialize;

/// A pattern of the schema.
pub struct Pattern {
    pub regex: &'static str,
    /// What an author is told to write: a phrase for `Mistake::expected`.
    pub says: &'static str,
    pub holds: fn(&str) -> bool,
}

pub const NAME: Pattern =
    Pattern { regex: "^[A-Za-z0-9_-]{1,64}$", says: "1 to 64 of A-Z a-z 0-9 _ -", holds: is_name };

pub const VARIANT_KEY: Pattern = Pattern {
    regex: "^(?!default$)[A-Za-z0-9_-]{1,64}$",
    says: "1 to 64 of A-Z a-z 0-9 _ -, and not `default`, which names the zone's own nodes",
    holds: |text| is_name(text) && text != "default",
};

pub const TRACKING_ID: Pattern = Pattern {
    regex: "^track_[A-Za-z0-9_-]{1,64}$",
    says: "`track_` and 1 to 64 of A-Z a-z 0-9 _ -",
    holds: |text| text.strip_prefix("track_").is_some_and(is_name),
};

/// A token of RFC 9110, which is what RFC 6265 allows as a cookie's name.
pub const COOKIE: Pattern = Pattern {
    regex: "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$",
    says: "a cookie's name: 1 to 64 of A-Z a-z 0-9 ! # $ % & ' * + - . ^ _ ` | ~",
    holds: |text| {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        (1..=64).contains(&text.len()) && text.bytes().all(is_token)
    },
};

/// The rest of a path is `compile`'s to judge.
pub const ROUTE_PATH: Pattern =
    Pattern { regex: "^/", says: "a path that begins with `/`", holds: |text| text.starts_with('/') };

pub const ITEM_PATH: Pattern = Pattern {
    regex: "^(id|type|fields\\.[^\\r\\n]+)$",
    says: "`id`, `type`, or a field such as `fields.slug`",
    holds: |text| {
        let is_field = |path: &str| !path.is_empty() && !path.contains(['\n', '\r']);
        text == "id" || text == "type" || text.strip_prefix("fields.").is_some_and(is_field)
    },
};

/// Every pattern that a schema may name.
pub const PATTERNS: [Pattern; 6] = [NAME, VARIANT_KEY, TRACKING_ID, COOKIE, ROUTE_PATH, ITEM_PATH];

fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=64).contains(&text.len()) && text.bytes().all(is_letter)
}

/// A name of 1 to 64 letters, digits, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(inline, extend("pattern" = NAME.regex))]
pub struct Name(String);

impl TryFrom<String> for Name {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Name, Self::Error> {
        if (NAME.holds)(&text) { Ok(Name(text)) } else { Err(NAME.says) }
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
