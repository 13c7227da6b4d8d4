//! Memory limits: the memory of the machine and of its control groups, and the defaults that fit it.

use std::fs;
use std::path::Path;
use std::process::Command;

use clap::Parser;
use parallax::testing::config::Config;
use parallax::testing::limits::{
    BODIES_DEFAULT, CONNECTIONS_DEFAULT, DEDUP_DEFAULT, INSIGHTS_DEFAULT, OUTPUT_POOL_DEFAULT,
    PROFILES_MEMORY_BYTES_DEFAULT, PROFILES_MEMORY_BYTES_MIN, RESPONSES_DEFAULT, SNAPSHOTS_MEMORY_BYTES_MIN,
    VERSIONS_DEFAULT,
};
use parallax::testing::server::{Machine, MemoryPlan};
use parallax::testing::storage::machine_memory_bytes;
use tempfile::TempDir;

use crate::harness::{Server, temporary_directory};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// `MemTotal` of a machine of 2 GB. The rest is the kernel's.
const TWO_GB: u64 = 1_930 * MIB;

/// Writes the files of a system with 24 GiB of memory below a root directory.
fn system(cgroup: &str, limits: &[(&str, &str)]) -> TempDir {
    let root = temporary_directory();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("created");
        fs::write(path, text).expect("written");
    };
    write("proc/meminfo", &format!("MemTotal:       {} kB\nMemFree:         1234 kB\n", 24 * MIB));
    write("proc/self/cgroup", cgroup);
    limits.iter().for_each(|(path, text)| write(&format!("sys/fs/cgroup/{path}"), text));
    root
}

#[test]
fn the_memory_is_that_of_the_machine_or_of_its_smallest_control_group() {
    let v1 = "5:cpu,cpuacct:/a\n4:memory:/docker/12ab\n1:name=systemd:/docker/12ab\n";
    let unlimited = "9223372036854771712\n";
    for (cgroup, limits, expected) in [
        ("", &[][..], 24 * GIB),
        // Version 2.
        ("0::/\n", &[("memory.max", "max\n")], 24 * GIB),
        ("0::/\n", &[("memory.max", "2147483648\n")], 2 * GIB),
        ("0::/a/b.service\n", &[("a/b.service/memory.max", "3221225472\n")], 3 * GIB),
        (
            "0::/a/b.service\n",
            &[("a/memory.max", "2147483648\n"), ("a/b.service/memory.max", "max\n")],
            2 * GIB,
        ),
        ("0::/a/b\n", &[("a/memory.max", "4294967296\n"), ("a/b/memory.max", "3221225472\n")], 3 * GIB),
        ("0::/a/b\n", &[("a/memory.max", "2147483648\n"), ("a/b/memory.max", "3221225472\n")], 2 * GIB),
        ("0::/a\n", &[("a/memory.max", "999999999999\n")], 24 * GIB),
        ("0::/a\n", &[("b/memory.max", "2147483648\n"), ("a/memory.max", "junk\n")], 24 * GIB),
        // A group outside of the container.
        ("0::/../other\n", &[("memory.max", "2147483648\n")], 2 * GIB),
        // Version 1.
        (v1, &[("memory/docker/12ab/memory.limit_in_bytes", "2147483648\n")], 2 * GIB),
        (v1, &[("memory/docker/12ab/memory.limit_in_bytes", unlimited)], 24 * GIB),
        (
            v1,
            &[
                ("memory/docker/memory.limit_in_bytes", "3221225472\n"),
                ("memory/docker/12ab/memory.limit_in_bytes", unlimited),
            ],
            3 * GIB,
        ),
        // In a container, the path is that of the host, and the group is at the top.
        (v1, &[("memory/memory.limit_in_bytes", "2147483648\n")], 2 * GIB),
        (v1, &[("cpu,cpuacct/a/memory.limit_in_bytes", "2147483648\n")], 24 * GIB),
        // Both versions, as some systems have them.
        (
            "4:memory:/x\n0::/x\n",
            &[("memory/x/memory.limit_in_bytes", "2147483648\n"), ("unified/x/memory.max", "1\n")],
            2 * GIB,
        ),
        (
            "4:hugetlb,memory:/x\n0::/x\n",
            &[("memory/x/memory.limit_in_bytes", "3221225472\n"), ("x/memory.max", "2147483648\n")],
            2 * GIB,
        ),
    ] {
        let root = system(cgroup, limits);
        assert_eq!(machine_memory_bytes(root.path()), Some(expected), "{cgroup:?} {limits:?}");
    }
}

