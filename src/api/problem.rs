//! Problem responses: head and document of a request that is rejected.

use super::class::{Audience, ProblemContext};
use super::response::{CacheTag, write_cache_tags, write_version};
use super::scratch::{ResponseBuffers, Scratch};
use crate::http::cors::Cors;
use crate::http::date::DateLine;
use crate::http::headers::Field;
use crate::http::problem_document::{self, LocationStyle};
use crate::http::request::{Method, Request};
use crate::http::request_id::is_request_id;
use crate::http::response::ResponseHead;
use crate::ids::RequestIdGenerator;
use crate::json;
use crate::problem::{self, Actual, Problem};

/// Appends a problem as the response to `request`.
pub(super) fn write_problem(
    out: &mut Vec<u8>,
    problem: &Problem<'_>,
    context: ProblemContext<'_>,
    request: &Request<'_>,
    date: &DateLine,
    scratch: &mut Scratch,
) {
    let Scratch { response: ResponseBuffers { ids, .. }, plan, path, .. } = scratch;
    let body = &mut plan.text;
    let new_id = ids.next_id();
    let client_id = request.headers.get(Field::RequestId).filter(|id| is_request_id(id));
    let mut head = ResponseHead::begin(out, problem.kind.status, date);
    let is_route = problem.kind == problem::ROUTE_NOT_FOUND;
    let ProblemContext { audience, version, is_preview } = context;
    let cors = match audience {
        Audience::Public { site, route } if is_route || problem.kind == problem::SITE_NOT_FOUND => {
            // The same bytes for the same canonical request, without data of the client.
            let actual = if is_route { Actual::Text(path.text()) } else { problem.actual };
            problem_document::write(body, &Problem { actual, ..*problem }, LocationStyle::Param, None);
            head.field(
                "Cache-Control: ",
                if is_preview { b"public, s-maxage=0" } else { b"public, s-maxage=10" },
            );
            head.field("X-Request-Id: ", &new_id);
            if let Some(site) = site {
                let is_page = is_route || route.is_some_and(|route| path.parse(route).is_ok());
                write_cache_tags(head.buffer(), site, is_page.then_some(CacheTag::Page(path)));
            }
            Cors::Anyone
        }
        Audience::Public { .. } | Audience::Private(_) => {
            let id = client_id.unwrap_or(&new_id);
            problem_document::write(body, problem, location_style(request.method), Some(id));
            head.raw(b"Cache-Control: no-store\r\n");
            head.field("X-Request-Id: ", id);
            match audience {
                Audience::Public { .. } => Cors::Anyone,
                Audience::Private(cors) => cors,
            }
        }
    };
    if cors.varies_by_origin() {
        head.raw(b"Vary: Origin\r\n");
    }
    cors.write(&mut head);
    if let Some(version) = version {
        write_version(head.buffer(), version);
    }
    write_status_headers(&mut head, problem);
    head.raw(b"Content-Type: application/problem+json\r\n");
    let out = head.finish(body.len(), request.close);
    if request.method != Method::Head {
        out.extend_from_slice(body);
    }
}

/// Appends a problem for bytes that are not a valid request. The connection is closed after it.
pub(super) fn write_unframed_problem(
    out: &mut Vec<u8>,
    problem: &Problem<'_>,
    cors: Cors<'_>,
    date: &DateLine,
    id_generator: &mut RequestIdGenerator,
) {
    let id = id_generator.next_id();
    let mut body = Vec::new();
    problem_document::write(&mut body, problem, LocationStyle::Param, Some(&id));
    let mut head = ResponseHead::begin(out, problem.kind.status, date);
    head.raw(b"Cache-Control: no-store\r\n");
    head.field("X-Request-Id: ", &id);
    if cors.varies_by_origin() {
        head.raw(b"Vary: Origin\r\n");
    }
    cors.write(&mut head);
    write_status_headers(&mut head, problem);
    head.raw(b"Content-Type: application/problem+json\r\n");
    head.finish(body.len(), true).extend_from_slice(&body);
}

/// Writes the fields that a status requires (RFC 9110 sections 15.5.6 and 15.5.2, RFC 6585 section 4).
fn write_status_headers(head: &mut ResponseHead<'_>, problem: &Problem<'_>) {
    match problem.kind.status {
        429 | 503 => {
            head.raw(b"Retry-After: ");
            json::write_number(head.buffer(), problem.retry_s);
            head.raw(b"\r\n");
        }
        405 => head.field("Allow: ", problem.allow.as_bytes()),
        401 => head.raw(b"WWW-Authenticate: Bearer\r\n"),
        _ => {}
    }
}

fn location_style(method: Method) -> LocationStyle {
    if method == Method::Post { LocationStyle::Pointer } else { LocationStyle::Param }
}
