//! The public endpoints, and the endpoint of a request. Each path is matched here, once per request.

use super::problem_page;
use crate::events::endpoint::EventEndpoint;
use crate::http::request::{Method, Request, Surface};
use crate::problem::{Problem, ProblemKind, UNKNOWN_ENDPOINT};

/// An endpoint of the public interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// `GET /v1/resolve`
    Resolve,
    /// `GET /v1/variants`
    Variants,
    /// `GET /v1/routes`
    Routes,
    /// `GET /v1/site`
    Site,
    /// `GET` and `POST /v1/query`
    Query,
    /// `GET /v1/rules`
    Rules,
    /// `GET /v1/openapi.json`
    OpenApi,
    /// `GET /v1/parallax.js`
    BrowserScript,
    /// `GET /v1/problems/<code>`
    Problem,
    /// `GET /v1/health`
    Health,
    /// `GET /v1/projects/<trackingId>/settings`
    LibrarySettings,
    /// `POST /v1/page`, `/v1/track`, `/v1/batch`, and the other paths to which libraries send events.
    Events(EventEndpoint),
}

/// The result of a request, for metrics and the access log.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome {
    /// The endpoint that handled the request; `None` if no endpoint matched.
    pub endpoint: Option<Endpoint>,
    /// The problem that was sent instead of a result.
    pub problem: Option<&'static ProblemKind>,
}

/// The state of a response.
#[derive(Debug, Clone, Copy)]
pub enum Poll {
    /// The response was appended to the output buffer.
    Ready(Outcome),
    /// The request waits for the log or for a publication, under the number of its [`PendingToken`].
    Pending(usize),
}

/// A pending request of one handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PendingToken {
    /// Its events wait for the log. The token of the event sink.
    Events(usize),
    /// It waits for a publication. The token of the held requests.
    Held(usize),
}

impl PendingToken {
    /// Returns a number that no other pending request of the handler has. The numbers stay small, because the
    /// worker uses them as indices.
    pub(super) fn number(self) -> usize {
        match self {
            Self::Events(token) => token << 1,
            Self::Held(token) => token << 1 | 1,
        }
    }

    pub(super) fn from_number(number: usize) -> Self {
        if number & 1 == 0 { Self::Events(number >> 1) } else { Self::Held(number >> 1) }
    }
}

impl Poll {
    pub(super) const fn rejected(endpoint: Option<Endpoint>, kind: &'static ProblemKind) -> Self {
        Self::Ready(Outcome { endpoint, problem: Some(kind) })
    }
}

impl Endpoint {
    /// The endpoints that metrics and the access log distinguish, each at its [`Self::index`]. All event paths
    /// but those of page and track count as `/v1/batch`.
    pub const ALL: [Self; 14] = [
        Self::Resolve,
        Self::Variants,
        Self::Routes,
        Self::Query,
        Self::OpenApi,
        Self::Events(EventEndpoint::Page),
        Self::Events(EventEndpoint::Track),
        Self::Events(EventEndpoint::Batch),
        Self::Problem,
        Self::LibrarySettings,
        Self::Site,
        Self::BrowserScript,
        Self::Health,
        Self::Rules,
    ];

