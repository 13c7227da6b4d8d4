//! Requests whose response is pending: they wait for the log, or for a publication.

use std::time::Instant;

use super::endpoint::{Endpoint, Outcome, PendingToken, Poll};
use super::events::EventHandler;
use super::handler::{Attempt, Handler};
use crate::http::request::{BufferedRequest, RequestMeta};

impl Handler {
    /// Returns whether the pending request can be finished.
    pub fn is_ready(&self, token: usize) -> bool {
        match PendingToken::from_number(token) {
            PendingToken::Events(token) => {
                self.event_sink.as_ref().is_some_and(|sink| sink.is_complete(token))
            }
            PendingToken::Held(token) => self.held.as_ref().is_some_and(|held| held.is_ready(token)),
        }
    }

    /// Returns the time at which a pending request is finished, even if it is not ready.
    pub fn deadline(&self, token: usize) -> Option<Instant> {
        match PendingToken::from_number(token) {
            PendingToken::Events(_) => None,
            PendingToken::Held(token) => self.held.as_ref()?.deadline(token),
        }
    }

    /// Wakes the log writer for the requests that were queued since the last call.
    pub fn flush(&self) {
        if let Some(sink) = &self.event_sink {
            sink.flush();
        }
    }

    /// Returns the approximate memory of a pending request, in bytes.
    pub fn pending_bytes(&self, token: usize) -> usize {
        match PendingToken::from_number(token) {
            PendingToken::Events(token) => {
                self.event_sink.as_ref().map_or(0, |sink| sink.pending_bytes(token))
            }
            PendingToken::Held(_) => 0,
        }
    }

    /// Returns the token of a request that became ready, each one once.
    pub fn take_completion(&mut self) -> Option<usize> {
        if let Some(token) = self.event_sink.as_mut().and_then(|sink| sink.take_completion()) {
            return Some(PendingToken::Events(token).number());
        }
        let held = self.held.as_mut()?;
        held.next_ready(self.catalog_reader.load()).map(|token| PendingToken::Held(token).number())
    }

    /// Abandons a pending request, because its client is gone.
    pub fn cancel(&mut self, token: usize) {
        match PendingToken::from_number(token) {
            PendingToken::Events(token) => self.event_sink.iter_mut().for_each(|sink| sink.cancel(token)),
            PendingToken::Held(token) => self.held.iter_mut().for_each(|held| held.release(token)),
        }
    }

    /// Returns whether a pending request is abandoned when its client closes the connection. An event is recorded all the same.
    pub fn ends_with_client(&self, token: usize) -> bool {
        matches!(PendingToken::from_number(token), PendingToken::Held(_))
    }

    /// Makes all requests ready that wait for a publication, because the server is draining.
    pub fn drain(&mut self) {
        self.held.iter_mut().for_each(|held| held.drain());
    }

    /// Appends the response to a pending request.
    pub fn complete(
        &mut self,
        token: usize,
        buffered: &BufferedRequest<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    ) -> Outcome {
        match PendingToken::from_number(token) {
            PendingToken::Events(token) => self.complete_events(token, buffered, meta, out),
            PendingToken::Held(token) => self.complete_held(token, buffered, meta, out),
        }
    }

    fn complete_events(
        &mut self,
        token: usize,
        buffered: &BufferedRequest<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let Self { settings, date, catalog_reader, scratch, event_sink, .. } = self;
        let Some(event_sink) = event_sink else { return Outcome::default() };
        let handler = EventHandler { settings, date, catalog: catalog_reader.load(), scratch };
        handler.complete(event_sink, token, (buffered, meta), out)
    }

    fn complete_held(
        &mut self,
        token: usize,
        buffered: &BufferedRequest<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    ) -> Outcome {
        self.held.iter_mut().for_each(|held| held.release(token));
        let Some(request) = buffered.request() else { return Outcome::default() };
        match self.handle_site(&request, Ok(Endpoint::Routes), meta, Attempt::AfterWait, out) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending(_) => Outcome::default(),
        }
    }
}
