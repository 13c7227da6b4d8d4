//! SIGHUP: all snapshots are read again at once.

use std::fs;
use std::os::unix::fs::symlink;

use parallax::storage::replace;

use super::acme;
use crate::harness::{Server, temporary_folder};

#[test]
fn what_inotify_does_not_tell_is_served_once_the_operator_says_so_and_not_before() {
    let elsewhere = temporary_folder();
    let target = elsewhere.path().join("built");
    fs::write(&target, acme(1, "one")).expect("written");
    let day = (24 * 60 * 60 * 1000).to_string();
    let server = Server::start(&[], &["--rescan-ms", &day]);
    symlink(&target, server.path("acme.snapshot")).expect("a link");
    server.comes_to_say("acme", Some("one"));

    for (version, text) in [(2, "two"), (3, "three")] {
        let before = server.says("acme");
        replace(&target, &acme(version, text)).expect("replaced");
        for _ in 0..200 {
            assert_eq!(server.says("acme"), before);
        }
        server.signal("HUP");
        server.comes_to_say("acme", Some(text));
    }
    assert_eq!(server.log_count("SIGHUP: the snapshots folder is looked at again"), 2);
}
