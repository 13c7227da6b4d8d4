//! The context of a request: its site, route and visitor, and whether its response is public.

use super::class::{Audience, ProblemContext, ResponseClass};
use super::scratch::Settings;
use super::user_verifier::{UserIdPlace, UserVerifier, keys_of};
use super::visitor_token::TokenSealer;
use crate::clock;
use crate::country::country_code;
use crate::events::time::parse_instant;
use crate::events::visitor::{is_anon_id, is_placeholder};
use crate::http::cors::Cors;
use crate::http::date::DateLine;
use crate::http::headers::{Field, Headers};
use crate::http::negotiate;
use crate::http::params::{Param, Params};
use crate::http::request::{Method, Request, Surface};
use crate::http::request_id::is_request_id;
use crate::identity_keys::UserRule;
use crate::limits::{
    ANON_ID_COOKIE_BYTES_MAX, CLOCK_FROM_S, CLOCK_UNTIL_S, SITE_ID_BYTES_MAX, USER_ID_BYTES_MAX,
};
use crate::percent;
use crate::problem::{self, Problem};
use crate::record::{IdKind, RecordContext};
use crate::resolve::path::{PathError, RoutePath};
use crate::resolve::private_traits::HiddenTraits;
use crate::resolve::route;
use crate::resolve::user_agent::UserAgentInfo;
use crate::resolve::visitor_context::Visitor;
use crate::site::catalog::catalog::{Catalog, PublishedSite};
use crate::site::snapshot::format::{ArchivedRoute, ArchivedSite};
use crate::site::snapshot::pieces::Pieces;

/// A request to an endpoint of a published site.
pub(super) struct RequestContext<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) params: &'a Params<'a>,
    pub(super) published: &'a PublishedSite,
    pub(super) date: &'a DateLine,
    pub(super) started: Option<clock::Instant>,
    user_verifier: &'a UserVerifier,
    pub(super) token_sealer: &'a TokenSealer,
    surface: Surface,
    explain_allowed: bool,
    now_allowed: bool,
}

/// The parameters with which an author looks at a decision. No cache may store the response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inspection {
    /// True if the response has the reasons of the decision.
    pub(super) explain: bool,
    /// True if the client is an operator, so that the visitor's last recorded context is the default.
    pub(super) takes_recorded: bool,
    /// The time at which the decision is made, in Unix milliseconds; `None` for the present.
    pub(super) now_ms: Option<i64>,
    /// True if the response has the token of the visitor, in case of a decision.
    pub(super) token: bool,
}

impl Inspection {
    /// Returns whether the request has `explain=1` or `now`.
    pub(super) fn is_requested(self) -> bool {
        self.explain || self.now_ms.is_some()
    }
}

/// The IDs of a visitor. The user ID counts only without an anon ID.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct VisitorIds<'v> {
    anon_id: Option<&'v str>,
    user_id: Option<&'v str>,
    /// True if the request has a user ID that would count, but is not verified.
    is_user_unverified: bool,
}

impl<'v> VisitorIds<'v> {
    /// Returns the ID by which the profile is found, and its kind.
    pub(super) fn lookup_id(&self) -> Option<(IdKind, &'v str)> {
        let anon_id = self.anon_id.map(|id| (IdKind::Anon, id));
        anon_id.or_else(|| self.user_id.map(|id| (IdKind::User, id)))
    }
}

