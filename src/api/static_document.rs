//! A response body that changes only with the program, in both codings.

use super::shared_bytes::{SharedBytes, SharedParts};
use crate::http::cors::Cors;
use crate::http::date::DateLine;
use crate::http::etag::Etag;
use crate::http::gzip::{GZIP_ABOVE_BYTES, GzipCompressor};
use crate::http::negotiate;
use crate::http::request::{Method, Request};
use crate::http::request_id::write_request_id;
use crate::http::response::ResponseHead;
use crate::ids::RequestIdGenerator;
use crate::problem::Problem;

/// Header line with the cache times of a site's list of routes, for a body that changes only with the program.
pub(super) const CACHE_AS_ROUTES: &[u8] =
    b"Cache-Control: public, max-age=0, s-maxage=60, stale-while-revalidate=600, stale-if-error=86400\r\n";

/// A body of fixed bytes.
pub(crate) struct StaticDocument {
    content_type: &'static str,
    cors: Cors<'static>,
    text: (Vec<u8>, Etag),
    /// The body in gzip coding, if it is large enough.
    gzip: Option<(Vec<u8>, Etag)>,
}

impl StaticDocument {
    /// Creates a public document: pages of every origin may read it.
    pub(super) fn new(content_type: &'static str, text: Vec<u8>) -> Self {
        Self::with_cors(Cors::Anyone, content_type, text)
    }

    /// Creates a document that only pages of its own origin may read.
    pub(crate) fn for_own_origin(content_type: &'static str, text: Vec<u8>) -> Self {
        Self::with_cors(Cors::Nobody, content_type, text)
    }

    fn with_cors(cors: Cors<'static>, content_type: &'static str, text: Vec<u8>) -> Self {
        let with_etag = |bytes: Vec<u8>| {
            let etag = Etag::of(&bytes);
            (bytes, etag)
        };
        let is_large = text.len() > GZIP_ABOVE_BYTES;
        let gzip = is_large.then(|| with_etag(GzipCompressor::for_static_body().compress(&text).to_vec()));
        Self { content_type, cors, text: with_etag(text), gzip }
    }

    /// As [`Self::write`], for a document of the program. Records its bytes as shared.
    ///
    /// # Errors
    /// `precondition_failed`, if `If-Match` excludes the document.
    pub(super) fn write_shared(
        &'static self,
        request: &Request<'_>,
        header_lines: &[u8],
        date: &DateLine,
        id_generator: &mut RequestIdGenerator,
        shared_parts: &mut SharedParts,
        out: &mut Vec<u8>,
    ) -> Result<(), Problem<'static>> {
        let body = self.write(request, header_lines, date, id_generator, out)?;
        shared_parts.push(out.len() - body.len(), SharedBytes::Document(body));
        Ok(())
    }

    /// Appends a response with the document, or 304 if the client has it. `header_lines` are complete header lines. Returns the
    /// appended body.
    ///
    /// # Errors
    /// `precondition_failed`, if `If-Match` excludes the document.
    pub(super) fn write(
        &self,
        request: &Request<'_>,
        header_lines: &[u8],
        date: &DateLine,
        id_generator: &mut RequestIdGenerator,
        out: &mut Vec<u8>,
    ) -> Result<&[u8], Problem<'static>> {
        let gzip = self.gzip.as_ref();
        let gzip = gzip.filter(|_| negotiate::accepts_gzip(request.headers.accept_encoding_lines()));
        let (body, etag) = gzip.unwrap_or(&self.text);
        etag.check_if_match(&request.headers)?;
        let unchanged = etag.is_matched_by(&request.headers);
        let mut head = ResponseHead::begin(out, if unchanged { 304 } else { 200 }, date);
        head.raw(header_lines);
        write_request_id(&mut head, id_generator, None);
        head.field("ETag: ", etag.as_bytes());
        if self.gzip.is_some() {
            head.raw(b"Vary: Accept-Encoding\r\n");
        }
        self.cors.write(&mut head);
        if unchanged {
            head.end(request.close);
            return Ok(&[]);
        }
        head.field("Content-Type: ", self.content_type.as_bytes());
        if gzip.is_some() {
            head.raw(b"Content-Encoding: gzip\r\n");
        }
        let out = head.finish(body.len(), request.close);
        if request.method == Method::Head {
            return Ok(&[]);
        }
        out.extend_from_slice(body);
        Ok(body)
    }
}
