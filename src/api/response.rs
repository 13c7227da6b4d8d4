//! Response heads and bodies of the site endpoints: caching, validator, content coding, CORS, version.

use std::sync::Arc;

use super::answer_table::{AnswerKey, AnswerTable, EMPTY_LINE, PreparedAnswer};
use super::class::ResponseClass;
use super::context::RequestContext;
use super::prepared_lists::PreparedList;
use super::scratch::ResponseBuffers;
use super::shared_bytes::{SharedBytes, SharedParts};
use crate::clock::{self, Instant};
use crate::http::etag::Etag;
use crate::http::gzip::{GZIP_ABOVE_BYTES, GzipCompressor};
use crate::http::request_id::write_request_id;
use crate::http::response::{ResponseHead, write_field};
use crate::ids::RequestIdGenerator;
use crate::json;
use crate::limits::{ANSWER_BYTES_MAX, ANSWER_PIECES_MAX, SHARED_PART_BYTES_MIN};
use crate::problem::Problem;
use crate::resolve::path::RoutePath;
use crate::resolve::render::BodyPlan;
use crate::site::catalog::catalog::PublishedSite;
use crate::site::snapshot::format::ArchivedRoute;
use crate::site::snapshot::pieces::{PieceRange, Pieces};

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
    /// The key under which the answer is stored for later requests.
    pub(super) answer_key: Option<&'a AnswerKey>,
    /// True if the response has the default variants, because the server knows too little of the visitor.
    pub(super) is_stale: bool,
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
    Planned(&'a BodyPlan, Pieces<'a>),
    /// Text. It is compressed for the request.
    Text(&'a [u8]),
    /// Bytes that are no text. They are compressed for the request.
    Binary(&'a [u8]),
    /// A list in both codings. Its `gzip` is empty if the text is too small for it.
    List(&'a Arc<PreparedList>),
}

impl Body<'_> {
    fn identity_bytes(&self) -> usize {
        match self {
            Self::Planned(plan, _) => plan.identity_bytes(),
            Self::Text(text) | Self::Binary(text) => text.len(),
            Self::List(list) => list.text.len(),
        }
    }

    fn has_two_codings(&self) -> bool {
        self.identity_bytes() > GZIP_ABOVE_BYTES
    }

    fn bytes(&self, is_gzip: bool) -> usize {
        match self {
            Self::Planned(plan, _) if is_gzip => plan.gzip_bytes(),
            Self::List(list) if is_gzip => list.gzip.len(),
            _ => self.identity_bytes(),
        }
    }

    /// Returns the body in this coding, so that its length is known.
    fn encode<'b>(&'b self, is_gzip: bool, compressor: &'b mut GzipCompressor) -> Body<'b> {
        match self {
            Self::Text(text) if is_gzip => Body::Text(compressor.compress(text)),
            Self::Text(text) => Body::Text(text),
            Self::Binary(bytes) if is_gzip => Body::Binary(compressor.compress(bytes)),
            Self::Binary(bytes) => Body::Binary(bytes),
            Self::List(list) => Body::List(list),
            Self::Planned(plan, pieces) => Body::Planned(plan, *pieces),
        }
    }

    fn write(&self, is_gzip: bool, out: &mut Vec<u8>) {
        match self {
            Self::Planned(plan, pieces) if is_gzip => plan.write_gzip(*pieces, out),
            Self::Planned(plan, pieces) => plan.write_identity(*pieces, out),
            Self::List(list) if is_gzip => out.extend_from_slice(&list.gzip),
            Self::List(list) => out.extend_from_slice(&list.text),
            Self::Text(bytes) | Self::Binary(bytes) => out.extend_from_slice(bytes),
        }
    }

    fn may_have_shared_parts(&self) -> bool {
        match self {
            Self::Planned(plan, _) => plan.longest_piece_bytes() >= SHARED_PART_BYTES_MIN,
            Self::List(list) => list.text.len() >= SHARED_PART_BYTES_MIN,
            Self::Text(_) | Self::Binary(_) => false,
        }
    }

    /// Records the shared parts of a body that begins at `start_offset`. Inlined, it would slow the responses that have none.
    #[inline(never)]
    fn record_shared(
        &self,
        published_site: &PublishedSite,
        is_gzip: bool,
        start_offset: usize,
        shared_parts: &mut SharedParts,
    ) {
        match self {
            Self::Planned(plan, pieces) => {
                shared_parts.push_pieces(published_site, start_offset, plan.piece_ranges(*pieces, is_gzip));
            }
            Self::List(list) => {
                shared_parts.push(start_offset, SharedBytes::List { list: Arc::clone(list), is_gzip });
            }
            Self::Text(_) | Self::Binary(_) => {}
        }
    }
}

/// Appends a 200 with `body`, or a 304 if the client already has it. Stores the answer if `fields` have a key.
///
/// # Errors
/// `precondition_failed`, if `If-Match` excludes the response.
pub(super) fn write_response(
    context: &RequestContext<'_>,
    fields: &ResponseFields<'_>,
    body: &Body<'_>,
    buffers: &mut ResponseBuffers,
    out: &mut Vec<u8>,
) -> Result<(), Problem<'static>> {
    let ResponseBuffers { etag_input, prepared, gzip: compressor, ids, answers, shared } = buffers;
    let two_codings = body.has_two_codings();
    let gzip = two_codings && context.accepts_gzip();
    let mut etag = None;
    if !matches!(fields.cache_policy, CachePolicy::NoStore) {
        etag_input.push(u8::from(gzip));
        etag = Some(Etag::of(etag_input));
    }
    prepared.clear();
    fields.write(context, etag.as_ref(), two_codings, prepared);
    let shared_bytes = prepared.len();
    if let Some(key) = fields.answer_key {
        prepare_answer(key, body, gzip, prepared, answers);
    }
    let class = fields.cache_policy.class();
    let (mut head, is_unchanged) = begin_head(context, class, etag.as_ref(), ids, out)?;
    head.raw(&prepared[..shared_bytes]);
    if is_unchanged {
        head.end(context.request.close);
        return Ok(());
    }
    let body = body.encode(gzip, compressor);
    write_content_fields(&body, gzip, head.buffer());
    let out = head.end(context.request.close);
    if !context.is_head() {
        let begin = out.len();
        body.write(gzip, out);
        if body.may_have_shared_parts() {
            body.record_shared(context.published, gzip, begin, shared);
        }
    }
    Ok(())
}

