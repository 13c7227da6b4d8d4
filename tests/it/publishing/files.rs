//! Other entries in the snapshots directory, and changes to the directory itself.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{acme, request_acme, site};
use crate::harness::{Server, eventually, temporary_directory, times, under_load};

#[test]
fn only_snapshot_files_without_a_leading_dot_are_read() {
    let bytes = acme(1, "published");
    let server = Server::start(&[], &[]);
    for name in [".acme.snapshot", "acme.snapshot.tmp", "acme.json", "snapshot", "acme.SNAPSHOT", ".snapshot"]
    {
        server.publish(name, &bytes);
    }
    fs::create_dir(server.path("folder")).expect("a directory");
    server.publish("folder/acme.snapshot", &bytes);
    server.wait_for_scan();
    assert_eq!(server.title_of("acme"), None);
    assert_eq!(
        server.log_count("acme") + server.log_count("snapshot: "),
        0,
        "a skipped file is logged: {}",
        server.log()
    );
    server.publish("ö.snapshot", &bytes);
    server.wait_until_served("acme", Some("published"));
}

#[test]
fn a_symlink_is_followed_once_and_only_to_a_regular_file() {
    let outside = temporary_directory();
    let target = outside.path().join("build-17");
    fs::write(&target, acme(1, "by a link")).expect("written");
    let server = Server::start(&[], &[]);
    symlink(&target, server.path("acme.snapshot")).expect("a link");
    server.wait_until_served("acme", Some("by a link"));
    // A relative link is resolved from the directory, not from the server's working directory.
    fs::write(server.path("build-18"), acme(2, "beside")).expect("written");
    symlink("build-18", server.path("relative.snapshot")).expect("a link");
    server.wait_until_served("acme", Some("beside"));
    symlink(server.path("relative.snapshot"), server.path("twice.snapshot")).expect("a link");
    fs::remove_file(server.path("acme.snapshot")).expect("removed");
    server.wait_for_log("twice.snapshot: cannot be read");
    fs::remove_file(server.path("relative.snapshot")).expect("removed");
    server.wait_until_served("acme", None);
}

#[test]
fn the_target_of_a_symlink_can_be_replaced_removed_and_restored() {
    let outside = temporary_directory();
    let builds = outside.path().join("builds");
    fs::create_dir(&builds).expect("a directory");
    fs::write(builds.join("acme"), acme(1, "one")).expect("written");
    let server = Server::start(&[], &[]);
    symlink(builds.join("acme"), server.path("acme.snapshot")).expect("a link");
    server.wait_until_served("acme", Some("one"));
    parallax::testing::storage::write_atomic(&builds.join("acme"), &acme(2, "two")).expect("replaced");
    server.wait_until_served("acme", Some("two"));
    // A broken link keeps the old content, and is valid again as soon as its target exists.
    let aside = outside.path().join("aside");
    fs::rename(&builds, &aside).expect("renamed");
    eventually("the broken link is logged", || {
        (server.log_count("acme.snapshot: cannot be read") == 1).then_some(())
    });
    server.wait_for_scan();
    assert_eq!(server.title_of("acme").as_deref(), Some("two"));
    fs::rename(&aside, &builds).expect("renamed back");
    server.wait_for_scan();
    fs::rename(&builds, &aside).expect("renamed");
    eventually("the broken link is logged again", || {
        (server.log_count("acme.snapshot: cannot be read") == 2).then_some(())
    });
}

#[test]
fn an_entry_that_is_not_a_file_is_refused_and_blocks_nothing() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "served"))], &[]);
    let names = ["fifo", "folder", "circle", "round", "dangling", "leads-to-it"];
    mknodat(CWD, server.path("fifo.snapshot"), FileType::Fifo, Mode::RUSR, 0).expect("a FIFO");
    fs::create_dir(server.path("folder.snapshot")).expect("a directory");
    symlink("round.snapshot", server.path("circle.snapshot")).expect("a link");
    symlink("circle.snapshot", server.path("round.snapshot")).expect("a link");
    symlink("nowhere", server.path("dangling.snapshot")).expect("a link");
    symlink("folder.snapshot", server.path("leads-to-it.snapshot")).expect("a link");
    for name in names {
        let refusal = format!("{name}.snapshot: cannot be read");
        eventually(&refusal, || (server.log_count(&refusal) == 1).then_some(()));
    }
    server.publish("acme.snapshot", &acme(2, "still publishing"));
    server.wait_until_served("acme", Some("still publishing"));
    for name in names {
        let refusal = format!("{name}.snapshot: cannot be read");
        server.wait_for_log(&refusal);
        assert_eq!(server.log_count(&refusal), 1, "{}", server.log());
    }
}

