//! The source of a site: authoring types, their JSON Schema, reading, validation, and diagnostics for the
//! author.

mod condition_schema;
mod consistency;
pub(crate) mod diagnostics;
pub(crate) mod files;
pub(crate) mod item_reference;
mod json_schema;
pub(crate) mod pattern;
mod puck;
pub(crate) mod read;
pub(crate) mod schema;
mod syntax;
pub(crate) mod types;
pub(crate) mod validate;
pub(crate) mod watcher;
