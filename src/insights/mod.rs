//! Insights: counts the events of the log, exactly, and compares the arms of experiments.
//!
//! ```text
//! segment --build--> column file --columns--> rows of a site, visitor by visitor --count--> numbers --answer--> JSON, CSV
//! active segment --tail--> the same in memory
//! ```
//!
//! [`columns`] writes and reads column files, which [`columns::format`] specifies. [`questions`] reads the parameters
//! of a question, scans the rows of each visitor, and counts. [`experiment`] and [`zones`] answer questions about
//! experiments and about the zones of a page. [`engine`] runs the threads of a server.
//!
//! Invariants: every number is exact. Nothing here is needed to recover the log. The threads of the log and of the
//! requests do no work for this module. It knows no HTTP and no profiles.

mod columns;
pub(crate) mod engine;
mod experiment;
mod questions;
pub(crate) mod statistics;
mod unknown;
mod zones;

pub use columns::amounts::Amount;
pub use columns::build::{ColumnBuilder, VisitorKey};
pub use columns::facts::RowFacts;
pub(crate) use columns::format::parse_column_file_name;
pub use columns::format::{COLUMN_TEXT_BYTES_MAX, COLUMN_TEXTS_MAX, ColumnFileError};
pub(crate) use columns::installer;
pub use columns::installer::{BuiltFrom, ColumnInstaller};
pub(crate) use columns::key::load_or_draw_key;
pub use columns::missing::MissingFiles;
pub use columns::reader::Columns;
pub use columns::store::{ColumnStore, StoreError, answer_cached, answer_over};
pub(crate) use experiment::{EXPERIMENT_PARAM_NAMES, EXPERIMENTS_PARAM_NAMES, KnownSite};
pub use experiment::{
    ExperimentQuestion, ExperimentsQuestion, KnownExperiment, METRICS_MAX, PARTS_MAX, PLACES_SHOWN_MAX,
    Places, PublishedExperiment, UNKNOWN_ARMS_MAX,
};
pub(crate) use questions::answer::write_csv;
pub use questions::answer::{Answer, Cell};
pub use questions::calendar::{BUCKETS_MAX, Comparison, Unit, Zone};
pub(crate) use questions::question::Topic;
pub use questions::question::{
    Filters, Group, LIMIT_MAX, LIST_BYTES_MAX, PARAM_NAMES, Query, Question, QuestionError, Subject,
};
pub use questions::scan::{Limits, ScanError};
pub use questions::sealed::AnswerCache;
pub use questions::site::SiteFacts;
pub use zones::{PublishedZone, ZONES_LIMIT_MAX, ZonesQuestion};
pub(crate) use zones::{ZONES_PARAM_NAMES, published_zones};
