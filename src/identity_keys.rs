//! The keys with which sites sign the IDs of their users (`--identity-keys`), and the rule by which a user ID counts.
//!
//! The file has a key in each line: the ID of the site, a blank, and the key. Empty lines and lines that begin with `#` are
//! ignored. The bytes of the key's text are the key of the HMAC, as in the tools that compute such hashes. Keys belong to a
//! site, because a hash contains the user ID alone: a user of another site could have the same one.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER_PERMISSIVE;

use crate::checksum::HmacKey;
use crate::limits::{IDENTITY_KEY_CHARS_MAX, IDENTITY_KEY_CHARS_MIN, IDENTITY_KEYS_OF_SITE_MAX};

/// Length of a `userHash`: the hex digits of 32 bytes.
const USER_HASH_CHARS: usize = 64;

/// The keys of all sites.
#[derive(Debug, Default)]
pub struct IdentityKeys(BTreeMap<Box<str>, Vec<HmacKey>>);

impl IdentityKeys {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// A line is invalid. The text begins with the separator after the name of the file, and has nothing of a key.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut sites: BTreeMap<Box<str>, Vec<HmacKey>> = BTreeMap::new();
        let lines = text.lines().zip(1..).map(|(line, number)| (line.trim(), number));
        for (line, number) in lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#')) {
            let failed = |error: String| format!(":{number}: {error}");
            let (site, key) = parse_line(line).map_err(failed)?;
            let keys = sites.entry(site.into()).or_default();
            if keys.len() == IDENTITY_KEYS_OF_SITE_MAX {
                let error = format!("site {site} has more than {IDENTITY_KEYS_OF_SITE_MAX} keys");
                return Err(failed(error));
            }
            keys.push(HmacKey::new(key.as_bytes()));
        }
        if sites.is_empty() {
            return Err(" has no key; write a line with the ID of the site, a blank, and its key".to_owned());
        }
        Ok(Self(sites))
    }

    /// Returns the keys of a site. `preview_name` is the name of a preview site, which has the keys of the site it is made from.
    pub fn of_site(&self, site: &str, preview_name: Option<&str>) -> &[HmacKey] {
        let original = preview_name.and_then(|name| site.strip_suffix(name)?.strip_suffix("--"));
        self.0.get(original.unwrap_or(site)).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of sites.
    pub fn sites(&self) -> usize {
        self.0.len()
    }
}

/// Returns the site and the key of a line.
fn parse_line(line: &str) -> Result<(&str, &str), String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [site, key] = words[..] else {
        return Err("expected the ID of a site, a blank, and a key".to_owned());
    };
    let lengths = IDENTITY_KEY_CHARS_MIN..=IDENTITY_KEY_CHARS_MAX;
    if !lengths.contains(&key.len()) || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "the key has {} characters, expected {IDENTITY_KEY_CHARS_MIN} to {IDENTITY_KEY_CHARS_MAX} visible ASCII \
             characters, such as the output of `openssl rand -hex 32`",
            key.chars().count()
        ));
    }
    Ok((site, key))
}

/// The rule by which the user IDs of a request count.
#[derive(Debug, Clone, Copy)]
pub enum UserRule<'a> {
    /// Each user ID counts.
    Any,
    /// A user ID counts only with its hash.
    Signed {
        /// The keys of the site. Without a key no user ID counts.
        keys: &'a [HmacKey],
        /// The hash in the header of the request. It counts if an event has none.
        header_hash: Option<&'a [u8]>,
    },
}

impl UserRule<'_> {
    /// Returns whether a user ID counts. `hash` is that of its event.
    pub fn accepts(&self, user_id: &str, hash: Option<&str>) -> bool {
        match self {
            Self::Any => true,
            Self::Signed { keys, header_hash } => {
                hash.map(str::as_bytes).or(*header_hash).is_some_and(|hash| is_hash_of(keys, user_id, hash))
            }
        }
    }
}

/// Returns whether `hash` is the hash of the user ID with one of the keys. Tries all keys, so that the time does not depend
/// on the key that fits.
fn is_hash_of(keys: &[HmacKey], user_id: &str, hash: &[u8]) -> bool {
    let mut mac = [0; USER_HASH_CHARS / 2];
    let is_hex = hash.len() == USER_HASH_CHARS && HEXLOWER_PERMISSIVE.decode_mut(hash, &mut mac).is_ok();
    is_hex && keys.iter().fold(false, |is_valid, key| is_valid | key.verifies(user_id.as_bytes(), &mac))
}