/// Appends a 200 with the stored answer of `key`, or a 304 if the client already has it. Returns false if
/// there is no key, or no answer is stored.
///
/// # Errors
/// `precondition_failed`, if `If-Match` excludes the response.
pub(super) fn write_prepared(
    context: &RequestContext<'_>,
    key: Option<&AnswerKey>,
    buffers: &mut ResponseBuffers,
    out: &mut Vec<u8>,
) -> Result<bool, Problem<'static>> {
    let ResponseBuffers { answers, ids, shared, .. } = buffers;
    let begin = out.len();
    let Some((key, answer)) = key.and_then(|key| Some((key, answers.get(key)?))) else { return Ok(false) };
    let class = key.class();
    let etag = answer.etag();
    let (mut head, is_unchanged) = begin_head(context, class, Some(&etag), ids, out)?;
    let has_body = !is_unchanged && !context.is_head();
    if has_body && !context.request.close {
        // Most responses: one copy has the fields, the end of the head, and the start of the body.
        let out = head.buffer();
        answer.write_rest(context.pieces(), out);
        if out.len() - begin >= SHARED_PART_BYTES_MIN {
            answer.record_shared(context.published, out.len(), shared);
        }
        return Ok(true);
    }
    head.raw(answer.shared_fields());
    if !is_unchanged {
        head.raw(answer.content_fields());
    }
    let out = head.end(context.request.close);
    if has_body {
        answer.write_body(context.pieces(), out);
        answer.record_shared(context.published, out.len(), shared);
    }
    Ok(true)
}

