//! The reason why a line of an export is refused.

use super::super::refusal::Refusal;
use crate::record::RecordError;

/// The longest part of an error of the JSON parser that a reason repeats, in bytes. Further text is cut off.
const JSON_ERROR_BYTES_MAX: usize = 200;

/// The reason why a line is refused. It names the member.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    /// The line is no JSON object with the members of an export.
    #[error("the line is not one of an export: {0}")]
    Json(String),
    /// A member that each record needs is missing.
    #[error("the member `{0}` is missing")]
    Missing(&'static str),
    /// A member has a value that no record can have.
    #[error("the member `{member}` is invalid: {reason}")]
    Invalid { member: &'static str, reason: String },
    /// The event in the payload would be rejected.
    #[error("the member `payload` is invalid: {0}")]
    Payload(String),
    /// A part is longer than a record allows.
    #[error(transparent)]
    TooLong(#[from] RecordError),
    /// An export of the record would have another value.
    #[error(
        "the member `{0}` contradicts the other members: an export of the record would have another value"
    )]
    Differs(&'static str),
}

impl LineError {
    pub(super) fn json(error: &serde_json::Error) -> Self {
        let mut text = error.to_string();
        // The names of all members would follow.
        let end =
            text.find(", expected one of").map_or(JSON_ERROR_BYTES_MAX, |end| end.min(JSON_ERROR_BYTES_MAX));
        text.truncate(text.floor_char_boundary(end));
        Self::Json(text)
    }

    pub(super) fn invalid(member: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid { member, reason: reason.into() }
    }

    pub(super) fn payload(refusal: &Refusal) -> Self {
        let mut members = b"{".to_vec();
        refusal.write_members(&mut members);
        members.push(b'}');
        let members: serde_json::Value = serde_json::from_slice(&members).unwrap_or_default();
        let text = |name: &str| members[name].as_str().unwrap_or_default().to_owned();
        Self::Payload(format!("{} {}: {}", refusal.kind.code, text("pointer"), text("detail")))
    }
}
