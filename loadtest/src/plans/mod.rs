//! The plans: named workloads, each with its site, its requests and the sides that it compares.

mod blog;
mod idle;
mod plain;
pub mod plan_run;
mod reload;
pub mod requests;

pub use self::idle::idle_10k;
pub use self::plain::{
    mixed, page, query, resolve_decided, resolve_forced, resolve_gzip, routes, track_batch, variants,
};
pub use self::reload::reload;
