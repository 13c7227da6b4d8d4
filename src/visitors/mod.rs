//! The visitors: the fold of the log to the profile of each visitor, the table of the profiles, and its checkpoints.
//!
//! ```text
//! record --apply--> profile: fold, merge --> store (table of visitors) <--> checkpoint
//!        `--> ties (entries of ownership)
//! ```
//!
//! [`apply`] folds each record into the profile of its owner, [`live`] is the table as the log writer uses it, and
//! [`lookup`] reads it from the workers. The rule of ties and owners is `events::identity`. [`ownership`] finds the
//! records of a visitor, and [`erasure`] erases them. [`erasure_list`] is a file with the erasures of a log.
//! [`refold`] finds the state of a visitor in the past. [`verify`] compares two checkpoints. [`backup`] copies a data
//! directory, and [`restored_erasures`] carries out erasures in the copy. [`folded_directory`] folds a data directory for a command,
//! and [`enrolment_counts`] counts the enrolments of a table.
//!
//! Invariants: the table is a function of the records in their order, of its hash key and of its memory limit. This
//! module knows no HTTP. Time comes from the records, or from a clock that the caller passes. Damaged bytes of a table
//! cause no panic.

pub mod apply;
#[cfg(feature = "server")]
mod audit_files;
#[cfg(feature = "server")]
pub(crate) mod backup;
#[cfg(feature = "server")]
pub mod checkpoint;
#[cfg(feature = "server")]
pub(crate) mod comparison;
#[cfg(feature = "server")]
pub(crate) mod enrolment_counts;
#[cfg(feature = "server")]
pub mod erasure;
#[cfg(feature = "server")]
pub(crate) mod erasure_list;
#[cfg(feature = "server")]
pub(crate) mod folded_directory;
#[cfg_attr(not(feature = "server"), path = "../hosted/live.rs")]
pub mod live;
#[cfg_attr(not(feature = "server"), path = "../hosted/lookup.rs")]
pub mod lookup;
#[cfg(feature = "server")]
pub(crate) mod migration;
#[cfg(feature = "server")]
pub mod ownership;
pub mod profile;
#[cfg(feature = "server")]
pub(crate) mod refold;
#[cfg(feature = "server")]
pub(crate) mod restored_erasures;
#[cfg_attr(not(feature = "server"), path = "../hosted/store.rs")]
pub mod store;
#[cfg_attr(not(feature = "server"), path = "../hosted/ties.rs")]
pub mod ties;
#[cfg(feature = "server")]
pub mod verify;