impl<'a> RequestContext<'a> {
    pub(super) fn new(
        request: &'a Request<'a>,
        params: &'a Params<'a>,
        catalog: &'a Catalog,
        surface: Surface,
        settings: &'a Settings,
        date: &'a DateLine,
    ) -> Result<Self, Problem<'a>> {
        let is_admin = surface.is_admin();
        Ok(Self {
            request,
            params,
            published: find_site(catalog, params.get(Param::TrackingId), params.get(Param::Site))?,
            date,
            started: request.headers.get(Field::DebugTiming).filter(|v| *v == b"1").map(|_| clock::instant()),
            user_verifier: &settings.user_verifier,
            token_sealer: &settings.token_sealer,
            surface,
            explain_allowed: is_admin || settings.explain,
            now_allowed: is_admin || settings.is_dev,
        })
    }

    /// Returns the traits that the client must not see.
    #[cold]
    pub(super) fn hidden_traits(&self) -> HiddenTraits {
        match self.surface {
            Surface::AdminWithoutPrivateTraits => HiddenTraits::of_site(Some(self.site())),
            _ => HiddenTraits::NONE,
        }
    }

    pub(super) fn site(&self) -> &'a ArchivedSite {
        self.published.site()
    }

    /// Returns the pieces of the site's response bodies.
    pub(super) fn pieces(&self) -> Pieces<'a> {
        self.published.pieces()
    }

    pub(super) fn is_head(&self) -> bool {
        self.request.method == Method::Head
    }

    /// Returns the permission of a response of this class.
    pub(super) fn cors(&self, class: ResponseClass) -> Cors<'a> {
        cors(self.site(), class, self.request)
    }

    pub(super) fn accepts_gzip(&self) -> bool {
        let headers = &self.request.headers;
        // Saves the search in the usual case that the field is missing.
        headers.get(Field::AcceptEncoding).is_some()
            && negotiate::accepts_gzip(headers.accept_encoding_lines())
    }

    /// Returns `explain`, `now` and `visitor`.
    ///
    /// # Errors
    /// `explain_not_allowed`, `now_not_allowed`, `invalid_param`.
    pub(super) fn inspection(&self) -> Result<Inspection, Problem<'a>> {
        let now_ms = match self.params.get(Param::Now) {
            Some(text) => Some(self.parse_now(text)?),
            None => None,
        };
        let explain = self.explain_requested()?;
        let token = self.params.flag(Param::Visitor)?;
        Ok(Inspection { explain, takes_recorded: explain && self.surface.is_admin(), now_ms, token })
    }

    #[cold]
    fn parse_now(&self, text: &'a str) -> Result<i64, Problem<'a>> {
        if !self.now_allowed && self.site().preview.is_none() {
            let sentence =
                "now=... is only available on the admin address, for a preview site, and in 'parallax dev'.";
            return Err(Problem::new(problem::NOW_NOT_ALLOWED, sentence).at(Param::Now.name()));
        }
        parse_instant(text).filter(|now_ms| (1_000 * CLOCK_FROM_S..1_000 * CLOCK_UNTIL_S).contains(now_ms)).ok_or_else(|| {
            let expected = "a time with an offset, such as 2026-12-24T18:00:00Z or 2026-12-24T19:00:00%2B01:00, of the \
                            years 2020 to 2099";
            Problem::invalid_value(problem::INVALID_PARAM, expected, text).at(Param::Now.name())
        })
    }

    fn explain_requested(&self) -> Result<bool, Problem<'a>> {
        let is_requested = self.params.flag(Param::Explain)?;
        if is_requested && !self.explain_allowed {
            let sentence = "explain=1 is only available on the admin address or with --explain.";
            return Err(Problem::new(problem::EXPLAIN_NOT_ALLOWED, sentence).at(Param::Explain.name()));
        }
        Ok(is_requested)
    }

    /// Parses `route` into `path`, and finds the route of the site and its index.
    ///
    /// # Errors
    /// `missing_route`, `invalid_route`, `route_not_found`.
    pub(super) fn route(&self, path: &mut RoutePath) -> Result<(u32, &'a ArchivedRoute), Problem<'a>> {
        let name = Param::Route.name();
        let value = self.params.get(Param::Route).ok_or_else(|| {
            Problem::new(problem::MISSING_ROUTE, "The query parameter 'route' is missing.").at(name)
        })?;
        path.parse(value).map_err(|reason| {
            let expected = match reason {
                PathError::NotAbsolute => "a page path that begins with '/'",
                PathError::EmptySegment => "a page path without '//'",
                PathError::TooLong => "a page path of at most 2048 bytes",
            };
            Problem::invalid_value(problem::INVALID_ROUTE, expected, value).at(name)
        })?;
        route::find(self.site(), path).ok_or_else(|| {
            Problem::with_value(problem::ROUTE_NOT_FOUND, "The site has no route {}.", value).at(name)
        })
    }

    /// Returns the IDs by which the visitor is known, or none if the request refuses personalization. `cookie_buffer` is a
    /// buffer for [`anon_id`].
    ///
    /// # Errors
    /// `invalid_anon_id`, `invalid_param`.
    pub(super) fn visitor_ids<'v>(
        &self,
        cookie_buffer: &'v mut Vec<u8>,
    ) -> Result<VisitorIds<'v>, Problem<'a>>
    where
        'a: 'v,
    {
        let user_id = self.user_id()?;
        let anon_id = anon_id(self.params, self.request, self.site(), cookie_buffer)?;
        let has_gpc = self.request.headers.get(Field::SecGpc) == Some(b"1") && self.site().honor_gpc;
        if !self.params.flag_or(Param::Personalize, true)? || has_gpc {
            return Ok(VisitorIds::default());
        }
        let is_user_unverified = anon_id.is_none() && user_id.is_some_and(|id| !self.user_counts(id));
        let user_id = user_id.filter(|_| anon_id.is_none() && !is_user_unverified);
        Ok(VisitorIds { anon_id, user_id, is_user_unverified })
    }

    /// Returns whether a user ID counts. On the admin address it needs no hash, because an operator sees all profiles.
    fn user_counts(&self, user_id: &str) -> bool {
        !self.site().verifies_users || self.surface.is_admin() || self.verify_user(user_id)
    }

    /// Returns whether the request has the hash of its user ID. Adds the ID to the metric of unverified ones otherwise.
    #[inline(never)]
    fn verify_user(&self, user_id: &str) -> bool {
        let keys = self.user_verifier.keys();
        let header_hash = self.request.headers.get(Field::UserHash);
        let rule = UserRule::Signed { keys: keys_of(&keys, self.site()), header_hash };
        let is_verified = rule.accepts(user_id, None);
        if !is_verified {
            self.user_verifier.record_unverified(UserIdPlace::Page, 1);
        }
        is_verified
    }

    fn user_id(&self) -> Result<Option<&'a str>, Problem<'a>> {
        match self.params.get(Param::UserId).filter(|id| !is_placeholder(id)) {
            Some(id) if id.len() > USER_ID_BYTES_MAX => {
                let problem = Problem::invalid_value(problem::INVALID_PARAM, "1 to 256 bytes of text", id);
                Err(problem.at(Param::UserId.name()))
            }
            id => Ok(id),
        }
    }

    /// Returns the visitor as the request describes it, now or at `now_ms`. Its profile is not looked up yet.
    pub(super) fn visitor<'v>(
        &self,
        ids: VisitorIds<'v>,
        agent: UserAgentInfo,
        now_ms: Option<i64>,
    ) -> Visitor<'v>
    where
        'a: 'v,
    {
        let fields = &self.request.headers;
        let country = self.params.get(Param::Country).map(str::as_bytes).or(fields.get(Field::Country));
        Visitor {
            anon_id: ids.anon_id,
            user_id: ids.user_id,
            is_user_unverified: ids.is_user_unverified,
            profile: None,
            agent,
            locale: self.params.get(Param::Locale).map(str::as_bytes).or(fields.get(Field::Language)),
            country: country.and_then(country_code),
            url: self.params.get(Param::Url).map(str::as_bytes).or(fields.get(Field::Referer)),
            referrer: self.params.get(Param::Referrer),
            now_ms: now_ms.unwrap_or_else(clock::now_ms),
            is_present: true,
            is_stale: false,
        }
    }

    /// Replaces the members of the visitor that no parameter gives by those of the last recorded context. The headers
    /// describe the operator. Returns the names of the replaced members.
    pub(super) fn take_recorded<'v>(
        &self,
        recorded_context: &'v RecordContext,
        visitor: &mut Visitor<'v>,
    ) -> Vec<&'static str> {
        let is_missing = |param| self.params.get(param).is_none();
        let mut replaced = Vec::new();
        if is_missing(Param::UserAgent) && recorded_context.has_agent() {
            visitor.agent = recorded_context.agent();
            replaced.push("device");
        }
        if is_missing(Param::Locale) && recorded_context.language().is_some() {
            visitor.locale = recorded_context.language().map(str::as_bytes);
            replaced.push("locale");
        }
        if is_missing(Param::Country) && recorded_context.country().is_some() {
            visitor.country = recorded_context.country();
            replaced.push("country");
        }
        replaced
    }

    /// Returns the User-Agent of the visitor, and not that of a server that calls on the visitor's behalf.
    pub(super) fn user_agent(&self) -> Option<&'a [u8]> {
        let given = self.params.get(Param::UserAgent).map(str::as_bytes);
        given.or_else(|| visitor_user_agent(&self.request.headers))
    }

    /// Returns the client's request ID, if it can be sent back.
    pub(super) fn request_id(&self) -> Option<&'a [u8]> {
        self.request.headers.get(Field::RequestId).filter(|id| is_request_id(id))
    }
}

