//! The source of a site: authoring types, their JSON Schema, reading, validation, and diagnostics for the author.

mod consistency;
pub mod diagnostics;
pub mod files;
mod json_schema;
pub mod pattern;
pub mod read;
pub mod schema;
mod syntax;
pub mod types;
pub mod validate;
