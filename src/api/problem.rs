//! Refusals on the wire: `application/problem+json` (RFC 9457).

use super::handler::Room;
use super::response;
use crate::http::cors::Cors;
use crate::http::date::DateLine;
use crate::http::request::{Method, Request};
use crate::http::response::Head;
use crate::ids::RequestIds;
use crate::json;
use crate::limits::CAME_CHARS_MAX;
use crate::problem::{self, Came, Place, Problem};

/// Appends a refusal of `request`.
pub(super) fn write_problem(
    out: &mut Vec<u8>,
    problem: &Problem<'_>,
    cors: Cors<'_>,
    request: &Request<'_>,
    date: &DateLine,
    room: &mut Room,
) {
    let Room { ids, plan, path, .. } = room;
    let body = &mut plan.text;
    let minted = ids.mint();
    let own = request.fields.request_id.filter(|id| response::is_request_id(id));
    let mut head = Head::begin(out, problem.kind.status, date);
    let cors = if problem.kind == problem::ROUTE_NOT_FOUND {
        // Public: the same bytes for the same canonical path, and nothing of the caller.
        let problem = Problem { came: Came::Words(path.text()), ..*problem };
        document(body, &problem, Pointing::Param, None);
        head.lines(b"Cache-Control: public, s-maxage=10\r\n");
        head.field("X-Request-Id: ", &minted);
        Cors::Anyone
    } else {
        let id = own.unwrap_or(&minted);
        document(body, problem, Pointing::of(request.method), Some(id));
        head.lines(b"Cache-Control: no-store\r\n");
        head.field("X-Request-Id: ", id);
        cors
    };
    if cors.varies() {
        head.lines(b"Vary: Origin\r\n");
    }
    cors.write(&mut head);
    demands(&mut head, problem);
    head.lines(b"Content-Type: application/problem+json\r\n");
    let out = head.end(body.len(), request.close);
    if request.method != Method::Head {
        out.extend_from_slice(body);
    }
}

/// Appends a refusal of what is not a request; the connection closes behind it.
pub(super) fn write_unframed_problem(
    out: &mut Vec<u8>,
    problem: &Problem<'_>,
    date: &DateLine,
    ids: &mut RequestIds,
) {
    let id = ids.mint();
    let mut body = Vec::new();
    document(&mut body, problem, Pointing::Param, Some(&id));
    let mut head = Head::begin(out, problem.kind.status, date);
    head.lines(b"Cache-Control: no-store\r\n");
    head.field("X-Request-Id: ", &id);
    Cors::Anyone.write(&mut head);
    demands(&mut head, problem);
    head.lines(b"Content-Type: application/problem+json\r\n");
    head.end(body.len(), true).extend_from_slice(&body);
}

/// Fields that a status must bring (RFC 9110 sections 15.5.6 and 15.5.2, RFC 6585 section 4).
fn demands(head: &mut Head<'_>, problem: &Problem<'_>) {
    match problem.kind.status {
        429 | 503 => {
            head.lines(b"Retry-After: ");
            json::number(head.out(), problem.retry_s);
            head.lines(b"\r\n");
        }
        405 => head.field("Allow: ", problem.allow.as_bytes()),
        401 => head.lines(b"WWW-Authenticate: Bearer\r\n"),
        _ => {}
    }
}

/// How a document says where the fault stands.
#[derive(Clone, Copy)]
enum Pointing {
    /// By the name of a query parameter: `params.category`.
    Param,
    /// By a pointer into the body (RFC 6901): `/params/category`.
    Pointer,
}

impl Pointing {
    fn of(method: Method) -> Self {
        if method == Method::Post { Self::Pointer } else { Self::Param }
    }
}

/// Replaces `body` by the document.
fn document(body: &mut Vec<u8>, problem: &Problem<'_>, pointing: Pointing, request_id: Option<&[u8]>) {
    let kind = problem.kind;
    body.clear();
    body.extend_from_slice(b"{\"type\":\"https://parallax.dev/problems/");
    body.extend_from_slice(kind.code.as_bytes());
    body.extend_from_slice(b"\",\"title\":");
    json::string(body, kind.title);
    body.extend_from_slice(b",\"status\":");
    json::number(body, kind.status);
    body.extend_from_slice(b",\"code\":");
    json::string(body, kind.code);
    body.extend_from_slice(b",\"detail\":\"");
    detail(body, problem);
    body.push(b'"');
    if let Some(at) = problem.at {
        let pointing = if at.in_query { Pointing::Param } else { pointing };
        place(body, at, pointing);
    }
    if let Some(id) = request_id {
        body.extend_from_slice(b",\"requestId\":\"");
        body.extend(
            id.iter()
                .flat_map(|b| match b {
                    b'"' | b'\\' => [Some(b'\\'), Some(*b)],
                    _ => [Some(*b), None],
                })
                .flatten(),
        );
        body.push(b'"');
    }
    body.push(b'}');
}

fn place(body: &mut Vec<u8>, place: Place<'_>, pointing: Pointing) {
    let group = place.group.into_iter();
    match pointing {
        Pointing::Param => {
            body.extend_from_slice(b",\"param\":\"");
            group.for_each(|group| {
                body.extend_from_slice(group.as_bytes());
                body.push(b'.');
            });
            json::escaped(body, cut(place.name).0);
        }
        Pointing::Pointer => {
            body.extend_from_slice(b",\"pointer\":\"");
            for name in group.chain([cut(place.name).0]) {
                body.push(b'/');
                for part in name.split_inclusive(['~', '/']) {
                    let plain = part.strip_suffix(['~', '/']).unwrap_or(part);
                    json::escaped(body, plain);
                    body.extend_from_slice(match &part.as_bytes()[plain.len()..] {
                        b"~" => b"~0",
                        b"/" => b"~1",
                        _ => b"",
                    });
                }
            }
        }
    }
    body.push(b'"');
}

/// What of the caller's words is repeated, and whether that is less than all.
fn cut(words: &str) -> (&str, bool) {
    let end = words.char_indices().nth(CAME_CHARS_MAX).map_or(words.len(), |(at, _)| at);
    (&words[..end], end < words.len())
}

/// "Expected X, got 'y'."
fn detail(body: &mut Vec<u8>, problem: &Problem<'_>) {
    body.extend_from_slice(b"Expected ");
    json::escaped(body, problem.expected);
    match problem.came {
        Came::Nothing => {}
        Came::Words(words) => {
            let (words, more) = cut(words);
            body.extend_from_slice(b"; got '");
            json::escaped(body, words);
            body.extend_from_slice(if more { "…'".as_bytes() } else { b"'" });
        }
        Came::Count(count) => {
            body.extend_from_slice(b"; got ");
            json::number(body, count);
        }
    }
    body.push(b'.');
}