/// Returns the context of a problem. Its audience is that of the response that it replaces.
pub(super) fn problem_context<'a>(
    site: &'a ArchivedSite,
    class: ResponseClass,
    request: &Request<'a>,
) -> ProblemContext<'a> {
    let audience = match class {
        ResponseClass::Public => Audience::Public { site: Some(&site.site), route: None },
        ResponseClass::Private => Audience::Private(cors(site, class, request)),
    };
    ProblemContext { audience, version: Some(site.version.to_native()), is_preview: site.preview.is_some() }
}

/// Returns the permission of a response of this class. Whether it varies by origin depends on the site alone.
fn cors<'a>(site: &ArchivedSite, class: ResponseClass, request: &Request<'a>) -> Cors<'a> {
    match class {
        ResponseClass::Public => Cors::Anyone,
        ResponseClass::Private => {
            let origins = site.origins.iter().map(|origin| origin.as_str());
            Cors::for_private(request.headers.get(Field::Origin), origins)
        }
    }
}

/// Returns the User-Agent header if it belongs to a visitor, and not to a server that calls on the visitor's
/// behalf. It may not be UTF-8.
pub(super) fn visitor_user_agent<'a>(headers: &Headers<'a>) -> Option<&'a [u8]> {
    let agent = headers.get(Field::UserAgent)?;
    let holds = |word: &str| agent.windows(word.len()).any(|w| w.eq_ignore_ascii_case(word.as_bytes()));
    let is_library = || HTTP_LIBRARIES.iter().any(|name| agent.starts_with(name.as_bytes()));
    let is_a_visitors = agent.starts_with(b"Mozilla/") || !is_library() && is_of_browser(headers, holds);
    is_a_visitors.then_some(agent)
}

