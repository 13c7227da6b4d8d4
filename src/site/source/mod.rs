//! The source of a site: authoring types, their JSON Schema, reading, validation, and diagnostics for the
//! author.

mod condition_schema;
pub(crate) mod condition_vocabulary;
mod consistency;
pub mod diagnostics;
pub mod files;
pub(crate) mod item_reference;
mod json_schema;
pub mod pattern;
mod puck;
pub mod read;
pub mod schema;
mod syntax;
pub mod types;
pub mod validate;
#[cfg(feature = "server")]
pub(crate) mod watcher;
