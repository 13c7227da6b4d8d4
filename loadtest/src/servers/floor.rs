//! The bare server of this program, as a process of its own: what every other one is compared with.

use std::net::{Ipv4Addr, SocketAddr};

use super::{Place, START_MAX, StartError, address, arguments};
use crate::process::Server;

/// Serves these bytes to whoever asks anything.
pub fn start(place: &Place, answer: &[u8]) -> Result<Server, StartError> {
    let failed = |source| StartError::File { name: "floor", source };
    let file = place.write("floor", "floor-answer", answer)?;
    let program = std::env::current_exe().map_err(failed)?;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).to_string();
    let mut arguments = arguments(&["floor", "--listen", &any_port, "--answer"]);
    arguments.push(file.into());
    let mut process = place.start("floor", &program, &arguments)?;
    let mark = "listening on ";
    let said = process.says(mark, START_MAX)?;
    let address = address(&said, mark)
        .ok_or_else(|| StartError::Answer { name: "floor", why: format!("it says {said}") })?;
    Ok(Server {
        name: "floor",
        version: env!("CARGO_PKG_VERSION").to_owned(),
        address,
        processes: vec![process],
    })
}
