//! Snapshot, visitor and request to bytes. Pure: no HTTP, no sockets, no clock.
//!
//! The way of an answer: [`path`] > [`site`] (which route) > [`decide`] or [`variants`] (which
//! variant of each zone) > [`render`] (its bytes, with what [`content`] finds). [`explain`] tells why.

pub mod content;
pub mod decide;
pub mod explain;
pub mod path;
pub mod render;
pub mod route;
pub mod user_agent;
pub mod variants;
pub mod visitor_context;
