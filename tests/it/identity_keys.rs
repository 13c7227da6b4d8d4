//! The file of `--identity-keys`: its form, its limits, its rotation, and the warnings about sites without a key.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use data_encoding::HEXLOWER;
use parallax::testing::checksum::hmac_sha256;
use parallax::testing::config::key_file;
use parallax::testing::identity_keys::{IdentityKeys, UserRule};
use parallax::testing::limits::{
    IDENTITY_KEY_CHARS_MAX, IDENTITY_KEY_CHARS_MIN, IDENTITY_KEYS_BYTES_MAX, IDENTITY_KEYS_OF_SITE_MAX,
};
use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Server, eventually, snapshot, temporary_directory};

const FIRST: &str = "0123456789abcdef0123456789abcdef";
const SECOND: &str = "ffffffffffffffffffffffffffffffff";

/// Writes the file `keys` of this mode, and returns its path.
fn write(directory: &TempDir, text: impl AsRef<[u8]>, mode: u32) -> PathBuf {
    let path = directory.path().join("keys");
    let _ = fs::remove_file(&path);
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(mode)).expect("the mode is set");
    path
}

fn read(text: impl AsRef<[u8]>) -> Result<IdentityKeys, String> {
    key_file::read_identity_keys(&write(&temporary_directory(), text, 0o600))
}

/// Returns the hash of a user ID.
fn hash(key: &str, user_id: &str) -> String {
    let key = key.as_bytes().try_into().expect("a key of 32 characters");
    HEXLOWER.encode(&hmac_sha256(key, &[user_id.as_bytes()]))
}

/// Returns whether the site accepts the user `ana` by a hash with this key.
fn accepts(keys: &IdentityKeys, site: &str, preview: Option<&str>, key: &str) -> bool {
    let rule = UserRule::Signed { keys: keys.of_site(site, preview), header_hash: None };
    rule.accepts("ana", Some(&hash(key, "ana")))
}

#[test]
fn each_line_has_a_site_and_a_key() {
    let text = format!("# keys of 2026\n\n  acme\t{FIRST}  \r\nacme {SECOND}\n   # end\nshop {SECOND}");
    let keys = read(text).expect("the file is valid");
    assert_eq!((keys.sites(), keys.of_site("acme", None).len()), (2, 2));
    assert!(accepts(&keys, "acme", None, FIRST) && accepts(&keys, "acme", None, SECOND));
    assert!(accepts(&keys, "shop", None, SECOND) && !accepts(&keys, "shop", None, FIRST));
    assert!(!accepts(&keys, "acm", None, FIRST) && !accepts(&keys, "ACME", None, FIRST));
}

#[test]
fn a_preview_site_has_the_keys_of_its_site() {
    let keys = read(format!("acme {FIRST}\nb--x {SECOND}\n")).expect("the file is valid");
    assert!(accepts(&keys, "acme--draft", Some("draft"), FIRST));
    assert!(!accepts(&keys, "acme--draft", None, FIRST), "a site of this name is no preview");
    assert!(accepts(&keys, "b--x", None, SECOND) && !accepts(&keys, "b--x", Some("x"), SECOND));
}

#[test]
fn an_invalid_line_is_refused_with_its_place_and_without_its_key() {
    for (line, expected) in [
        (FIRST.to_owned(), ":2: expected the ID of a site, a blank, and a key"),
        (format!("acme {FIRST} {SECOND}"), ":2: expected the ID of a site, a blank, and a key"),
        (
            format!("acme {}", &FIRST[1..]),
            ":2: the key has 31 characters, expected 32 to 256 visible ASCII characters",
        ),
        (format!("acme {FIRST}ü"), ":2: the key has 33 characters"),
    ] {
        let error = read(format!("# comment\n{line}\n")).expect_err("the line is invalid");
        assert!(error.starts_with("--identity-keys /") && error.contains(expected), "{error}");
        assert!(!error.contains(&FIRST[1..]) && !error.contains(SECOND), "{error}");
    }
    for empty in ["", "\n# nothing\n"] {
        assert!(
            read(empty).expect_err("there is no key").contains("keys has no key; write a line"),
            "{empty}"
        );
    }
    assert!(read(b"acme \xff").expect_err("not UTF-8").ends_with("keys is not UTF-8"));
}

#[test]
fn the_limits_of_keys_hold() {
    let length = |chars: usize| read(format!("acme {}", "k".repeat(chars))).map(drop);
    for chars in [
        IDENTITY_KEY_CHARS_MIN,
        IDENTITY_KEY_CHARS_MIN + 1,
        IDENTITY_KEY_CHARS_MAX - 1,
        IDENTITY_KEY_CHARS_MAX,
    ] {
        length(chars).unwrap_or_else(|error| panic!("{chars}: {error}"));
    }
    for chars in [IDENTITY_KEY_CHARS_MIN - 1, IDENTITY_KEY_CHARS_MAX + 1] {
        length(chars).expect_err("the key is too short or too long");
    }
    let count = |keys: usize| read(format!("acme {FIRST}\n").repeat(keys) + "shop " + FIRST).map(drop);
    count(IDENTITY_KEYS_OF_SITE_MAX - 1).expect("one below");
    count(IDENTITY_KEYS_OF_SITE_MAX).expect("at the limit");
    let error = count(IDENTITY_KEYS_OF_SITE_MAX + 1).expect_err("one above");
    assert!(error.ends_with(":5: site acme has more than 4 keys"), "{error}");
    let size = |bytes: usize| {
        let line = format!("acme {FIRST}\n#");
        read(line.clone() + &"x".repeat(bytes - line.len())).map(drop)
    };
    size(IDENTITY_KEYS_BYTES_MAX - 1).expect("one below");
    size(IDENTITY_KEYS_BYTES_MAX).expect("at the limit");
    let error = size(IDENTITY_KEYS_BYTES_MAX + 1).expect_err("one above");
    assert!(error.ends_with("keys has more than 1048576 bytes"), "{error}");
}