#[test]
fn ten_thousand_junk_files_do_not_disturb_requests_or_publishing() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "before"))], &[]);
    let ((), requests) = under_load(server.edge, 2, request_acme, || {
        for i in 0..10_000 {
            let ending = if i % 2 == 0 { "snapshot" } else { "junk" };
            fs::write(server.path(&format!("junk-{i}.{ending}")), [i as u8; 100]).expect("written");
        }
        server.publish("acme.snapshot", &acme(2, "amid junk"));
        server.wait_until_served("acme", Some("amid junk"));
    });
    assert!(requests > 100, "only {requests} requests");
    let lines = server.log_count("junk-");
    assert!(lines <= 1_000, "{lines} log lines about junk files");
    for i in 0..10_000 {
        let ending = if i % 2 == 0 { "snapshot" } else { "junk" };
        fs::remove_file(server.path(&format!("junk-{i}.{ending}"))).expect("removed");
    }
    server.publish("acme.snapshot", &acme(3, "after"));
    server.wait_until_served("acme", Some("after"));
}

/// Asserts that no site is unpublished while `act` changes the files of many sites. A directory is listed in
/// several calls, and a file that is renamed between them may be missing (readdir(3)). This happens on tmpfs.
fn none_of_many_is_unpublished(act: impl FnOnce(&Server, &[Vec<u8>])) {
    // Together the names are longer than one call returns, which is 32 KiB.
    let sites: Vec<_> =
        (0..400).map(|i| site(&format!("site-{i}"), &format!("track_{i}"), 1, "here")).collect();
    let names: Vec<_> = (0..sites.len()).map(|i| long_name(i, 0)).collect();
    let published: Vec<_> = names.iter().zip(&sites).map(|(name, bytes)| (&**name, &**bytes)).collect();
    let server = Server::start(&published, &["--rescan-ms", "10"]);
    act(&server, &sites);
    server.wait_for_scan();
    assert_eq!(server.log_count("unpublished"), 0, "{}", server.log());
}

/// Returns the file name of a site in this round.
fn long_name(site: usize, round: usize) -> String {
    format!("{site}-{}-{}.snapshot", "x".repeat(200), round % 2)
}

#[test]
fn a_file_replaced_during_a_listing_stays_published() {
    none_of_many_is_unpublished(|server, sites| {
        for _ in 0..times(40, 400) {
            sites.iter().enumerate().for_each(|(i, bytes)| server.publish(&long_name(i, 0), bytes));
        }
    });
}

#[test]
fn a_file_renamed_during_a_listing_stays_published() {
    none_of_many_is_unpublished(|server, sites| {
        for round in 0..times(12, 120) {
            for i in 0..sites.len() {
                let [from, to] = [round, round + 1].map(|round| server.path(&long_name(i, round)));
                fs::rename(from, to).expect("renamed");
                // The request takes time, so that several scans run in one round.
                assert!(server.title_of("site-0").is_some());
            }
            // No scan overlaps two renames of one file.
            server.wait_for_scan();
        }
    });
}

#[test]
fn sites_stay_served_while_the_directory_is_missing() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "before"))], &["--rescan-ms", "20"]);
    let [aside, new] = ["aside", "new"].map(|name| server.snapshots_directory().with_extension(name));
    fs::create_dir(&new).expect("created");
    fs::write(new.join("acme.snapshot"), acme(2, "in the new folder")).expect("written");
    let ((), _) = under_load(server.edge, 2, request_acme, || {
        fs::rename(server.snapshots_directory(), &aside).expect("renamed");
        server.wait_for_log("cannot read the snapshots directory");
        // An empty directory would unpublish the site.
        fs::rename(&new, server.snapshots_directory()).expect("renamed");
        server.wait_until_served("acme", Some("in the new folder"));
        // Later changes are noticed as before.
        server.publish("acme.snapshot", &acme(3, "and again"));
        server.wait_until_served("acme", Some("and again"));
    });
    assert_eq!(server.log_count("cannot read the snapshots directory"), 1, "{}", server.log());
    fs::remove_dir_all(aside).expect("removed");
}

#[test]
fn a_directory_that_replaces_another_is_watched() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "old folder"))], &[]);
    let (new, aside) = (
        server.snapshots_directory().with_extension("new"),
        server.snapshots_directory().with_extension("old"),
    );
    fs::create_dir(&new).expect("a directory");
    fs::write(new.join("acme.snapshot"), acme(1, "new folder")).expect("written");
    fs::write(new.join("other.snapshot"), site("other", "track_other", 1, "other")).expect("written");
    fs::rename(server.snapshots_directory(), &aside).expect("renamed");
    fs::rename(&new, server.snapshots_directory()).expect("renamed");
    server.wait_until_served("acme", Some("new folder"));
    server.wait_until_served("other", Some("other"));
    server.publish("acme.snapshot", &acme(2, "and from then on"));
    server.wait_until_served("acme", Some("and from then on"));
    fs::remove_dir_all(aside).expect("removed");
}
