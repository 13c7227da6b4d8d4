//! Entity tags (RFC 9110 section 8.8.3).

use super::headers::{Field, Headers};
use super::negotiate;
use super::response::write_field;
use crate::checksum;
use crate::ids;
use crate::problem::{self, Problem};

const FIELD_NAME: &str = "ETag: ";

/// A strong entity tag, with its quotes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Etag([u8; 34]);

impl Etag {
    /// Creates the tag of `input`: a description of everything that the body depends on, or a body that never
    /// changes.
    pub(crate) fn of(input: &[u8]) -> Self {
        let hash = checksum::hash128(input);
        let mut text = [b'"'; 34];
        text[1..17].copy_from_slice(&ids::hex_u64((hash >> 64) as u64));
        text[17..33].copy_from_slice(&ids::hex_u64(hash as u64));
        Self(text)
    }

    /// Returns the tag in a field that [`Self::write`] wrote.
    ///
    /// # Panics
    /// If `field` is too short for a tag.
    pub(crate) fn from_field(field: &[u8]) -> Self {
        Self(*field[FIELD_NAME.len()..].first_chunk().expect("the field holds a tag"))
    }

    /// Appends the field with the tag.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        write_field(out, FIELD_NAME, &self.0);
    }

    /// Returns the tag as it is in a header field.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Checks that `If-Match`, if it is present, contains the tag.
    ///
    /// # Errors
    /// `precondition_failed`.
    pub(crate) fn check_if_match(&self, headers: &Headers<'_>) -> Result<(), Problem<'static>> {
        let is_match = |list| negotiate::matches_strong_etag(list, &self.0);
        if headers.get(Field::IfMatch).is_none() || headers.if_match_lines().any(is_match) {
            return Ok(());
        }
        let sentence = "'If-Match' has no ETag of the present response.";
        Err(Problem::new(problem::PRECONDITION_FAILED, sentence))
    }

    /// Returns whether `If-None-Match` contains the tag.
    pub(crate) fn is_matched_by(&self, headers: &Headers<'_>) -> bool {
        headers.get(Field::IfNoneMatch).is_some()
            && headers.if_none_match_lines().any(|list| negotiate::matches_etag(list, &self.0))
    }
}
