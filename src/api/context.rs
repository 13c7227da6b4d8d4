//! What a request asks: the site, the route, who asks, and from where.

use super::handler::Settings;
use super::{Endpoint, response};
use crate::clock;
use crate::http::cors::Cors;
use crate::http::date::DateLine;
use crate::http::negotiate;
use crate::http::params::{Param, Params};
use crate::http::request::{Fields, Method, Request, Surface};
use crate::limits::SITE_ID_BYTES_MAX;
use crate::problem::{self, Problem};
use crate::resolve::path::{NoPath, RoutePath};
use crate::resolve::route;
use crate::resolve::user_agent::Facts;
use crate::resolve::visitor_context::Visitor;
use crate::site::catalog::catalog::{Catalog, Published};
use crate::site::snapshot::format::{ArchivedRoute, ArchivedSite};
use crate::visitors::events::visitor::{is_anon_id, is_placeholder};

/// A request to an endpoint of a published site.
pub(super) struct Call<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) params: Params<'a>,
    pub(super) published: &'a Published,
    pub(super) date: &'a DateLine,
    pub(super) started: Option<std::time::Instant>,
    explain_allowed: bool,
}

impl<'a> Call<'a> {
    pub(super) fn new(
        request: &'a Request<'a>,
        params: Params<'a>,
        catalog: &'a Catalog,
        surface: Surface,
        settings: &Settings,
        date: &'a DateLine,
    ) -> Result<Self, Problem<'a>> {
        Ok(Self {
            request,
            params,
            published: published(catalog, params.get(Param::TrackingId), params.get(Param::Site))?,
            date,
            started: request.fields.debug_timing.filter(|v| *v == b"1").map(|_| clock::instant()),
            explain_allowed: surface == Surface::Admin || settings.explain,
        })
    }

    pub(super) fn site(&self) -> &'a ArchivedSite {
        self.published.site()
    }

    pub(super) fn head_only(&self) -> bool {
        self.request.method == Method::Head
    }

    /// Whether the answer is the same for every visitor.
    pub(super) fn is_public(&self, endpoint: Endpoint) -> bool {
        match endpoint {
            Endpoint::Routes | Endpoint::OpenApi => true,
            Endpoint::Query => self.request.method != Method::Post,
            Endpoint::Resolve => self.params.sent(Param::Variants).is_some() && !self.asks_why(),
            Endpoint::Variants => self.params.get(Param::Include).is_some(),
            Endpoint::Page | Endpoint::Track | Endpoint::Batch => false,
        }
    }

    fn asks_why(&self) -> bool {
        self.params.get(Param::Explain).is_some_and(|value| value != "0")
    }

    /// The CORS of a refusal, which are those of its class.
    pub(super) fn problem_cors(&self, endpoint: Endpoint) -> Cors<'a> {
        if self.is_public(endpoint) { Cors::Anyone } else { self.private_cors() }
    }

    pub(super) fn private_cors(&self) -> Cors<'a> {
        let origins = self.site().origins.iter().map(|origin| origin.as_str());
        Cors::private(self.request.fields.origin, origins)
    }

    /// Whether `explain=1` is asked for and allowed.
    pub(super) fn explain(&self) -> Result<bool, Problem<'a>> {
        let asked = self.params.switch(Param::Explain)?;
        if asked && !self.explain_allowed {
            let expected = "the operator's address, or a server that was started with --explain";
            let problem = Problem::missing(problem::EXPLAIN_NOT_ALLOWED, expected);
            return Err(problem.at(Param::Explain.name()));
        }
        Ok(asked)
    }

    /// Reads `route` into `path`, and finds what the site shows there.
    pub(super) fn route(&self, path: &mut RoutePath) -> Result<&'a ArchivedRoute, Problem<'a>> {
        let name = Param::Route.name();
        let expected = "a page path that begins with '/'";
        let missing = Problem::missing(problem::MISSING_ROUTE, expected).at(name);
        let value = self.params.get(Param::Route).ok_or(missing)?;
        path.read(value).map_err(|reason| {
            let expected = match reason {
                NoPath::NotAbsolute => "a page path that begins with '/'",
                NoPath::EmptySegment => "a page path without '//'",
                NoPath::TooLong => "a page path of at most 2048 bytes",
            };
            Problem::new(problem::INVALID_ROUTE, expected, value).at(name)
        })?;
        route::find(self.site(), path).ok_or_else(|| {
            Problem::new(problem::ROUTE_NOT_FOUND, "a path that the site publishes", value).at(name)
        })
    }

    /// Everything that rules may see of the request; what is known of the visitor is to be looked up.
    pub(super) fn visitor(&self, agent: Facts) -> Result<Visitor<'a>, Problem<'a>> {
        let fields = &self.request.fields;
        let language = || fields.accept_language.and_then(negotiate::language);
        let country = self.params.get(Param::Country).map(str::as_bytes).or(fields.country);
        Ok(Visitor {
            anon_id: anon_id(&self.params, self.request, self.site())?,
            profile: None,
            agent,
            locale: self.params.get(Param::Locale).or_else(language),
            country: country.and_then(country_code),
            url: self.params.get(Param::Url).map(str::as_bytes).or(fields.referer),
            referrer: self.params.get(Param::Referrer),
            now_ms: clock::now_ms(),
        })
    }

    /// The visitor's agent, not that of a server that asks for its visitor.
    pub(super) fn user_agent(&self) -> Option<&'a str> {
        let given = self.params.get(Param::UserAgent);
        given.or_else(|| own_agent(&self.request.fields))
    }

    /// The request's id: the caller's own on private answers, else a minted one.
    pub(super) fn request_id(&self) -> Option<&'a [u8]> {
        self.request.fields.request_id.filter(|id| response::is_request_id(id))
    }
}

