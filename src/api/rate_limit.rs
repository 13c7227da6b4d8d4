//! Rate limiting (429). It is off by default, and never applies to loopback clients, nor to requests that a trusted
//! proxy sends on its own behalf.

use std::net::IpAddr;
use std::time::Duration;

use super::scratch::Settings;
use super::token_bucket::RateLimiter;
use crate::checksum;
use crate::http::forwarded;
use crate::http::request::{Request, RequestMeta};
use crate::problem::{self, Problem};

/// Takes a token for the client address of the request.
///
/// # Errors
/// `rate_limited`.
pub(super) fn check_address<'a>(
    settings: &Settings,
    request: &Request<'_>,
    meta: &RequestMeta,
) -> Result<(), Problem<'a>> {
    let Some(limiter) = &settings.rate_limit_per_ip else { return Ok(()) };
    let Some(client) = client_key(settings, request, meta) else { return Ok(()) };
    let sentence = "Rate limit exceeded for this client address.";
    take(limiter, client, meta, sentence)
}

/// Takes a token for `site`.
///
/// # Errors
/// `rate_limited`.
pub(super) fn check_site<'a>(
    settings: &Settings,
    site: &str,
    request: &Request<'_>,
    meta: &RequestMeta,
) -> Result<(), Problem<'a>> {
    let Some(limiter) = &settings.rate_limit_per_site else { return Ok(()) };
    match client_address(settings, request, meta) {
        Some(_) => {
            take(limiter, checksum::hash64(site.as_bytes()), meta, "Rate limit exceeded for this site.")
        }
        None => Ok(()),
    }
}

/// Returns the key of the client's address. `None` for a client on this machine, and for a trusted proxy itself.
pub(super) fn client_key(settings: &Settings, request: &Request<'_>, meta: &RequestMeta) -> Option<u64> {
    client_address(settings, request, meta).map(forwarded::rate_limit_key)
}

fn client_address(settings: &Settings, request: &Request<'_>, meta: &RequestMeta) -> Option<IpAddr> {
    forwarded::client_address(meta.peer, &request.headers.forwarded(), &settings.trusted_proxies)
}

fn take<'a>(
    limiter: &RateLimiter,
    key: u64,
    meta: &RequestMeta,
    sentence: &'static str,
) -> Result<(), Problem<'a>> {
    let problem = |wait: Duration| Problem {
        retry_s: wait.as_secs() as u32 + 1,
        ..Problem::new(problem::RATE_LIMITED, sentence)
    };
    limiter.take(key, meta.received_at).map_err(problem)
}
