//! The public endpoints, one file for each: HTTP request in, HTTP response out.
//!
//! A [`Handler`] belongs to one thread. `endpoint` matches the path of a request, `context` reads the site,
//! the route and the visitor from it, and `response` and `problem` write heads and bodies. `events` handles
//! the event endpoints in two steps, because the disk is between them: submit, then complete. `held` keeps
//! the requests that wait for a publication. All other requests are answered at once, from one catalog, into
//! the buffer of the connection. A GET allocates nothing here, except for explanations, visitor tokens, held requests, and the first
//! request for a list of routes.

mod answer_table;
mod browser_script;
mod class;
mod context;
mod endpoint;
mod event_environment;
mod event_sink;
mod events;
mod handler;
mod held;
mod library_settings;
#[cfg(not(feature = "server"))]
pub(crate) mod local;
mod openapi;
pub mod prepared_lists;
mod problem;
mod problem_page;
mod query;
mod rate_limit;
mod receipt;
mod resolve;
mod response;
mod routes;
mod rules;
mod scratch;
mod selection;
mod service;
mod shared_bytes;
mod site;
mod static_document;
pub mod token_bucket;
pub(crate) mod user_verifier;
mod variants;
pub(crate) mod visitor_token;

pub use endpoint::Poll;
pub(crate) use endpoint::{Endpoint, Outcome};
pub use event_sink::EventSink;
pub use handler::Handler;
pub(crate) use handler::ReadinessCheck;
pub use scratch::Settings;
pub use service::Service;
pub use shared_bytes::{SharedBytes, SharedParts};
pub(crate) use static_document::StaticDocument;
