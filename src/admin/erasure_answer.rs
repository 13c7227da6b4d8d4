//! The answers to erasures.

use serde_json::{Value as Json, json};

use crate::insights::engine::JobError;
use crate::log::{EraseError, ErasureSummary};
use crate::problem;
use crate::visitors::erasure::ErasureError;

/// Returns the refusal of an erasure that has failed.
pub(super) fn failed_erasure(error: &ErasureError) -> JobError {
    let kind = match error {
        ErasureError::Log(EraseError::Busy | EraseError::BackupRuns | EraseError::Changed) => {
            problem::OVERLOADED
        }
        ErasureError::Log(EraseError::Stopped) => problem::DRAINING,
        _ => problem::DISK_UNAVAILABLE,
    };
    JobError { kind, detail: format!("The erasure failed: {error}; retry it.") }
}

/// Returns the body of the answer to an erasure.
pub(super) fn erasure_json(summary: &ErasureSummary) -> Json {
    let counts = json!({
        "records": summary.records, "redacted": summary.redacted, "segments": summary.segments
    });
    json!({ "erased": counts, "seq": summary.seq.to_string() })
}
