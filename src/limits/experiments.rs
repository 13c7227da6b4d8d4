//! Limits of experiments and of their phases.

/// Length of the seed of an experiment, in characters: four keys. `compile` refuses a longer one, because every phase
/// keeps its seed.
pub const SEED_CHARS_MAX: usize = 256;
/// Number of phases of one experiment that are kept. A phase lasts days. Beyond it the oldest is dropped, and its
/// weights are unknown.
pub const PHASES_KEPT_MAX: usize = 16;
/// Number of changes of the coverage in one phase that are kept. A ramp has under 10. Beyond it the second one is dropped, so
/// that the phase keeps its begin.
pub const COVERAGES_KEPT_MAX: usize = 64;
/// Number of steps of one ramp. A month of daily steps fits. `compile` refuses more.
pub const RAMP_STEPS_MAX: usize = 32;
/// Number of kept phases of all experiments of all sites. Beyond it the oldest phases that are not served are dropped.
pub const PHASES_MAX: usize = 4_096;
/// Memory of all kept phases, 1 KiB for each. Beyond it phases are dropped as over their number.
pub(crate) const PHASES_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Size of the file `phases` in the data directory. The server writes no larger one, because phases are
/// smaller there than in memory. A larger file is damage and is not read.
pub const PHASES_FILE_BYTES_MAX: u64 = PHASES_BYTES_MAX as u64;
/// Number of enrolments of one ID, and of those that one event can add: a site rarely runs more experiments at the same time, and
/// `compile` warns beyond it. Beyond it the enrolment with the oldest latest exposure is dropped.
pub const ENROLMENTS_MAX: usize = 32;