/// Stores the answer whose shared fields are in `answer_buffer`. A body that must be compressed, and one with text after a
/// piece, are not stored.
fn prepare_answer(
    key: &AnswerKey,
    body: &Body<'_>,
    is_gzip: bool,
    answer_buffer: &mut Vec<u8>,
    answers: &mut AnswerTable,
) {
    let mut ranges = [PieceRange::default(); ANSWER_PIECES_MAX];
    let shared_end = answer_buffer.len();
    write_content_fields(body, is_gzip, answer_buffer);
    let content_end = answer_buffer.len();
    let text_bytes = match body {
        Body::Planned(plan, _) => plan.text.len(),
        Body::Text(text) | Body::Binary(text) => text.len(),
        Body::List(list) => list.text.len(),
    };
    // `insert` refuses an answer that is too large. This check saves the copy of its text and a second checksum.
    if content_end + text_bytes > ANSWER_BYTES_MAX {
        return;
    }
    answer_buffer.extend_from_slice(EMPTY_LINE);
    let Some((pieces_at, count)) = write_around_pieces(body, is_gzip, &mut ranges, answer_buffer) else {
        return;
    };
    let answer = PreparedAnswer {
        before_pieces: &answer_buffer[..pieces_at],
        shared_end,
        content_end,
        pieces: &ranges[..count],
        after_pieces: &answer_buffer[pieces_at..],
    };
    answers.insert(key, &answer);
}

/// Appends the bytes of a body that are not pieces: those before them, and those after them. Writes the ranges of the
/// pieces. Returns the end of the bytes before them, and the number of the pieces. `None` if the body cannot be stored.
fn write_around_pieces(
    body: &Body<'_>,
    is_gzip: bool,
    ranges: &mut [PieceRange; ANSWER_PIECES_MAX],
    out: &mut Vec<u8>,
) -> Option<(usize, usize)> {
    match body {
        Body::List(_) | Body::Binary(_) => None,
        Body::Text(_) if is_gzip => None,
        Body::Text(text) => {
            out.extend_from_slice(text);
            Some((out.len(), 0))
        }
        Body::Planned(plan, pieces) => {
            let mut count = 0;
            for index in plan.pieces_after_text()? {
                *ranges.get_mut(count)? = pieces.range(index, is_gzip);
                count += 1;
            }
            plan.write_start(is_gzip, out);
            let pieces_at = out.len();
            plan.write_end(*pieces, is_gzip, out);
            Some((pieces_at, count))
        }
    }
}

