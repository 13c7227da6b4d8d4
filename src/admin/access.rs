//! Access to the endpoints of the admin address that show or change data: who sends a request.
//!
//! A client has a token, or a proxy has signed in a person and names it in a header. Without any token and without `--access`,
//! only reads from this machine are answered. A web page in a browser on this machine can reach loopback, and so can a proxy.
//! Their requests are therefore refused. `areas` has the areas of each client.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;

use super::current_access::{AccessChange, CurrentAccess};
use super::current_links::CurrentLinks;
use crate::access::{Actor, ActorKind, Caller};
use crate::checksum;
use crate::clock;
use crate::http::forwarded;
use crate::http::headers::{Field, Headers};
use crate::http::negotiate;
use crate::http::request::{Method, Request, RequestMeta};
use crate::problem::{self, Problem};

/// Time after a wrong token in which further wrong tokens get 429: an operator who mistypes still sees 401.
const WRONG_TOKEN_INTERVAL: Duration = Duration::from_secs(1);

/// The settings of access to the admin address.
#[derive(Debug, Default)]
pub struct AccessSettings {
    /// The token of `--admin-token`.
    pub token: Option<String>,
    /// The file of `--access`.
    pub(crate) file: Arc<CurrentAccess>,
    /// The names of the headers in which a trusted proxy names a person and its groups.
    pub(crate) headers: PersonHeaders,
    pub(crate) trusted_proxies: Arc<[IpNet]>,
    pub(crate) links: Arc<CurrentLinks>,
}

/// The names of the headers of a person, in lower case with a colon.
#[derive(Debug, Default)]
pub(crate) struct PersonHeaders {
    pub name: Option<Box<[u8]>>,
    pub groups: Option<Box<[u8]>>,
}

/// The access rules of the admin address.
pub(super) struct AccessRules {
    settings: AccessSettings,
    /// The hash of the token; `None` if no token is configured.
    token_hash: Option<[u8; 32]>,
    /// When a wrong token last got 401.
    wrong_token_at: Option<Instant>,
}

impl AccessRules {
    pub(super) fn new(settings: AccessSettings) -> Self {
        let token_hash = settings.token.as_deref().map(|token| checksum::digest(&[token.as_bytes()]));
        Self { settings, token_hash, wrong_token_at: None }
    }

    /// Returns whether each request needs a token or a person.
    pub(super) fn is_configured(&self) -> bool {
        self.token_hash.is_some() || self.settings.file.is_configured()
    }

    /// Returns whether the server has an access file, so that clients differ in their rights.
    pub(super) fn has_file(&self) -> bool {
        self.settings.file.is_configured()
    }

    /// Returns the shared links.
    pub(super) fn links(&self) -> &Arc<CurrentLinks> {
        &self.settings.links
    }

    /// Reads the access file again if it has changed. Returns the change.
    pub(super) fn tick(&self) -> Option<AccessChange> {
        self.settings.file.reload_if_changed()
    }

    /// Returns the address of the client of a request, as the trusted proxies name it.
    pub(super) fn client_address(&self, request: &Request<'_>, meta: &RequestMeta) -> IpAddr {
        let proxies = &self.settings.trusted_proxies;
        forwarded::client_address(meta.peer, &request.headers.forwarded(), proxies).unwrap_or(meta.peer)
    }

