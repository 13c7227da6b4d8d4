//! The workloads, each by its name: what the site is, what is asked, beside what.

mod blog;
mod idle;
mod plain;
mod reload;
pub mod requests;
pub mod stage;

pub use self::idle::idle_10k;
pub use self::plain::{
    mixed, page, query, resolve_decided, resolve_forced, resolve_gzip, routes, track_batch, variants,
};
pub use self::reload::reload;
