//! The memory of the machine, and the settings of the allocator.

use std::fs;
use std::path::Path;

use crate::config::Config;
use crate::limits::SNAPSHOTS_MEMORY_BYTES_DEFAULT;
use crate::limits::memory_sum::Term;

/// The control groups of the system (cgroups(7), version 2). A container is one.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// Size from which glibc maps a buffer alone and unmaps it when it is freed, in bytes. It is glibc's own first
/// value. glibc raises it when such a buffer is freed. Then the buffers of slow readers are in the heap, and a
/// small allocation above them keeps their memory after these clients are gone.
#[cfg(target_env = "gnu")]
const MAPPED_BUFFER_BYTES_MIN: i32 = 128 * 1024;

/// Keeps the size from which buffers are mapped alone.
pub(super) fn fix_mapped_buffer_size() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two integers, may be called at any time, and reports an invalid value by its result.
    let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BUFFER_BYTES_MIN) };
}

/// Returns the memory limit for snapshots: the setting, else half of the memory that this process may use. The other
/// half is for profiles, events and the system.
pub(super) fn snapshots_memory_bytes(config: &Config) -> u64 {
    let default = || usable_memory_bytes().map_or(SNAPSHOTS_MEMORY_BYTES_DEFAULT, |bytes| bytes / 2);
    config.snapshots_memory.map_or_else(default, |size| size.0)
}

/// Returns the memory of the machine or of the smallest enclosing control group, in bytes. `None` if the
/// system does not tell it.
fn usable_memory_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_memory_bytes(&text));
    let group = fs::read_to_string("/proc/self/cgroup").ok();
    let path = group.as_ref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("0::/")));
    let groups = path.into_iter().flat_map(|path| Path::new(path).ancestors());
    let limits = groups.filter_map(|path| {
        let limit = fs::read_to_string(Path::new(CONTROL_GROUPS).join(path).join("memory.max")).ok()?;
        // The text of a group without a limit is `max`.
        limit.trim().parse().ok()
    });
    machine.into_iter().chain(limits).min()
}

/// Returns the line `MemTotal` of `/proc/meminfo` in bytes (proc_meminfo(5)).
fn total_memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Logs the memory limit, and that of each holder.
pub(super) fn log_sum(terms: &[Term]) {
    let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
    let sum: u64 = terms.iter().map(|term| term.bytes).sum();
    let parts: Vec<_> =
        terms.iter().map(|term| format!("{} {}", term.holder, mebibytes(term.bytes))).collect();
    tracing::info!(total_mib = mebibytes(sum), holders_mib = %parts.join(" + "), "memory limit");
}
