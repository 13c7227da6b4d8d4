//! The visitors of one arm, and the sums of their metrics.

use super::arms::Arms;
use super::sums::MetricSums;

/// The visitors of an arm.
#[derive(Debug, Default, Clone)]
pub(crate) struct ArmCount {
    pub key: String,
    pub exposed: u64,
    /// The exposed visitors by the coverage at their first exposure: an index into the coverages of the first phase of the range.
    pub exposed_at: Vec<u64>,
    /// The exposed visitors with an error event since the exposure.
    pub errors: u64,
    /// The sums of each metric.
    pub sums: Vec<MetricSums>,
    /// For each bucket, the number of visitors whose first exposure is in the bucket.
    pub series: Vec<u64>,
    /// The time of the earliest exposure, in milliseconds.
    pub first_ms: Option<i64>,
}

/// Returns the counts with the keys of their arms. The known arms are in their order, and the others in that of their keys.
pub(super) fn named_arms(arms: &Arms, mut counts: Vec<ArmCount>, metric_count: usize) -> Vec<ArmCount> {
    counts.resize_with(arms.names().len(), ArmCount::default);
    let named = arms.names().iter().zip(counts).map(|(key, arm)| {
        let mut arm = ArmCount { key: key.clone(), ..arm };
        arm.sums.resize(metric_count, MetricSums::default());
        arm
    });
    let mut named: Vec<ArmCount> = named.collect();
    named[arms.known()..].sort_by(|a, b| a.key.cmp(&b.key));
    named
}