#[test]
fn a_file_that_other_users_may_use_is_refused() {
    let directory = temporary_directory();
    for mode in [0o640, 0o604, 0o620, 0o666, 0o700] {
        let error = key_file::read_identity_keys(&write(&directory, format!("acme {FIRST}"), mode))
            .expect_err("refused");
        assert!(
            error.contains(&format!("has the mode {mode:03o}")) && error.contains("chmod 600"),
            "{error}"
        );
    }
    for mode in [0o600, 0o400] {
        key_file::read_identity_keys(&write(&directory, format!("acme {FIRST}"), mode)).expect("accepted");
    }
}

#[test]
fn a_server_does_not_start_with_an_unusable_file() {
    let directory = temporary_directory();
    let run = |keys: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--snapshots"]);
        command.arg(directory.path()).arg("--data").arg(directory.path().join("data"));
        let output = command.arg("--identity-keys").arg(keys).output().expect("the program runs");
        (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    let missing = directory.path().join("missing");
    let (code, error) = run(&missing);
    let expected = format!("cannot read --identity-keys {}: No such file", missing.display());
    assert!(code == Some(2) && error.contains(&expected), "{code:?} {error}");
    let (code, error) = run(&write(&directory, "acme short", 0o600));
    assert!(code == Some(2) && error.contains("keys:1: the key has 5 characters"), "{code:?} {error}");
}

/// Compiles a version of the site `acme`, which verifies user IDs or not.
fn acme(is_signed: bool, version: u64) -> Vec<u8> {
    let mut site = json!({ "site": "acme", "trackingId": "track_acme", "name": "Acme" });
    if is_signed {
        site["identity"] = json!({ "verify": "signed" });
    }
    let route = json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": {} } });
    snapshot(&[("site.json", &site.to_string()), ("routes/index.json", &route.to_string())], version)
}

/// Returns whether an event of the user alone is accepted with this hash.
fn accepts_event(server: &Server, key: &str) -> bool {
    let event = json!({ "userId": "ana", "event": "e", "context": { "userHash": hash(key, "ana") } });
    let response = server.post("/v1/track?site=acme", &[], event.to_string().as_bytes());
    assert!(response.status == 200 || response.code() == "unverified_user", "{}", response.text());
    response.status == 200
}

#[test]
fn a_signal_reads_the_keys_again_and_a_fault_leaves_those_in_use() {
    let directory = temporary_directory();
    let path = write(&directory, format!("acme {FIRST}\n"), 0o600);
    let server = Server::start(
        &[("acme.snapshot", &acme(true, 1))],
        &["--identity-keys", path.to_str().expect("UTF-8")],
    );
    assert!(accepts_event(&server, FIRST) && !accepts_event(&server, SECOND));
    let reload = |text: &str, line: &str| {
        write(&directory, text, 0o600);
        server.signal("HUP");
        server.wait_for_log(line);
    };
    reload(&format!("acme {SECOND}\nacme {FIRST}\nshop {FIRST}\n"), "read the identity keys again sites=2");
    assert!(accepts_event(&server, FIRST) && accepts_event(&server, SECOND));
    reload(
        "acme short\n",
        "visible ASCII characters, such as the output of `openssl rand -hex 32`; the identity keys in use stay",
    );
    assert!(accepts_event(&server, FIRST) && accepts_event(&server, SECOND));
    reload(&format!("acme {SECOND}\n"), "read the identity keys again sites=1");
    assert!(!accepts_event(&server, FIRST) && accepts_event(&server, SECOND));
    assert!(!server.log().contains("the site verifies user IDs"), "{}", server.log());
    reload(
        &format!("shop {SECOND}\n"),
        "the site verifies user IDs (\"identity\" in site.json) and has no key",
    );
    assert!(!accepts_event(&server, SECOND));
}

#[test]
fn a_site_that_needs_a_key_or_stops_to_verify_is_logged_once() {
    let server = Server::start(&[("acme.snapshot", &acme(true, 1))], &[]);
    let lines = |text: &str| server.log().lines().filter(|line| line.contains(text)).count();
    let needs_key =
        "the site verifies user IDs (\"identity\" in site.json) and has no key, so no user ID counts";
    assert_eq!(lines(needs_key), 1, "{}", server.log());
    assert!(!accepts_event(&server, FIRST), "verification is not off because the key is missing");
    let publish = |is_signed, version: u64| {
        server.publish("acme.snapshot", &acme(is_signed, version));
        eventually("the version is served", || {
            let served = server.get("/v1/resolve?site=acme&route=/");
            (served.field("x-version") == Some(&*version.to_string())).then_some(())
        });
    };
    publish(true, 2);
    let stopped =
        "the site no longer verifies user IDs: its new version has no \"identity\": {\"verify\": \"signed\"}";
    assert_eq!((lines(needs_key), lines(stopped)), (1, 0), "{}", server.log());
    publish(false, 3);
    eventually("the end of the verification is logged", || (lines(stopped) == 1).then_some(()));
    assert!(accepts_event(&server, FIRST));
    publish(true, 4);
    eventually("the missing key is logged again", || (lines(needs_key) == 2).then_some(()));
    assert!(!accepts_event(&server, FIRST));
}
