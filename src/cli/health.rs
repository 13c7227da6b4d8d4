//! `parallax health`: asks the server on this machine whether it is ready, for the health check of a container.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value as Json;
use ureq::Agent;

use super::{CliError, print_line};
use crate::addresses::parse_address;

pub(super) const EXAMPLES: &str = "\
Check the server of this machine, which also records events:
  parallax health --events
Check the server that systemd started with a settings file:
  parallax health --config /etc/parallax/parallax.toml

Exit codes: 0 the server is ready; 1 it is not, and the status says why; 2 bad command line or settings file; 3 no answer within 5 s.";

/// Time limit of the request. A server answers within milliseconds, and a container runtime repeats the check after some
/// seconds.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(super) struct HealthArgs {
    /// The settings file of the server, which has its admin address. --admin has priority.
    #[arg(long, value_name = "FILE", env = "PARALLAX_CONFIG")]
    config: Option<PathBuf>,
    /// The admin address of the server. For 0.0.0.0 and its IPv6 form, the loopback address is asked.
    #[arg(long, value_name = "ADDRESS", env = "PARALLAX_ADMIN", default_value = "127.0.0.1:9090", value_parser = parse_address)]
    admin: SocketAddr,
    /// Require also that the server records events.
    #[arg(long)]
    events: bool,
}

/// Asks `/readyz` and prints the status.
pub(super) fn check(args: &HealthArgs) -> Result<(), CliError> {
    let address = reachable(args.admin);
    let url = format!("http://{address}/readyz{}", if args.events { "?events=1" } else { "" });
    let config =
        Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false).proxy(None);
    let agent: Agent = config.max_redirects(0).build().into();
    let no_answer = |error: ureq::Error| {
        CliError::System(format!(
            "{url} does not answer: {error}; start the server, or name its admin address with --admin"
        ))
    };
    let mut response = agent.get(&url).call().map_err(no_answer)?;
    let text = response.body_mut().read_to_string().map_err(no_answer)?;
    let body: Json = serde_json::from_str(&text).unwrap_or_default();
    match (response.status().as_u16(), body["status"].as_str()) {
        (200, Some(status)) => print_line(status),
        (503, Some(status)) => Err(CliError::Input(format!("the server is not ready: {status}"))),
        (code, _) => Err(CliError::Input(format!(
            "{url} answered {code}; is this the admin address of a Parallax server?"
        ))),
    }
}

/// Returns an address that reaches a listener of `address` on this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
