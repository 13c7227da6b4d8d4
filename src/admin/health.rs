//! `GET /healthz` and `GET /readyz`: for load balancers and service managers, without a token.

use serde_json::json;

use super::startup::{Reading, Starting};
use crate::api::Desk;
use crate::http::request::{Method, Request};
use crate::worker::Stopping;

const JSON: &str = "application/json";

/// Answers if the request is one of the two; whether it was.
pub(super) fn answer(
    desk: &mut Desk,
    starting: Option<&Starting>,
    stopping: &Stopping,
    request: &Request<'_>,
    out: &mut Vec<u8>,
) -> bool {
    if !matches!(request.method, Method::Get | Method::Head) {
        return false;
    }
    match request.path {
        "/healthz" => desk.plain(request, 200, JSON, "{\"status\":\"ok\"}", out),
        "/readyz" => ready(desk, starting.map(|starting| &starting.reading), stopping, request, out),
        _ => return false,
    }
    true
}

/// Ready is who has something to serve, serves, and goes on serving. This address listens before anything is read, the public ones
/// when all is.
fn ready(
    desk: &mut Desk,
    reading: Option<&Reading>,
    stopping: &Stopping,
    request: &Request<'_>,
    out: &mut Vec<u8>,
) {
    let sites = desk.catalog().sites().len();
    let (listening, draining) = (stopping.serves(), stopping.has_begun());
    let (code, status) = match (draining, listening, sites) {
        (true, ..) => (503, "draining"),
        (_, false, _) => (503, "starting"),
        (.., 0) => (503, "unpublished"),
        _ => (200, "ready"),
    };
    let scanned = reading.is_none_or(Reading::is_scanned);
    let mut body = json!({ "ready": code == 200, "status": status, "scanned": scanned, "listening": listening,
        "sites": sites, "draining": draining });
    if let Some(reading) = reading {
        body["reading"] = reading.told();
    }
    desk.plain(request, code, JSON, &body.to_string(), out);
}
