//! What may lie in the folder beside snapshots, and what may happen to the folder.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{acme, ask_acme, site};
use crate::harness::{Server, eventually, temporary_folder, times, under_load};

#[test]
fn only_names_that_end_in_snapshot_and_begin_with_no_dot_are_looked_at() {
    let bytes = acme(1, "published");
    let server = Server::start(&[], &[]);
    for name in [".acme.snapshot", "acme.snapshot.tmp", "acme.json", "snapshot", "acme.SNAPSHOT", ".snapshot"]
    {
        server.publish(name, &bytes);
    }
    fs::create_dir(server.path("folder")).expect("a folder");
    server.publish("folder/acme.snapshot", &bytes);
    server.scans();
    assert_eq!(server.says("acme"), None);
    assert_eq!(server.log_count(" it "), 0, "nothing is said of them: {}", server.log());
    server.publish("ö.snapshot", &bytes);
    server.comes_to_say("acme", Some("published"));
}

#[test]
fn a_link_is_followed_once_to_a_regular_file_and_not_further() {
    let outside = temporary_folder();
    let target = outside.path().join("build-17");
    fs::write(&target, acme(1, "by a link")).expect("written");
    let server = Server::start(&[], &[]);
    symlink(&target, server.path("acme.snapshot")).expect("a link");
    server.comes_to_say("acme", Some("by a link"));
    // A relative one leads from the folder, not from where the server was started.
    fs::write(server.path("build-18"), acme(2, "beside")).expect("written");
    symlink("build-18", server.path("relative.snapshot")).expect("a link");
    server.comes_to_say("acme", Some("beside"));
    symlink(server.path("relative.snapshot"), server.path("twice.snapshot")).expect("a link");
    fs::remove_file(server.path("acme.snapshot")).expect("removed");
    eventually("the link to a link is refused", || {
        (server.log_count("twice.snapshot: it ") > 0).then_some(())
    });
    fs::remove_file(server.path("relative.snapshot")).expect("removed");
    server.comes_to_say("acme", None);
}

#[test]
fn what_a_link_leads_to_may_be_replaced_and_may_go_and_come_back() {
    let outside = temporary_folder();
    let builds = outside.path().join("builds");
    fs::create_dir(&builds).expect("a folder");
    fs::write(builds.join("acme"), acme(1, "one")).expect("written");
    let server = Server::start(&[], &[]);
    symlink(builds.join("acme"), server.path("acme.snapshot")).expect("a link");
    server.comes_to_say("acme", Some("one"));
    parallax::storage::replace(&builds.join("acme"), &acme(2, "two")).expect("replaced");
    server.comes_to_say("acme", Some("two"));
    // A link that leads nowhere takes nothing away, and is good again as soon as it leads somewhere.
    let aside = outside.path().join("aside");
    fs::rename(&builds, &aside).expect("renamed");
    eventually("the link is told", || (server.log_count("acme.snapshot: it cannot") == 1).then_some(()));
    server.scans();
    assert_eq!(server.says("acme").as_deref(), Some("two"));
    fs::rename(&aside, &builds).expect("renamed back");
    server.scans();
    fs::rename(&builds, &aside).expect("renamed");
    eventually("the link is told anew", || (server.log_count("acme.snapshot: it cannot") == 2).then_some(()));
}

#[test]
fn what_is_no_file_is_refused_by_name_and_nothing_waits_for_it() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "served"))], &[]);
    let names = ["fifo", "folder", "circle", "round", "dangling", "leads-to-it"];
    mknodat(CWD, server.path("fifo.snapshot"), FileType::Fifo, Mode::RUSR, 0).expect("a FIFO");
    fs::create_dir(server.path("folder.snapshot")).expect("a folder");
    symlink("round.snapshot", server.path("circle.snapshot")).expect("a link");
    symlink("circle.snapshot", server.path("round.snapshot")).expect("a link");
    symlink("nowhere", server.path("dangling.snapshot")).expect("a link");
    symlink("folder.snapshot", server.path("leads-to-it.snapshot")).expect("a link");
    for name in names {
        let refusal = format!("{name}.snapshot: it cannot be ");
        eventually(&refusal, || (server.log_count(&refusal) == 1).then_some(()));
    }
    server.publish("acme.snapshot", &acme(2, "still publishing"));
    server.comes_to_say("acme", Some("still publishing"));
    for name in names {
        assert_eq!(server.log_count(&format!("{name}.snapshot: it cannot be ")), 1, "{}", server.log());
    }
}

