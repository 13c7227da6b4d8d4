//! The access log: one line per response, written if `--access-log` is set.
//!
//! A line describes the request and its result, never the client. It therefore has no address. Of the query it
//! has only the site and the path of the route, because the other parameters may identify a visitor.

use std::time::Duration;

use crate::api::Endpoint;
use crate::http::params::{Param, Params};
use crate::http::request::Request;
use crate::limits::SITE_ID_BYTES_MAX;
use crate::log_lines::ACCESS;

/// Characters of a path without an endpoint that a line has at most. The client chooses them.
const PATH_CHARS_MAX: usize = 200;

/// Logs a response. `response` begins with the status line. `refused_path` is the path of a request that was
/// refused before it was parsed.
pub(super) fn log_response(
    request: Option<&Request<'_>>,
    refused_path: &str,
    endpoint: Option<Endpoint>,
    response: &[u8],
    duration: Duration,
) {
    let status = status_code(response);
    let bytes = response.len();
    let took_us = duration.as_micros() as u64;
    let Some((request, endpoint)) = request.zip(endpoint) else {
        let path: String =
            request.map_or(refused_path, |request| request.path).chars().take(PATH_CHARS_MAX).collect();
        return tracing::info!(target: ACCESS, path, status, bytes, took_us, "request answered without an endpoint");
    };
    let mut decoded = Vec::new();
    let params = Params::parse(request.query, &mut decoded).ok();
    let param = |param| params.and_then(|params| params.get(param)).unwrap_or_default();
    let site =
        [Param::Site, Param::TrackingId].map(param).into_iter().find(|id| is_id(id)).unwrap_or_default();
    // Only the path: the query and the fragment of a route are meant for the page, not for us.
    let route = param(Param::Route).split(['?', '#']).next().unwrap_or_default();
    let method = request.method.name();
    let path = endpoint.path();
    tracing::info!(target: ACCESS, method, path, site, route, status, bytes, took_us, "request answered");
}

/// Returns the code of a status line. 0 if there is none.
fn status_code(response: &[u8]) -> u16 {
    let digits = response.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn is_id(text: &str) -> bool {
    (1..=SITE_ID_BYTES_MAX + "track_".len()).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}