/// Begins the head of a 304 if the client already has the content, and of a 200 otherwise. Writes the fields
/// of the request. Returns the head, and whether it is that of a 304.
///
/// # Errors
/// `precondition_failed`, if `If-Match` excludes the response.
fn begin_head<'o>(
    context: &RequestContext<'_>,
    class: ResponseClass,
    etag: Option<&Etag>,
    id_generator: &mut RequestIdGenerator,
    out: &'o mut Vec<u8>,
) -> Result<(ResponseHead<'o>, bool), Problem<'static>> {
    let headers = &context.request.headers;
    etag.map_or(Ok(()), |etag| etag.check_if_match(headers))?;
    let is_unchanged = etag.is_some_and(|etag| etag.is_matched_by(headers));
    let mut head = ResponseHead::begin(out, if is_unchanged { 304 } else { 200 }, context.date);
    match class {
        ResponseClass::Public => write_request_id(&mut head, id_generator, None),
        ResponseClass::Private => {
            write_request_id(&mut head, id_generator, context.request_id());
            write_server_timing(&mut head, context.started);
        }
    }
    context.cors(class).write(&mut head);
    Ok((head, is_unchanged))
}

/// Appends the fields of a body.
fn write_content_fields(body: &Body<'_>, is_gzip: bool, out: &mut Vec<u8>) {
    if let Body::Binary(_) = body {
        out.extend_from_slice(b"Content-Type: application/octet-stream\r\n");
        let text: &[u8] =
            if is_gzip { b"Content-Encoding: gzip\r\nContent-Length: " } else { b"Content-Length: " };
        out.extend_from_slice(text);
    } else {
        out.extend_from_slice(match is_gzip {
            true => b"Content-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: ",
            false => b"Content-Type: application/json\r\nContent-Length: ",
        });
    }
    json::write_number(out, body.bytes(is_gzip));
    out.extend_from_slice(b"\r\n");
}

impl CachePolicy<'_> {
    fn class(self) -> ResponseClass {
        match self {
            Self::Public(_) => ResponseClass::Public,
            Self::Private | Self::NoStore => ResponseClass::Private,
        }
    }
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
        Self {
            cache_policy,
            variants: None,
            experiments: None,
            tag,
            location: None,
            answer_key: None,
            is_stale: false,
        }
    }

    /// Appends the fields that a 304 has too. They depend on the content and on the class of the response, and on no
    /// other part of the request.
    fn write(
        &self,
        context: &RequestContext<'_>,
        etag: Option<&Etag>,
        has_two_codings: bool,
        out: &mut Vec<u8>,
    ) {
        // The first field, because `PreparedAnswer::etag` reads it there.
        if let Some(etag) = etag {
            etag.write(out);
        }
        match self.cache_policy {
            CachePolicy::Public(cache_control) => {
                write_field(out, "Cache-Control: ", cache_control.as_bytes());
            }
            CachePolicy::Private => out.extend_from_slice(b"Cache-Control: private, no-store\r\n"),
            CachePolicy::NoStore => out.extend_from_slice(b"Cache-Control: no-store\r\n"),
        }
        let varies_by_origin = context.cors(self.cache_policy.class()).varies_by_origin();
        out.extend_from_slice(vary(has_two_codings, varies_by_origin));
        write_version(out, context.site().version.to_native());
        if let Some(variants) = self.variants {
            write_field(out, "X-Variants: ", variants);
        }
        if let Some(experiments) = self.experiments {
            write_field(out, "X-Experiments: ", experiments);
        }
        if let Some(location) = self.location {
            write_field(out, "Content-Location: ", location);
        }
        if self.is_stale {
            out.extend_from_slice(b"Parallax-Stale: 1\r\n");
        }
        if self.cache_policy.class() == ResponseClass::Public {
            write_cache_tags(out, &context.site().site, self.tag);
        }
    }
}

fn vary(has_two_codings: bool, varies_by_origin: bool) -> &'static [u8] {
    match (has_two_codings, varies_by_origin) {
        (true, true) => b"Vary: Accept-Encoding, Origin\r\n",
        (true, false) => b"Vary: Accept-Encoding\r\n",
        (false, true) => b"Vary: Origin\r\n",
        (false, false) => b"",
    }
}

/// Writes `Server-Timing` with the time since `start`. Writes nothing if the client did not ask for it.
pub(super) fn write_server_timing(head: &mut ResponseHead<'_>, start: Option<Instant>) {
    let Some(start) = start else { return };
    let micros = clock::instant().duration_since(start).as_micros() as u64;
    head.raw(b"Server-Timing: total;dur=");
    json::write_number(head.buffer(), micros / 1000);
    let fraction = micros % 1000;
    let digit = |n: u64| b'0' + (n % 10) as u8;
    head.raw(&[b'.', digit(fraction / 100), digit(fraction / 10), digit(fraction)]);
    head.raw(b"\r\n");
}

/// Writes the version of the site.
pub(super) fn write_version(out: &mut Vec<u8>, version: u64) {
    out.extend_from_slice(b"X-Version: ");
    json::write_number(out, version);
    out.extend_from_slice(b"\r\n");
}

/// Writes the tags by which caches purge: the site, and the page or the query. `Cache-Tag` separates them with a
/// comma, `Surrogate-Key` with a space.
pub(super) fn write_cache_tags(out: &mut Vec<u8>, site: &str, tag: Option<CacheTag<'_>>) {
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
    endpoint_byte: u8,
    route: &ArchivedRoute,
    path: &RoutePath,
) {
    etag_input.clear();
    etag_input.push(endpoint_byte);
    etag_input.extend_from_slice(&route.content);
    if route.is_pattern {
        path.encode(etag_input);
        etag_input.push(0);
    }
}
