//! The regular expressions of a site.

use rkyv::{Archive, Serialize};

/// The regular expressions of a site. Programs refer to them by index.
#[derive(Debug, Default, Archive, Serialize)]
pub struct SitePatterns {
    pub sources: Vec<String>,
    /// The tables of the sources, in the same order.
    pub tables: Vec<Vec<u8>>,
    /// The format of the tables. A server that reads another one builds the tables from the sources.
    pub table_format: u32,
}
