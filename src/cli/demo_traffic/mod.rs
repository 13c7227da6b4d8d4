//! `parallax demo-traffic`: sends the events of invented visitors to a running server, so that its numbers
//! are not empty.
//!
//! The server decides which variants a visitor sees, as for a real one. Visits are sent in rounds: first the
//! first visit of every visitor, then the second one, and so on. So the server knows the earlier visits when
//! it decides.

mod client;
mod visitors;

use std::net::IpAddr;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use self::client::Client;
use self::visitors::{Chance, Visit, plan_visits};
use super::demo::DEMO_DAYS;
use super::{CliError, print_line};
use crate::clock;

pub(super) const EXAMPLES: &str = "Examples:\n  \
    parallax                                  # serves the demo site\n  \
    parallax demo-traffic                     # in another terminal; then open http://127.0.0.1:9090/\n  \
    parallax demo-traffic --visitors 20000 --days 90";

/// Visits of one request. Their events are below the limit of a batch, 2500: a visit has at most 16.
const VISITS_PER_BATCH: usize = 100;

#[derive(Debug, Args)]
pub(super) struct DemoTrafficArgs {
    /// The address of the server that gets the events, as its log names it. Nothing is sent elsewhere. Its
    /// host is localhost or an IP address of loopback, unless `--to-another-machine` is set.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", value_parser = parse_url)]
    to: String,
    /// Accept another machine as the receiver. Its numbers then count the invented visitors for ever.
    #[arg(long)]
    to_another_machine: bool,
    /// The tracking ID of the site. Without the flag, the events go to the demo site.
    #[arg(long, value_name = "ID", default_value = "track_demo")]
    tracking_id: String,
    /// The number of visitors, 1 to 100000.
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = RangedU64ValueParser::<u32>::new().range(1..=100_000))]
    visitors: u32,
    /// The days before now in which the visits begin, 1 to 365. The default is a month and the month before it.
    #[arg(long, value_name = "N", default_value_t = DEMO_DAYS, value_parser = RangedU64ValueParser::<u32>::new().range(1..=365))]
    days: u32,
    /// The choice of visitors. The same number gives the same visitors and message IDs, so that a second run
    /// within 24 hours adds hardly anything.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Accepts the address of a server without a path.
fn parse_url(text: &str) -> Result<String, String> {
    let authority = text.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
    match authority {
        Some(authority) if !authority.is_empty() && !authority.contains(['/', '?', '#', '@']) => {
            Ok(format!("http://{authority}"))
        }
        _ => Err("expected http:// with a host and a port, such as http://127.0.0.1:8080".to_owned()),
    }
}

/// Returns whether the URL names this machine. Another name than localhost may lead anywhere.
fn is_loopback(url: &str) -> bool {
    let authority = url.strip_prefix("http://").unwrap_or(url);
    let without_port =
        authority.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    let host = without_port.map_or(authority, |(host, _)| host);
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

pub(super) fn demo_traffic(args: &DemoTrafficArgs) -> Result<(), CliError> {
    if !args.to_another_machine && !is_loopback(&args.to) {
        return Err(CliError::Usage(format!(
            "{} is not on this machine, and invented visitors cannot be taken back; to send them there, add \
             --to-another-machine",
            args.to
        )));
    }
    let client = Client::new(&args.to, &args.tracking_id);
    let routes = client.routes()?;
    if routes.is_empty() {
        return Err(CliError::Input(format!("the site of '{}' has no path to visit", args.tracking_id)));
    }
    let mut visits = plan_visits(Chance::new(args.seed), args.visitors, args.days, clock::now_ms());
    visits.sort_by_key(|visit| (visit.number, visit.begins_ms));
    let mut sent = 0;
    let mut duplicates = 0;
    for round in visits.chunk_by(|a, b| a.number == b.number) {
        for batch in round.chunks(VISITS_PER_BATCH) {
            let receipt = send_batch(&client, batch, &routes)?;
            sent += receipt.accepted;
            duplicates += receipt.duplicates;
        }
    }
    let again = if duplicates > 0 {
        format!(" {duplicates} were there already: choose another --seed for other visitors.")
    } else {
        String::new()
    };
    print_line(&format!(
        "recorded {sent} events of {} visitors in the last {} days.{again}",
        args.visitors, args.days
    ))
}

fn send_batch(client: &Client, visits: &[Visit], paths: &[String]) -> Result<client::Receipt, CliError> {
    let mut events = Vec::new();
    for visit in visits {
        let treatment = client.decide(visit, visit.landing(paths))?;
        events.extend(visit.events(paths, &treatment));
    }
    client.send(&events)
}