    /// Returns the client of a request.
    ///
    /// # Errors
    /// `unauthorized`, `access_denied`, `rate_limited`, `origin_not_allowed`, `host_not_allowed`.
    pub(super) fn identify<'a>(
        &mut self,
        request: &Request<'a>,
        meta: &RequestMeta,
    ) -> Result<Caller, Problem<'a>> {
        if !self.is_configured() {
            check_without_token(request, meta)?;
            return Ok(Caller::operator(ActorKind::Loopback));
        }
        let headers = &request.headers;
        // Every request of another origin is refused, with the token too. So this refusal tells nothing about a token.
        if let Some(origin) =
            headers.get(Field::Origin).filter(|origin| !is_own_origin(origin, request.host()))
        {
            return Err(origin_not_allowed(origin));
        }
        let token = headers.get(Field::Authorization).and_then(bearer_token);
        if let Some(caller) = token.and_then(|token| self.caller_with_token(token)) {
            return Ok(caller);
        }
        if let Some(name) = self.person(headers, meta) {
            return self.signed_in(name, request);
        }
        match token {
            Some(_) => Err(self.wrong_token(meta.received_at)),
            None => Err(Problem::new(problem::UNAUTHORIZED, self.missing_sentence())),
        }
    }

    /// Returns the person that a trusted proxy names, for the line about a refused request.
    pub(super) fn named_person(&self, request: &Request<'_>, meta: &RequestMeta) -> Option<Actor> {
        let name = self.person(&request.headers, meta)?;
        Some(Actor { kind: ActorKind::User, name: name.into() })
    }

    fn missing_sentence(&self) -> &'static str {
        match self.has_file() {
            true => "The request needs 'Authorization: Bearer' with a token of this server.",
            false => "The request needs 'Authorization: Bearer' with the token of --admin-token.",
        }
    }

    fn caller_with_token(&self, token: &[u8]) -> Option<Caller> {
        let is_admin_token =
            self.token_hash.is_some_and(|hash| hashes_match(&hash, &checksum::digest(&[token])));
        if is_admin_token {
            return Some(Caller::operator(ActorKind::Operator));
        }
        let now_ms = clock::now_ms();
        let of_file = self.settings.file.load().caller_with_token(token, now_ms);
        of_file.or_else(|| self.settings.links.find(token, now_ms).map(Caller::with_link))
    }

    /// Returns the name of the person that a trusted proxy has signed in. A header of another peer does not count, and neither do
    /// two: a client can have sent one of them.
    fn person<'a>(&self, headers: &Headers<'a>, meta: &RequestMeta) -> Option<&'a str> {
        let field_name = self.settings.headers.name.as_deref()?;
        let is_trusted = forwarded::is_trusted(meta.peer, &self.settings.trusted_proxies);
        let name = negotiate::only_field(headers.section, field_name).filter(|_| is_trusted)?;
        std::str::from_utf8(name).ok().filter(|name| !name.is_empty())
    }

    /// Returns the client that is a person. A browser sends the cookie of the proxy with every request, also with one that the page
    /// of another site starts. So a change needs the own origin.
    fn signed_in<'a>(&self, name: &'a str, request: &Request<'a>) -> Result<Caller, Problem<'a>> {
        let headers = &request.headers;
        let is_own_page = headers.get(Field::Origin).is_some();
        if !is_own_page && !matches!(request.method, Method::Get | Method::Head) {
            let sentence = "A change by a person needs the header Origin with the address of the console.";
            return Err(Problem::new(problem::ORIGIN_NOT_ALLOWED, sentence));
        }
        if !is_own_page {
            check_origin(headers)?;
        }
        let groups = self.settings.headers.groups.as_deref();
        let groups = groups.and_then(|name| negotiate::only_field(headers.section, name));
        let groups = groups.and_then(|groups| std::str::from_utf8(groups).ok()).unwrap_or_default();
        let groups = groups.split(',').map(str::trim).filter(|group| !group.is_empty());
        self.settings.file.load().person(name, groups).ok_or_else(|| {
            let sentence = "The access file of the server does not list {}, neither by name nor by group.";
            Problem::with_value(problem::ACCESS_DENIED, sentence, name)
        })
    }

    /// Checks that the client may fetch a static file. `is_shell` says whether it is the page itself. The files hold no
    /// data and need no token. Without a token, they obey the rules against web pages of other origins.
    ///
    /// # Errors
    /// `origin_not_allowed`, `host_not_allowed`.
    pub(super) fn check_static<'a>(&self, request: &Request<'a>, is_shell: bool) -> Result<(), Problem<'a>> {
        if self.is_configured() {
            return Ok(());
        }
        let headers = &request.headers;
        // A link in a chat or a wiki opens the page. Nothing can read the result but the page itself.
        let is_link = is_shell && headers.get(Field::Origin).is_none() && is_top_level_navigation(headers);
        // A browser names the origin of the page when the page imports its modules.
        let is_own_page =
            headers.get(Field::Origin).is_some_and(|origin| is_own_origin(origin, request.host()));
        if !is_link && !is_own_page {
            check_origin(headers)?;
        }
        check_host(request)
    }

    fn wrong_token<'a>(&mut self, now: Instant) -> Problem<'a> {
        let is_repeated = self
            .wrong_token_at
            .is_some_and(|last| now.saturating_duration_since(last) < WRONG_TOKEN_INTERVAL);
        if is_repeated {
            return Problem::new(problem::RATE_LIMITED, "Too many wrong tokens; retry after 1 s.");
        }
        self.wrong_token_at = Some(now);
        let sentence = match self.has_file() {
            true => "The token is not a token of this server, or it has expired or was revoked.",
            false => "The token is not the token of --admin-token.",
        };
        Problem::new(problem::UNAUTHORIZED, sentence)
    }
}

