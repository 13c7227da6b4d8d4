//! Shared links: each shows one page of the console to everybody who has it, until it ends.
//!
//! A link lists the requests that the page sends, and answers no others. So it shows one question, and not all that a viewer sees.

use serde::{Deserialize, Serialize};

use super::caller::Actor;
use super::token::token_hash;
use crate::ids;
use crate::ids::hex_u64;

/// The parameters of the time range of a question.
const RANGE: [&str; 2] = ["from", "to"];
/// The parameter with the number of rows of an answer. The CSV of a page has all rows.
const ROWS: &str = "limit";

/// A shared link.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Link {
    /// The name of the link in lists and in the audit log.
    pub(crate) id: String,
    /// The SHA-256 of the token that the link has.
    hash: String,
    pub(crate) site: String,
    /// The page of the console with its parameters, as its fragment has them.
    pub(crate) page: String,
    requests: Vec<LinkedRequest>,
    /// The kind and the name of the client that made it.
    pub(crate) made_by: [String; 2],
    pub(crate) made_ms: i64,
    /// The first millisecond at which the link does not count.
    pub(crate) ends_ms: i64,
}

/// A request that a link answers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct LinkedRequest {
    pub(crate) path: String,
    /// The decoded parameters without the number of rows, sorted.
    query: Vec<(String, String)>,
}

impl LinkedRequest {
    pub(crate) fn new(path: &str, mut query: Vec<(String, String)>) -> Self {
        query.retain(|(name, _)| name != ROWS);
        query.sort_unstable();
        Self { path: path.to_owned(), query }
    }

    fn target(&self) -> String {
        let query: Vec<String> = self.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{}?{}", self.path, query.join("&"))
    }

    /// Returns whether a request asks the same question, for any number of rows. Without a range, the link answers for each range: a
    /// page of the last seven days has another one every day.
    fn admits(&self, path: &str, query: &[(String, String)]) -> bool {
        let is_of_range = |name: &str| RANGE.contains(&name);
        let has_range = self.query.iter().any(|(name, _)| is_of_range(name));
        let counts = |name: &str| name != ROWS && (has_range || !is_of_range(name));
        let mut asked: Vec<_> = query.iter().filter(|(name, _)| counts(name)).collect();
        asked.sort_unstable();
        self.path == path && self.query.iter().eq(asked)
    }
}

/// The page that a new link shows, and its life.
#[derive(Debug)]
pub(crate) struct LinkedPage {
    pub(crate) site: String,
    pub(crate) page: String,
    pub(crate) requests: Vec<LinkedRequest>,
    pub(crate) made_ms: i64,
    pub(crate) ends_ms: i64,
}

impl Link {
    /// Returns a link with a new ID and this token.
    pub(crate) fn new(linked: LinkedPage, token: &str, actor: &Actor) -> Self {
        let LinkedPage { site, page, requests, made_ms, ends_ms } = linked;
        let id = String::from_utf8_lossy(&hex_u64(ids::random_u64())).into_owned();
        let made_by = [actor.kind.name().to_owned(), actor.name.to_string()];
        Self { id, hash: token_hash(token.as_bytes()), site, page, requests, made_by, made_ms, ends_ms }
    }

    /// Returns the requests that the link answers, as targets.
    pub(crate) fn targets(&self) -> Vec<String> {
        self.requests.iter().map(LinkedRequest::target).collect()
    }

    /// Returns whether the link counts at `now_ms`.
    pub(crate) fn is_open(&self, now_ms: i64) -> bool {
        now_ms < self.ends_ms
    }

    /// Returns whether the link has the token with this hash.
    pub(crate) fn has_token(&self, hash: &str) -> bool {
        self.hash == hash
    }

    /// Returns whether the link answers a request with these parameters.
    pub(crate) fn admits(&self, path: &str, query: &[(String, String)]) -> bool {
        self.requests.iter().any(|request| request.admits(path, query))
    }
}
