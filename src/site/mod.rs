//! Published sites: from an author's directory to a snapshot file, and from the file to the served catalog.
//!
//! ```text
//! site directory --source: read, validate--> authoring types --compile--> snapshot file
//!                          `--> diagnostics (for the author)
//! snapshot file --snapshot: seal, map, verify--> Snapshot --catalog: versions, directory--> CurrentCatalog --> workers
//! content queries of a published site run in query/
//! ```

pub mod catalog;
pub mod compile;
pub mod profile_fields;
pub mod query;
pub mod snapshot;
pub mod source;
