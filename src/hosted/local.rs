//! Decisions by the rules file of a site, and by the token of a visitor.

use std::fmt;
use std::sync::Arc;

use super::meta;
use crate::api::local::{AskEdge, LocalDecider};
use crate::http::request::{ParseOutcome, parse};
use crate::json;
use crate::site::catalog::catalog::{Catalog, PublishedSite};
use crate::site::catalog::versions::Versions;
use crate::site::snapshot::open::{Snapshot, SnapshotBudget};
use crate::site::snapshot::rule_facts::RuleFacts;
use crate::site::snapshot::rules_format::snapshot_in;
use crate::visitor_keys::SiteKeys;
use crate::visitor_token::TokenError;
use crate::visitors::lookup::ProfileReader;

/// The rules of a site, and the keys of its tokens.
pub struct LocalRules {
    decider: LocalDecider,
    profiles: ProfileReader,
    description: Vec<u8>,
}

impl fmt::Display for AskEdge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Problem(code, title) => write!(f, "{code}: {title}"),
            Self::Unsupported(reason) => write!(f, "ask_edge: {reason}"),
        }
    }
}

impl LocalRules {
    /// Opens a rules file. `keys` are those of the site, as `parallax visitor-keys` prints them, or an empty text.
    ///
    /// # Errors
    /// The file or the keys cannot be used.
    pub fn open(rules: &[u8], keys: &str) -> Result<Self, String> {
        let keys = SiteKeys::parse(keys)?;
        let snapshot = snapshot_in(rules).map_err(|error| error.to_string())?;
        let budget = SnapshotBudget::new(u64::MAX);
        let snapshot = Snapshot::open_bytes(snapshot, &budget).map_err(|error| error.to_string())?;
        let site = snapshot.site();
        let mut description = b"{\"site\":".to_vec();
        json::write_string(&mut description, &site.site);
        description.extend_from_slice(b",\"version\":\"");
        json::write_number(&mut description, snapshot.version());
        description.extend_from_slice(b"\"}");
        let profiles = ProfileReader::of_tokens(keys, RuleFacts::of(site).hash());
        let versions = Versions::default().with_snapshot(&snapshot);
        let catalog = Catalog::new([(Arc::new(snapshot), versions)].into_iter());
        Ok(Self { decider: LocalDecider::new(catalog, profiles.clone()), profiles, description })
    }

    /// Returns the site and its version as JSON.
    pub fn description(&self) -> &[u8] {
        &self.description
    }

    /// Appends the body of the decision for a request to `/v1/variants`. An empty token is that of a new visitor.
    ///
    /// # Errors
    /// The reason why Edge must decide: a code, a colon, and a sentence.
    pub fn decide(&mut self, token: &str, request: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        self.profiles.set_token(token);
        match parse(request, None) {
            ParseOutcome::Complete(parsed, length) if length == request.len() => {
                self.decider.decide(&parsed, out).map_err(|reason| reason.to_string())?;
            }
            _ => return Err("ask_edge: the bytes are no request without a body".to_owned()),
        }
        self.profiles.token_error().map_or(Ok(()), |error| Err(error.to_string()))
    }
}