/// Beginnings of the User-Agents of HTTP libraries. A server that calls for a visitor may forward other fields.
const HTTP_LIBRARIES: [&str; 12] = [
    "Apache-HttpClient",
    "Go-http-client",
    "GuzzleHttp/",
    "Java/",
    "PHP/",
    "Python-",
    "Ruby",
    "Wget",
    "axios",
    "curl",
    "node-fetch",
    "python-",
];

/// Returns whether a browser or a crawler sent the request. `has_word` searches a word in its User-Agent.
fn is_of_browser(headers: &Headers<'_>, has_word: impl Fn(&str) -> bool) -> bool {
    headers.get(Field::Origin).is_some()
        || headers.get(Field::SecFetchMode).is_some()
        || ["bot", "crawl", "spider"].into_iter().any(has_word)
}

/// Finds the site that a request names.
///
/// # Errors
/// `missing_site`, `invalid_tracking_id`, `site_mismatch`, `site_not_found`.
pub(super) fn find_site<'c, 'a>(
    catalog: &'c Catalog,
    tracking_id: Option<&'a str>,
    site: Option<&'a str>,
) -> Result<&'c PublishedSite, Problem<'a>> {
    let no_site_id = |id| {
        let sentence = "No published site has site ID {}.";
        Problem::with_value(problem::SITE_NOT_FOUND, sentence, id).at(Param::Site.name())
    };
    let no_tracking_id = |id| {
        let sentence = "No published site has tracking ID {}.";
        Problem::with_value(problem::SITE_NOT_FOUND, sentence, id).at(Param::TrackingId.name())
    };
    match (tracking_id, site) {
        (None, None) => {
            let sentence = "The request names no site; add 'trackingId' (track_...) or 'site'.";
            Err(Problem::new(problem::MISSING_SITE, sentence))
        }
        (None, Some(id)) => catalog.by_site_id(id).ok_or_else(|| no_site_id(id)),
        (Some(id), site) => {
            let found = catalog.by_tracking_id(id).ok_or_else(|| match is_tracking_id(id) {
                true => no_tracking_id(id),
                false => {
                    let expected = "'track_' and 1 to 64 letters, digits, '_' or '-'";
                    Problem::invalid_value(problem::INVALID_TRACKING_ID, expected, id)
                        .at(Param::TrackingId.name())
                }
            })?;
            match site {
                Some(site) if *found.site().site != *site => {
                    let sentence = "'trackingId' and 'site' name different sites; 'site' is {}.";
                    let problem = Problem::with_value(problem::SITE_MISMATCH, sentence, site);
                    Err(problem.at(Param::Site.name()))
                }
                _ => Ok(found),
            }
        }
    }
}

