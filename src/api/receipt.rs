//! Responses to event requests: a receipt with per-event results, or a problem document.
//!
//! The head depends only on the request, so it is the same whether the response was pending or not.

use super::endpoint::Endpoint;
use super::response::write_server_timing;
use super::scratch::Scratch;
use super::visitor_token::{EventVisitors, TokenAnswer};
use crate::events::receipt::{EventResults, RejectedRequest, StoreOutcome};
use crate::http::cors::Cors;
use crate::http::date::DateLine;
use crate::http::headers::Field;
use crate::http::request::{Request, RequestMeta};
use crate::http::request_id::{is_request_id, write_request_id};
use crate::http::response::ResponseHead;
use crate::problem::ProblemKind;

/// The parts of a request on which its response depends.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResponseParams<'a> {
    pub(super) options: ResponseOptions,
    pub(super) origin: Option<&'a [u8]>,
    request_id: Option<&'a [u8]>,
    close: bool,
}

/// The response parameters that are not text.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResponseOptions {
    pub(super) endpoint: Endpoint,
    /// True if the client wants no receipt if all events were accepted.
    minimal: bool,
    /// True if the client wants `Server-Timing`.
    timed: bool,
}

/// Owned response parameters of a pending request. Parsing the request again would take longer than all that is left
/// to do.
#[derive(Debug)]
pub(super) struct OwnedResponseParams {
    options: ResponseOptions,
    origin: Option<Box<[u8]>>,
    request_id: Option<Box<[u8]>>,
    pub(super) visitors: EventVisitors,
}

impl<'a> ResponseParams<'a> {
    pub(super) fn of(request: &Request<'a>, endpoint: Endpoint) -> Self {
        let headers = &request.headers;
        let options = ResponseOptions {
            endpoint,
            minimal: headers.has_preference(b"return", b"minimal"),
            timed: headers.get(Field::DebugTiming) == Some(b"1"),
        };
        let request_id = headers.get(Field::RequestId).filter(|id| is_request_id(id));
        Self { options, origin: headers.get(Field::Origin), request_id, close: request.close }
    }

    /// Returns the parameters without borrows, and with the visitors of the events.
    pub(super) fn with_visitors(self, visitors: EventVisitors) -> OwnedResponseParams {
        let Self { options, origin, request_id, .. } = self;
        let origin = origin.map(Box::from);
        let request_id = request_id.map(Box::from);
        OwnedResponseParams { options, origin, request_id, visitors }
    }
}

impl OwnedResponseParams {
    /// Returns the parameters again. `must_close` says whether the connection ends after the response.
    pub(super) fn borrow(&self, must_close: bool) -> ResponseParams<'_> {
        let origin = self.origin.as_deref();
        let request_id = self.request_id.as_deref();
        ResponseParams { options: self.options, origin, request_id, close: must_close }
    }

    /// Returns the size of the texts, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let texts = [&self.origin, &self.request_id].into_iter().flatten();
        texts.map(|text| text.len()).sum::<usize>() + self.visitors.memory_bytes()
    }
}

/// A response to an event request.
pub(super) struct EventResponse<'a> {
    pub(super) params: ResponseParams<'a>,
    pub(super) date: &'a DateLine,
    pub(super) cors: Cors<'a>,
    pub(super) meta: &'a RequestMeta,
}

impl EventResponse<'_> {
    fn begin<'o>(&self, status: u16, scratch: &mut Scratch, out: &'o mut Vec<u8>) -> ResponseHead<'o> {
        let mut head = ResponseHead::begin(out, status, self.date);
        head.raw(b"Cache-Control: no-store\r\n");
        write_request_id(&mut head, &mut scratch.response.ids, self.params.request_id);
        if self.cors.varies_by_origin() {
            head.raw(b"Vary: Origin\r\n");
        }
        self.cors.write(&mut head);
        head
    }

    /// Appends a receipt, or a 204 if the client wants none, all events were accepted, and the next resolve sees them.
    pub(super) fn write_receipt(
        &self,
        results: &EventResults,
        outcome: StoreOutcome<'_>,
        token: &TokenAnswer,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) {
        let is_visible = !matches!(outcome, StoreOutcome::Stored(_, _, Some(false)));
        if self.params.options.minimal && !token.is_requested() && results.are_all_recorded() && is_visible {
            let mut head = self.begin(204, scratch, out);
            self.write_timing(&mut head);
            head.end(self.params.close);
            return;
        }
        let mut body = std::mem::take(&mut scratch.plan.text);
        body.clear();
        results.write_receipt(outcome, &mut body);
        if token.is_requested() {
            body.pop();
            token.write_member(&mut body);
            body.push(b'}');
        }
        let mut head = self.begin(200, scratch, out);
        if let Some(reason) = results.single_drop_reason() {
            head.field("X-Dropped: ", reason.name().as_bytes());
        }
        self.write_timing(&mut head);
        head.raw(b"Content-Type: application/json\r\n");
        head.finish(body.len(), self.params.close).extend_from_slice(&body);
        scratch.plan.text = body;
    }

    /// Writes the time since the request was received, disk time included, if the client asked for it.
    fn write_timing(&self, head: &mut ResponseHead<'_>) {
        write_server_timing(head, self.params.options.timed.then_some(self.meta.received_at));
    }

    /// Appends the problem of a rejected request, and returns its kind.
    pub(super) fn write_problem(
        &self,
        rejection: &RejectedRequest<'_>,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> &'static ProblemKind {
        let mut body = std::mem::take(&mut scratch.plan.text);
        body.clear();
        let kind = rejection.kind();
        let begin = out.len();
        let mut head = self.begin(kind.status, scratch, out);
        head.raw(b"Content-Type: application/problem+json\r\n");
        let id = written_request_id(head.buffer(), begin);
        rejection.write_problem(id.as_deref(), &mut body);
        head.finish(body.len(), self.params.close).extend_from_slice(&body);
        scratch.plan.text = body;
        kind
    }
}

/// Returns the request ID from the head that begins at `start_offset`.
fn written_request_id(bytes: &[u8], start_offset: usize) -> Option<String> {
    let head = std::str::from_utf8(&bytes[start_offset..]).ok()?;
    let id = head.split("X-Request-Id: ").nth(1)?.split('\r').next()?;
    Some(id.to_owned())
}
