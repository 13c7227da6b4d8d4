//! What was published: from an author's folder to a file, and from the file to what is served.
//!
//! ```text
//! folder --files--> texts --read: syntax, shape, agreement--> source types --compile--> file
//!                           `------------- mistake ------------'
//! file --open: seal, map, check--> snapshot --shelf--> what is served --current--> workers
//! ```

mod agreement;
pub mod compile;
pub mod current;
pub mod fields;
pub mod files;
pub mod format;
mod keywords;
pub mod mistake;
pub mod open;
pub mod order;
pub mod params;
pub mod pattern;
pub mod read;
mod references;
pub mod schema;
pub mod search;
pub mod shape;
pub mod shelf;
pub mod source;
mod syntax;
pub mod table;
pub mod versions;
pub mod watch;