#[test]
fn ten_thousand_junk_files_fail_no_get_and_stop_no_publication() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "before"))], &[]);
    let ((), asked) = under_load(server.edge, 2, ask_acme, || {
        for i in 0..10_000 {
            let ending = if i % 2 == 0 { "snapshot" } else { "junk" };
            fs::write(server.path(&format!("junk-{i}.{ending}")), [i as u8; 100]).expect("written");
        }
        server.publish("acme.snapshot", &acme(2, "amid junk"));
        server.comes_to_say("acme", Some("amid junk"));
    });
    assert!(asked > 100, "only {asked} requests");
    let told = server.log_count("junk-");
    assert!(told <= 1_000, "{told} lines about junk");
    for i in 0..10_000 {
        let ending = if i % 2 == 0 { "snapshot" } else { "junk" };
        fs::remove_file(server.path(&format!("junk-{i}.{ending}"))).expect("removed");
    }
    server.publish("acme.snapshot", &acme(3, "after"));
    server.comes_to_say("acme", Some("after"));
}

/// A listing is made in several calls, and may leave out what is renamed between them (readdir(3)); tmpfs does. Whatever `act` does
/// to the files of many sites, none may be unpublished.
fn none_of_many_is_unpublished(act: impl FnOnce(&Server, &[Vec<u8>])) {
    // Their names do not come with one call, which brings 32 KiB.
    let sites: Vec<_> =
        (0..400).map(|i| site(&format!("site-{i}"), &format!("track_{i}"), 1, "here")).collect();
    let names: Vec<_> = (0..sites.len()).map(|i| long_name(i, 0)).collect();
    let published: Vec<_> = names.iter().zip(&sites).map(|(name, bytes)| (&**name, &**bytes)).collect();
    let server = Server::start(&published, &["--rescan-ms", "10"]);
    act(&server, &sites);
    server.scans();
    assert_eq!(server.log_count("unpublished"), 0, "{}", server.log());
}

/// The name of a site's file in this round.
fn long_name(site: usize, round: usize) -> String {
    format!("{site}-{}-{}.snapshot", "x".repeat(200), round % 2)
}

#[test]
fn a_file_that_is_replaced_while_the_folder_is_listed_is_not_taken_for_removed() {
    none_of_many_is_unpublished(|server, sites| {
        for _ in 0..times(40, 400) {
            sites.iter().enumerate().for_each(|(i, bytes)| server.publish(&long_name(i, 0), bytes));
        }
    });
}

#[test]
fn a_file_that_gets_another_name_while_the_folder_is_listed_is_not_taken_for_removed() {
    none_of_many_is_unpublished(|server, sites| {
        for round in 0..times(12, 120) {
            for i in 0..sites.len() {
                let [from, to] = [round, round + 1].map(|round| server.path(&long_name(i, round)));
                fs::rename(from, to).expect("renamed");
                // As long as this takes, so that a round takes several looks.
                assert!(server.says("site-0").is_some());
            }
            // No look sees a file before and behind two renames.
            server.scans();
        }
    });
}

#[test]
fn while_the_folder_is_gone_everything_is_served_on_and_its_return_is_noticed() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "before"))], &["--rescan-ms", "20"]);
    let aside = server.folder().with_extension("aside");
    let ((), _) = under_load(server.edge, 2, ask_acme, || {
        fs::rename(server.folder(), &aside).expect("renamed");
        eventually("the loss is told", || {
            (server.log_count("cannot be read, what is served stays") > 0).then_some(())
        });
        fs::create_dir(server.folder()).expect("made anew");
        server.publish("acme.snapshot", &acme(2, "in the new folder"));
        server.comes_to_say("acme", Some("in the new folder"));
        // And from then on as ever.
        server.publish("acme.snapshot", &acme(3, "and again"));
        server.comes_to_say("acme", Some("and again"));
    });
    assert_eq!(server.log_count("cannot be read, what is served stays"), 1, "{}", server.log());
    fs::remove_dir_all(aside).expect("removed");
}

#[test]
fn a_folder_that_takes_the_place_of_another_is_watched_like_it() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "old folder"))], &[]);
    let (new, aside) = (server.folder().with_extension("new"), server.folder().with_extension("old"));
    fs::create_dir(&new).expect("a folder");
    fs::write(new.join("acme.snapshot"), acme(1, "new folder")).expect("written");
    fs::write(new.join("other.snapshot"), site("other", "track_other", 1, "other")).expect("written");
    fs::rename(server.folder(), &aside).expect("renamed");
    fs::rename(&new, server.folder()).expect("renamed");
    server.comes_to_say("acme", Some("new folder"));
    server.comes_to_say("other", Some("other"));
    server.publish("acme.snapshot", &acme(2, "and from then on"));
    server.comes_to_say("acme", Some("and from then on"));
    fs::remove_dir_all(aside).expect("removed");
}
