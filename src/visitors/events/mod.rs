//! What was sent to the event endpoints, as records: bytes of a body in, a fate for each event out.
//!
//! ```text
//! body --Reader--> Document --Sent::of--> whom is it for? --the caller finds the site--> judge --> Record, each at once
//!                                                                                             `--> Fates --> receipt, or problem
//! ```
//!
//! Everything here is a pure function of the body and a [`Call`](decode::Call); no HTTP, no sockets, no clock. Whom a User-Agent belongs to,
//! how a page path is written, and new message IDs come from [`Outside`](decode::Outside).
//!
//! What always holds: an event is either recorded, dropped for a reason that is said, or refused with a code, a JSON pointer
//! and what was expected; a refusal goes before a drop, so that a mistake shows while it is made. Of an event that is
//! recorded nothing is lost but what section 10 of the interface takes out.

mod context;
pub mod decode;
pub mod document;
mod encode;
pub mod endpoint;
mod event;
pub mod export;
mod index;
pub mod ip;
mod kind;
mod members;
mod operations;
mod page;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod receipt;
pub mod refusal;
mod sanitize;
pub mod time;
mod variants;
pub mod visitor;
