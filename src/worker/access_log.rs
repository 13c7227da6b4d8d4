//! One line for each answer, where the operator wants that: what was asked and how it went, nothing of who asked. So no address,
//! no path that is not ours, and of the query only the site and the route's path; the rest of it may name a visitor.

use std::time::Duration;

use crate::api::Endpoint;
use crate::http::params::{Param, Params};
use crate::http::request::Request;
use crate::limits::SITE_ID_BYTES_MAX;

/// Logs an answer, which begins with its status line.
pub(super) fn log(request: Option<&Request<'_>>, endpoint: Option<Endpoint>, answer: &[u8], took: Duration) {
    let status = answer.get(9..12).map(String::from_utf8_lossy).unwrap_or_default();
    let (bytes, took_us) = (answer.len(), took.as_micros() as u64);
    let Some((request, endpoint)) = request.zip(endpoint) else {
        return tracing::info!(%status, bytes, took_us, "refused before an endpoint was found");
    };
    let mut decoded = Vec::new();
    let params = Params::read(request.query, &mut decoded).ok();
    let param = |param| params.and_then(|params| params.get(param)).unwrap_or_default();
    let site =
        [Param::Site, Param::TrackingId].map(param).into_iter().find(|id| is_id(id)).unwrap_or_default();
    // As a path: what stands behind it was for the page, not for us.
    let route = param(Param::Route).split(['?', '#']).next().unwrap_or_default();
    let (method, path) = (request.method.name(), endpoint.path());
    tracing::info!(method, path, site, route, %status, bytes, took_us, "answered");
}

fn is_id(text: &str) -> bool {
    (1..=SITE_ID_BYTES_MAX + "track_".len()).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}
