//! `GET /v1/projects/<trackingId>/settings`: the settings that Segment's browser library loads first. They send its
//! events to this server, so that the library works with `cdnURL` alone.

use super::context::find_site;
use super::endpoint::tracking_id_in_path;
use super::rate_limit;
use super::scratch::Settings;
use crate::http::cors::Cors;
use crate::http::date::DateLine;
use crate::http::forwarded;
use crate::http::headers::Field;
use crate::http::request::{Method, Request, RequestMeta};
use crate::http::request_id::{is_request_id, write_request_id};
use crate::http::response::ResponseHead;
use crate::ids::RequestIdGenerator;
use crate::json;
use crate::problem::{self, Problem};
use crate::site::catalog::catalog::Catalog;

/// The parts of a handler that this endpoint needs.
pub(super) struct SettingsHandler<'h> {
    pub(super) settings: &'h Settings,
    pub(super) date: &'h DateLine,
    pub(super) catalog: &'h Catalog,
    pub(super) ids: &'h mut RequestIdGenerator,
    /// The buffer of the body.
    pub(super) text: &'h mut Vec<u8>,
}

impl SettingsHandler<'_> {
    /// Appends the response. `cors` becomes that of the site, once the site is known.
    ///
    /// # Errors
    /// `invalid_tracking_id`, `site_not_found`, `rate_limited`, `origin_not_allowed`, `malformed_request`.
    pub(super) fn handle<'a>(
        self,
        request: &Request<'a>,
        meta: &RequestMeta,
        cors: &mut Cors<'a>,
        out: &mut Vec<u8>,
    ) -> Result<(), Problem<'a>> {
        let Self { settings, date, catalog, ids, text } = self;
        let tracking_id = tracking_id_in_path(request.path).unwrap_or_default();
        let site = find_site(catalog, Some(tracking_id), None)?.site();
        rate_limit::check_site(settings, &site.site, request, meta)?;
        let origins = site.origins.iter().map(|origin| origin.as_str());
        *cors = Cors::for_events(request.headers.get(Field::Origin), origins).ok_or_else(|| {
            Problem::new(problem::ORIGIN_NOT_ALLOWED, "The origin is not listed in 'origins' of the site.")
        })?;
        let host = request.host().ok_or_else(|| {
            let sentence = "The request has no Host, to which the library could send its events.";
            Problem::new(problem::MALFORMED_REQUEST, sentence)
        })?;
        write_body(text, tracking_id, host, protocol(request, meta, settings));
        let mut head = ResponseHead::begin(out, 200, date);
        head.raw(b"Cache-Control: no-store\r\nContent-Type: application/json\r\n");
        write_request_id(
            &mut head,
            ids,
            request.headers.get(Field::RequestId).filter(|id| is_request_id(id)),
        );
        if cors.varies_by_origin() {
            head.raw(b"Vary: Origin\r\n");
        }
        cors.write(&mut head);
        let out = head.finish(text.len(), request.close);
        if request.method != Method::Head {
            out.extend_from_slice(text);
        }
        Ok(())
    }
}

/// Returns the protocol of the client. If a trusted proxy sent the request, it is the first one of `X-Forwarded-Proto`.
fn protocol(request: &Request<'_>, meta: &RequestMeta, settings: &Settings) -> &'static str {
    let is_trusted = forwarded::is_trusted(meta.peer, &settings.trusted_proxies);
    let forwarded = request.headers.get(Field::ForwardedProto).filter(|_| is_trusted).unwrap_or_default();
    let first = forwarded.split(|b| *b == b',').next().unwrap_or_default().trim_ascii();
    if first.eq_ignore_ascii_case(b"https") { "https" } else { "http" }
}

fn write_body(text: &mut Vec<u8>, tracking_id: &str, host: &str, protocol: &str) {
    text.clear();
    text.extend_from_slice(b"{\"integrations\":{\"Segment.io\":{\"apiKey\":");
    json::write_string(text, tracking_id);
    text.extend_from_slice(b",\"apiHost\":\"");
    json::write_escaped(text, host);
    text.extend_from_slice(b"/v1\",\"protocol\":");
    json::write_string(text, protocol);
    text.extend_from_slice(b"}}}");
}
