//! How a request for events is answered: in come the fates of its events and what the answer takes from the request, out goes a
//! receipt, or a problem of the events. The same request gets the same head whether its answer waited or not.

use super::handler::Room;
use super::{Endpoint, response};
use crate::http::cors::Cors;
use crate::http::date::DateLine;
use crate::http::request::{Arrival, Request, has_token};
use crate::http::response::Head;
use crate::problem::Kind;
use crate::visitors::events::receipt::{Fates, Refused, Stored};

/// What an answer takes from its request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) manner: Manner,
    pub(super) origin: Option<&'a [u8]>,
    id: Option<&'a [u8]>,
    close: bool,
}

/// The part of it that is no text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    pub(super) endpoint: Option<Endpoint>,
    /// A receipt is wanted only where there is something to say.
    minimal: bool,
    timed: bool,
}

/// The same while a request waits: parsing it again would take longer than all else that is left to do.
#[derive(Debug)]
pub(super) struct Kept {
    manner: Manner,
    origin: Option<Box<[u8]>>,
    id: Option<Box<[u8]>>,
}

impl<'a> Asked<'a> {
    pub(super) fn of(request: &Request<'a>) -> Self {
        let fields = &request.fields;
        let manner = Manner {
            endpoint: Endpoint::of(request.path),
            minimal: fields.prefer.is_some_and(|prefer| has_token(prefer, b"return=minimal")),
            timed: fields.debug_timing == Some(b"1"),
        };
        let id = fields.request_id.filter(|id| response::is_request_id(id));
        Self { manner, origin: fields.origin, id, close: request.close }
    }

    pub(super) fn keep(&self) -> Kept {
        let Self { manner, origin, id, .. } = *self;
        Kept { manner, origin: origin.map(Box::from), id: id.map(Box::from) }
    }
}

impl Kept {
    /// As it was, of a connection that ends behind the answer or does not.
    pub(super) fn asked(&self, close: bool) -> Asked<'_> {
        Asked { manner: self.manner, close, origin: self.origin.as_deref(), id: self.id.as_deref() }
    }

    /// Of its texts.
    pub(super) fn bytes(&self) -> usize {
        [&self.origin, &self.id].into_iter().flatten().map(|text| text.len()).sum()
    }
}

/// How a request is answered.
pub(super) struct Reply<'a> {
    pub(super) asked: Asked<'a>,
    pub(super) date: &'a DateLine,
    pub(super) cors: Cors<'a>,
    pub(super) arrival: &'a Arrival,
}

impl Reply<'_> {
    fn begin<'o>(&self, status: u16, room: &mut Room, out: &'o mut Vec<u8>) -> Head<'o> {
        let mut head = Head::begin(out, status, self.date);
        head.lines(b"Cache-Control: no-store\r\n");
        response::request_id(&mut head, &mut room.ids, self.asked.id);
        if self.cors.varies() {
            head.lines(b"Vary: Origin\r\n");
        }
        self.cors.write(&mut head);
        head
    }

    /// Appends a receipt; none where the caller wants none and there is nothing to say.
    pub(super) fn receipt(&self, fates: &Fates, stored: Stored<'_>, room: &mut Room, out: &mut Vec<u8>) {
        if self.asked.manner.minimal && fates.is_complete() {
            let mut head = self.begin(204, room, out);
            self.time(&mut head);
            head.end_bodiless(self.asked.close);
            return;
        }
        let mut body = std::mem::take(&mut room.plan.text);
        body.clear();
        fates.receipt(stored, &mut body);
        let mut head = self.begin(200, room, out);
        if let Some(reason) = fates.single_drop() {
            head.field("X-Dropped: ", reason.name().as_bytes());
        }
        self.time(&mut head);
        head.lines(b"Content-Type: application/json\r\n");
        head.end(body.len(), self.asked.close).extend_from_slice(&body);
        room.plan.text = body;
    }

    /// Says how long it took, the disk included, where that was asked for.
    fn time(&self, head: &mut Head<'_>) {
        response::timing(head, self.asked.manner.timed.then_some(self.arrival.at));
    }

    /// Appends a problem of the events; its kind.
    pub(super) fn refuse(&self, refused: &Refused<'_>, room: &mut Room, out: &mut Vec<u8>) -> &'static Kind {
        let mut body = std::mem::take(&mut room.plan.text);
        body.clear();
        let kind = refused.kind();
        let begin = out.len();
        let mut head = self.begin(kind.status, room, out);
        head.lines(b"Content-Type: application/problem+json\r\n");
        let id = written_id(head.out(), begin);
        refused.write(id.as_deref(), &mut body);
        head.end(body.len(), self.asked.close).extend_from_slice(&body);
        room.plan.text = body;
        kind
    }
}

/// The request's id as the head that begins at `begin` has it.
fn written_id(out: &[u8], begin: usize) -> Option<String> {
    let head = std::str::from_utf8(&out[begin..]).ok()?;
    let id = head.split("X-Request-Id: ").nth(1)?.split('\r').next()?;
    Some(id.to_owned())
}
