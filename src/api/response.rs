//! What an answer says beside its body: class, validator, coding, CORS, version.

use std::time::Instant;

use super::context::Call;
use crate::checksum;
use crate::clock;
use crate::http::cors::Cors;
use crate::http::negotiate;
use crate::http::request::Fields;
use crate::http::response::Head;
use crate::ids::{self, RequestIds};
use crate::limits::REQUEST_ID_BYTES_MAX;
use crate::resolve::path::RoutePath;
use crate::resolve::render::Plan;
use crate::site::snapshot::format::{ArchivedPiece, ArchivedRoute};

/// Below this a compressed body saves no packet.
const GZIP_ABOVE_BYTES: usize = 1024;

/// Who may keep an answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Class<'a> {
    /// Shared caches, as this `Cache-Control` says. Nothing of a visitor, nothing of the caller.
    Public(&'a str),
    /// This visitor's browser may show it, nobody may keep it.
    Private,
    /// An explanation: nobody may keep it, nor ask whether it changed.
    Unkept,
}

/// The lines of a head that differ from answer to answer.
pub(super) struct Answer<'a> {
    pub(super) class: Class<'a>,
    pub(super) etag: Option<Etag>,
    /// The canonical `variants`.
    pub(super) variants: Option<&'a [u8]>,
    /// The path that the body is about, for purging it.
    pub(super) path: Option<&'a RoutePath>,
    /// The canonical URL, where the request's is not.
    pub(super) location: Option<&'a [u8]>,
}

/// A body that is not written yet.
pub(super) enum Body<'a> {
    /// Pieces of the site and texts between them, in either coding.
    Planned(&'a Plan, &'a [ArchivedPiece]),
    /// Text that has one coding only.
    Text(&'a [u8]),
}

impl Body<'_> {
    fn identity_bytes(&self) -> usize {
        match self {
            Self::Planned(plan, _) => plan.identity_bytes(),
            Self::Text(text) => text.len(),
        }
    }

    fn has_two_codings(&self) -> bool {
        matches!(self, Self::Planned(..)) && self.identity_bytes() > GZIP_ABOVE_BYTES
    }

    fn bytes(&self, gzip: bool) -> usize {
        match self {
            Self::Planned(plan, _) if gzip => plan.gzip_bytes(),
            _ => self.identity_bytes(),
        }
    }

    fn write(&self, gzip: bool, out: &mut Vec<u8>) {
        match self {
            Self::Planned(plan, pieces) if gzip => plan.gzip(pieces, out),
            Self::Planned(plan, pieces) => plan.identity(pieces, out),
            Self::Text(text) => out.extend_from_slice(text),
        }
    }
}

/// A strong entity tag, with its quotes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Etag([u8; 34]);

