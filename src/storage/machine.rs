//! The memory of the machine, or of the control group that limits the process.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// A memory that no machine has. A group of version 1 without a limit states a number above it.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// Returns the memory of the machine or of the smallest enclosing control group, in bytes. `None` if the system does not tell
/// it. `root` is the root directory of the system.
pub fn memory_bytes(root: &Path) -> Option<u64> {
    let machine = fs::read_to_string(root.join("proc/meminfo")).ok().and_then(|text| total_bytes(&text));
    machine.into_iter().chain(group_limits(root)).min()
}

/// Returns the line `MemTotal` of `/proc/meminfo` in bytes (proc_meminfo(5)).
fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Returns the limits of the control groups of this process, and of the groups around them (cgroups(7)).
///
/// In a container the path of the group can be that of the host, and the container has its own group at the top. So the top
/// counts too.
fn group_limits(root: &Path) -> Vec<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    groups
        .lines()
        .filter_map(group_of)
        .flat_map(|(top, file, path)| {
            let top = root.join("sys/fs/cgroup").join(top);
            let groups: Vec<PathBuf> = path.ancestors().map(|path| top.join(path).join(file)).collect();
            groups.into_iter().filter_map(|file| limit_in(&file))
        })
        .collect()
}

/// Returns the directory of a hierarchy of groups, the name of the file with a limit, and the path of the group, from a
/// line of `/proc/self/cgroup`. Version 2 has one hierarchy, which has no name in the line. Of version 1 it is the one of
/// the memory.
fn group_of(line: &str) -> Option<(&'static str, &'static str, PathBuf)> {
    let mut fields = line.splitn(3, ':').skip(1);
    let controllers = fields.next()?;
    let path = fields.next()?;
    let (top, file) = match controllers {
        "" => ("", "memory.max"),
        names if names.split(',').any(|name| name == "memory") => ("memory", "memory.limit_in_bytes"),
        _ => return None,
    };
    // Without `/` at the begin. A group outside of the container's has `..` there, and is not visible.
    let path = Path::new(path).components().filter(|part| matches!(part, Component::Normal(_))).collect();
    Some((top, file, path))
}

/// Reads the limit of one group. `None` if it has none: version 2 says `max`, and version 1 the largest number.
fn limit_in(limit_file: &Path) -> Option<u64> {
    let text = fs::read_to_string(limit_file).ok()?;
    text.trim().parse().ok().filter(|bytes| *bytes < UNLIMITED_BYTES)
}
