//! The settings of a node: accepted and refused values, and files that the server checks before it starts.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::harness::temporary_directory;

/// Runs `serve` in an empty directory. Returns exit code, standard output and standard error.
fn serve(directory: &Path, flags: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
    let ours = std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| name.to_string_lossy().starts_with("PARALLAX_"));
    ours.for_each(|name| _ = command.env_remove(name));
    let output = command.current_dir(directory).arg("serve").args(flags).output().expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("a code"), text(output.stdout), text(output.stderr))
}

/// Returns the effective settings.
fn printed(flags: &[&str]) -> String {
    let (code, out, error) = serve(temporary_directory().path(), &[&["--print-config"], flags].concat());
    assert_eq!(code, 0, "{error}");
    out
}

/// Returns the error of a server that does not start.
fn refused(directory: &TempDir, flags: &[&str]) -> String {
    let (code, out, error) = serve(directory.path(), flags);
    assert_eq!((code, out.as_str()), (2, ""), "{flags:?}: {error}");
    error
}

/// Writes a file with this mode. Returns its path.
fn write(directory: &TempDir, name: &str, bytes: &[u8], mode: u32) -> String {
    let path = directory.path().join(name);
    fs::write(&path, bytes).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(mode)).expect("set");
    path.into_os_string().into_string().expect("UTF-8")
}

#[test]
fn a_state_of_an_earlier_release_ends_the_start_with_the_file_and_the_remedy() {
    // The programs before members, and before the log of the cluster.
    refuse_state("node-1", 1, ["00000000000000000017.checkpoint", "00000000000000000020.checkpoint"]);
    refuse_state("node-2", 2, ["00000000000000000001.checkpoint", "00000000000000000006.checkpoint"]);
}

/// Starts a node with a directory of an earlier program, and with its newest checkpoint as the file of `--bootstrap`.
fn refuse_state(name: &str, version: u32, [oldest, newest]: [&str; 2]) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let directory = temporary_directory();
    let data = directory.path().join("data");
    fs::create_dir(&data).expect("created");
    for entry in fs::read_dir(&golden).expect("a directory") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), data.join(entry.file_name())).expect("copied");
    }
    let secret = fs::read(golden.with_extension("cluster-secret")).expect("a file");
    let secret = write(&directory, "secret", &secret, 0o600);
    let bootstrap = golden.join(newest);
    let bootstrap = bootstrap.to_str().expect("UTF-8");
    let own =
        ["--data", "data", "--cluster", "nats://127.0.0.1:1", "--node", "a", "--cluster-secret", &secret];
    let other = [&own[..], &["--data", "empty", "--bootstrap", bootstrap]].concat();
    for (flags, file) in [(&own[..], oldest), (&other[2..], "--bootstrap")] {
        let error = refused(&directory, flags);
        assert!(error.contains(file) && error.contains(&format!("has version {version}")), "{error}");
        assert!(error.contains("found the cluster again with `parallax cluster found`"), "{error}");
    }
}

#[test]
fn a_node_without_a_checkpoint_of_its_own_needs_the_file_of_bootstrap() {
    let directory = temporary_directory();
    let secret = write(&directory, "secret", &[7; 32], 0o600);
    let cluster = ["--cluster", "nats://127.0.0.1:1", "--node", "a", "--cluster-secret", &secret];
    let error = refused(&directory, &[&cluster[..], &["--data", "data", "--bootstrap", "missing"]].concat());
    assert!(error.contains("cannot read --bootstrap missing: there is no such file"), "{error}");
    assert!(error.contains("copy the data directory of another node"), "{error}");
}

#[test]
fn a_directory_that_was_replaced_needs_take_over() {
    let directory = temporary_directory();
    let secret = write(&directory, "secret", &[7; 32], 0o600);
    let data = directory.path().join("data");
    fs::create_dir(&data).expect("created");
    fs::write(data.join("replaced"), "{\"node\":\"a\",\"position\":\"9\"}\n").expect("written");
    let flags =
        ["--data", "data", "--cluster", "nats://127.0.0.1:1", "--node", "a", "--cluster-secret", &secret];
    let error = refused(&directory, &flags);
    assert!(error.contains("data/replaced") && error.contains("--take-over"), "{error}");
    assert!(!data.join("node").exists(), "a refused start changes nothing of the node");
}

#[test]
fn a_server_is_alone_by_default() {
    let settings = printed(&[]);
    for line in [
        "#snapshots-from = ",
        "#cluster = ",
        "cluster-name = \"parallax\"  # default",
        "#node = ",
        "#cluster-secret = ",
        "return-timeout = \"50ms\"  # default",
        "start-alone = \"15m\"  # default",
        "take-over = false  # default",
        "#ready-lag = ",
        "#bootstrap = ",
    ] {
        assert!(settings.contains(&format!("\n{line}")), "{line}: {settings}");
    }
}