#[test]
fn a_system_that_does_not_tell_its_memory_has_the_memory_of_its_control_group_or_none() {
    let root = system("0::/a\n", &[("a/memory.max", "2147483648\n")]);
    for meminfo in ["", "MemTotal: x kB\n", "MemTotal: 1234\n", "MemFree: 1 kB\n"] {
        fs::write(root.path().join("proc/meminfo"), meminfo).expect("written");
        assert_eq!(machine_memory_bytes(root.path()), Some(2 * GIB), "{meminfo:?}");
    }
    fs::remove_dir_all(root.path().join("sys")).expect("removed");
    assert_eq!(machine_memory_bytes(root.path()), None);
    assert_eq!(machine_memory_bytes(Path::new("/nowhere")), None);
    assert!(
        machine_memory_bytes(Path::new("/")).is_some_and(|bytes| bytes > 64 * MIB),
        "this machine tells it"
    );
}

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    config: Config,
}

fn plan(memory_bytes: Option<u64>, workers: usize, flags: &[&str]) -> MemoryPlan {
    let config = Flags::parse_from([&["parallax"], flags].concat()).config;
    MemoryPlan::new(
        &config,
        Machine { memory_bytes, workers, descriptors: 1_048_576, admin_connections: 256 },
    )
}

fn sum(plan: &MemoryPlan) -> u64 {
    plan.terms(plan.params().connections_max).iter().map(|term| term.bytes).sum()
}

#[test]
fn the_defaults_fit_every_machine_from_2_gb_on() {
    for (machine, workers) in [
        (TWO_GB, 1),
        (TWO_GB, 2),
        (2 * GIB, 2),
        (3 * GIB, 2),
        (4 * GIB, 2),
        (4 * GIB, 4),
        (8 * GIB, 4),
        (16 * GIB, 8),
        (24 * GIB, 2),
        (24 * GIB, 16),
        (64 * GIB, 32),
        (256 * GIB, 64),
        (2_048 * GIB, 256),
    ] {
        let plan =
            plan(Some(machine), workers, &["--rate-limit-per-ip", "10", "--rate-limit-per-site", "10"]);
        let params = plan.params();
        assert!(sum(&plan) <= machine, "{} of {} MiB: {params:?}", sum(&plan) / MIB, machine / MIB);
        assert!(params.profiles_bytes > PROFILES_MEMORY_BYTES_MIN, "{machine}: {params:?}");
        assert!(params.snapshots_bytes > SNAPSHOTS_MEMORY_BYTES_MIN, "{machine}: {params:?}");
        // Nine tenths of the rest are shared out.
        let rest = machine - (sum(&plan) - params.snapshots_bytes - params.table_bytes);
        assert!(params.snapshots_bytes + params.table_bytes > rest / 100 * 85, "{machine}: {params:?}");
    }
}

#[test]
fn a_machine_of_24_gib_has_the_largest_defaults() {
    let plan = plan(Some(24 * GIB), 2, &[]);
    let params = plan.params();
    assert_eq!((params.connections_max, plan.dedup_ids_max), (65_536, 10_000_000));
    assert_eq!((plan.responses_bytes_per_worker, plan.bodies_bytes_per_worker), (256 << 20, 192 << 20));
    assert_eq!((params.versions_bytes, params.insights_bytes), (256 * MIB, 128 * MIB));
    assert!(params.profiles_bytes > 6 * GIB && params.snapshots_bytes > 9 * GIB, "{params:?}");
}

#[test]
fn each_default_is_a_part_of_the_memory_between_its_bounds() {
    for (default, divisor) in [
        (CONNECTIONS_DEFAULT, 32),
        (RESPONSES_DEFAULT, 32),
        (BODIES_DEFAULT, 32),
        (INSIGHTS_DEFAULT, 32),
        (VERSIONS_DEFAULT, 64),
        (DEDUP_DEFAULT, 16),
        (OUTPUT_POOL_DEFAULT, 128),
    ] {
        let (min, max) = (default.bytes_min, default.bytes_max);
        let of = |bytes: u64| default.bytes(Some(bytes * divisor));
        assert_eq!([of(0), of(min - 1), of(min), of(min + 1)], [min, min, min, min + 1]);
        assert_eq!([of(max - 1), of(max), of(max + 1), of(u64::MAX / divisor)], [max - 1, max, max, max]);
        assert_eq!(default.bytes(None), max, "the system does not tell its memory");
    }
}

