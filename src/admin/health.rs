//! `GET /healthz` and `GET /readyz` for load balancers and service managers. They need no token.

use serde_json::{Value, json};

use super::startup::{Startup, StartupProgress};
use crate::api::Handler;
use crate::http::request::Request;
use crate::worker::Lifecycle;

pub(super) const ALIVE_PATH: &str = "/healthz";
pub(super) const READY_PATH: &str = "/readyz";

const JSON: &str = "application/json";

/// The parts of the answer of `/readyz` that the metrics know.
pub(super) struct Recording<'a> {
    /// True if events can be recorded.
    pub(super) is_recording: bool,
    /// Adds the state of the node of a cluster to the members of an object. Returns the status of a node that is not
    /// ready. Returns `None` if the node is ready, or if the server is not in a cluster.
    pub(super) add_members: &'a dyn Fn(&mut Value) -> Option<&'static str>,
}

/// Answers a request for one of the two paths. Returns whether it did.
pub(super) fn handle(
    handler: &mut Handler,
    starting: Option<&Startup>,
    lifecycle: &Lifecycle,
    recording: Recording<'_>,
    request: &Request<'_>,
    out: &mut Vec<u8>,
) -> bool {
    match request.path {
        ALIVE_PATH => handler.write_text(request, 200, JSON, "{\"status\":\"ok\"}", out),
        READY_PATH => {
            let reading = starting.map(|starting| &starting.progress);
            write_readiness(handler, reading, lifecycle, recording, request, out);
        }
        _ => return false,
    }
    true
}

/// Answers `/readyz`. The server is ready if it has a site, its public addresses listen, and it is not
/// shutting down. A node of a cluster must have read
/// the stream. With `events=1` it must also be able to record events. The admin address listens before
/// snapshots and log are read, the public ones after that.
fn write_readiness(
    handler: &mut Handler,
    reading: Option<&StartupProgress>,
    lifecycle: &Lifecycle,
    recording: Recording<'_>,
    request: &Request<'_>,
    out: &mut Vec<u8>,
) {
    let Recording { is_recording, add_members } = recording;
    let sites = handler.catalog().sites().len();
    let (listening, draining) = (lifecycle.is_accepting(), lifecycle.is_draining());
    let mut members = json!({});
    let not_ready = add_members(&mut members);
    let (code, status) = match (draining, listening, sites, not_ready) {
        (true, ..) => (503, "draining"),
        (_, false, ..) => (503, "starting"),
        (_, _, 0, _) => (503, "unpublished"),
        (.., Some(status)) => (503, status),
        _ if !is_recording && request.query.split('&').any(|param| param == "events=1") => {
            (503, "not_recording")
        }
        _ => (200, "ready"),
    };
    let scanned = reading.is_none_or(StartupProgress::is_scanned);
    let mut body = json!({ "ready": code == 200, "status": status, "scanned": scanned, "listening": listening,
        "sites": sites, "draining": draining, "recording": is_recording });
    if let Some(reading) = reading {
        body["reading"] = reading.to_json();
    }
    if let (Value::Object(body), Value::Object(members)) = (&mut body, &mut members) {
        body.append(members);
    }
    handler.write_text(request, code, JSON, &body.to_string(), out);
}