/// The agent that a request's header names, where it is the visitor's own and not that of a server that asks for its visitor.
pub(super) fn own_agent<'a>(fields: &Fields<'a>) -> Option<&'a str> {
    let agent = std::str::from_utf8(fields.user_agent?).ok()?;
    let holds =
        |word: &str| agent.as_bytes().windows(word.len()).any(|w| w.eq_ignore_ascii_case(word.as_bytes()));
    let is_a_visitors = agent.starts_with("Mozilla/")
        || fields.origin.is_some()
        || fields.fetch_mode.is_some()
        || holds("bot")
        || holds("crawl")
        || holds("spider");
    is_a_visitors.then_some(agent)
}

/// The site that a request names.
///
/// # Errors
/// `missing_site`, `invalid_tracking_id`, `site_mismatch`, `site_not_found`.
pub(super) fn published<'c, 'a>(
    catalog: &'c Catalog,
    tracking_id: Option<&'a str>,
    site: Option<&'a str>,
) -> Result<&'c Published, Problem<'a>> {
    let not_found = |param: Param, came| {
        let expected = "a site that is published here";
        Problem::new(problem::SITE_NOT_FOUND, expected, came).at(param.name())
    };
    match (tracking_id, site) {
        (None, None) => Err(Problem::missing(problem::MISSING_SITE, "'trackingId' (track_...) or 'site'")),
        (None, Some(id)) => catalog.by_site(id).ok_or_else(|| not_found(Param::Site, id)),
        (Some(id), site) => {
            let found = catalog.by_tracking_id(id).ok_or_else(|| match is_tracking_id(id) {
                true => not_found(Param::TrackingId, id),
                false => {
                    let expected = "'track_' and 1 to 64 letters, digits, '_' or '-'";
                    Problem::new(problem::INVALID_TRACKING_ID, expected, id).at(Param::TrackingId.name())
                }
            })?;
            match site {
                Some(site) if found.site().site != *site => {
                    let expected = "'trackingId' and 'site' of one site";
                    let problem = Problem::new(problem::SITE_MISMATCH, expected, site);
                    Err(problem.at(Param::Site.name()))
                }
                _ => Ok(found),
            }
        }
    }
}

/// The anon ID that a request names: in a parameter, a header, or the site's cookie.
///
/// # Errors
/// `invalid_anon_id`: in a parameter only.
pub(super) fn anon_id<'a>(
    params: &Params<'a>,
    request: &Request<'a>,
    site: &ArchivedSite,
) -> Result<Option<&'a str>, Problem<'a>> {
    if let Some(id) = params.get(Param::AnonId).filter(|id| !is_placeholder(id)) {
        let expected = "1 to 128 bytes of visible ASCII";
        let invalid = Problem::new(problem::INVALID_ANON_ID, expected, id);
        return match is_anon_id(id) {
            true => Ok(Some(id)),
            false => Err(invalid.at(Param::AnonId.name())),
        };
    }
    let fields = &request.fields;
    let cookie = || fields.cookie.and_then(|all| cookie(all, &site.cookie));
    let usable = |id: &'a [u8]| {
        let id = std::str::from_utf8(id).ok()?;
        (is_anon_id(id) && !is_placeholder(id)).then_some(id)
    };
    Ok(fields.anon_id.and_then(usable).or_else(|| cookie().and_then(usable)))
}

pub(super) fn is_tracking_id(id: &str) -> bool {
    id.strip_prefix("track_").is_some_and(|rest| {
        (1..=SITE_ID_BYTES_MAX).contains(&rest.len())
            && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    })
}

/// The value of the first cookie of this name (RFC 6265 section 5.4), quotes taken off.
fn cookie<'a>(cookies: &'a [u8], name: &str) -> Option<&'a [u8]> {
    cookies.split(|b| *b == b';').find_map(|pair| {
        let value = pair.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        let inner = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\""));
        Some(inner.unwrap_or(value))
    })
}

/// ISO 3166 alpha-2, and what content delivery networks say in its place (XX, T1), in upper case.
fn country_code(text: &[u8]) -> Option<[u8; 2]> {
    let code: [u8; 2] = text.try_into().ok()?;
    code.iter().all(u8::is_ascii_alphanumeric).then(|| code.map(|b| b.to_ascii_uppercase()))
}
