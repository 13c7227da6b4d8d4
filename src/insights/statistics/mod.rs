//! The statistics of experiments, as pure functions.
//!
//! The input has three numbers for each arm: the number of visitors, the sum of the values, and the sum of the squares
//! of the values. The caller chooses the visitors, the metrics and the phases. The functions accept every input. If a
//! result is not finite, the result is `None`.
//!
//! [`metric::compare`] is the entry point. It summarizes each arm. It compares each arm with the baseline, unless it is
//! too early for the comparison. By default the interval of the change is valid even if the result is read several
//! times during the experiment. So a person who reads the result every day gets no additional false alarms.

pub mod cuped;
pub mod difference;
pub mod distributions;
pub mod many;
pub mod metric;
pub mod mismatch;
pub mod moments;
pub mod rates;
pub mod sample_size;
