//! The service of a worker: the trait, and its implementation by the handler of the public endpoints.
//!
//! A pending response waits for the log, or for a publication.

use super::class::{Audience, ResponseClass};
use super::endpoint::{Endpoint, Outcome, PendingToken, Poll};
use super::events::EventHandler;
use super::handler::{Attempt, Handler};
use super::problem::{write_problem, write_unframed_problem};
use super::rate_limit;
use super::shared_bytes::{SharedBytes, SharedParts};
use crate::clock::{self, Instant};
use crate::http::cors::Cors;
use crate::http::date::DateLine;
use crate::http::headers::Field;
use crate::http::refused_head::RefusedHead;
use crate::http::request::{BufferedRequest, Method, Request, RequestMeta, Surface};
use crate::problem::Problem;

/// A service that answers the requests of a worker's connections.
pub trait Service: 'static {
    /// Appends the response to a complete request, or returns a token if the response is pending. Then [`Self::finish`]
    /// appends it later.
    fn handle(&mut self, request: &Request<'_>, meta: &RequestMeta, out: &mut Vec<u8>) -> Poll;
    /// Appends the response to a request that was pending and is ready.
    fn finish(
        &mut self,
        token: usize,
        buffered_request: &BufferedRequest<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    ) -> Outcome;
    /// Returns whether the pending request with this token can be finished.
    fn is_ready(&self, token: usize) -> bool;
    /// Returns the time at which the worker finishes the pending request with this token, even if it is not ready.
    /// `None` if the request waits without a limit.
    fn deadline(&self, token: usize) -> Option<Instant> {
        let _ = token;
        None
    }
    /// Makes all requests ready that need not wait longer, because the server is draining.
    fn drain(&mut self) {}
    /// Notifies the other thread of the requests that became pending since the last call. The worker calls
    /// this once for all requests of an event loop iteration.
    fn flush(&mut self) {}
    /// Returns approximately how much memory the pending request with this token uses, in bytes.
    fn pending_bytes(&self, token: usize) -> usize {
        let _ = token;
        0
    }
    /// Returns the token of a request that became ready, each one once. The worker calls this until it
    /// returns `None`.
    fn take_completion(&mut self) -> Option<usize>;
    /// Abandons the pending request with this token, because its client is gone.
    fn cancel(&mut self, token: usize);
    /// Appends the problem of input that is not a complete and valid request. The connection is closed after it.
    fn reject_unparsed(
        &mut self,
        problem: &Problem<'_>,
        head: &RefusedHead<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    );
    /// Returns whether the pending request with this token is abandoned when its client closes the connection. Otherwise the
    /// worker notices that only when it writes the response.
    fn ends_with_client(&self, token: usize) -> bool;
    /// Moves the shared parts of the responses since the last call to `shared_parts`.
    fn take_shared_parts(&mut self, shared_parts: &mut SharedParts) {
        let _ = shared_parts;
    }
    /// Returns whether these bytes keep a snapshot in memory that is not served any more.
    fn is_of_replaced_snapshot(&mut self, bytes: &SharedBytes) -> bool {
        let _ = bytes;
        false
    }
    /// Returns the country header (lower case) that the parser extracts in addition to the standard ones.
    fn country_header(&self) -> Option<&str>;
    /// Runs periodic work. The worker calls this once a second.
    fn tick(&mut self);
}

impl Service for Handler {
    fn handle(&mut self, request: &Request<'_>, meta: &RequestMeta, out: &mut Vec<u8>) -> Poll {
        // A rejected preflight would hide the reason from the page, so OPTIONS has no rate limit.
        if request.method == Method::Options {
            return Poll::Ready(self.handle_options(request, meta.surface, out));
        }
        let endpoint = Endpoint::of_request(request, meta.surface);
        if let Ok(Endpoint::Health) = endpoint {
            return Poll::Ready(self.handle_health(request, out));
        }
        if let Err(problem) = rate_limit::check_address(&self.settings, request, meta) {
            let class = ResponseClass::of_request(request);
            let audience = Audience::before_site_known(class, request.headers.get(Field::Origin));
            write_problem(out, &problem, audience.into(), request, &self.date, &mut self.scratch);
            return Poll::rejected(None, problem.kind);
        }
        match endpoint {
            Ok(Endpoint::Events(event_endpoint)) => self.submit_events(request, meta, event_endpoint, out),
            Ok(Endpoint::LibrarySettings) => Poll::Ready(self.handle_library_settings(request, meta, out)),
            _ => self.handle_site(request, endpoint, meta, Attempt::First, out),
        }
    }

    fn is_ready(&self, token: usize) -> bool {
        match PendingToken::from_number(token) {
            PendingToken::Events(token) => {
                self.event_sink.as_ref().is_some_and(|sink| sink.is_complete(token))
            }
            PendingToken::Held(token) => self.held.as_ref().is_some_and(|held| held.is_ready(token)),
        }
    }