fn check_without_token<'a>(request: &Request<'a>, meta: &RequestMeta) -> Result<(), Problem<'a>> {
    let headers = &request.headers;
    // A browser names its origin when the console erases, or asks for the changes of a snapshot. The answer then says which setting
    // is missing.
    let is_own_change = matches!(request.method, Method::Delete | Method::Post)
        && headers.get(Field::Origin).is_some_and(|origin| is_own_origin(origin, request.host()));
    if !is_own_change {
        check_origin(headers)?;
    }
    let refusal = match request.method {
        Method::Get | Method::Head if !meta.peer.to_canonical().is_loopback() => Some(
            "No admin token is configured, so only requests from loopback are answered; set one with --admin-token.",
        ),
        Method::Get | Method::Head if headers.is_forwarded() => Some(
            "No admin token is configured, so requests through a proxy are refused; set one with --admin-token.",
        ),
        Method::Get | Method::Head => None,
        _ => Some(
            "No admin token is configured, so only GET and HEAD are answered; start the server with \
             --admin-token TOKEN or PARALLAX_ADMIN_TOKEN, and send 'Authorization: Bearer TOKEN'.",
        ),
    };
    if let Some(sentence) = refusal {
        return Err(Problem::new(problem::UNAUTHORIZED, sentence));
    }
    check_host(request)
}

/// Returns whether a browser opens the response as a page in a tab.
fn is_top_level_navigation(headers: &Headers<'_>) -> bool {
    headers.get(Field::SecFetchMode) == Some(b"navigate")
        && negotiate::field(headers.section, b"sec-fetch-dest:") == Some(b"document")
}

/// Refuses a request that a browser marks as one of another origin.
fn check_origin<'a>(headers: &Headers<'a>) -> Result<(), Problem<'a>> {
    if let Some(origin) = headers.get(Field::Origin) {
        return Err(origin_not_allowed(origin));
    }
    if headers.get(Field::SecFetchSite).is_some_and(|site| matches!(site, b"cross-site" | b"same-site")) {
        let sentence =
            "The request comes from a page of another origin; the admin address serves only its own page.";
        return Err(Problem::new(problem::ORIGIN_NOT_ALLOWED, sentence));
    }
    Ok(())
}

/// Refuses a name that is not an IP address or localhost, because the DNS of a web page can point it to loopback.
fn check_host<'a>(request: &Request<'a>) -> Result<(), Problem<'a>> {
    let host = request.host().unwrap_or_default();
    if !is_ip_or_localhost(host) {
        let sentence = "The Host {} is not an IP address or localhost.";
        return Err(Problem::with_value(problem::HOST_NOT_ALLOWED, sentence, host));
    }
    Ok(())
}

fn origin_not_allowed(origin: &[u8]) -> Problem<'_> {
    let origin = std::str::from_utf8(origin).unwrap_or("(not UTF-8)");
    let sentence = "The request has the origin {}; the admin address serves only its own page.";
    Problem::with_value(problem::ORIGIN_NOT_ALLOWED, sentence, origin)
}

/// Returns whether `origin` is a page of this address, as the browser names it.
fn is_own_origin(origin: &[u8], host: Option<&str>) -> bool {
    let authority = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
    authority.is_some() && authority == host.map(str::as_bytes)
}

/// Returns the credentials of the Bearer scheme. The scheme's name is case-insensitive (RFC 9110 section
/// 11.1).
fn bearer_token(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, credentials) = authorization.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(credentials)
}

/// Compares hashes without an early exit, so that the time reveals nothing about the token.
fn hashes_match(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

/// Returns whether `host` is an IP address or localhost. A web page's own DNS can point any other name to
/// loopback.
fn is_ip_or_localhost(host: &str) -> bool {
    let without_port = host.rsplit_once(':').filter(|(_, p)| p.bytes().all(|b| b.is_ascii_digit()));
    let name = without_port.map_or(host, |(name, _)| name);
    let bare = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}