#[test]
fn sources_servers_and_names_have_accepted_and_refused_forms() {
    let directory = temporary_directory();
    for (flag, accepted, wrong) in [
        (
            "--snapshots-from",
            &[
                "nats://a/b",
                "tls://a:4222,b,[::1]:1/b_c-D",
                "s3://a",
                "s3://a/b/c",
                "http://a/",
                "https://a:8/b/c/",
                "file:///a",
            ][..],
            &[
                "",
                "a",
                "nats://a",
                "nats:///b",
                "nats://a/b/c",
                "nats://a/b.c",
                "nats://a,/b",
                "s3://",
                "http://",
                "https:///a/",
                "http://a/?b",
                "file://a/b",
                "file://",
                "ftp://a/",
            ][..],
        ),
        (
            "--cluster",
            &["nats://a", "tls://a:1,b:2,c"],
            &["", "a", "http://a", "nats://", "nats://a,,b", "nats://a/b", "nats://a:x"],
        ),
        (
            "--cluster-name",
            &["a", "A_b-9", &"a".repeat(64)],
            &["", "a.b", "a b", "a*", "a>", "ä", &"a".repeat(65)],
        ),
        ("--node", &["a", "controls"], &["", "control", "a.b", &"a".repeat(65)]),
        ("--cluster-monitor", &["http://a:8222", "http://a:1,https://b:2"], &["", "a:8222", "nats://a"]),
        (
            "--return-timeout",
            &["0ms", "50ms", "1s", "24h"],
            &["", "50", "ms", "-1s", "1.5s", "1d", "25h", "99999999999999999999s"],
        ),
        ("--start-alone", &["0s", "10m", "24h"], &["", "60", "25h"]),
        ("--ready-lag", &["0s", "5s"], &["", "5", "25h"]),
    ] {
        for value in accepted {
            assert!(printed(&[flag, value]).contains("# flag"), "{flag} {value}");
        }
        for value in wrong {
            let error = refused(&directory, &[&format!("{flag}={value}")]);
            assert!(error.contains(flag), "{flag}={value}: {error}");
        }
    }
}

#[test]
fn a_password_in_a_url_is_refused_without_printing_it() {
    let directory = temporary_directory();
    for (flag, url) in [
        ("--snapshots-from", "nats://user:hunter2@a/b"),
        ("--snapshots-from", "https://user:hunter2@a/b/"),
        ("--snapshots-from", "s3://user:hunter2@a"),
        ("--cluster", "tls://hunter2@a"),
    ] {
        let error = refused(&directory, &[flag, url]);
        assert!(
            error.contains(&format!("{flag} has a user or a password")) && !error.contains("hunter2"),
            "{error}"
        );
    }
}

#[test]
fn a_cluster_needs_a_secret_that_only_the_server_may_use() {
    let directory = temporary_directory();
    let cluster =
        |flags: &[&str]| refused(&directory, &[&["--cluster", "nats://127.0.0.1:1"], flags].concat());
    assert!(cluster(&[]).contains("--cluster needs --cluster-secret FILE"));
    assert!(cluster(&["--cluster-secret", "missing"]).contains("cannot read --cluster-secret missing"));
    for length in [0, 31, 33, 1_000] {
        let error = cluster(&["--cluster-secret", &write(&directory, "secret", &vec![7; length], 0o600)]);
        assert!(error.contains("expected 32"), "{length}: {error}");
    }
    for mode in [0o640, 0o604, 0o660, 0o644, 0o610, 0o700] {
        let error = cluster(&["--cluster-secret", &write(&directory, "open", &[7; 32], mode)]);
        assert!(
            error.contains(&format!("has the mode {mode:03o}")) && error.contains("chmod 600"),
            "{error}"
        );
    }
    for mode in [0o600, 0o400] {
        let secret = write(&directory, "good", &[7; 32], mode);
        let error = cluster(&["--cluster-secret", &secret, "--ack", "written"]);
        assert!(error.contains("--ack written is not possible with --cluster"), "{error}");
        // The secret is accepted: the next check is the one that fails.
        let error = cluster(&["--cluster-secret", &secret, "--cluster-ca", "missing"]);
        assert!(error.contains("cannot read --cluster-ca missing"), "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_or_lacks_its_partner_is_refused() {
    let directory = temporary_directory();
    for flag in ["--cluster-creds", "--cluster-nkey", "--cluster-ca"] {
        let error = refused(&directory, &["--snapshots-from", "nats://127.0.0.1:1/b", flag, "missing"]);
        assert!(error.contains(&format!("cannot read {flag} missing")), "{error}");
    }
    assert!(refused(&directory, &["--cluster-cert", "a"]).contains("--cluster-key"));
    assert!(refused(&directory, &["--cluster-key", "a"]).contains("--cluster-cert"));
    assert!(
        refused(&directory, &["--cluster-creds", "a", "--cluster-nkey", "b"]).contains("cannot be used with")
    );
}
