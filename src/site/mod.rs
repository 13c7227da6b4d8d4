//! Published sites: from an author's directory to a snapshot file, and from the file to the served catalog.
//!
//! ```text
//! site directory --source: read, validate--> authoring types --compile--> snapshot file
//!                          `--> diagnostics (for the author)
//! snapshot file --snapshot: seal, map, verify--> Snapshot --catalog: versions, directory--> CurrentCatalog --> workers
//! content queries of a published site run in query/; typescript/ writes the types of a source
//! ```

pub(crate) mod catalog;
pub(crate) mod compile;
pub(crate) mod experiment_metrics;
mod inotify;
pub(crate) mod profile_fields;
pub(crate) mod profile_values;
pub(crate) mod query;
pub(crate) mod snapshot;
pub(crate) mod source;
pub(crate) mod typescript;
