//! Insights: counts the events of the log, exactly, and compares the arms of experiments.
//!
//! ```text
//! segment --build--> column file --columns--> rows of a site, visitor by visitor --count--> numbers --answer--> JSON, CSV
//! active segment --tail--> the same in memory
//! ```
//!
//! [`question`] reads the parameters, [`store`] finds the columns of each segment, [`scan`] passes the rows of each
//! visitor to [`count`], and [`sql`] writes the query that gives the same numbers over an export. [`mod@format`]
//! specifies column files.
//!
//! Invariants: every number is exact. Nothing here is needed to recover the log. The threads of the log and of the
//! requests do no work for this module. It knows no HTTP and no profiles.

mod amounts;
mod answer;
mod ask;
mod build;
mod calendar;
mod columns;
mod count;
mod credits;
pub(crate) mod engine;
mod experiment;
mod facts;
mod format;
pub(crate) mod installer;
mod key;
mod missing;
mod packing;
pub(crate) mod question;
mod rows;
mod scan;
mod sealed;
mod site;
mod sql;
pub(crate) mod statistics;
mod store;
mod unknown;
mod unstored;
mod values;
mod visits;
mod zones;

pub use amounts::Amount;
pub(crate) use answer::write_csv;
pub use answer::{Answer, Cell};
pub use build::{ColumnBuilder, VisitorKey};
pub use calendar::{BUCKETS_MAX, Comparison, Unit, Zone};
pub use columns::Columns;
pub(crate) use experiment::{EXPERIMENT_PARAM_NAMES, EXPERIMENTS_PARAM_NAMES, KnownSite};
pub use experiment::{
    ExperimentQuestion, ExperimentsQuestion, KnownExperiment, METRICS_MAX, PARTS_MAX, PLACES_SHOWN_MAX,
    Places, PublishedExperiment, UNKNOWN_ARMS_MAX,
};
pub use facts::RowFacts;
pub(crate) use format::parse_column_file_name;
pub use format::{COLUMN_TEXT_BYTES_MAX, COLUMN_TEXTS_MAX, ColumnFileError};
pub use installer::{BuiltFrom, ColumnInstaller};
pub(crate) use key::load_or_draw_key;
pub use missing::MissingFiles;
pub(crate) use question::Topic;
pub use question::{
    Filters, Group, LIMIT_MAX, LIST_BYTES_MAX, PARAM_NAMES, Query, Question, QuestionError, Subject,
};
pub use scan::{Limits, ScanError};
pub use sealed::AnswerCache;
pub use site::SiteFacts;
pub use store::{ColumnStore, StoreError, answer_cached, answer_over};
pub use zones::{PublishedZone, ZONES_LIMIT_MAX, ZonesQuestion};
pub(crate) use zones::{ZONES_PARAM_NAMES, published_zones};
