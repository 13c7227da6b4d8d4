//! The class of a response: public or private. It decides caching and CORS, also those of problems.

use super::endpoint::Endpoint;
use crate::http::cors::Cors;
use crate::http::params::{Param, Params};
use crate::http::refused_head::RefusedHead;
use crate::http::request::{Method, Request};

/// The class of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseClass {
    /// The response is the same for every visitor and every client.
    Public,
    /// The response depends on the visitor, or records events.
    Private,
}

impl ResponseClass {
    /// Returns the class of the response to a request with these parameters.
    pub(super) fn of(endpoint: Endpoint, method: Method, params: &Params<'_>) -> Self {
        let explains = || params.get(Param::Explain).is_some_and(|value| value != "0");
        let is_public = match endpoint {
            Endpoint::Routes
            | Endpoint::Site
            | Endpoint::Rules
            | Endpoint::OpenApi
            | Endpoint::BrowserScript
            | Endpoint::Problem => true,
            Endpoint::Query => matches!(method, Method::Get | Method::Head),
            Endpoint::Resolve => {
                let is_forced = params.get_even_if_empty(Param::Variants).is_some();
                is_forced
                    && params.get(Param::Override).is_none()
                    && params.get(Param::Now).is_none()
                    && !explains()
            }
            Endpoint::Variants => params.get(Param::Include).is_some() && params.get(Param::Now).is_none(),
            Endpoint::Health | Endpoint::LibrarySettings | Endpoint::Events(_) => false,
        };
        if is_public { Self::Public } else { Self::Private }
    }

    /// Returns the class of the response to a request whose query string is not decoded.
    pub(super) fn of_request(request: &Request<'_>) -> Self {
        Self::of_undecoded(request.path, request.query, matches!(request.method, Method::Get | Method::Head))
    }

    /// Returns the class of the response to a request that is refused before it is parsed.
    pub(super) fn of_refused(head: &RefusedHead<'_>) -> Self {
        Self::of_undecoded(head.path, head.query, matches!(head.method, b"GET" | b"HEAD"))
    }

    /// Returns the class of an undecoded target. A path without an endpoint is public.
    fn of_undecoded(path: &str, query: &str, is_get: bool) -> Self {
        let value_of = |name: &str| {
            query
                .split('&')
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .find(|pair| pair.0 == name)
        };
        let is_given = |name: &str| value_of(name).is_some_and(|(_, value)| !value.is_empty());
        let is_public = match Endpoint::of(path) {
            None => true,
            Some(
                Endpoint::Routes
                | Endpoint::Site
                | Endpoint::Rules
                | Endpoint::OpenApi
                | Endpoint::BrowserScript
                | Endpoint::Problem,
            ) => true,
            Some(Endpoint::Query) => is_get,
            Some(Endpoint::Resolve) => {
                let explains = value_of("explain").is_some_and(|(_, value)| !matches!(value, "" | "0"));
                value_of("variants").is_some() && !is_given("override") && !is_given("now") && !explains
            }
            Some(Endpoint::Variants) => is_given("include") && !is_given("now"),
            Some(Endpoint::Health | Endpoint::LibrarySettings | Endpoint::Events(_)) => false,
        };
        if is_public { Self::Public } else { Self::Private }
    }

    /// Returns the CORS of a response of this class whose site is not known.
    pub(super) fn cors_before_site_known(self, origin: Option<&[u8]>) -> Cors<'_> {
        match self {
            Self::Public => Cors::Anyone,
            Self::Private => Cors::before_site_known(origin),
        }
    }
}

/// The audience of a problem.
#[derive(Debug, Clone, Copy)]
pub(super) enum Audience<'a> {
    /// Everyone. Shared caches may store some 404, by the tags of the site and of the page, as far as they are known.
    /// `route` is the page as requested, if the site was not looked up.
    Public { site: Option<&'a str>, route: Option<&'a str> },
    /// The client. Pages of other origins may read it as far as this allows.
    Private(Cors<'a>),
}

/// The circumstances in which a problem is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProblemContext<'a> {
    pub(super) audience: Audience<'a>,
    /// The version of the site, if an Edge request has found it.
    pub(super) version: Option<u64>,
    /// True if the site is a preview site, whose responses no shared cache keeps.
    pub(super) is_preview: bool,
}

impl<'a> From<Audience<'a>> for ProblemContext<'a> {
    fn from(audience: Audience<'a>) -> Self {
        Self { audience, version: None, is_preview: false }
    }
}

impl<'a> Audience<'a> {
    /// Returns the audience of a problem of a request whose site is not known.
    pub(super) fn before_site_known(class: ResponseClass, origin: Option<&'a [u8]>) -> Self {
        match class {
            ResponseClass::Public => Self::Public { site: None, route: None },
            ResponseClass::Private => Self::Private(Cors::before_site_known(origin)),
        }
    }
}
