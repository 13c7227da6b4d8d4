//! Visitor tokens: the past of one visitor, sealed, so that the client that carries it can prove it to a decision elsewhere.
//!
//! ```text
//! token   = "1." key ID "." base64url(nonce:24 | sealed)
//! sealed  = XChaCha20-Poly1305(content) with the key of the site
//! content = time of issue in seconds:8 | hash of the facts:8 | profile     all numbers little-endian
//! ```
//!
//! The associated data are the format, the site, and the kind and the text of the visitor's ID, each with its length. So a token of
//! another site or another visitor does not open. [`crate::visitor_keys`] has the keys. Only the server seals.

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{KeyInit, Tag, XChaCha20Poly1305, XNonce};
use data_encoding::BASE64URL_NOPAD;

use crate::limits::{VISITOR_TOKEN_CHARS_MAX, VISITOR_TOKEN_S_MAX, VISITOR_TOKEN_SKEW_S_MAX};
use crate::little_endian::u64_at;
use crate::record::IdKind;
use crate::visitor_keys::{SiteKey, SiteKeys};

/// The format of the text and of the content.
const FORMAT: &str = "1";
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
/// Bytes of the content before the profile: the time of issue and the hash of the facts.
const HEAD_BYTES: usize = 16;

/// The visitor of a token.
#[derive(Debug, Clone, Copy)]
pub struct TokenOwner<'a> {
    pub site: &'a str,
    pub id_kind: IdKind,
    pub id: &'a str,
}

/// The reason why a token does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("visitor_token_invalid: the token is malformed, forged, or of another visitor")]
    Invalid,
    #[error("visitor_token_unknown_key: the token was sealed with a key that this program does not have")]
    UnknownKey,
    #[error("visitor_token_expired: the token is older than 24 h")]
    Expired,
    #[error("visitor_token_outdated: the token has other facts than the rules read")]
    Outdated,
}

impl TokenOwner<'_> {
    fn associated_data(&self) -> Vec<u8> {
        let kind = [match self.id_kind {
            IdKind::Anon => b'a',
            IdKind::User => b'u',
        }];
        let mut data = Vec::new();
        for part in [FORMAT.as_bytes(), self.site.as_bytes(), &kind, self.id.as_bytes()] {
            data.extend_from_slice(&(part.len() as u32).to_le_bytes());
            data.extend_from_slice(part);
        }
        data
    }
}

/// Returns a token with an encoded profile, which is empty for a visitor without one. Returns `None` if the token has too many characters.
#[cfg(feature = "server")]
pub(crate) fn seal(
    key: &SiteKey,
    owner: TokenOwner<'_>,
    facts_hash: u64,
    profile: &[u8],
    now_s: u64,
) -> Option<String> {
    let mut sealed = Vec::with_capacity(NONCE_BYTES + HEAD_BYTES + profile.len() + TAG_BYTES);
    for _ in 0..NONCE_BYTES / size_of::<u64>() {
        sealed.extend_from_slice(&crate::ids::random::random_u64().to_le_bytes());
    }
    sealed.extend_from_slice(&now_s.to_le_bytes());
    sealed.extend_from_slice(&facts_hash.to_le_bytes());
    sealed.extend_from_slice(profile);
    let (nonce, content) = sealed.split_at_mut(NONCE_BYTES);
    let tag = cipher(key).encrypt_inout_detached(&nonce_of(nonce)?, &owner.associated_data(), content.into());
    sealed.extend_from_slice(&tag.ok()?);
    let token = format!("{FORMAT}.{}.{}", key.id, BASE64URL_NOPAD.encode(&sealed));
    (token.len() <= VISITOR_TOKEN_CHARS_MAX).then_some(token)
}

/// Returns the encoded profile in a token. It is empty for a visitor without one.
///
/// # Errors
/// The token does not count.
pub fn open(
    keys: &SiteKeys,
    owner: TokenOwner<'_>,
    facts_hash: u64,
    token: &str,
    now_s: u64,
) -> Result<Vec<u8>, TokenError> {
    if token.len() > VISITOR_TOKEN_CHARS_MAX {
        return Err(TokenError::Invalid);
    }
    let rest =
        token.strip_prefix(FORMAT).and_then(|rest| rest.strip_prefix('.')).ok_or(TokenError::Invalid)?;
    let (key_id, sealed) = rest.split_once('.').ok_or(TokenError::Invalid)?;
    let key = keys.find(key_id).ok_or(TokenError::UnknownKey)?;
    let sealed = BASE64URL_NOPAD.decode(sealed.as_bytes()).map_err(|_| TokenError::Invalid)?;
    let mut content = decrypt(key, owner, &sealed).ok_or(TokenError::Invalid)?;
    if content.len() < HEAD_BYTES {
        return Err(TokenError::Invalid);
    }
    let issued_s = u64_at(&content, 0);
    if issued_s > now_s.saturating_add(VISITOR_TOKEN_SKEW_S_MAX) {
        return Err(TokenError::Invalid);
    }
    if now_s.saturating_sub(issued_s) > VISITOR_TOKEN_S_MAX {
        return Err(TokenError::Expired);
    }
    if u64_at(&content, 8) != facts_hash {
        return Err(TokenError::Outdated);
    }
    content.drain(..HEAD_BYTES);
    Ok(content)
}

/// Returns the content of a sealed text. `None` if it was not sealed with this key for this owner.
fn decrypt(key: &SiteKey, owner: TokenOwner<'_>, sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, rest) = sealed.split_at_checked(NONCE_BYTES)?;
    let (content, tag) = rest.split_at_checked(rest.len().checked_sub(TAG_BYTES)?)?;
    let mut content = content.to_vec();
    let tag = Tag::try_from(tag).ok()?;
    let data = owner.associated_data();
    let opened =
        cipher(key).decrypt_inout_detached(&nonce_of(nonce)?, &data, content.as_mut_slice().into(), &tag);
    opened.ok().map(|()| content)
}

fn cipher(key: &SiteKey) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&key.bytes.into())
}

fn nonce_of(bytes: &[u8]) -> Option<XNonce> {
    XNonce::try_from(bytes).ok()
}
