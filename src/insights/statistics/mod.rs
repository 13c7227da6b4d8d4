//! The statistics of experiments, as pure functions.
//!
//! The input is a few sums for each arm: the number of visitors, the sum of the values, and the sum of their squares.
//! The caller chooses the visitors, the metrics and the phases. A function accepts every input. If a result would not
//! be finite, it is absent.
//!
//! [`metric::compare`] is the entry point. It summarizes each arm, and compares it with the baseline unless the
//! comparison is too early. By default the interval of the change is valid at every look, so that daily looks raise no
//! additional false alarms.

pub mod difference;
pub mod distributions;
pub mod many;
pub mod metric;
pub mod mismatch;
pub mod moments;
pub mod rates;
pub mod sample_size;