impl Etag {
    /// Names what `tagged` describes: everything that a body depends on, or a body that never changes.
    pub(super) fn of(tagged: &[u8]) -> Self {
        let tag = checksum::tag(tagged);
        let mut text = [b'"'; 34];
        text[1..17].copy_from_slice(&ids::hex((tag >> 64) as u64));
        text[17..33].copy_from_slice(&ids::hex(tag as u64));
        Self(text)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether `If-None-Match` says that the client has what it names.
    pub(super) fn is_known(&self, fields: &Fields<'_>) -> bool {
        fields.if_none_match.is_some_and(|list| negotiate::has_etag(list, &self.0))
    }
}

/// Sends `body`, or 304 where the client has it.
pub(super) fn send(
    call: &Call<'_>,
    mut answer: Answer<'_>,
    body: &Body<'_>,
    tagged: &mut Vec<u8>,
    ids: &mut RequestIds,
    out: &mut Vec<u8>,
) {
    let fields = &call.request.fields;
    let two = body.has_two_codings();
    let gzip = two && negotiate::accepts_gzip(fields.accept_encoding);
    if !matches!(answer.class, Class::Unkept) {
        tagged.push(u8::from(gzip));
        answer.etag = Some(Etag::of(tagged));
    }
    let unchanged = answer.etag.as_ref().is_some_and(|etag| etag.is_known(fields));
    let mut head = Head::begin(out, if unchanged { 304 } else { 200 }, call.date);
    answer.write(&mut head, call, ids, two);
    if unchanged {
        head.end_bodiless(call.request.close);
        return;
    }
    head.lines(b"Content-Type: application/json\r\n");
    if gzip {
        head.lines(b"Content-Encoding: gzip\r\n");
    }
    let out = head.end(body.bytes(gzip), call.request.close);
    if !call.head_only() {
        body.write(gzip, out);
    }
}

impl Answer<'_> {
    fn write(&self, head: &mut Head<'_>, call: &Call<'_>, ids: &mut RequestIds, two: bool) {
        let cors = match self.class {
            Class::Public(_) => Cors::Anyone,
            Class::Private | Class::Unkept => call.private_cors(),
        };
        match self.class {
            Class::Public(cache_control) => {
                head.field("Cache-Control: ", cache_control.as_bytes());
                request_id(head, ids, None);
            }
            Class::Private => head.lines(b"Cache-Control: private, no-store\r\n"),
            Class::Unkept => head.lines(b"Cache-Control: no-store\r\n"),
        }
        if !matches!(self.class, Class::Public(_)) {
            request_id(head, ids, call.request_id());
            timing(head, call.started);
        }
        if let Some(etag) = &self.etag {
            head.field("ETag: ", etag.as_bytes());
        }
        head.lines(vary(two, cors.varies()));
        cors.write(head);
        head.lines(b"X-Version: ");
        crate::json::number(head.out(), call.site().version.to_native());
        head.lines(b"\r\n");
        if let Some(variants) = self.variants {
            head.field("X-Variants: ", variants);
        }
        if let Some(location) = self.location {
            head.field("Content-Location: ", location);
        }
        if matches!(self.class, Class::Public(_)) {
            tags(head, &call.site().site, self.path);
        }
    }
}

fn vary(two_codings: bool, origin: bool) -> &'static [u8] {
    match (two_codings, origin) {
        (true, true) => b"Vary: Accept-Encoding, Origin\r\n",
        (true, false) => b"Vary: Accept-Encoding\r\n",
        (false, true) => b"Vary: Origin\r\n",
        (false, false) => b"",
    }
}

/// Writes the caller's id, or a minted one.
pub(super) fn request_id(head: &mut Head<'_>, ids: &mut RequestIds, own: Option<&[u8]>) {
    match own {
        Some(id) => head.field("X-Request-Id: ", id),
        None => head.field("X-Request-Id: ", &ids.mint()),
    }
}

/// Whether a caller's `X-Request-Id` can be echoed.
pub(super) fn is_request_id(id: &[u8]) -> bool {
    (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

/// How long it took since `started`, where that was asked for.
pub(super) fn timing(head: &mut Head<'_>, started: Option<Instant>) {
    let Some(started) = started else { return };
    let micros = clock::instant().duration_since(started).as_micros() as u64;
    head.lines(b"Server-Timing: total;dur=");
    crate::json::number(head.out(), micros / 1000);
    let fraction = micros % 1000;
    let digit = |n: u64| b'0' + (n % 10) as u8;
    head.lines(&[b'.', digit(fraction / 100), digit(fraction / 10), digit(fraction)]);
    head.lines(b"\r\n");
}

/// What caches purge by: the site, and the page. Two fields say it, with a separator each.
fn tags(head: &mut Head<'_>, site: &str, path: Option<&RoutePath>) {
    let out = head.out();
    out.extend_from_slice(b"Cache-Tag: ");
    let from = out.len();
    out.extend_from_slice(site.as_bytes());
    if let Some(path) = path {
        out.push(b',');
        out.extend_from_slice(site.as_bytes());
        out.push(b':');
        path.encode(out);
    }
    let said = from..out.len();
    out.extend_from_slice(b"\r\nSurrogate-Key: ");
    let separator_at = out.len() + site.len();
    out.extend_from_within(said);
    if path.is_some() {
        out[separator_at] = b' ';
    }
    out.extend_from_slice(b"\r\n");
}

/// Begins the description of what an ETag names: the endpoint, the content, and the path where it
/// can differ from the route's own; encoded, since two paths of one text can differ in which
/// slash belongs to a segment.
pub(super) fn describe(tagged: &mut Vec<u8>, endpoint: u8, route: &ArchivedRoute, path: &RoutePath) {
    tagged.clear();
    tagged.push(endpoint);
    tagged.extend_from_slice(&route.content);
    if route.pattern {
        path.encode(tagged);
        tagged.push(0);
    }
}
