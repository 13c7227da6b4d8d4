//! The endpoints: HTTP in, HTTP out. One file for each; what they share stands here and in
//! `call` (what a request asks), `respond` (what an answer says beside its body), `refuse`.
//!
//! A [`Desk`] belongs to one thread. It answers a request whole, without waiting, from one
//! catalog, into the connection's buffer; a GET allocates nothing here (explain excepted).

mod context;
mod events;
mod handler;
mod openapi;
mod problem;
mod query;
mod rate_limit;
mod receipt;
mod resolve;
mod response;
mod routes;
mod selection;
pub mod token_bucket;
mod variants;

pub use events::Recorder;
pub use handler::{Desk, Settings};

use crate::visitors::events::endpoint::Endpoint as EventEndpoint;

use crate::http::request::{Method, Request, Surface};
use crate::problem::{Kind, METHOD_NOT_ALLOWED, Problem, UNKNOWN_ENDPOINT};

/// What a URL of ours does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// `GET /v1/resolve`
    Resolve,
    /// `GET /v1/variants`
    Variants,
    /// `GET /v1/routes`
    Routes,
    /// `GET` and `POST /v1/query`
    Query,
    /// `GET /v1/openapi.json`
    OpenApi,
    /// `POST /v1/page`
    Page,
    /// `POST /v1/track`
    Track,
    /// `POST /v1/batch` and the other names under which libraries send events.
    Batch,
}

/// What was done with a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Answered {
    /// Where it went; None: nowhere that there is.
    pub endpoint: Option<Endpoint>,
    /// Why it was refused, if it was.
    pub refused: Option<&'static Kind>,
}

/// How far an answer is.
#[derive(Debug, Clone, Copy)]
pub enum Progress {
    /// It was appended.
    Answered(Answered),
    /// It waits for the log, under this token.
    Waits(usize),
}

impl Progress {
    const fn refused(endpoint: Option<Endpoint>, kind: &'static Kind) -> Self {
        Self::Answered(Answered { endpoint, refused: Some(kind) })
    }
}

impl Endpoint {
    /// Every endpoint of Edge, each at its own index.
    pub const ALL: [Self; 8] = [
        Self::Resolve,
        Self::Variants,
        Self::Routes,
        Self::Query,
        Self::OpenApi,
        Self::Page,
        Self::Track,
        Self::Batch,
    ];

    /// The endpoint of a path; None where there is none.
    pub fn of(path: &str) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|endpoint| endpoint.path() == path);
        known.or_else(|| {
            Some(match EventEndpoint::at(path)? {
                EventEndpoint::Page => Self::Page,
                EventEndpoint::Track => Self::Track,
                _ => Self::Batch,
            })
        })
    }

    /// Its path.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Resolve => "/v1/resolve",
            Self::Variants => "/v1/variants",
            Self::Routes => "/v1/routes",
            Self::Query => "/v1/query",
            Self::OpenApi => "/v1/openapi.json",
            Self::Page => "/v1/page",
            Self::Track => "/v1/track",
            Self::Batch => "/v1/batch",
        }
    }

    /// What stands in its path, for names made of it.
    const fn name(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Variants => "variants",
            Self::Routes => "routes",
            Self::Query => "query",
            Self::OpenApi => "openapi",
            Self::Page => "page",
            Self::Track => "track",
            Self::Batch => "batch",
        }
    }

    /// Whether an address that serves `surface` has it.
    fn is_served_at(self, surface: Surface) -> bool {
        match surface {
            Surface::Public => true,
            Surface::Events => self.records(),
            Surface::Edge | Surface::Admin => !self.records(),
        }
    }

    /// Whether it takes `method`.
    fn takes(self, method: Method) -> bool {
        match method {
            Method::Get | Method::Head => !self.records(),
            Method::Post => self.records() || self == Self::Query,
            Method::Options => true,
            Method::Delete | Method::Other => false,
        }
    }

    fn records(self) -> bool {
        matches!(self, Self::Page | Self::Track | Self::Batch)
    }

    /// The value of `Allow`: the methods that it takes.
    const fn methods(self) -> &'static str {
        match self {
            Self::Resolve | Self::Variants | Self::Routes | Self::OpenApi => "GET, HEAD, OPTIONS",
            Self::Query => "GET, HEAD, POST, OPTIONS",
            Self::Page | Self::Track | Self::Batch => "POST, OPTIONS",
        }
    }
}

/// The endpoint that a request to `surface` is for.
///
/// # Errors
/// `unknown_endpoint`, `method_not_allowed`.
fn endpoint<'a>(request: &Request<'a>, surface: Surface) -> Result<Endpoint, Problem<'a>> {
    let expected = match surface {
        Surface::Events => "/v1/page or /v1/track; pages have an address of their own",
        Surface::Edge | Surface::Admin => {
            "/v1/resolve, /v1/variants, /v1/routes, /v1/query or /v1/openapi.json; events have an address of their own"
        }
        Surface::Public => {
            "/v1/resolve, /v1/variants, /v1/routes, /v1/query, /v1/page, /v1/track or /v1/openapi.json"
        }
    };
    let unknown = Problem::new(UNKNOWN_ENDPOINT, expected, request.path);
    let endpoint =
        Endpoint::of(request.path).filter(|endpoint| endpoint.is_served_at(surface)).ok_or(unknown)?;
    let methods = endpoint.methods();
    debug_assert_eq!(
        endpoint.takes(request.method),
        methods.split(", ").any(|method| method == request.method.name())
    );
    match endpoint.takes(request.method) {
        true => Ok(endpoint),
        false => Err(Problem { allow: methods, ..Problem::missing(METHOD_NOT_ALLOWED, methods) }),
    }
}
