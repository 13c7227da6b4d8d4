//! The memory limits of a server: the settings, and defaults that fit the memory of the machine.
//!
//! Snapshots and visitor profiles get shares of the memory that all other limits leave. So the sum of the limits fits the
//! machine, unless settings state sizes that do not.

use crate::config::{Config, MemorySize};
use crate::limits::memory_sum::{CONNECTION_BYTES, MemoryParams, Term, sum, terms};
use crate::limits::{
    BODIES_DEFAULT, BODIES_MEMORY_BYTES_MIN, CONNECTIONS_DEFAULT, CONNECTIONS_MEMORY_BYTES_MIN,
    DEDUP_DEFAULT, DEDUP_ID_BYTES_MAX, INSIGHTS_DEFAULT, MemoryDefault, OUTPUT_POOL_DEFAULT,
    PROFILES_MEMORY_BYTES_DEFAULT, PROFILES_MEMORY_BYTES_MIN, RESPONSES_DEFAULT,
    SNAPSHOTS_MEMORY_BYTES_DEFAULT, SNAPSHOTS_MEMORY_BYTES_MIN, SNAPSHOTS_SHARE_DEFAULT, VERSIONS_DEFAULT,
};
use crate::log::DedupWindow;
use crate::visitors::store::table::memory_bytes_max;

/// The machine that a server runs on.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// Its memory, or that of the control group, in bytes. `None` if the system does not tell it.
    pub memory_bytes: Option<u64>,
    /// Worker threads.
    pub workers: usize,
    /// File descriptors of this process, each of which a connection needs.
    pub descriptors: usize,
    /// Open connections of the admin address.
    pub admin_connections: usize,
}

/// The memory limits of a server.
#[derive(Debug, Clone)]
pub struct MemoryPlan {
    machine: Machine,
    params: MemoryParams,
    /// Unsent responses of one worker, in bytes.
    pub responses_bytes_per_worker: usize,
    /// Request bodies of one worker, in bytes.
    pub bodies_bytes_per_worker: usize,
    /// IDs in the dedup window.
    pub dedup_ids_max: usize,
}

impl MemoryPlan {
    /// Plans the limits of a server with these settings.
    pub fn new(config: &Config, machine: Machine) -> Self {
        let default = |default: MemoryDefault| default.bytes(machine.memory_bytes);
        let of_worker = |total: u64, min: usize| (total as usize / machine.workers).max(min);
        let responses = config.connections_memory.map_or(default(RESPONSES_DEFAULT), |size| size.0);
        let bodies = config.bodies_memory.map_or(default(BODIES_DEFAULT), |size| size.0);
        let responses_bytes_per_worker = of_worker(responses, CONNECTIONS_MEMORY_BYTES_MIN);
        let bodies_bytes_per_worker = of_worker(bodies, BODIES_MEMORY_BYTES_MIN);
        let connections = default(CONNECTIONS_DEFAULT) as usize / CONNECTION_BYTES;
        let dedup_ids_max = (default(DEDUP_DEFAULT) / DEDUP_ID_BYTES_MAX) as usize;
        let rate_limits = [config.rate_limit_per_ip, config.rate_limit_per_site];
        let params = MemoryParams {
            workers: machine.workers,
            connections_max: config.connections.unwrap_or(connections).min(machine.descriptors),
            admin_connections_max: machine.admin_connections,
            budgets_bytes: machine.workers * (responses_bytes_per_worker + bodies_bytes_per_worker),
            rate_limits: rate_limits.into_iter().flatten().count(),
            versions_bytes: default(VERSIONS_DEFAULT),
            dedup_bytes: DedupWindow::memory_bytes(dedup_ids_max),
            output_pool_bytes: default(OUTPUT_POOL_DEFAULT),
            pulls_snapshots: config.pulls_snapshots(),
            insights_bytes: config.insights_memory.map_or(default(INSIGHTS_DEFAULT), |size| size.0),
            snapshots_bytes: 0,
            profiles_bytes: 0,
            table_bytes: memory_bytes_max(0),
        };
        let plan =
            Self { machine, params, responses_bytes_per_worker, bodies_bytes_per_worker, dedup_ids_max };
        plan.share_rest(config)
    }

    /// Gives visitor profiles and snapshots the memory that the other limits leave, as far as the settings state no sizes.
    fn share_rest(mut self, config: &Config) -> Self {
        let fixed_bytes = sum(&terms(&self.params));
        let free_bytes = self.machine.memory_bytes.map(|machine| machine.saturating_sub(fixed_bytes));
        // A node keeps the profiles of its cluster, whose default is the same size on all machines.
        let profiles_min =
            if config.is_node() { PROFILES_MEMORY_BYTES_DEFAULT } else { PROFILES_MEMORY_BYTES_MIN };
        let profiles_bytes = match (config.profiles_memory, free_bytes) {
            (MemorySize::Bytes(bytes), _) => bytes,
            // The table takes up to a sixth more than its profiles.
            (share, Some(free_bytes)) => (share.bytes_of(free_bytes) / 7 * 6).max(profiles_min),
            (MemorySize::Share(_), None) => PROFILES_MEMORY_BYTES_DEFAULT,
        };
        let table_bytes = memory_bytes_max(profiles_bytes);
        self.params = MemoryParams { profiles_bytes, table_bytes, ..self.params };
        let share = free_bytes.map_or(SNAPSHOTS_MEMORY_BYTES_DEFAULT, |free_bytes| {
            MemorySize::Share(SNAPSHOTS_SHARE_DEFAULT).bytes_of(free_bytes)
        });
        let taken_bytes = sum(&terms(&self.params));
        let rest_bytes =
            self.machine.memory_bytes.map_or(share, |machine| machine.saturating_sub(taken_bytes));
        let default = share.min(rest_bytes).max(SNAPSHOTS_MEMORY_BYTES_MIN);
        self.params.snapshots_bytes = config.snapshots_memory.map_or(default, |size| size.0);
        self
    }

    /// Returns the limits of all holders, as planned.
    pub fn params(&self) -> &MemoryParams {
        &self.params
    }

    /// Returns the limit of each holder with this number of connections, which the descriptors allow.
    pub fn terms(&self, connections_max: usize) -> Vec<Term> {
        terms(&MemoryParams { connections_max, ..self.params })
    }

    /// Logs the limit of each holder, and warns if the machine has less memory than all of them together.
    pub(super) fn log(&self, terms: &[Term]) {
        let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
        let parts: Vec<_> =
            terms.iter().map(|term| format!("{} {}", term.holder, mebibytes(term.bytes))).collect();
        let total_mib = mebibytes(sum(terms));
        tracing::info!(total_mib, holders_mib = %parts.join(" + "), "memory limit");
        if let Some(machine_mib) =
            self.machine.memory_bytes.map(|bytes| bytes >> 20).filter(|mib| total_mib > *mib)
        {
            tracing::warn!(
                total_mib,
                machine_mib,
                "the memory limit is above the memory of the machine or container; lower --profiles-memory or --snapshots-memory, or \
                 give it more memory"
            );
        }
    }
}
