//! Refusals on the wire: `application/problem+json` (RFC 9457).

use super::desk::Room;
use super::respond;
use crate::http::cors::Cors;
use crate::http::date::DateLine;
use crate::http::request::{Method, Request};
use crate::http::response::Head;
use crate::ids::RequestIds;
use crate::json;
use crate::limits::CAME_CHARS_MAX;
use crate::problem::{self, Problem};

/// Appends a refusal of `request`.
pub(super) fn write(
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
    let own = request.fields.request_id.filter(|id| respond::is_request_id(id));
    let mut head = Head::begin(out, problem.kind.status, date);
    let cors = if problem.kind == problem::ROUTE_NOT_FOUND {
        // Public: the same bytes for the same canonical path, and nothing of the caller.
        document(body, &Problem { came: Some(path.text()), ..*problem }, None);
        head.lines(b"Cache-Control: public, s-maxage=10\r\n");
        head.field("X-Request-Id: ", &minted);
        Cors::Anyone
    } else {
        let id = own.unwrap_or(&minted);
        document(body, problem, Some(id));
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
pub(super) fn write_unframed(
    out: &mut Vec<u8>,
    problem: &Problem<'_>,
    date: &DateLine,
    ids: &mut RequestIds,
) {
    let id = ids.mint();
    let mut body = Vec::new();
    document(&mut body, problem, Some(&id));
    let mut head = Head::begin(out, problem.kind.status, date);
    head.lines(b"Cache-Control: no-store\r\n");
    head.field("X-Request-Id: ", &id);
    Cors::Anyone.write(&mut head);
    head.lines(b"Content-Type: application/problem+json\r\n");
    head.end(body.len(), true).extend_from_slice(&body);
}

/// Fields that a status must bring (RFC 9110 sections 15.5.6 and 15.5.2).
fn demands(head: &mut Head<'_>, problem: &Problem<'_>) {
    match problem.kind.status {
        405 => head.field("Allow: ", problem.allow.as_bytes()),
        401 => head.lines(b"WWW-Authenticate: Bearer\r\n"),
        _ => {}
    }
}

/// Replaces `body` by the document.
fn document(body: &mut Vec<u8>, problem: &Problem<'_>, request_id: Option<&[u8]>) {
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
    if let Some(param) = problem.param {
        body.extend_from_slice(b",\"param\":");
        json::string(body, param);
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

/// "Expected X, got 'y'."
fn detail(body: &mut Vec<u8>, problem: &Problem<'_>) {
    body.extend_from_slice(b"Expected ");
    json::escaped(body, problem.expected);
    if let Some(came) = problem.came {
        let end = came.char_indices().nth(CAME_CHARS_MAX).map_or(came.len(), |(at, _)| at);
        body.extend_from_slice(b"; got '");
        json::escaped(body, &came[..end]);
        body.extend_from_slice(if end < came.len() { "…'".as_bytes() } else { b"'" });
    }
    body.push(b'.');
}
