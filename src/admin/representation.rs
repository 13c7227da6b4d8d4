//! The two representations of an answer on the admin address.

use crate::http::negotiate;
use crate::http::request::Request;

/// JSON, or CSV if `Accept` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Representation {
    Json,
    Csv,
}

impl Representation {
    /// Returns the representation that a request asks for.
    pub(super) fn of(request: &Request<'_>) -> Self {
        if negotiate::accepts_csv(request.headers.section) { Self::Csv } else { Self::Json }
    }

    /// Returns the media type.
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Csv => "text/csv; charset=utf-8",
        }
    }
}