/// Returns the anon ID of a request: from a parameter, a header, or the first cookie of the site's name that has a
/// usable one. A cookie with escapes is decoded into `cookie_buffer`, which is cleared first.
///
/// # Errors
/// `invalid_anon_id`, only for a parameter. An invalid header or cookie is ignored.
pub(super) fn anon_id<'v, 'a: 'v>(
    params: &Params<'a>,
    request: &Request<'a>,
    site: &ArchivedSite,
    cookie_buffer: &'v mut Vec<u8>,
) -> Result<Option<&'v str>, Problem<'a>> {
    if let Some(id) = params.get(Param::AnonId).filter(|id| !is_placeholder(id)) {
        if is_anon_id(id) {
            return Ok(Some(id));
        }
        let expected = "1 to 128 bytes of visible ASCII";
        return Err(Problem::invalid_value(problem::INVALID_ANON_ID, expected, id).at(Param::AnonId.name()));
    }
    let fields = &request.headers;
    if let Some(id) = fields.get(Field::AnonId).and_then(usable_anon_id) {
        return Ok(Some(id));
    }
    // A browser sends each cookie of a name that the page can reach. The first one may be that of another scope, or one
    // into which a script wrote "null".
    let mut found = None;
    for value in fields.cookie_lines().flat_map(|line| cookies(line, &site.cookie)) {
        let is_escaped = decode_cookie(value, cookie_buffer);
        if usable_anon_id(if is_escaped { cookie_buffer } else { value }).is_some() {
            found = Some((value, is_escaped));
            break;
        }
    }
    Ok(found.and_then(|(value, is_escaped)| usable_anon_id(if is_escaped { cookie_buffer } else { value })))
}

fn usable_anon_id(id: &[u8]) -> Option<&str> {
    let id = std::str::from_utf8(id).ok()?;
    (is_anon_id(id) && !is_placeholder(id)).then_some(id)
}

/// Decodes a cookie's value into `cookie_buffer` if it has escapes. Returns whether it has. A value that is too long for an ID
/// stays as it is.
fn decode_cookie(value: &[u8], cookie_buffer: &mut Vec<u8>) -> bool {
    if value.len() > ANON_ID_COOKIE_BYTES_MAX || !value.contains(&b'%') {
        return false;
    }
    cookie_buffer.clear();
    percent::decode(value, cookie_buffer);
    true
}

pub(super) fn is_tracking_id(id: &str) -> bool {
    id.strip_prefix("track_").is_some_and(is_site_id)
}

/// Returns whether a site can have this ID.
pub(super) fn is_site_id(id: &str) -> bool {
    (1..=SITE_ID_BYTES_MAX).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Iterates over the values of the cookies with this name (RFC 6265 section 5.4), without quotes.
fn cookies<'a>(line: &'a [u8], name: &str) -> impl Iterator<Item = &'a [u8]> {
    line.split(|b| *b == b';').filter_map(move |pair| {
        let value = pair.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        let inner = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\""));
        Some(inner.unwrap_or(value))
    })
}
