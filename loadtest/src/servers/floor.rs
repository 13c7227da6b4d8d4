//! The bare server, which is the reference for all others, as a separate process of this program.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::{LaunchContext, StartError, address, arguments};
use crate::process::Server;

/// Timeout of the start. It normally takes milliseconds.
const START_MAX: Duration = Duration::from_secs(30);

/// Starts the bare server, which sends these bytes for every request.
pub fn start(context: &LaunchContext, response: &[u8]) -> Result<Server, StartError> {
    start_fixed(context, "floor", response, &[])
}

/// Starts a server of this program. `name` is its subcommand.
pub fn start_fixed(
    context: &LaunchContext,
    name: &'static str,
    response: &[u8],
    flags: &[&str],
) -> Result<Server, StartError> {
    let failed = |source| StartError::File { name, source };
    let file = context.write(name, &format!("{name}-response"), response)?;
    let program = std::env::current_exe().map_err(failed)?;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).to_string();
    let mut words = arguments(&[name, "--listen", &any_port, "--response"]);
    words.push(file.into());
    words.extend(arguments(flags));
    let mut process = context.start(name, &program, &words)?;
    let mark = "listening on ";
    let log = process.wait_for_log(mark, START_MAX)?;
    let address = address(&log, mark)
        .ok_or_else(|| StartError::Failed { name, reason: format!("no address in its output: {log}") })?;
    Ok(Server { name, version: env!("CARGO_PKG_VERSION").to_owned(), address, processes: vec![process] })
}