    fn deadline(&self, token: usize) -> Option<Instant> {
        match PendingToken::from_number(token) {
            PendingToken::Events(_) => None,
            PendingToken::Held(token) => self.held.as_ref()?.deadline(token),
        }
    }

    fn flush(&mut self) {
        if let Some(sink) = &self.event_sink {
            sink.flush();
        }
    }

    fn pending_bytes(&self, token: usize) -> usize {
        match PendingToken::from_number(token) {
            PendingToken::Events(token) => {
                self.event_sink.as_ref().map_or(0, |sink| sink.pending_bytes(token))
            }
            PendingToken::Held(_) => 0,
        }
    }

    fn take_completion(&mut self) -> Option<usize> {
        if let Some(token) = self.event_sink.as_mut().and_then(|sink| sink.take_completion()) {
            return Some(PendingToken::Events(token).number());
        }
        let held = self.held.as_mut()?;
        held.next_ready(self.catalog_reader.load()).map(|token| PendingToken::Held(token).number())
    }

    fn cancel(&mut self, token: usize) {
        match PendingToken::from_number(token) {
            PendingToken::Events(token) => self.event_sink.iter_mut().for_each(|sink| sink.cancel(token)),
            PendingToken::Held(token) => self.held.iter_mut().for_each(|held| held.release(token)),
        }
    }

    fn ends_with_client(&self, token: usize) -> bool {
        matches!(PendingToken::from_number(token), PendingToken::Held(_))
    }

    fn drain(&mut self) {
        self.held.iter_mut().for_each(|held| held.drain());
    }

    fn finish(
        &mut self,
        token: usize,
        buffered_request: &BufferedRequest<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    ) -> Outcome {
        match PendingToken::from_number(token) {
            PendingToken::Events(token) => self.complete_events(token, buffered_request, meta, out),
            PendingToken::Held(token) => self.complete_held(token, buffered_request, meta, out),
        }
    }

    fn reject_unparsed(
        &mut self,
        problem: &Problem<'_>,
        head: &RefusedHead<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    ) {
        let cors = match meta.surface {
            Surface::Admin | Surface::AdminWithoutPrivateTraits => Cors::Nobody,
            Surface::Public | Surface::Edge | Surface::Events => {
                ResponseClass::of_refused(head).cors_before_site_known(head.origin)
            }
        };
        write_unframed_problem(out, problem, cors, &self.date, &mut self.scratch.response.ids);
    }

    fn take_shared_parts(&mut self, shared_parts: &mut SharedParts) {
        shared_parts.append(&mut self.scratch.response.shared);
    }

    fn is_of_replaced_snapshot(&mut self, bytes: &SharedBytes) -> bool {
        bytes.is_of_replaced_snapshot(self.catalog())
    }

    fn country_header(&self) -> Option<&str> {
        self.settings.country_header.as_deref()
    }

    fn tick(&mut self) {
        // An idle thread keeps no old catalog alive.
        self.date = DateLine::new(clock::now_s());
        self.catalog_reader.load();
    }
}

impl Handler {
    /// Answers a request to an event endpoint alone, so that a program that only folds has no other endpoint in it. `run_log`
    /// completes the queued requests. Returns false for a request to another endpoint.
    #[cfg(not(feature = "server"))]
    pub(crate) fn record(
        &mut self,
        request: &Request<'_>,
        buffered_request: &BufferedRequest<'_>,
        meta: &RequestMeta,
        run_log: &mut dyn FnMut(),
        out: &mut Vec<u8>,
    ) -> bool {
        let Ok(Endpoint::Events(endpoint)) = Endpoint::of_request(request, meta.surface) else {
            return false;
        };
        let Poll::Pending(number) = self.submit_events(request, meta, endpoint, out) else { return true };
        run_log();
        self.take_completion();
        if let PendingToken::Events(token) = PendingToken::from_number(number) {
            self.complete_events(token, buffered_request, meta, out);
        }
        true
    }

    fn complete_events(
        &mut self,
        token: usize,
        buffered_request: &BufferedRequest<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let Self { settings, date, catalog_reader, scratch, event_sink, .. } = self;
        let Some(event_sink) = event_sink else { return Outcome::default() };
        let handler = EventHandler { settings, date, catalog: catalog_reader.load(), scratch };
        handler.complete(event_sink, token, buffered_request, meta, out)
    }

    fn complete_held(
        &mut self,
        token: usize,
        buffered_request: &BufferedRequest<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    ) -> Outcome {
        self.held.iter_mut().for_each(|held| held.release(token));
        let Some(request) = buffered_request.request() else { return Outcome::default() };
        match self.handle_site(&request, Ok(Endpoint::Routes), meta, Attempt::AfterWait, out) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending(_) => Outcome::default(),
        }
    }
}
