//! The file of `--access`: its faults, its limits, and the moments at which it is read.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use parallax::testing::limits::access::{
    ACCESS_ENTRIES_MAX, ACCESS_FILE_BYTES_MAX, ACCESS_NAME_BYTES_MAX, ACCESS_SITES_MAX, TOKEN_DAYS_MAX,
};

use super::{PROGRAM, new_token, start, with_token, write};
use crate::harness::{Response, eventually, temporary_directory};

/// Returns whether a token does not count. A second wrong token within a second is 429.
fn is_refused(response: &Response) -> bool {
    matches!(response.status, 401 | 429)
}

#[test]
fn a_token_counts_until_the_end_of_its_last_day() {
    let directory = temporary_directory();
    let (token, entry) = new_token(&["--name", "a", "--role", "viewer", "--days", "1"]);
    let day = |days: i64| {
        let now_ms = parallax::testing::clock::now_ms() + days * 86_400_000;
        let mut text = Vec::new();
        parallax::testing::events::time::write(&mut text, now_ms);
        String::from_utf8_lossy(&text[..10]).into_owned()
    };
    assert!(entry.contains(&format!("expires = {}\n", day(1))), "{entry}");
    let path = write(&directory, &entry);
    let server = start(&path, &[]);
    assert_eq!(with_token(&server, "GET", "/access", &token).status, 200);
    for (readings, days) in [(1, 0), (2, -1)] {
        write(&directory, &entry.replace(&day(1), &day(days)));
        eventually("the server has read the file again", || {
            (server.log().matches("read the access file again").count() == readings).then_some(())
        });
        let response = with_token(&server, "GET", "/access", &token);
        assert_eq!((response.status == 200, is_refused(&response)), (days == 0, days < 0), "{days}");
    }
}

#[test]
fn the_file_is_read_again_after_a_change_and_a_fault_leaves_the_access_as_it_was() {
    let directory = temporary_directory();
    let (first, first_entry) = new_token(&["--name", "first", "--role", "viewer"]);
    let (second, second_entry) = new_token(&["--name", "second", "--role", "viewer"]);
    let path = write(&directory, &first_entry);
    let server = start(&path, &[]);
    write(&directory, &second_entry);
    eventually("the second token counts", || {
        (with_token(&server, "GET", "/access", &second).status == 200).then_some(())
    });
    assert!(is_refused(&with_token(&server, "GET", "/access", &first)));
    write(&directory, "[[token]]\nname = \"x\"\nrole = \"king\"\n");
    server.wait_for_log("access.toml:3: unknown variant `king`");
    server.wait_for_log("the access in use stays");
    assert_eq!(with_token(&server, "GET", "/access", &second).status, 200);
    fs::remove_file(&path).expect("removed");
    server.wait_for_log("cannot read --access");
    assert_eq!(with_token(&server, "GET", "/access", &second).status, 200);
    write(&directory, &first_entry);
    server.signal("HUP");
    eventually("the first token counts again", || {
        (with_token(&server, "GET", "/access", &first).status == 200).then_some(())
    });
}

/// Returns the error of `serve --print-config` with this file.
fn fault_of(text: &str) -> Option<String> {
    let directory = temporary_directory();
    let path = write(&directory, text);
    let path = path.to_str().expect("UTF-8");
    let output = Command::new(PROGRAM)
        .args(["serve", "--access", path, "--print-config"])
        .output()
        .expect("the program runs");
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).replace(path, "FILE"))
}

fn viewer(name: &str, sites: &[String]) -> String {
    format!("[[user]]\nmatch = {name:?}\nrole = \"viewer\"\nsites = {sites:?}\n")
}

