//! The settings, buffers and tables of one thread that handles requests. The buffers are allocated once and reused
//! for every request.

use std::sync::Arc;

use ipnet::IpNet;

use super::answer_table::{AnswerKey, AnswerTable};
use super::prepared_lists::PreparedLists;
use super::shared_bytes::SharedParts;
use super::token_bucket::RateLimiter;
use super::user_verifier::UserVerifier;
use super::visitor_token::TokenSealer;
use crate::http::gzip::GzipCompressor;
use crate::ids::RequestIdGenerator;
use crate::limits::{ANON_ID_COOKIE_BYTES_MAX, HEAD_BYTES_MAX, ROUTES_PAGE_BYTES_MAX, TARGET_BYTES_MAX};
use crate::node_gate::NodeGate;
use crate::resolve::decide::DecisionBuffers;
use crate::resolve::path::RoutePath;
use crate::resolve::render::BodyPlan;
use crate::resolve::user_agent::{UserAgentCache, UserAgentParser};
use crate::site::query::run::QueryRunner;
use crate::visitors::lookup::ProfileReader;

/// The settings of all handlers.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// True if the public address answers `explain=1`.
    pub explain: bool,
    /// True in `parallax dev`, where the public address answers `now`.
    pub is_dev: bool,
    /// The time at which all events are received, in Unix milliseconds, in `parallax test`. `None`: the present.
    pub events_at_ms: Option<i64>,
    /// The header in which a proxy sends the visitor's country, in lower case.
    pub country_header: Option<Box<str>>,
    /// The proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Arc<[IpNet]>,
    /// The rate limit for each client address; `None`: unlimited.
    pub rate_limit_per_ip: Option<Arc<RateLimiter>>,
    /// The rate limit for each site; `None`: unlimited.
    pub rate_limit_per_site: Option<Arc<RateLimiter>>,
    /// The lists of routes that all handlers share.
    pub prepared_lists: Arc<PreparedLists>,
    /// The verifier of user IDs that all handlers share.
    pub user_verifier: Arc<UserVerifier>,
    /// The sealer of visitor tokens that all handlers share.
    pub token_sealer: Arc<TokenSealer>,
}

/// Buffers for the decoded parts of a request. Problems borrow from them.
pub(super) struct DecodeBuffers {
    /// Query parameters that had escapes.
    pub(super) params: Vec<u8>,
    /// The parameters of a group, or the user of Basic credentials.
    pub(super) group: Vec<u8>,
    /// A decompressed body.
    pub(super) body: Vec<u8>,
}

/// Buffers and tables that are reused for every request. Each user clears a buffer before use.
pub(super) struct Scratch {
    pub(super) path: RoutePath,
    pub(super) plan: BodyPlan,
    pub(super) visitor: VisitorScratch,
    pub(super) response: ResponseBuffers,
    /// The key of the answer to the present request.
    pub(super) answer_key: AnswerKey,
    /// The canonical `variants` of the response.
    pub(super) canonical: Vec<u8>,
    /// The value of `Content-Location`.
    pub(super) location: Vec<u8>,
    pub(super) query_runner: QueryRunner,
    pub(super) route_lists: RouteLists,
}

/// Buffers and tables for a decision.
pub(super) struct VisitorScratch {
    pub(super) decision_buffers: DecisionBuffers,
    /// The profiles of visitors; `None` if the handler has no event log.
    pub(super) profiles: Option<ProfileReader>,
    /// The gate of a node of a cluster; `None` if the server is alone.
    pub(super) node_gate: Option<Arc<NodeGate>>,
    pub(super) user_agent_parser: Arc<UserAgentParser>,
    pub(super) user_agent_cache: UserAgentCache,
    /// A cookie's value without escapes.
    pub(super) cookie: Vec<u8>,
}

impl VisitorScratch {
    pub(super) fn new(user_agent_parser: Arc<UserAgentParser>) -> Self {
        Self {
            decision_buffers: DecisionBuffers::new(),
            profiles: None,
            node_gate: None,
            user_agent_parser,
            user_agent_cache: UserAgentCache::new(),
            cookie: Vec::with_capacity(ANON_ID_COOKIE_BYTES_MAX),
        }
    }
}

/// Buffers and tables for the head and the coding of a response.
pub(super) struct ResponseBuffers {
    /// The input of the ETag's hash.
    pub(super) etag_input: Vec<u8>,
    /// The parts of an answer that do not depend on the request.
    pub(super) prepared: Vec<u8>,
    pub(super) answers: AnswerTable,
    pub(super) gzip: GzipCompressor,
    pub(super) ids: RequestIdGenerator,
    /// The shared parts of the responses that the worker has not taken yet.
    pub(super) shared: SharedParts,
}

impl ResponseBuffers {
    fn new() -> Self {
        Self {
            etag_input: Vec::with_capacity(HEAD_BYTES_MAX),
            // Two lists of cache tags with an escaped path take more than a head.
            prepared: Vec::with_capacity(2 * HEAD_BYTES_MAX),
            answers: AnswerTable::new(),
            gzip: GzipCompressor::new(),
            ids: RequestIdGenerator::new(),
            shared: SharedParts::default(),
        }
    }
}

/// Buffers for the parts of a `/v1/routes` response that are not written directly into the body.
#[derive(Debug, Default)]
pub(super) struct RouteLists {
    pub(super) redirects: Vec<u8>,
    pub(super) removed: Vec<u8>,
    pub(super) queries: Vec<u8>,
    pub(super) removed_queries: Vec<u8>,
    /// The path in the cursor of the request.
    pub(super) after: Vec<u8>,
}

impl DecodeBuffers {
    pub(super) fn new() -> Self {
        Self {
            params: Vec::with_capacity(TARGET_BYTES_MAX),
            group: Vec::with_capacity(TARGET_BYTES_MAX),
            body: Vec::new(),
        }
    }
}

impl Scratch {
    /// Allocates all buffers that a GET needs.
    pub(super) fn new(user_agent_parser: Arc<UserAgentParser>) -> Self {
        let mut plan = BodyPlan::default();
        plan.text.reserve(ROUTES_PAGE_BYTES_MAX);
        Self {
            path: RoutePath::new(),
            plan,
            visitor: VisitorScratch::new(user_agent_parser),
            response: ResponseBuffers::new(),
            answer_key: AnswerKey::new(),
            canonical: Vec::with_capacity(HEAD_BYTES_MAX),
            location: Vec::with_capacity(HEAD_BYTES_MAX),
            query_runner: QueryRunner::new(),
            route_lists: RouteLists::default(),
        }
    }
}
