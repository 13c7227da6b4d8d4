//! Bytes to meaning and back: request heads, query strings, response heads. Pure; no sockets, no site.

pub mod authorization;
pub mod body;
pub mod chunked;
pub mod cors;
pub mod date;
pub mod forwarded;
pub mod input;
pub mod negotiate;
pub mod params;
pub mod request;
pub mod response;
