//! Response heads and bodies of the site endpoints: caching, validator, content coding, CORS, version.

use std::time::Instant;

use super::context::RequestContext;
use crate::clock;
use crate::http::cors::Cors;
use crate::http::etag::Etag;
use crate::http::gzip::{GZIP_ABOVE_BYTES, GzipCompressor};
use crate::http::negotiate;
use crate::http::request_id::write_request_id;
use crate::http::response::ResponseHead;
use crate::ids::RequestIdGenerator;
use crate::json;
use crate::problem::Problem;
use crate::resolve::path::RoutePath;
use crate::resolve::render::BodyPlan;
use crate::site::snapshot::format::{ArchivedPiece, ArchivedRoute};

/// The caches that may store a response.
#[derive(Debug, Clone, Copy)]
pub(super) enum CachePolicy<'a> {
    /// Shared caches, with this `Cache-Control`. The response has no data of a visitor or of the client.
    Public(&'a str),
    /// None. The response depends on the visitor.
    Private,
    /// None, and the response has no validator. For explanations and POST.
    NoStore,
}

/// The header fields that differ between responses.
pub(super) struct ResponseFields<'a> {
    pub(super) cache_policy: CachePolicy<'a>,
    /// The canonical `variants`.
    pub(super) variants: Option<&'a [u8]>,
    /// The experiments that decided, if rules decided.
    pub(super) experiments: Option<&'a [u8]>,
    /// The page or the query. Caches can purge by it.
    pub(super) tag: Option<CacheTag<'a>>,
    /// The canonical URL, if it differs from the URL of the request.
    pub(super) location: Option<&'a [u8]>,
}

/// The content of a response, beside its site, by which caches can purge.
#[derive(Debug, Clone, Copy)]
pub(super) enum CacheTag<'a> {
    Page(&'a RoutePath),
    /// The ID of a query.
    Query(&'a str),
}

/// A body that is not written yet.
pub(super) enum Body<'a> {
    /// Pieces of the site and the texts between them. It is available in both codings.
    Planned(&'a BodyPlan, &'a [ArchivedPiece]),
    /// Text. It is compressed for the request.
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
        self.identity_bytes() > GZIP_ABOVE_BYTES
    }

    fn bytes(&self, gzip: bool) -> usize {
        match self {
            Self::Planned(plan, _) if gzip => plan.gzip_bytes(),
            _ => self.identity_bytes(),
        }
    }

    /// Returns the body in this coding, so that its length is known.
    fn encode<'b>(&'b self, gzip: bool, compressor: &'b mut GzipCompressor) -> Body<'b> {
        match self {
            Self::Text(text) if gzip => Body::Text(compressor.compress(text)),
            Self::Text(text) => Body::Text(text),
            Self::Planned(plan, pieces) => Body::Planned(plan, pieces),
        }
    }

    fn write(&self, gzip: bool, out: &mut Vec<u8>) {
        match self {
            Self::Planned(plan, pieces) if gzip => plan.write_gzip(pieces, out),
            Self::Planned(plan, pieces) => plan.write_identity(pieces, out),
            Self::Text(text) => out.extend_from_slice(text),
        }
    }
}

/// Appends a 200 with `body`, or a 304 if the client already has it.
///
/// # Errors
/// `precondition_failed`, if `If-Match` excludes the response.
pub(super) fn write_response(
    context: &RequestContext<'_>,
    fields: ResponseFields<'_>,
    body: &Body<'_>,
    (etag_input, compressor): (&mut Vec<u8>, &mut GzipCompressor),
    ids: &mut RequestIdGenerator,
    out: &mut Vec<u8>,
) -> Result<(), Problem<'static>> {
    let headers = &context.request.headers;
    let two_codings = body.has_two_codings();
    let gzip = two_codings && negotiate::accepts_gzip(headers.accept_encoding_lines());
    let mut etag = None;
    if !matches!(fields.cache_policy, CachePolicy::NoStore) {
        etag_input.push(u8::from(gzip));
        etag.insert(Etag::of(etag_input)).check_if_match(headers)?;
    }
    let is_unchanged = etag.as_ref().is_some_and(|etag| etag.is_matched_by(headers));
    let mut head = ResponseHead::begin(out, if is_unchanged { 304 } else { 200 }, context.date);
    fields.write(&mut head, context, ids, (etag, two_codings));
    if is_unchanged {
        head.finish_without_body(context.request.close);
        return Ok(());
    }
    head.raw(b"Content-Type: application/json\r\n");
    if gzip {
        head.raw(b"Content-Encoding: gzip\r\n");
    }
    let body = body.encode(gzip, compressor);
    let out = head.finish(body.bytes(gzip), context.request.close);
    if !context.is_head() {
        body.write(gzip, out);
    }
    Ok(())
}

