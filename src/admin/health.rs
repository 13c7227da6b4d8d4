//! `GET /healthz` and `GET /readyz`: for load balancers and service managers, without a token.

use serde_json::json;

use crate::api::Desk;
use crate::http::request::{Method, Request};
use crate::worker::Stopping;

const JSON: &str = "application/json";

/// Answers if the request is one of the two; whether it was.
pub(super) fn answer(desk: &mut Desk, stopping: &Stopping, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
    if !matches!(request.method, Method::Get | Method::Head) {
        return false;
    }
    match request.path {
        "/healthz" => desk.plain(request, 200, JSON, "{\"status\":\"ok\"}", out),
        "/readyz" => ready(desk, stopping, request, out),
        _ => return false,
    }
    true
}

/// Ready is who has something to serve, serves, and goes on serving. This address listens after the first scan and before the
/// public ones.
fn ready(desk: &mut Desk, stopping: &Stopping, request: &Request<'_>, out: &mut Vec<u8>) {
    let sites = desk.catalog().sites().len();
    let (listening, draining) = (stopping.serves(), stopping.has_begun());
    let ready = sites > 0 && listening;
    let status = if ready { 200 } else { 503 };
    let body = json!({ "ready": ready, "scanned": true, "listening": listening, "sites": sites, "draining": draining });
    desk.plain(request, status, JSON, &body.to_string(), out);
}
