//! Who asks too often (429). Off unless the operator sets a limit; never for this machine itself, nor for a trusted proxy that
//! asks on nobody's behalf.

use std::time::Duration;

use super::handler::Settings;
use crate::api::token_bucket::Throttle;
use crate::checksum;
use crate::http::forwarded::{client, household};
use crate::http::request::{Arrival, Request};
use crate::problem::{self, Problem};

/// Whether the address that the request comes from may ask now.
pub(super) fn address<'a>(
    settings: &Settings,
    request: &Request<'_>,
    arrival: &Arrival,
) -> Result<(), Problem<'a>> {
    let Some(limit) = &settings.address_limit else { return Ok(()) };
    match client(arrival.peer, &request.fields.forwarded, &settings.trusted_proxies) {
        Some(client) => take(limit, household(client), arrival, "fewer requests a second from one address"),
        None => Ok(()),
    }
}

/// Whether may be asked for `site` now.
pub(super) fn site<'a>(
    settings: &Settings,
    site: &str,
    request: &Request<'_>,
    arrival: &Arrival,
) -> Result<(), Problem<'a>> {
    let Some(limit) = &settings.site_limit else { return Ok(()) };
    match client(arrival.peer, &request.fields.forwarded, &settings.trusted_proxies) {
        Some(_) => {
            take(limit, checksum::table(site.as_bytes()), arrival, "fewer requests a second for one site")
        }
        None => Ok(()),
    }
}

fn take<'a>(
    limit: &Throttle,
    key: u64,
    arrival: &Arrival,
    expected: &'static str,
) -> Result<(), Problem<'a>> {
    let refusal = |wait: Duration| Problem {
        retry_s: wait.as_secs() as u32 + 1,
        ..Problem::missing(problem::RATE_LIMITED, expected)
    };
    limit.take(key, arrival.at).map_err(refusal)
}
