//! Published sites: from an author's directory to a snapshot file, and from the file to the served catalog.
//!
//! ```text
//! site directory --source: read, validate--> authoring types --compile--> snapshot file
//!                          `--> diagnostics (for the author)
//! snapshot file --snapshot: seal, map, verify--> Snapshot --catalog: versions, directory--> CurrentCatalog --> workers
//! content queries of a published site run in query/; typescript/ writes the types of a source
//! comparison/ compares two versions of a site
//! ```

pub mod catalog;
#[cfg(any(feature = "server", feature = "cli"))]
pub mod comparison;
pub mod compile;
pub mod experiment_metrics;
pub mod goals;
#[cfg(feature = "server")]
mod inotify;
pub mod profile_fields;
pub mod profile_values;
pub mod query;
pub mod segments;
pub mod snapshot;
pub mod source;
pub mod typescript;
