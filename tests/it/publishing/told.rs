//! SIGHUP: the server reads all snapshots again at once.

use std::fs;
use std::os::unix::fs::symlink;

use parallax::testing::storage::write_atomic;

use super::acme;
use crate::harness::{Server, temporary_directory};

#[test]
fn a_change_that_inotify_misses_is_served_after_sighup() {
    let elsewhere = temporary_directory();
    let target = elsewhere.path().join("built");
    fs::write(&target, acme(1, "one")).expect("written");
    let day = (24 * 60 * 60 * 1000).to_string();
    let server = Server::start(&[], &["--rescan-ms", &day]);
    symlink(&target, server.path("acme.snapshot")).expect("a link");
    server.wait_until_served("acme", Some("one"));

    for (version, text) in [(2, "two"), (3, "three")] {
        let before = server.title_of("acme");
        write_atomic(&target, &acme(version, text)).expect("replaced");
        for _ in 0..200 {
            assert_eq!(server.title_of("acme"), before);
        }
        server.signal("HUP");
        server.wait_until_served("acme", Some(text));
    }
    assert_eq!(server.log_count("received SIGHUP; reading all snapshots again"), 2);
}