#[test]
fn a_wrong_file_is_refused_with_its_line_and_the_remedy() {
    let one = ["acme".to_owned()];
    let hash = "0".repeat(64);
    let token = |name: &str, hash: &str, more: &str| {
        format!(
            "[[token]]\nname = {name:?}\nrole = \"viewer\"\nsites = [\"acme\"]\n{more}hash = \"{hash}\"\n"
        )
    };
    for (text, expected) in [
        ("x = 1".to_owned(), "FILE:1: unknown field `x`"),
        ("[[user]]\nmatch =".to_owned(), "FILE:2: "),
        (viewer(" a", &one), "FILE:1: match \" a\" must have 1 to 256 bytes"),
        (viewer("a,b", &one), "no comma"),
        (viewer("a", &[]), "FILE:1: sites has 0 entries"),
        (viewer("a", &["a/b".to_owned()]), "\"a/b\" is no site ID"),
        (viewer("a", &one).replace("viewer", "operator"), "the role operator is one for all sites"),
        (token("a", "abc", ""), "hash must be the SHA-256 of a token"),
        (token("a", &hash, "expires = 2027-01-31T00:00:00Z\n"), "must be a day, such as 2027-01-31"),
        (token("a", &hash, "expires = \"2027-01-31\"\n"), "FILE:5: "),
        (token("a", &hash, "") + &token("b", &hash, ""), "FILE:6: the token \"a\" has the same hash"),
        (token("a", &hash, "") + &token("a", &"1".repeat(64), ""), "FILE:6: two tokens have the name \"a\""),
    ] {
        let fault = fault_of(&text).unwrap_or_else(|| panic!("accepted: {text}"));
        assert!(fault.contains(expected), "{fault}\nexpected: {expected}");
        assert!(!fault.contains(&hash), "{fault}");
    }
    assert_eq!(fault_of(""), None);
}

#[test]
fn the_limits_of_the_file_hold_at_one_below_at_and_above() {
    let one = ["acme".to_owned()];
    let cases: [(usize, &dyn Fn(usize) -> String); 4] = [
        (ACCESS_NAME_BYTES_MAX, &|count| viewer(&"n".repeat(count), &one)),
        (ACCESS_SITES_MAX, &|count| viewer("a", &vec!["acme".to_owned(); count])),
        (ACCESS_ENTRIES_MAX, &|count| viewer("a", &one).repeat(count)),
        (ACCESS_FILE_BYTES_MAX, &|count| "#".repeat(count)),
    ];
    for (limit, text) in cases {
        for count in [limit - 1, limit] {
            assert_eq!(fault_of(&text(count)), None, "{count}");
        }
        let fault = fault_of(&text(limit + 1)).unwrap_or_else(|| panic!("accepted {}", limit + 1));
        assert!(fault.contains(&limit.to_string()), "{fault}");
    }
    let days = |days: u32| {
        Command::new(PROGRAM)
            .args(["token", "new", "--name", "a", "--role", "viewer", "--days", &days.to_string()])
            .output()
            .expect("the program runs")
            .status
            .success()
    };
    assert_eq!([TOKEN_DAYS_MAX - 1, TOKEN_DAYS_MAX, TOKEN_DAYS_MAX + 1].map(days), [true, true, false]);
}

#[test]
fn a_file_that_other_users_can_write_is_refused() {
    let directory = temporary_directory();
    let path = write(&directory, "");
    for (mode, accepted) in [(0o600, true), (0o644, true), (0o664, false), (0o646, false)] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("the mode is set");
        let output = Command::new(PROGRAM)
            .args(["serve", "--print-config", "--access"])
            .arg(&path)
            .output()
            .expect("the program runs");
        assert_eq!(output.status.success(), accepted, "{mode:o}");
        if !accepted {
            assert!(
                String::from_utf8_lossy(&output.stderr)
                    .contains("so other users may write it; run `chmod go-w")
            );
        }
    }
}

#[test]
fn a_setting_without_the_one_that_it_needs_is_refused() {
    let directory = temporary_directory();
    let path = write(&directory, "");
    let path = path.to_str().expect("UTF-8");
    for (flags, expected) in [
        (&["--trusted-user-header", "X-User"][..], "no effect without --access"),
        (&["--access", path, "--trusted-user-header", "X-User"], "no effect without --trusted-proxy"),
        (
            &["--access", path, "--trusted-groups-header", "X-Groups"],
            "no effect without --trusted-user-header",
        ),
    ] {
        let output = Command::new(PROGRAM)
            .args(["serve", "--print-config"])
            .args(flags)
            .output()
            .expect("the program runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(expected), "{text}");
    }
}
