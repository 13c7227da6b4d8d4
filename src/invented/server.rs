//! A server in memory for one visit: the request handler of the public address, the queue of the log and the fold, without threads,
//! files and sockets.
//!
//! All of its parts are those of `parallax serve`, so that a decision cannot differ from that of the server. Only the time is that of
//! the visit, and no record stays.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use serde_json::Value as Json;

use crate::api::user_verifier::UserVerifier;
use crate::api::{EventSink, Handler, Poll, Service, Settings};
use crate::checksum::hmac_sha256;
use crate::clock;
use crate::http::refused_head::RefusedHead;
use crate::http::request::{BufferedRequest, ParseOutcome, RequestMeta, Surface, parse};
use crate::identity_keys::IdentityKeys;
use crate::log::{MemoryLog, Records};
use crate::metrics::EventCounters;
use crate::resolve::user_agent::UserAgentParser;
use crate::site::catalog::catalog::{Catalog, CurrentCatalog};
use crate::site::catalog::versions::Versions;
use crate::site::snapshot::format::ArchivedSite;
use crate::site::snapshot::open::Snapshot;
use crate::site::source::types::CASE_EVENTS_MAX;
use crate::visitors::live::ProfileTable;

/// The key of a site that verifies user IDs. The IDs of a visit are signed with it. It is no secret, because it only exists here.
const IDENTITY_KEY: &[u8; 32] = b"key-of-user-ids-in-parallax-test";

/// The hash key of the table of visitors. Nobody attacks a table of one visitor.
const TABLE_KEY: [u8; 16] = [0; 16];

/// A compiled site, for the servers of all visits.
pub(crate) struct VisitedSite {
    snapshot: Arc<Snapshot>,
    catalog: CurrentCatalog,
    user_agent_parser: Arc<UserAgentParser>,
    user_verifier: Arc<UserVerifier>,
}

/// A server for one visit.
pub(super) struct VisitServer {
    handler: Handler,
    log: MemoryLog,
    now_ms: i64,
}

/// A response of the server.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body: Json,
}

impl VisitedSite {
    pub(crate) fn new(snapshot: Arc<Snapshot>) -> Self {
        let versions = Versions::default().with_snapshot(&snapshot);
        let catalog = CurrentCatalog::default();
        catalog.swap(Catalog::new([(Arc::clone(&snapshot), versions)].into_iter()));
        let line = format!("{} {}", &*snapshot.site().site, String::from_utf8_lossy(IDENTITY_KEY));
        let identity_keys = IdentityKeys::parse(&line).expect("a valid line");
        Self {
            snapshot,
            catalog,
            user_agent_parser: Arc::new(UserAgentParser::new()),
            user_verifier: Arc::new(UserVerifier::new(identity_keys)),
        }
    }

    pub(crate) fn site(&self) -> &ArchivedSite {
        self.snapshot.site()
    }

    /// Returns the hash that proves a user ID. `None` if the site verifies none.
    pub(super) fn user_hash(&self, user_id: &str) -> Option<String> {
        let hash = || HEXLOWER.encode(&hmac_sha256(IDENTITY_KEY, &[user_id.as_bytes()]));
        self.site().verifies_users.then(hash)
    }

    /// Starts a server without any event, at a time in Unix milliseconds.
    pub(super) fn start_server(&self, now_ms: i64) -> VisitServer {
        let (mut profiles, readers) = ProfileTable::new(TABLE_KEY, u64::MAX);
        let fold = move |records: Records<'_>| profiles.fold(records);
        let (queue, log) = MemoryLog::new(CASE_EVENTS_MAX, Box::new(fold));
        // The caller runs the log itself after each request.
        let client = queue.client(Arc::new(|| {}));
        let settings = Settings {
            explain: true,
            is_dev: true,
            events_at_ms: Some(now_ms),
            user_verifier: Arc::clone(&self.user_verifier),
            ..Settings::default()
        };
        let handler = Handler::new(settings, &self.catalog, Arc::clone(&self.user_agent_parser))
            .with_profiles(readers.reader())
            .with_event_sink(EventSink::new(client, EventCounters::default()));
        VisitServer { handler, log, now_ms }
    }
}

impl VisitServer {
    /// Returns the response to a complete request, whose body has a length.
    pub(super) fn answer(&mut self, request: &[u8]) -> Response {
        let meta = RequestMeta {
            peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
            surface: Surface::Public,
            connection: 0,
            received_at: clock::instant(),
        };
        let mut out = Vec::new();
        match parse(request, None) {
            ParseOutcome::Complete(mut parsed, head_bytes) => {
                parsed.body = &request[head_bytes..];
                if let Poll::Pending(token) = self.handler.handle(&parsed, &meta, &mut out) {
                    self.handler.flush();
                    self.log.run_once(self.now_ms);
                    self.handler.take_completion();
                    let buffered = BufferedRequest { bytes: request, close: false };
                    self.handler.finish(token, &buffered, &meta, &mut out);
                }
            }
            ParseOutcome::Rejected(problem) => {
                self.handler.reject_unparsed(&problem, &RefusedHead::read(request), &meta, &mut out);
            }
            ParseOutcome::Partial => unreachable!("the request is complete"),
        }
        Response::read(&out)
    }
}

impl Response {
    /// Reads a response with a JSON body.
    fn read(bytes: &[u8]) -> Self {
        let head_bytes = bytes.windows(4).position(|end| end == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
        let status =
            bytes.get(b"HTTP/1.1 ".len()..).and_then(|rest| std::str::from_utf8(rest.get(..3)?).ok());
        let body = serde_json::from_slice(&bytes[head_bytes..]).unwrap_or_default();
        Self { status: status.and_then(|status| status.parse().ok()).unwrap_or_default(), body }
    }
}
