//! A server of one site in memory: all endpoints, and the profiles of all visitors. There are no threads, files and sockets.
//!
//! All of its parts are those of `parallax serve`. An event that it acknowledged is known to the next decision.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::{IdKind, Site, add_body, meta};
use crate::api::user_verifier::UserVerifier;
use crate::api::{EventSink, Handler, Poll, Service, Settings};
use crate::clock;
use crate::http::refused_head::RefusedHead;
use crate::http::request::{BufferedRequest, ParseOutcome, parse};
use crate::identity_keys::IdentityKeys;
use crate::log::{MemoryLog, Records};
use crate::metrics::EventCounters;
use crate::visitors::live::ProfileTable;

/// Message IDs of the last 24 hours that the server knows. The memory of the window is about 10 MB then. Beyond it the oldest ID is
/// forgotten, so that a late retry of its event counts again.
pub const MESSAGE_IDS_MAX: usize = 100_000;

/// Memory of the table of visitors, in bytes: no limit. A server in memory is for development and tests, which have few visitors.
const TABLE_COST_MAX: u64 = u64::MAX;

/// The hash key of the table. Only the developer sends requests.
const TABLE_KEY: [u8; 16] = [0; 16];

/// The settings of a server in memory. Explanations are on, and there is no rate limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServerOptions<'a> {
    /// True if requests may have `now`, as in `parallax dev`.
    pub is_dev: bool,
    /// The keys by which sites verify user IDs, in the format of the file of `--identity-keys`. Empty: none.
    pub identity_keys: &'a str,
}

/// A server in memory.
pub struct Server {
    site: Site,
    handler: Handler,
    log: MemoryLog,
    profiles: Rc<RefCell<ProfileTable>>,
}

impl Server {
    /// Starts a server without any event.
    ///
    /// # Errors
    /// The snapshot or the keys are rejected.
    pub fn start(snapshot: &[u8], options: ServerOptions<'_>) -> Result<Self, String> {
        let site = Site::open(snapshot)?;
        let keys = match options.identity_keys {
            "" => IdentityKeys::default(),
            text => IdentityKeys::parse(text).map_err(|error| format!("the identity keys{error}"))?,
        };
        let (profiles, readers) = ProfileTable::new(TABLE_KEY, TABLE_COST_MAX);
        let profiles = Rc::new(RefCell::new(profiles));
        let folded = Rc::clone(&profiles);
        let fold = move |records: Records<'_>| folded.borrow_mut().fold(records);
        let (queue, log) = MemoryLog::new(MESSAGE_IDS_MAX, Box::new(fold));
        let settings = Settings {
            explain: true,
            is_dev: options.is_dev,
            user_verifier: Arc::new(UserVerifier::new(keys)),
            ..Settings::default()
        };
        let handler = site
            .handler(settings)
            .with_profiles(readers.reader())
            .with_readiness_check(Arc::new(|site_count, _| site_count > 0))
            // The server runs the log itself after each request.
            .with_event_sink(EventSink::new(queue.client(Arc::new(|| {})), EventCounters::default()));
        Ok(Self { site, handler, log, profiles })
    }

    /// Replaces the snapshot. The visitors stay.
    ///
    /// # Errors
    /// The reason why it is rejected. The present one stays.
    pub fn publish(&self, snapshot: &[u8]) -> Result<(), String> {
        self.site.publish(snapshot)
    }

    /// Appends the response to a complete request, whose body has a length.
    ///
    /// # Errors
    /// The bytes are no complete request.
    pub fn answer(&mut self, request: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
        self.handler.tick();
        let meta = meta();
        match parse(request, None) {
            ParseOutcome::Partial => return Err("the head of the request has no end"),
            ParseOutcome::Rejected(problem) => {
                let head = RefusedHead::read(request);
                self.handler.reject_unparsed(&problem, &head, &meta, out);
            }
            ParseOutcome::Complete(mut parsed, head_bytes) => {
                add_body(&mut parsed, &request[head_bytes..])?;
                if let Poll::Pending(token) = self.handler.handle(&parsed, &meta, out) {
                    self.log.run_once(clock::now_ms());
                    self.handler.take_completion();
                    let buffered = BufferedRequest { bytes: request, close: parsed.close };
                    self.handler.finish(token, &buffered, &meta, out);
                }
            }
        }
        Ok(())
    }

    /// Returns the encoded profile of an ID, as [`Edge::decide`](super::Edge::decide) takes it. Empty if nothing is recorded of it.
    pub fn profile(&self, site: &str, id_kind: IdKind, id: &str) -> Vec<u8> {
        self.profiles.borrow().encoded(site, id_kind, id)
    }
}
