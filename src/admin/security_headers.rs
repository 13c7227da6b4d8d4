//! Header fields that every response of the admin address has beside those of the public address. With them no page of
//! another origin can read, embed or frame it, and the console runs no script but its own files.

use std::time::Instant;

use crate::api::{Outcome, Poll};
use crate::http::refused_head::RefusedHead;
use crate::http::request::{BufferedRequest, Request, RequestMeta};
use crate::problem::Problem;
use crate::worker::Service;

/// Complete header lines. With `trusted-types 'none'`, a script that assigns HTML text throws. Strangers
/// choose paths and event names, so these must only become text nodes.
const LINES: &[u8] = b"Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; \
img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
require-trusted-types-for 'script'; trusted-types 'none'\r\n\
Referrer-Policy: no-referrer\r\n\
Cross-Origin-Opener-Policy: same-origin\r\n\
Cross-Origin-Resource-Policy: same-origin\r\n\
X-Frame-Options: DENY\r\n";

/// A service that adds the header fields to every response of another one.
pub(crate) struct WithSecurityHeaders<S>(pub(crate) S);

impl<S: Service> Service for WithSecurityHeaders<S> {
    fn handle(&mut self, request: &Request<'_>, meta: &RequestMeta, out: &mut Vec<u8>) -> Poll {
        let begin = out.len();
        let poll = self.0.handle(request, meta, out);
        insert_lines(out, begin);
        poll
    }

    fn finish(
        &mut self,
        token: usize,
        buffered: &BufferedRequest<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let begin = out.len();
        let outcome = self.0.finish(token, buffered, meta, out);
        insert_lines(out, begin);
        outcome
    }

    fn reject(
        &mut self,
        problem: &Problem<'_>,
        head: &RefusedHead<'_>,
        meta: &RequestMeta,
        out: &mut Vec<u8>,
    ) {
        let begin = out.len();
        self.0.reject(problem, head, meta, out);
        insert_lines(out, begin);
    }

    fn is_ready(&self, token: usize) -> bool {
        self.0.is_ready(token)
    }

    fn deadline(&self, token: usize) -> Option<Instant> {
        self.0.deadline(token)
    }

    fn drain(&mut self) {
        self.0.drain();
    }

    fn flush(&mut self) {
        self.0.flush();
    }

    fn pending_bytes(&self, token: usize) -> usize {
        self.0.pending_bytes(token)
    }

    fn take_completion(&mut self) -> Option<usize> {
        self.0.take_completion()
    }

    fn cancel(&mut self, token: usize) {
        self.0.cancel(token);
    }

    fn ends_with_client(&self, token: usize) -> bool {
        self.0.ends_with_client(token)
    }

    fn country_header(&self) -> Option<&str> {
        self.0.country_header()
    }

    fn tick(&mut self) {
        self.0.tick();
    }
}

/// Inserts the lines after the status line of the response that begins at `begin`. A pending response has no bytes yet.
fn insert_lines(out: &mut Vec<u8>, begin: usize) {
    let Some(status_end) = out[begin..].windows(2).position(|bytes| bytes == b"\r\n") else { return };
    let at = begin + status_end + b"\r\n".len();
    out.splice(at..at, LINES.iter().copied());
}
