//! The endpoints: HTTP in, HTTP out. One file for each; what they share stands here and in
//! `call` (what a request asks), `respond` (what an answer says beside its body), `refuse`.
//!
//! A [`Desk`] belongs to one thread. It answers a request whole, without waiting, from one
//! catalog, into the connection's buffer; a GET allocates nothing here (explain excepted).

mod call;
mod desk;
mod query;
mod refuse;
mod resolve;
mod respond;
mod routes;
mod shown;
mod variants;

pub use desk::{Desk, Settings, Surface};

use crate::http::request::{Method, Request};
use crate::problem::{self, Problem};

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
}

impl Endpoint {
    /// The endpoint of a path; None where there is none.
    pub fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/resolve" => Self::Resolve,
            "/v1/variants" => Self::Variants,
            "/v1/routes" => Self::Routes,
            "/v1/query" => Self::Query,
            _ => return None,
        })
    }

    /// The value of `Allow`.
    const fn methods(self) -> &'static str {
        match self {
            Self::Resolve | Self::Variants | Self::Routes => "GET, HEAD, OPTIONS",
            Self::Query => "GET, HEAD, POST, OPTIONS",
        }
    }
}

/// The endpoint that a request is for.
///
/// # Errors
/// `unknown_endpoint`, `method_not_allowed`.
fn endpoint<'a>(request: &Request<'a>) -> Result<Endpoint, Problem<'a>> {
    let expected = "/v1/resolve, /v1/variants, /v1/routes or /v1/query";
    let unknown = Problem::new(problem::UNKNOWN_ENDPOINT, expected, request.path);
    let endpoint = Endpoint::of(request.path).ok_or(unknown)?;
    match (request.method, endpoint) {
        (Method::Get | Method::Head | Method::Options, _) | (Method::Post, Endpoint::Query) => Ok(endpoint),
        (Method::Post | Method::Other, _) => Err(Problem {
            allow: endpoint.methods(),
            ..Problem::missing(problem::METHOD_NOT_ALLOWED, endpoint.methods())
        }),
    }
}
