//! The admin address: health, metrics, visitor data, and explanations of decisions. It answers from the first
//! moment of a start.
//!
//! Only its port separates it from the public addresses, so it protects itself. Without a token it answers
//! only reads from loopback, and no request that a web page in a local browser could send.

mod health;
pub(crate) mod jobs;
mod metrics;
pub(crate) mod startup;
mod visitors;

pub use metrics::Metrics;
pub(crate) use metrics::ServerMetrics;
pub(crate) use visitors::VisitorHandler;

use std::net::IpAddr;

use self::startup::{DeferredParts, Startup};
use crate::api::{Endpoint, Handler, Outcome, Poll};
use crate::checksum;
use crate::http::refused_head::RefusedHead;
use crate::http::request::{BufferedRequest, Method, Request, RequestMeta};
use crate::problem::{self, Problem};
use crate::worker::{Lifecycle, Service};

/// The service of the admin address.
pub struct AdminService {
    handler: Handler,
    lifecycle: Lifecycle,
    token: Option<String>,
    metrics: Metrics,
    visitors: Option<VisitorHandler>,
    /// `None` after startup.
    startup: Option<Startup>,
}

impl AdminService {
    /// Creates the service. `desk` answers with explanations, `token` admits clients, and `stopping` decides
    /// readiness.
    pub fn new(handler: Handler, token: Option<String>, lifecycle: Lifecycle, metrics: Metrics) -> Self {
        Self { handler, lifecycle, token, metrics, visitors: None, startup: None }
    }

    /// Reports the progress of startup until the remaining parts arrive.
    #[must_use]
    pub fn with_startup(self, starting: Startup) -> Self {
        Self { startup: Some(starting), ..self }
    }

    fn install_parts(&mut self) {
        let Some(Startup { parts, .. }) = &self.startup else { return };
        let Ok(DeferredParts { make, metrics: read }) = parts.try_recv() else { return };
        let (desk, visitors) = make();
        self.handler = desk;
        self.visitors = Some(visitors);
        self.metrics.server = Some(read);
        self.startup = None;
    }

    /// Checks that the client may use the endpoints other than health and metrics.
    fn authorize<'a>(&self, request: &Request<'a>, meta: &RequestMeta) -> Result<(), Problem<'a>> {
        let fields = &request.headers;
        if let Some(origin) = fields.origin {
            let origin = std::str::from_utf8(origin).unwrap_or("(not UTF-8)");
            let sentence = "The request has the origin {}; the admin address does not serve web pages.";
            return Err(Problem::with_value(problem::ORIGIN_NOT_ALLOWED, sentence, origin));
        }
        let given = fields.authorization.and_then(bearer_token);
        if let (Some(token), Some(given)) = (&self.token, given)
            && tokens_match(token.as_bytes(), given)
        {
            return Ok(());
        }
        let reads = matches!(request.method, Method::Get | Method::Head);
        if !reads || !meta.peer.to_canonical().is_loopback() {
            let sentence = match self.token {
                Some(_) => "The request needs 'Authorization: Bearer' with the token of --admin-token.",
                None => {
                    "Only GET and HEAD from loopback are allowed, because no --admin-token is configured."
                }
            };
            return Err(Problem::new(problem::UNAUTHORIZED, sentence));
        }
        let host = fields.host.and_then(|h| std::str::from_utf8(h).ok()).unwrap_or_default();
        if !is_ip_or_localhost(host) {
            let sentence = "The Host {} is not an IP address or localhost.";
            return Err(Problem::with_value(problem::HOST_NOT_ALLOWED, sentence, host));
        }
        Ok(())
    }
}

impl Service for AdminService {
    fn handle(&mut self, request: &Request<'_>, meta: &RequestMeta, out: &mut Vec<u8>) -> Poll {
        self.install_parts();
        if health::handle(&mut self.handler, self.startup.as_ref(), &self.lifecycle, request, out)
            || self.metrics.handle(&mut self.handler, request, out)
        {
            return Poll::Ready(Outcome::default());
        }
        if let Err(problem) = self.authorize(request, meta) {
            return Poll::Ready(self.handler.reject(request, &problem, out));
        }
        if self.startup.is_some() {
            let sentence = "The server is starting; /readyz shows the progress.";
            let problem = Problem::new(problem::STARTING, sentence);
            return Poll::Ready(self.handler.reject(request, &problem, out));
        }
        if let Some(visitors) = self.visitors.as_mut().filter(|_| VisitorHandler::matches_path(request.path))
        {
            return visitors.handle(&mut self.handler, request, out);
        }
        match Endpoint::of(request.path) {
            Some(Endpoint::Resolve | Endpoint::Variants) => self.handler.handle(request, meta, out),
            _ => {
                let sentence = "{} is not an endpoint of the admin address, which serves /healthz, /readyz, /metrics, \
                                /visitors, /visitors/export, /v1/resolve and /v1/variants.";
                let problem = Problem::with_value(problem::UNKNOWN_ENDPOINT, sentence, request.path);
                Poll::Ready(self.handler.reject(request, &problem, out))
            }
        }
    }

    fn finish(
        &mut self,
        _token: usize,
        buffered: &BufferedRequest<'_>,
        _arrival: &RequestMeta,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let asked = self.visitors.as_mut().zip(buffered.request());
        asked.map_or_else(Outcome::default, |(visitors, request)| {
            visitors.finish(&mut self.handler, &request, out)
        })
    }

    fn is_ready(&self, _token: usize) -> bool {
        self.visitors.as_ref().is_some_and(VisitorHandler::is_complete)
    }

    fn take_completion(&mut self) -> Option<usize> {
        self.visitors.as_mut()?.jobs().take_completion()
    }

    fn cancel(&mut self, _token: usize) {
        if let Some(visitors) = &mut self.visitors {
            visitors.jobs().abandon();
        }
    }

    fn reject(
        &mut self,
        problem: &Problem<'_>,
        head: &RefusedHead<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    ) {
        self.handler.reject_unparsed(problem, head, meta.surface, out);
    }

    fn country_header(&self) -> Option<&str> {
        self.handler.country_header()
    }

    fn tick(&mut self) {
        self.handler.tick();
    }
}

/// Returns the credentials of the Bearer scheme. The scheme's name is case-insensitive (RFC 9110 section
/// 11.1).
fn bearer_token(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, credentials) = authorization.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(credentials)
}

/// Compares hashes, so that the time of the comparison reveals nothing about the token.
fn tokens_match(token: &[u8], given: &[u8]) -> bool {
    checksum::digest(&[token]) == checksum::digest(&[given])
}

/// Returns whether `host` is an IP address or localhost. A web page's own DNS can point any other name to
/// loopback.
fn is_ip_or_localhost(host: &str) -> bool {
    let without_port = host.rsplit_once(':').filter(|(_, p)| p.bytes().all(|b| b.is_ascii_digit()));
    let name = without_port.map_or(host, |(name, _)| name);
    let bare = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}
