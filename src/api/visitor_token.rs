//! The visitor tokens that `visitor=1` asks for.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::json;
use crate::record::{IdKind, Record};
use crate::site::catalog::catalog::PublishedSite;
use crate::visitor_keys::VisitorKeys;
use crate::visitors::profile::profile::Profile;

/// A sealer of tokens with the present keys. All threads share it.
#[derive(Debug, Default)]
pub struct TokenSealer {
    keys: ArcSwap<VisitorKeys>,
}

/// The answer to `visitor=1`.
#[derive(Debug, Default)]
pub(super) enum TokenAnswer {
    /// The request does not ask for a token.
    #[default]
    NotRequested,
    /// There is no token for this visitor.
    Nothing,
    Token(Box<str>),
}

/// The visitors of the events of a request that asks for a token.
#[derive(Debug, Default)]
pub(super) enum EventVisitors {
    /// The request does not ask for a token.
    #[default]
    NotRequested,
    /// No event was added yet.
    Nobody,
    One(IdKind, Box<str>),
    /// The events are of several visitors, or the request refuses personalization.
    WithoutToken,
}

impl TokenSealer {
    /// Creates a sealer with the keys of the operator.
    #[cfg(feature = "server")]
    pub(crate) fn new(keys: VisitorKeys) -> Self {
        Self { keys: ArcSwap::from_pointee(keys) }
    }

    /// Replaces the keys. Requests that run keep the old ones.
    #[cfg(feature = "server")]
    pub(crate) fn set_keys(&self, keys: VisitorKeys) {
        self.keys.store(Arc::new(keys));
    }

    /// Returns the answer with the past of a visitor. A visitor without a profile is new.
    #[cfg(feature = "server")]
    pub(super) fn seal(
        &self,
        published: &PublishedSite,
        id_kind: IdKind,
        id: &str,
        profile: Option<Profile<'_>>,
    ) -> TokenAnswer {
        use crate::clock;
        use crate::visitor_token::{TokenOwner, seal};
        use crate::visitors::profile::projection::project;
        let site = published.site();
        let Some(key) = self.keys.load().sealing_key(&site.site).filter(|_| site.preview.is_none()) else {
            return TokenAnswer::Nothing;
        };
        let facts = published.rule_facts();
        let past = match profile {
            Some(profile) => project(profile, facts),
            None => Some(Vec::new()),
        };
        let owner = TokenOwner { site: &site.site, id_kind, id };
        let token = past.and_then(|past| seal(&key, owner, facts.hash(), &past, clock::now_s()));
        token.map_or(TokenAnswer::Nothing, |token| TokenAnswer::Token(token.into()))
    }

    /// Returns no token, because only a server seals.
    #[cfg(not(feature = "server"))]
    pub(super) fn seal(&self, _: &PublishedSite, _: IdKind, _: &str, _: Option<Profile<'_>>) -> TokenAnswer {
        TokenAnswer::Nothing
    }
}

impl TokenAnswer {
    pub(super) fn is_requested(&self) -> bool {
        !matches!(self, Self::NotRequested)
    }

    /// Appends `,"visitorToken":...` if the request asks for it.
    pub(super) fn write_member(&self, out: &mut Vec<u8>) {
        match self {
            Self::NotRequested => {}
            Self::Nothing => out.extend_from_slice(b",\"visitorToken\":null"),
            Self::Token(token) => {
                out.extend_from_slice(b",\"visitorToken\":");
                json::write_string(out, token);
            }
        }
    }
}

impl EventVisitors {
    /// Adds the visitor of an event.
    pub(super) fn add(&mut self, record: &Record<'_>) {
        let anon_id = record.anon_id.map(|id| (IdKind::Anon, id));
        let visitor = anon_id.or_else(|| record.user_id.map(|id| (IdKind::User, id)));
        let Some((id_kind, id)) = visitor else { return };
        match self {
            Self::Nobody => *self = Self::One(id_kind, id.into()),
            Self::One(first_kind, first) if (*first_kind, &**first) != (id_kind, id) => {
                *self = Self::WithoutToken
            }
            _ => {}
        }
    }

    /// Returns the answer if no event is recorded.
    pub(super) fn without_token(&self) -> TokenAnswer {
        match self {
            Self::NotRequested => TokenAnswer::NotRequested,
            _ => TokenAnswer::Nothing,
        }
    }

    /// Returns the size of the ID, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        if let Self::One(_, id) = self { id.len() } else { 0 }
    }
}
