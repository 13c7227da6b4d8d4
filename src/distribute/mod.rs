//! The distribution of snapshots: [`pull`] fills the snapshots directory from one source, so that all nodes serve
//! the same sites, and [`publish`] changes the source.
//!
//! | source | how a change is noticed | file |
//! |---|---|---|
//! | object store of JetStream | a watch reports each object and each delete marker | [`jetstream`] |
//! | bucket with the API of S3 | `current.json`, read every 500 ms with `If-None-Match` | [`bucket`] |
//! | directory of a web server, or of this machine | the same | [`http`] |
//!
//! # Invariants
//!
//! * A file appears in the directory complete, with the length and the hash that the source lists.
//! * A file is removed only for a delete marker, or if a valid list with at least one file lacks it. No error removes anything.
//! * A removal does not end a site because another file is damaged or late ([`mirror::is_removable`]).
//! * Files that were not pulled are never touched.

mod bucket;
mod http;
mod jetstream;
pub mod list;
pub mod mirror;
pub mod publish;
pub(crate) mod pull;
mod source;
