//! The event endpoints: which path is which.

use crate::visitors::log::Kind;

/// What is posted there. A body with a `batch` may go to any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    Page,
    /// Named events, identify and profile.
    Track,
    /// Batches only.
    Batch,
    Identify,
    Screen,
    Group,
    Alias,
}

/// Every path. The short ones are those of libraries that were made for browsers.
pub const PATHS: &[(&str, Endpoint)] = &[
    ("/v1/page", Endpoint::Page),
    ("/v1/p", Endpoint::Page),
    ("/v1/track", Endpoint::Track),
    ("/v1/t", Endpoint::Track),
    ("/v1/batch", Endpoint::Batch),
    ("/v1/b", Endpoint::Batch),
    ("/v1/import", Endpoint::Batch),
    ("/v1/identify", Endpoint::Identify),
    ("/v1/i", Endpoint::Identify),
    ("/v1/screen", Endpoint::Screen),
    ("/v1/s", Endpoint::Screen),
    ("/v1/group", Endpoint::Group),
    ("/v1/g", Endpoint::Group),
    ("/v1/alias", Endpoint::Alias),
    ("/v1/a", Endpoint::Alias),
];

impl Endpoint {
    /// The endpoint at `path`.
    pub fn at(path: &str) -> Option<Self> {
        PATHS.iter().find(|(known, _)| *known == path).map(|(_, endpoint)| *endpoint)
    }

    /// What an event is that does not say; None where that follows from its members.
    pub(super) fn kind(self) -> Option<Kind> {
        match self {
            Self::Track | Self::Batch => None,
            Self::Page => Some(Kind::Page),
            Self::Identify => Some(Kind::Identify),
            Self::Screen => Some(Kind::Screen),
            Self::Group => Some(Kind::Group),
            Self::Alias => Some(Kind::Alias),
        }
    }

    /// Whether a single event of this kind may come here.
    pub(super) fn takes(self, kind: Kind) -> bool {
        match self.kind() {
            Some(own) => kind == own,
            None => matches!(kind, Kind::Track | Kind::Identify | Kind::Profile),
        }
    }

    /// What `type` may be for a single event.
    pub(super) fn expected_type(self) -> &'static str {
        match self {
            Self::Page => "'page' at this endpoint, or no type",
            Self::Track | Self::Batch => "'track', 'identify' or 'profile' at this endpoint, or no type",
            Self::Identify => "'identify' at this endpoint, or no type",
            Self::Screen => "'screen' at this endpoint, or no type",
            Self::Group => "'group' at this endpoint, or no type",
            Self::Alias => "'alias' at this endpoint, or no type",
        }
    }
}
