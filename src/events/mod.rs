//! Decoding and validation of events: a request body becomes records for the log and one result per event.
//!
//! ```text
//! body --JsonParser--> Document --Submission::parse--> Submission --> the caller finds the site
//!      --EventValidator--> records, in order
//!                      `-> EventResults --> receipt, or problem
//! ```
//!
//! Everything here is a pure function of the body and an `RequestFacts`: no HTTP, no sockets, no clock. The
//! `Environment` trait supplies parsed User-Agents, route-style page paths, the hosts of the site and new
//! message IDs.
//!
//! Invariants:
//!
//! * An event is recorded, dropped with a reason, or rejected. An optional value that cannot be used is ignored and named. A rejection has a code, a JSON pointer and the
//!   expected value.
//! * Validation precedes the drop rules, so that developers see mistakes in events that would be dropped
//!   anyway.
//! * A recorded event is complete, except for the parts that section 10 of the interface removes.

pub(crate) mod changes;
pub(crate) mod context;
pub mod decode;
mod device;
pub mod document;
mod encode;
pub mod endpoint;
mod event;
#[cfg(feature = "server")]
pub mod export;
mod exposure;
pub mod identity;
pub mod ignored;
#[cfg(feature = "server")]
pub(crate) mod import;
pub mod ip;
mod kind;
mod location;
mod members;
mod nodes;
mod operations;
mod page;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
pub mod receipt;
pub mod refusal;
pub mod request;
mod sanitize;
mod scalars;
pub mod submission;
pub mod time;
mod touch;
pub(crate) mod variants;
pub(crate) mod visitor;
