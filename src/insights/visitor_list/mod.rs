//! The list of visitors, sorted by their latest events.
//!
//! ```text
//! question --> latest: the selected events of each visitor --> count: the rows of a page, with their values
//!   --> answer: JSON and CSV, and sql: the same rows over an export
//! ```
//!
//! Column files have no IDs, only hashes. So [`records`] reads the IDs of the rows of a page from the segments of the log.

mod answer;
mod bounds;
mod count;
mod cursor;
mod found;
mod latest;
mod question;
mod records;
mod search;
mod sql;
mod ties;
mod values;

pub use answer::{ListSource, VisitorPage, answer_found, answer_visitors, list_visitors};
pub(crate) use question::PARAM_NAMES as VISITORS_PARAM_NAMES;
pub use question::{VISITORS_LIMIT_MAX, VisitorsQuestion};
pub use records::SegmentFiles;
pub use search::{FoundVisitor, FoundVisitors, SEARCH_MATCHES_MAX, TraitSearch, VisitorFinder};