impl CacheTag<'_> {
    fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Page(path) => path.encode(out),
            Self::Query(id) => {
                out.push(b'?');
                out.extend_from_slice(id.as_bytes());
            }
        }
    }
}

impl<'a> ResponseFields<'a> {
    /// Creates the fields of a response without variants, at its canonical URL.
    pub(super) fn new(cache_policy: CachePolicy<'a>, tag: Option<CacheTag<'a>>) -> Self {
        Self { cache_policy, variants: None, experiments: None, tag, location: None }
    }

    fn write(
        &self,
        head: &mut ResponseHead<'_>,
        context: &RequestContext<'_>,
        ids: &mut RequestIdGenerator,
        (etag, two_codings): (Option<Etag>, bool),
    ) {
        let cors = match self.cache_policy {
            CachePolicy::Public(_) => Cors::Anyone,
            CachePolicy::Private | CachePolicy::NoStore => context.private_cors(),
        };
        match self.cache_policy {
            CachePolicy::Public(cache_control) => {
                head.field("Cache-Control: ", cache_control.as_bytes());
                write_request_id(head, ids, None);
            }
            CachePolicy::Private => head.raw(b"Cache-Control: private, no-store\r\n"),
            CachePolicy::NoStore => head.raw(b"Cache-Control: no-store\r\n"),
        }
        if !matches!(self.cache_policy, CachePolicy::Public(_)) {
            write_request_id(head, ids, context.request_id());
            write_server_timing(head, context.started);
        }
        if let Some(etag) = &etag {
            head.field("ETag: ", etag.as_bytes());
        }
        head.raw(vary(two_codings, cors.varies_by_origin()));
        cors.write(head);
        write_version(head, context.site().version.to_native());
        if let Some(variants) = self.variants {
            head.field("X-Variants: ", variants);
        }
        if let Some(experiments) = self.experiments {
            head.field("X-Experiments: ", experiments);
        }
        if let Some(location) = self.location {
            head.field("Content-Location: ", location);
        }
        if matches!(self.cache_policy, CachePolicy::Public(_)) {
            write_cache_tags(head, &context.site().site, self.tag);
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

/// Writes `Server-Timing` with the time since `started`. Writes nothing if the client did not ask for it.
pub(super) fn write_server_timing(head: &mut ResponseHead<'_>, started: Option<Instant>) {
    let Some(started) = started else { return };
    let micros = clock::instant().duration_since(started).as_micros() as u64;
    head.raw(b"Server-Timing: total;dur=");
    json::write_number(head.buffer(), micros / 1000);
    let fraction = micros % 1000;
    let digit = |n: u64| b'0' + (n % 10) as u8;
    head.raw(&[b'.', digit(fraction / 100), digit(fraction / 10), digit(fraction)]);
    head.raw(b"\r\n");
}

/// Writes the version of the site.
pub(super) fn write_version(head: &mut ResponseHead<'_>, version: u64) {
    head.raw(b"X-Version: ");
    json::write_number(head.buffer(), version);
    head.raw(b"\r\n");
}

/// Writes the tags by which caches purge: the site, and the page or the query. `Cache-Tag` separates them with a
/// comma, `Surrogate-Key` with a space.
pub(super) fn write_cache_tags(head: &mut ResponseHead<'_>, site: &str, tag: Option<CacheTag<'_>>) {
    let out = head.buffer();
    out.extend_from_slice(b"Cache-Tag: ");
    let from = out.len();
    out.extend_from_slice(site.as_bytes());
    if let Some(tag) = tag {
        out.push(b',');
        out.extend_from_slice(site.as_bytes());
        out.push(b':');
        tag.write(out);
    }
    let tags = from..out.len();
    out.extend_from_slice(b"\r\nSurrogate-Key: ");
    let separator = out.len() + site.len();
    out.extend_from_within(tags);
    if tag.is_some() {
        out[separator] = b' ';
    }
    out.extend_from_slice(b"\r\n");
}

/// Begins the input of an ETag: the endpoint, the hash of the content, and the path of a pattern's route. The path
/// is encoded, because two paths with the same decoded text can have different segments.
pub(super) fn write_etag_prefix(
    etag_input: &mut Vec<u8>,
    endpoint: u8,
    route: &ArchivedRoute,
    path: &RoutePath,
) {
    etag_input.clear();
    etag_input.push(endpoint);
    etag_input.extend_from_slice(&route.content);
    if route.is_pattern {
        path.encode(etag_input);
        etag_input.push(0);
    }
}
