//! The operator's address: is it alive, is it ready, and why was that decided. It answers from the first moment of a start.
//!
//! It is told apart from the public ones by its port alone, so it guards itself: without a token only
//! GETs from loopback are answered, and nothing that a web page on the operator's machine could send.

mod health;
pub mod jobs;
mod metrics;
pub mod startup;
mod visitors;

pub use metrics::{Metrics, Read};
pub use visitors::Visitors;

use std::net::IpAddr;

use self::startup::{Parts, Starting};
use crate::api::{Answered, Desk, Endpoint, Progress};
use crate::checksum;
use crate::http::request::{Arrival, Method, Request, Waited};
use crate::problem::{self, Problem};
use crate::worker::{Service, Stopping};

/// The service of the operator's address.
pub struct Operator {
    desk: Desk,
    stopping: Stopping,
    token: Option<String>,
    metrics: Metrics,
    visitors: Option<Visitors>,
    /// None once all is read.
    starting: Option<Starting>,
}

impl Operator {
    /// Answers at `desk`, which explains, for those who know `token`; says of `stopping` whether the server is ready.
    pub fn new(desk: Desk, token: Option<String>, stopping: Stopping, metrics: Metrics) -> Self {
        Self { desk, stopping, token, metrics, visitors: None, starting: None }
    }

    /// The same, which tells how far a start has come until it gets its other parts.
    #[must_use]
    pub fn starting(self, starting: Starting) -> Self {
        Self { starting: Some(starting), ..self }
    }

    fn take_parts(&mut self) {
        let Some(Starting { parts, .. }) = &self.starting else { return };
        let Ok(Parts { make, read }) = parts.try_recv() else { return };
        let (desk, visitors) = make();
        self.desk = desk;
        self.visitors = Some(visitors);
        self.metrics.read = Some(read);
        self.starting = None;
    }

    /// Whether the rest of the address is open to this request.
    fn admit<'a>(&self, request: &Request<'a>, arrival: &Arrival) -> Result<(), Problem<'a>> {
        let fields = &request.fields;
        if let Some(origin) = fields.origin {
            let came = std::str::from_utf8(origin).unwrap_or("an origin that is not UTF-8");
            let expected = "no Origin: this address is not for web pages";
            return Err(Problem::new(problem::ORIGIN_NOT_ALLOWED, expected, came));
        }
        let given = fields.authorization.and_then(bearer);
        if let (Some(token), Some(given)) = (&self.token, given)
            && is_same(token.as_bytes(), given)
        {
            return Ok(());
        }
        let reads = matches!(request.method, Method::Get | Method::Head);
        if !reads || !arrival.peer.to_canonical().is_loopback() {
            let expected = "'Authorization: Bearer' with the token of --admin-token";
            return Err(Problem::missing(problem::UNAUTHORIZED, expected));
        }
        let host = fields.host.and_then(|h| std::str::from_utf8(h).ok()).unwrap_or_default();
        if !is_address_or_localhost(host) {
            let expected = "a Host that is an IP address or localhost";
            return Err(Problem::new(problem::HOST_NOT_ALLOWED, expected, host));
        }
        Ok(())
    }
}

impl Service for Operator {
    fn answer(&mut self, request: &Request<'_>, arrival: &Arrival, out: &mut Vec<u8>) -> Progress {
        self.take_parts();
        if health::answer(&mut self.desk, self.starting.as_ref(), &self.stopping, request, out)
            || self.metrics.answer(&mut self.desk, request, out)
        {
            return Progress::Answered(Answered::default());
        }
        if let Err(problem) = self.admit(request, arrival) {
            return Progress::Answered(self.desk.refuse_request(request, &problem, out));
        }
        if self.starting.is_some() {
            let expected = "another try in a moment: snapshots and log are being read, /readyz says how far";
            let problem = Problem::missing(problem::STARTING, expected);
            return Progress::Answered(self.desk.refuse_request(request, &problem, out));
        }
        if let Some(visitors) = self.visitors.as_mut().filter(|_| Visitors::has(request.path)) {
            return visitors.answer(&mut self.desk, request, out);
        }
        match Endpoint::of(request.path) {
            Some(Endpoint::Resolve | Endpoint::Variants) => self.desk.answer(request, arrival, out),
            _ => {
                let expected =
                    "/healthz, /readyz, /metrics, /visitors, /visitors/export, /v1/resolve or /v1/variants";
                let problem = Problem::new(problem::UNKNOWN_ENDPOINT, expected, request.path);
                Progress::Answered(self.desk.refuse_request(request, &problem, out))
            }
        }
    }

    fn finish(
        &mut self,
        _token: usize,
        waited: &Waited<'_>,
        _arrival: &Arrival,
        out: &mut Vec<u8>,
    ) -> Answered {
        let asked = self.visitors.as_mut().zip(waited.request());
        asked.map_or_else(Answered::default, |(visitors, request)| {
            visitors.finish(&mut self.desk, &request, out)
        })
    }

    fn is_complete(&self, _token: usize) -> bool {
        self.visitors.as_ref().is_some_and(Visitors::is_complete)
    }

    fn take_completion(&mut self) -> Option<usize> {
        self.visitors.as_mut()?.jobs().take_completion()
    }

    fn forget(&mut self, _token: usize) {
        if let Some(visitors) = &mut self.visitors {
            visitors.jobs().forget();
        }
    }

    fn refuse(&mut self, problem: &Problem<'_>, out: &mut Vec<u8>) {
        self.desk.refuse(problem, out);
    }

    fn country_header(&self) -> Option<&str> {
        self.desk.country_header()
    }

    fn tick(&mut self) {
        self.desk.tick();
    }
}

/// The credentials of the Bearer scheme, whose name may stand in any case (RFC 9110 section 11.1).
fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, credentials) = authorization.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(credentials)
}

/// Compares by hashes, so that the time it takes tells nothing of the token.
fn is_same(token: &[u8], given: &[u8]) -> bool {
    checksum::digest(&[token]) == checksum::digest(&[given])
}

/// A name that a web page's own DNS could point to loopback is not accepted.
fn is_address_or_localhost(host: &str) -> bool {
    let without_port = host.rsplit_once(':').filter(|(_, p)| p.bytes().all(|b| b.is_ascii_digit()));
    let name = without_port.map_or(host, |(name, _)| name);
    let bare = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}
