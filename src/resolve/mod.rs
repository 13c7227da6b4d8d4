//! Resolving: snapshot, visitor and request in, the bytes of the response body out. Pure: no HTTP, no
//! sockets, no clock.
//!
//! The steps: [`path`] parses the requested path. [`route`] finds the route. [`decide`] or [`variants`]
//! selects a variant of each zone, and [`experiments`] lists the experiments that decided. [`render`]
//! produces the bytes, with the items that [`content`] finds. [`explain`] gives the reasons.
//! [`audience_results`] finds the audiences of a known visitor without a request, and [`open_decision`] the variants that a zone can
//! show. [`change_count`] counts the known visitors that a publication concerns.

pub(crate) mod audience_results;
#[cfg(feature = "server")]
pub(crate) mod change_count;
pub(crate) mod content;
mod crawlers;
pub mod decide;
pub(crate) mod experiments;
pub(crate) mod explain;
#[cfg(feature = "server")]
pub(crate) mod open_decision;
pub mod path;
pub(crate) mod private_traits;
pub mod published_zones;
pub(crate) mod render;
pub(crate) mod route;
pub mod user_agent;
pub mod variants;
pub mod visitor_context;
