//! The counters that event endpoints need, in place of all counters of a server. Nobody reads them.

#[path = "../metrics/event_counters.rs"]
mod event_counters;
#[path = "../metrics/readings.rs"]
mod readings;

pub use event_counters::EventCounters;
pub(crate) use readings::readings;