#[test]
fn settings_win_over_the_defaults_and_a_share_is_part_of_the_rest() {
    let machine = Some(24 * GIB);
    let default = plan(machine, 2, &[]);
    let profiles = |flags: &[&str]| plan(machine, 2, flags).params().profiles_bytes;
    assert_eq!(profiles(&["--profiles-memory", "40%"]), default.params().profiles_bytes);
    assert!(profiles(&["--profiles-memory", "20%"]).abs_diff(default.params().profiles_bytes / 2) < MIB);
    assert_eq!(profiles(&["--profiles-memory", "1GiB"]), GIB);
    assert_eq!(profiles(&["--profiles-memory", "1"]), 1);
    // Larger profiles leave less to snapshots, unless a setting states that too.
    let large = plan(machine, 2, &["--profiles-memory", "14GiB"]);
    assert!(large.params().snapshots_bytes < default.params().snapshots_bytes / 2, "{:?}", large.params());
    assert!(sum(&large) <= 24 * GIB);
    let both = plan(machine, 2, &["--profiles-memory", "14GiB", "--snapshots-memory", "9GiB"]);
    assert_eq!(both.params().snapshots_bytes, 9 * GIB);
    assert!(sum(&both) > 24 * GIB);
    let flags = [
        "--connections",
        "7",
        "--connections-memory",
        "64MiB",
        "--bodies-memory",
        "32MiB",
        "--insights-memory",
        "0",
    ];
    let set = plan(machine, 2, &flags);
    assert_eq!((set.params().connections_max, set.params().insights_bytes), (7, 0));
    assert_eq!((set.responses_bytes_per_worker, set.bodies_bytes_per_worker), (32 << 20, 16 << 20));
    assert!(set.params().profiles_bytes > default.params().profiles_bytes, "the rest is larger");
    let unknown = plan(None, 2, &[]);
    assert_eq!(unknown.params().profiles_bytes, PROFILES_MEMORY_BYTES_DEFAULT);
}

#[test]
fn a_machine_that_is_too_small_has_the_least_limits() {
    let plan = plan(Some(512 * MIB), 2, &[]);
    let params = plan.params();
    let least = (PROFILES_MEMORY_BYTES_MIN, SNAPSHOTS_MEMORY_BYTES_MIN);
    assert_eq!((params.profiles_bytes, params.snapshots_bytes), least);
    assert!(sum(&plan) > 512 * MIB);
}

#[test]
fn a_share_of_a_node_is_at_least_the_default_of_a_new_era() {
    if !cfg!(feature = "cluster") {
        return;
    }
    let node = |machine| plan(Some(machine), 2, &["--cluster", "nats://127.0.0.1"]).params().profiles_bytes;
    assert_eq!(node(TWO_GB), PROFILES_MEMORY_BYTES_DEFAULT);
    assert_eq!(node(24 * GIB), plan(Some(24 * GIB), 2, &[]).params().profiles_bytes);
}

/// Returns the log of a server on a machine of 2 GB. `None` if this user cannot pretend that.
fn log_on_two_gb(flags: &[&str]) -> Option<String> {
    let directory = temporary_directory();
    let meminfo = directory.path().join("meminfo");
    fs::write(&meminfo, format!("MemTotal: {} kB\n", TWO_GB / 1024)).expect("written");
    let script = format!("mount --bind {} /proc/meminfo && exec \"$@\"", meminfo.display());
    let starter = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    let can = Command::new(starter[0]).args(&starter[1..]).arg("true").status();
    if !can.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: only root can mount another /proc/meminfo");
        return None;
    }
    Some(Server::start_through(&starter, &[], flags).log())
}

/// Returns the number after this name in a log line.
fn number_after(line: &str, name: &str) -> u64 {
    let digits = line.split(name).nth(1).and_then(|rest| rest.split(' ').next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{name}: {line}"))
}

#[test]
fn a_server_on_a_machine_of_2_gb_starts_with_a_limit_that_fits() {
    let Some(log) = log_on_two_gb(&[]) else { return };
    let line = log.lines().find(|line| line.contains(" memory limit ")).expect("the line");
    assert!(number_after(line, "total_mib=") <= TWO_GB / MIB, "{line}");
    assert!(!log.contains("is above the memory of the machine"), "{log}");
}

#[test]
fn a_limit_above_the_memory_of_the_machine_is_a_warning_with_both_numbers() {
    let Some(log) = log_on_two_gb(&["--profiles-memory", "4GiB"]) else { return };
    let line =
        log.lines().find(|line| line.contains("is above the memory of the machine")).expect("the line");
    assert!(line.contains("WARN") && line.contains("lower --profiles-memory"), "{line}");
    assert!(number_after(line, "total_mib=") > 4_096, "{line}");
    assert_eq!(number_after(line, "machine_mib="), TWO_GB / MIB);
}
