//! Insights: exact counts of the events of the log, and comparisons of the arms of experiments.
//!
//! ```text
//! sealed segment --build--> column file --+
//! active segment --build--> columns ------+--scan--> rows of each visitor --count--> numbers --answer--> JSON, CSV
//! ```
//!
//! [`columns`] writes and reads column files, which [`columns::format`] specifies. [`questions`] answers questions
//! about page views, and has the code that all kinds of questions share. [`experiment`] answers questions about
//! experiments. [`zones`] answers questions about the zones of a page. [`journeys`] answers questions about the events of
//! visitors one after the other. [`visitor_list`] lists visitors. [`query`] chooses the module that answers a question.
//! [`compare`] compares the answers about two ranges. [`engine`] runs the threads
//! `insights` and `columns` of a server.
//!
//! Invariants: every number is exact. The recovery of the log does not need this module. The log writer runs no code of
//! this module. The thread of the requests parses questions, but does not answer them. This module knows no profiles.

mod columns;
mod compare;
pub(crate) mod engine;
mod engine_metrics;
mod experiment;
mod journeys;
mod query;
mod questions;
mod segment_filters;
pub mod statistics;
mod visitor_list;
mod zones;

pub use columns::amounts::Amount;
pub use columns::build::ColumnBuilder;
pub use columns::facts::RowFacts;
pub use columns::format::{COLUMN_TEXT_BYTES_MAX, COLUMN_TEXTS_MAX, PROPERTY_TEXT_BYTES_MAX};
pub(crate) use columns::format::{ColumnFileError, parse_column_file_name};
pub use columns::goals::SitesGoals;
pub(crate) use columns::installer;
pub use columns::installer::ColumnInstaller;
pub use columns::key::VisitorKey;
pub(crate) use columns::key::load_or_draw_key;
pub use columns::missing::MissingFiles;
pub use columns::reader::Columns;
pub use columns::store::ColumnStore;
pub(crate) use compare::COMPARE_PARAM;
pub use compare::{AskedQuery, COMPARED_LIMIT_MAX};
pub(crate) use experiment::{EXPERIMENT_PARAM_NAMES, EXPERIMENTS_PARAM_NAMES, KnownSite};
pub use experiment::{
    ExperimentQuestion, ExperimentsQuestion, KnownExperiment, METRICS_MAX, Places, PublishedExperiment,
    UNKNOWN_ARMS_MAX,
};
pub(crate) use journeys::JourneySubject;
pub use journeys::{
    EngagementQuestion, EventSelection, FUNNEL_LIMIT_MAX, FUNNEL_STEPS_MAX, FUNNEL_STEPS_MIN, FunnelQuestion,
    JourneyQuestion, PATHS_LEVELS, PATHS_LIMIT_MAX, PathsQuestion, RETENTION_BUCKETS_MAX, RetentionQuestion,
};
pub(crate) use query::Topic;
pub use query::{Query, answer_cached, answer_over};
pub use questions::answer::{Answer, Cell, CountedLog};
pub(crate) use questions::answer::{write_csv, write_csv_lines};
pub use questions::calendar::{BUCKETS_MAX, Comparison, Unit, Zone};
pub use questions::limits::{Limits, ScanError};
pub(crate) use questions::question::PARAM_NAMES;
pub use questions::question::{Filters, Group, LIMIT_MAX, LIST_BYTES_MAX, Question, QuestionError, Subject};
pub use questions::sealed::{AnswerCache, LogColumns};
pub use questions::site::{Attribution, SiteFacts};
pub use questions::steps::Step;
pub(crate) use segment_filters::SEGMENT_PARAM;
pub(crate) use visitor_list::VISITORS_PARAM_NAMES;
pub use visitor_list::{
    FoundVisitor, FoundVisitors, ListSource, SEARCH_MATCHES_MAX, SegmentFiles, TraitSearch,
    VISITORS_LIMIT_MAX, VisitorFinder, VisitorPage, VisitorsQuestion, answer_found, answer_visitors,
    list_visitors,
};
pub(crate) use zones::ZONES_PARAM_NAMES;
pub use zones::{ZONES_LIMIT_MAX, ZonesQuestion};
