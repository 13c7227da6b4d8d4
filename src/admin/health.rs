//! `GET /healthz` and `GET /readyz`: for load balancers and service managers, without a token.

use serde_json::json;

use crate::api::Desk;
use crate::http::request::{Method, Request};

/// Answers if the request is one of the two; whether it was.
pub(super) fn answer(desk: &mut Desk, draining: bool, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
    if !matches!(request.method, Method::Get | Method::Head) {
        return false;
    }
    match request.path {
        "/healthz" => desk.plain(request, 200, "{\"status\":\"ok\"}", out),
        "/readyz" => ready(desk, draining, request, out),
        _ => return false,
    }
    true
}

/// Ready is who has something to serve and goes on serving. This address listens after the first scan and before the
/// public ones, so an answer at all means that the scan is done.
fn ready(desk: &mut Desk, draining: bool, request: &Request<'_>, out: &mut Vec<u8>) {
    let sites = desk.sites_published();
    let ready = sites > 0 && !draining;
    let status = if ready { 200 } else { 503 };
    let body = json!({ "ready": ready, "scanned": true, "sites": sites, "draining": draining });
    desk.plain(request, status, &body.to_string(), out);
}