    /// Returns the endpoint of a path.
    pub fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/resolve" => Self::Resolve,
            "/v1/variants" => Self::Variants,
            "/v1/routes" => Self::Routes,
            "/v1/query" => Self::Query,
            "/v1/site" => Self::Site,
            "/v1/rules" => Self::Rules,
            "/v1/openapi.json" => Self::OpenApi,
            "/v1/parallax.js" => Self::BrowserScript,
            "/v1/health" => Self::Health,
            _ if path.starts_with(problem_page::PATH_PREFIX) => Self::Problem,
            _ if tracking_id_in_path(path).is_some() => Self::LibrarySettings,
            _ => Self::Events(EventEndpoint::from_path(path)?),
        })
    }

    /// Returns the index in [`Self::ALL`].
    pub const fn index(self) -> usize {
        match self {
            Self::Resolve => 0,
            Self::Variants => 1,
            Self::Routes => 2,
            Self::Query => 3,
            Self::OpenApi => 4,
            Self::Events(EventEndpoint::Page) => 5,
            Self::Events(EventEndpoint::Track) => 6,
            Self::Events(_) => 7,
            Self::Problem => 8,
            Self::LibrarySettings => 9,
            Self::Site => 10,
            Self::BrowserScript => 11,
            Self::Health => 12,
            Self::Rules => 13,
        }
    }

    /// Returns the path under which the endpoint is counted and logged.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Resolve => "/v1/resolve",
            Self::Variants => "/v1/variants",
            Self::Routes => "/v1/routes",
            Self::Site => "/v1/site",
            Self::Query => "/v1/query",
            Self::Rules => "/v1/rules",
            Self::OpenApi => "/v1/openapi.json",
            Self::BrowserScript => "/v1/parallax.js",
            Self::Health => "/v1/health",
            Self::Problem => "/v1/problems",
            Self::LibrarySettings => "/v1/projects",
            Self::Events(EventEndpoint::Page) => "/v1/page",
            Self::Events(EventEndpoint::Track) => "/v1/track",
            Self::Events(_) => "/v1/batch",
        }
    }

    /// Returns whether the endpoint belongs to the surface of events.
    pub(super) fn is_for_events(self) -> bool {
        matches!(self, Self::Events(_) | Self::LibrarySettings)
    }

    /// Returns whether a listener of `surface` serves the endpoint.
    fn is_served_at(self, surface: Surface) -> bool {
        let is_of_surface = match surface {
            Surface::Public => true,
            Surface::Events => self.is_for_events() || self == Self::Health,
            Surface::Edge => !self.is_for_events(),
            Surface::Admin | Surface::AdminWithoutPrivateTraits => {
                !self.is_for_events() && self != Self::Health
            }
        };
        is_of_surface || self == Self::Problem
    }

    fn accepts(self, method: Method) -> bool {
        let records = matches!(self, Self::Events(_));
        match method {
            Method::Get | Method::Head => !records,
            Method::Post => records || self == Self::Query,
            Method::Options => true,
            Method::Delete | Method::Other => false,
        }
    }

    /// Returns the accepted methods as a value of `Allow`.
    pub(super) const fn methods(self) -> &'static str {
        match self {
            Self::Resolve
            | Self::Variants
            | Self::Routes
            | Self::Site
            | Self::Rules
            | Self::OpenApi
            | Self::BrowserScript
            | Self::Health
            | Self::Problem
            | Self::LibrarySettings => "GET, HEAD, OPTIONS",
            Self::Query => "GET, HEAD, POST, OPTIONS",
            Self::Events(_) => "POST, OPTIONS",
        }
    }

    /// Returns the endpoint that serves a request to `surface`.
    ///
    /// # Errors
    /// `unknown_endpoint`, `method_not_allowed`.
    pub(super) fn of_request<'a>(request: &Request<'a>, surface: Surface) -> Result<Self, Problem<'a>> {
        let endpoint = Self::of(request.path).filter(|endpoint| endpoint.is_served_at(surface));
        let endpoint = endpoint.ok_or_else(|| unknown_endpoint(request.path, surface))?;
        let allow = endpoint.methods();
        debug_assert_eq!(
            endpoint.accepts(request.method),
            allow.split(", ").any(|method| method == request.method.name())
        );
        match endpoint.accepts(request.method) {
            true => Ok(endpoint),
            false => Err(Problem::method_not_allowed(request.method.subject(), allow)),
        }
    }
}

/// Returns the tracking ID in the path of a request for the settings of Segment's library; `None` for another path.
pub(super) fn tracking_id_in_path(path: &str) -> Option<&str> {
    let (tracking_id, file) = path.strip_prefix("/v1/projects/")?.split_once('/')?;
    matches!(file, "settings" | "settings.json").then_some(tracking_id)
}

fn unknown_endpoint<'a>(path: &'a str, surface: Surface) -> Problem<'a> {
    let sentence = match surface {
        Surface::Events => "{} is not an endpoint of this address, which serves /v1/page and /v1/track.",
        Surface::Edge | Surface::Admin | Surface::AdminWithoutPrivateTraits => {
            "{} is not an endpoint of this address, which serves /v1/resolve, /v1/variants, /v1/routes, /v1/site, \
             /v1/rules, /v1/query, /v1/openapi.json and /v1/parallax.js. Events have an address of their own."
        }
        Surface::Public => {
            "{} is not an endpoint; use /v1/resolve, /v1/variants, /v1/routes, /v1/site, /v1/rules, /v1/query, \
             /v1/page, /v1/track, /v1/openapi.json or /v1/parallax.js."
        }
    };
    Problem::with_value(UNKNOWN_ENDPOINT, sentence, path)
}
