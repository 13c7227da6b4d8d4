//! HTTP syntax: request heads, query strings, bodies and response heads. Pure functions without sockets or
//! sites.

mod authority;
pub(crate) mod authorization;
pub(crate) mod body;
pub(crate) mod chunked;
pub(crate) mod cors;
pub(crate) mod date;
pub(crate) mod etag;
pub(crate) mod forwarded;
mod framing;
pub(crate) mod gzip;
pub mod head_parser;
pub mod headers;
pub mod input;
mod line_ends;
pub(crate) mod negotiate;
pub mod params;
pub(crate) mod problem_document;
pub mod refused_head;
pub mod request;
pub(crate) mod request_id;
pub(crate) mod response;
pub mod short_search;
mod target;
