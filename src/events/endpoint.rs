//! The event endpoints and their paths.

use crate::record::RecordKind;

/// An event endpoint. Each accepts a body with a `batch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventEndpoint {
    Page,
    /// Track, identify and profile events.
    Track,
    /// Batches only.
    Batch,
    Identify,
    Screen,
    Group,
    Alias,
}

/// All paths of event endpoints. Browser libraries use the short ones.
pub const PATHS: &[(&str, EventEndpoint)] = &[
    ("/v1/page", EventEndpoint::Page),
    ("/v1/p", EventEndpoint::Page),
    ("/v1/track", EventEndpoint::Track),
    ("/v1/t", EventEndpoint::Track),
    ("/v1/batch", EventEndpoint::Batch),
    ("/v1/b", EventEndpoint::Batch),
    ("/v1/import", EventEndpoint::Batch),
    // The beacon of RudderStack's library for browsers.
    ("/beacon/v1/batch", EventEndpoint::Batch),
    ("/v1/identify", EventEndpoint::Identify),
    ("/v1/i", EventEndpoint::Identify),
    ("/v1/screen", EventEndpoint::Screen),
    ("/v1/s", EventEndpoint::Screen),
    ("/v1/group", EventEndpoint::Group),
    ("/v1/g", EventEndpoint::Group),
    ("/v1/alias", EventEndpoint::Alias),
    ("/v1/a", EventEndpoint::Alias),
];

impl EventEndpoint {
    /// Returns the endpoint at `path`.
    pub fn from_path(path: &str) -> Option<Self> {
        PATHS.iter().find(|(known, _)| *known == path).map(|(_, endpoint)| *endpoint)
    }

    /// Returns the kind of an event without a `type`, or `None` if the kind depends on the event's members.
    pub(super) fn default_kind(self) -> Option<RecordKind> {
        match self {
            Self::Track | Self::Batch => None,
            Self::Page => Some(RecordKind::Page),
            Self::Identify => Some(RecordKind::Identify),
            Self::Screen => Some(RecordKind::Screen),
            Self::Group => Some(RecordKind::Group),
            Self::Alias => Some(RecordKind::Alias),
        }
    }

    /// Returns whether the endpoint accepts a single event of this kind.
    pub(super) fn accepts(self, kind: RecordKind) -> bool {
        match self.default_kind() {
            Some(own) => kind == own,
            None => matches!(kind, RecordKind::Track | RecordKind::Identify | RecordKind::Profile),
        }
    }

    /// Describes the valid `type` of a single event, for a refusal.
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
