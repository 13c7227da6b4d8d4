//! The bare server of this program as a separate process, the reference for all others.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::{LaunchContext, StartError, address, arguments};
use crate::process::Server;

/// Timeout of the start. It normally takes milliseconds.
const START_MAX: Duration = Duration::from_secs(30);

/// Starts the bare server, which sends these bytes for every request.
pub fn start(context: &LaunchContext, response: &[u8]) -> Result<Server, StartError> {
    let failed = |source| StartError::File { name: "floor", source };
    let file = context.write("floor", "floor-response", response)?;
    let program = std::env::current_exe().map_err(failed)?;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).to_string();
    let mut arguments = arguments(&["floor", "--listen", &any_port, "--response"]);
    arguments.push(file.into());
    let mut process = context.start("floor", &program, &arguments)?;
    let mark = "listening on ";
    let log = process.wait_for_log(mark, START_MAX)?;
    let address = address(&log, mark).ok_or_else(|| StartError::Failed {
        name: "floor",
        reason: format!("no address in its output: {log}"),
    })?;
    Ok(Server {
        name: "floor",
        version: env!("CARGO_PKG_VERSION").to_owned(),
        address,
        processes: vec![process],
    })
}
