//! The keys of visitor tokens: those of the operator, and those that a site gets.

use std::fmt;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

use crate::checksum::derive_key;
use crate::limits::{
    VISITOR_KEY_CHARS_MAX, VISITOR_KEY_CHARS_MIN, VISITOR_KEY_ID_CHARS_MAX, VISITOR_KEYS_MAX,
};

/// The purpose of the derived keys. Another format of tokens gets another purpose.
const PURPOSE: &str = "parallax 2026 visitor token 1";
/// Length of a site key in bytes.
const SITE_KEY_BYTES: usize = 32;

/// The keys of the operator, in the order of their lines. The first one seals.
#[derive(Debug, Default)]
pub struct VisitorKeys(Vec<VisitorKey>);

struct VisitorKey {
    id: Box<str>,
    secret: Box<str>,
}

impl fmt::Debug for VisitorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VisitorKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl VisitorKeys {
    /// Parses the text of a file. Each line has the ID of a key, a blank, and the key. Empty lines and lines that begin with `#` are
    /// ignored.
    ///
    /// # Errors
    /// A line is invalid, or there is none. The text begins with the separator after the name of the file, and has nothing of a key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut keys: Vec<VisitorKey> = Vec::new();
        let lines = text.lines().zip(1..).map(|(line, number)| (line.trim(), number));
        for (line, number) in lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#')) {
            let failed = |error: String| format!(":{number}: {error}");
            let key = parse_line(line).map_err(failed)?;
            if keys.len() == VISITOR_KEYS_MAX {
                return Err(failed(format!("the file has more than {VISITOR_KEYS_MAX} keys")));
            }
            if keys.iter().any(|other| other.id == key.id) {
                return Err(failed(format!("another line has the key ID {}", key.id)));
            }
            keys.push(key);
        }
        match keys.is_empty() {
            true => Err(" has no key; write a line with the ID of a key, a blank, and the key".to_owned()),
            false => Ok(Self(keys)),
        }
    }

    /// Returns the keys of a site.
    pub fn of_site(&self, site: &str) -> SiteKeys {
        SiteKeys(self.0.iter().map(|key| key.of_site(site)).collect())
    }

    /// Returns the key of a site that seals. `None` if there are no keys.
    #[cfg(feature = "server")]
    pub(crate) fn sealing_key(&self, site: &str) -> Option<SiteKey> {
        self.0.first().map(|key| key.of_site(site))
    }
}

impl VisitorKey {
    fn of_site(&self, site: &str) -> SiteKey {
        SiteKey {
            id: self.id.clone(),
            bytes: derive_key(PURPOSE, &[self.secret.as_bytes(), site.as_bytes()]),
        }
    }
}

/// Returns the key of a line.
fn parse_line(line: &str) -> Result<VisitorKey, String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [id, secret] = words[..] else {
        return Err("expected the ID of a key, a blank, and the key".to_owned());
    };
    if !is_key_id(id) {
        return Err(format!("the key ID {id:?} is not 1 to {VISITOR_KEY_ID_CHARS_MAX} letters or digits"));
    }
    let lengths = VISITOR_KEY_CHARS_MIN..=VISITOR_KEY_CHARS_MAX;
    if !lengths.contains(&secret.len()) || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "the key has {} characters, expected {VISITOR_KEY_CHARS_MIN} to {VISITOR_KEY_CHARS_MAX} visible ASCII \
             characters, such as the output of `openssl rand -hex 32`",
            secret.chars().count()
        ));
    }
    Ok(VisitorKey { id: id.into(), secret: secret.into() })
}

fn is_key_id(text: &str) -> bool {
    (1..=VISITOR_KEY_ID_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The keys of one site, for a program that opens its tokens: `ID:HEX`, joined by commas.
#[derive(Debug, Default)]
pub struct SiteKeys(Vec<SiteKey>);

/// A key of one site.
pub(crate) struct SiteKey {
    pub(crate) id: Box<str>,
    pub(crate) bytes: [u8; SITE_KEY_BYTES],
}

impl fmt::Debug for SiteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SiteKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl SiteKeys {
    /// Parses the text of keys. An empty text has none.
    ///
    /// # Errors
    /// The text has another form. The error has nothing of a key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let keys = text.split(',').filter(|key| !key.trim().is_empty()).map(|key| {
            parse_site_key(key.trim()).ok_or_else(|| {
                "the visitor keys are not ID:KEY pairs joined by ','; use the output of `parallax visitor-keys`".to_owned()
            })
        });
        keys.collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn find(&self, id: &str) -> Option<&SiteKey> {
        self.0.iter().find(|key| &*key.id == id)
    }
}

fn parse_site_key(text: &str) -> Option<SiteKey> {
    let (id, hex) = text.split_once(':').filter(|(id, _)| is_key_id(id))?;
    let mut bytes = [0; SITE_KEY_BYTES];
    let is_hex =
        hex.len() == 2 * SITE_KEY_BYTES && HEXLOWER_PERMISSIVE.decode_mut(hex.as_bytes(), &mut bytes).is_ok();
    is_hex.then(|| SiteKey { id: id.into(), bytes })
}

impl fmt::Display for SiteKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> =
            self.0.iter().map(|key| format!("{}:{}", key.id, HEXLOWER.encode(&key.bytes))).collect();
        f.write_str(&keys.join(","))
    }
}
