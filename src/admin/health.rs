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
pub(super) struct LogState<'a> {
    /// True if events can be recorded.
    pub(super) is_recording: bool,
    /// Adds the state of the node of a cluster to the members of an object. Returns the status of a node that is not
    /// ready. Returns `None` if the node is ready, or if the server is not in a cluster.
    pub(super) add_members: &'a dyn Fn(&mut Value) -> Option<&'static str>,
}

/// The facts that decide whether the server is ready.
pub(super) struct ReadinessFacts {
    pub(super) is_draining: bool,
    pub(super) is_listening: bool,
    /// The number of published sites.
    pub(super) sites: usize,
    /// The status of a node of a cluster that is not ready.
    pub(super) node_status: Option<&'static str>,
    pub(super) is_recording: bool,
}

/// The status of a server that is ready.
const READY: &str = "ready";

impl ReadinessFacts {
    /// Returns the status. `must_record` says whether a ready server must also record events.
    fn status(&self, must_record: bool) -> &'static str {
        if self.is_draining {
            "draining"
        } else if !self.is_listening {
            "starting"
        } else if self.sites == 0 {
            "unpublished"
        } else if let Some(status) = self.node_status {
            status
        } else if !self.is_recording && must_record {
            "not_recording"
        } else {
            READY
        }
    }

    pub(super) fn are_ready(&self, must_record: bool) -> bool {
        self.status(must_record) == READY
    }
}

/// Answers a request for one of the two paths. Returns whether it did.
pub(super) fn handle(
    handler: &mut Handler,
    startup: Option<&Startup>,
    lifecycle: &Lifecycle,
    log_state: LogState<'_>,
    request: &Request<'_>,
    out: &mut Vec<u8>,
) -> bool {
    match request.path {
        ALIVE_PATH => handler.write_text(request, 200, JSON, "{\"status\":\"ok\"}", out),
        READY_PATH => {
            let progress = startup.map(|startup| &startup.progress);
            write_readiness(handler, progress, lifecycle, log_state, request, out);
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
    progress: Option<&StartupProgress>,
    lifecycle: &Lifecycle,
    log_state: LogState<'_>,
    request: &Request<'_>,
    out: &mut Vec<u8>,
) {
    let LogState { is_recording, add_members } = log_state;
    let sites = handler.catalog().sites().len();
    let is_listening = lifecycle.is_accepting();
    let is_draining = lifecycle.is_draining();
    let must_record = request.query.split('&').any(|param| param == "events=1");
    let mut body = json!({ "ready": null, "status": null, "scanned": null, "listening": is_listening, "sites": sites,
        "draining": is_draining, "recording": is_recording });
    if let Some(progress) = progress {
        body["reading"] = progress.to_json();
    }
    let node_status = add_members(&mut body);
    let facts = ReadinessFacts { is_draining, is_listening, sites, node_status, is_recording };
    let status = facts.status(must_record);
    let code = if status == READY { 200 } else { 503 };
    body["ready"] = json!(code == 200);
    body["status"] = json!(status);
    body["scanned"] = json!(progress.is_none_or(StartupProgress::is_scanned));
    handler.write_text(request, code, JSON, &body.to_string(), out);
}
