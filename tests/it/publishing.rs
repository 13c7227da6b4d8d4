//! `snapshots/` is the whole state of publishing: what is put there, replaced and removed while a
//! server runs (R9, and the paragraph on snapshots of the interface's section 12).

mod choosing;
mod files;
mod since;
mod told;

use std::fs;
use std::time::{Duration, Instant};

use parallax::site::snapshot::format::HEADER_BYTES;

use crate::harness::{Client, Response, Server, eventually, snapshot, under_load};

/// Site `acme` as `version`, whose page `/` says `text`, and `/fixed` always the same.
fn acme(version: u64, text: &str) -> Vec<u8> {
    site("acme", "track_acme", version, text)
}

fn site(id: &str, tracking_id: &str, version: u64, text: &str) -> Vec<u8> {
    let about = format!(r#"{{"site":"{id}","trackingId":"{tracking_id}","name":"{id}"}}"#);
    let page = format!(r#"{{"path":"/","layout":{{"root":{{"props":{{"title":"{text}"}}}},"zones":{{}}}}}}"#);
    let fixed = r#"{"path":"/fixed","layout":{"root":{"props":{"title":"fixed"}},"zones":{}}}"#;
    snapshot(&[("site.json", &about), ("routes/index.json", &page), ("routes/fixed.json", fixed)], version)
}

/// The text that the page `/` of a site says; None where the site is not published.
fn said(response: &Response) -> Option<String> {
    if response.status == 404 {
        assert_eq!(response.code(), "site_not_found");
        return None;
    }
    assert_eq!(response.status, 200, "{}", response.text());
    Some(response.json()["layout"]["root"]["props"]["title"].as_str().expect("a title").to_owned())
}

impl Server {
    fn says(&self, site: &str) -> Option<String> {
        said(&self.get(&format!("/v1/resolve?site={site}&route=/&variants=")))
    }

    /// Waits until `site` says `text`, or is unpublished; how long that took.
    fn comes_to_say(&self, site: &str, text: Option<&str>) -> Duration {
        let begun = Instant::now();
        eventually(&format!("{site} says {text:?}"), || (self.says(site).as_deref() == text).then_some(()));
        begun.elapsed()
    }

    /// Waits for a whole scan that begins from now on, by publishing something that only it can bring: what is brought first may
    /// have been put there in the midst of one, what is put there then comes with the next.
    fn scans(&self) {
        for _ in 0..2 {
            let text = format!("{:?}", Instant::now()).replace('"', "");
            self.publish("zz-marker.snapshot", &site("marker", "track_marker", 1, &text));
            self.comes_to_say("marker", Some(&text));
        }
    }

    fn log_count(&self, text: &str) -> usize {
        self.log().matches(text).count()
    }
}

fn ask_acme(client: &mut Client) {
    let response = client.request("GET", "/v1/resolve?trackingId=track_acme&route=/&variants=", &[]);
    assert!(said(&response).is_some(), "acme is not published");
}

#[test]
fn publishing_replacing_and_removing_take_effect_within_a_second() {
    // Told by inotify alone: the slow scan beside it never comes.
    let server = Server::start(&[], &["--rescan-ms", "600000"]);
    assert_eq!(server.says("acme"), None);
    let mut times = Vec::new();
    for round in 0..4 {
        let (new, changed) = (format!("new {round}"), format!("changed {round}"));
        server.publish("acme.snapshot", &acme(1, &new));
        times.push(server.comes_to_say("acme", Some(&new)));
        // The same version with another text, written over the file itself.
        fs::write(server.path("acme.snapshot"), acme(1, &changed)).expect("overwritten");
        times.push(server.comes_to_say("acme", Some(&changed)));
        fs::remove_file(server.path("acme.snapshot")).expect("removed");
        times.push(server.comes_to_say("acme", None));
    }
    times.sort();
    // The median, so that a machine busy with other tests does not fail this one.
    assert!(times[times.len() / 2] < Duration::from_secs(1), "{times:?}");
}

#[test]
fn the_highest_version_is_served_whatever_its_name_and_removing_it_rolls_back() {
    let server = Server::start(&[("z.snapshot", &acme(2, "two"))], &[]);
    server.publish("m.snapshot", &acme(3, "three"));
    server.comes_to_say("acme", Some("three"));
    server.publish("a.snapshot", &acme(1, "one"));
    server.publish("zz.snapshot", &acme(1, "another one"));
    server.scans();
    assert_eq!(server.says("acme").as_deref(), Some("three"));
    assert_eq!(server.log_count("different contents"), 0, "versions that are not served do not matter");
    fs::remove_file(server.path("m.snapshot")).expect("removed");
    server.comes_to_say("acme", Some("two"));
    fs::remove_file(server.path("z.snapshot")).expect("removed");
    eventually("one of two contents of version 1", || server.says("acme")?.ends_with("one").then_some(()));
    assert_eq!(server.get("/v1/routes?site=acme").field("x-version"), Some("1"));
    eventually("it is told", || (server.log_count("different contents") > 0).then_some(()));
    server.scans();
    assert_eq!(server.log_count("different contents"), 1, "{}", server.log());
}

#[test]
fn of_equal_versions_the_greater_hash_is_served_and_a_warning_names_both() {
    let mut contents: Vec<(String, Vec<u8>)> =
        (0..3).map(|i| i.to_string()).map(|t| (t.clone(), acme(5, &t))).collect();
    contents.sort_by_key(|(_, bytes)| bytes[32..HEADER_BYTES].to_vec());
    let [(_, least), (_, middle), (text, greatest)] = &contents[..] else { unreachable!("three") };
    // The greatest under the first name, and then under the last.
    for names in [["c.snapshot", "b.snapshot", "a.snapshot"], ["a.snapshot", "b.snapshot", "c.snapshot"]] {
        let server = Server::start(&[(names[1], middle), (names[2], greatest)], &[]);
        assert_eq!(server.says("acme").as_ref(), Some(text));
        let warning =
            format!("{} and {} are different contents of site acme with one version 5", names[2], names[1]);
        assert_eq!(server.log_count(&warning), 1, "{}", server.log());
        server.publish(names[0], least);
        server.scans();
        assert_eq!(server.says("acme").as_ref(), Some(text));
        // It is said behind the swap, and read from a pipe.
        eventually("the third is named too", || (server.log_count("different contents") == 2).then_some(()));
    }
}

#[test]
fn damage_takes_nothing_away_and_is_told_once_by_name_and_reason() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "whole"))], &["--rescan-ms", "20"]);
    let mut damaged = acme(2, "damaged");
    *damaged.last_mut().expect("bytes") ^= 1;
    server.publish("acme.snapshot", &damaged);
    let reason = "acme.snapshot: it is damaged: its hash differs from that of its content";
    eventually("the damage is told", || (server.log_count(reason) > 0).then_some(()));
    for _ in 0..3 {
        server.scans();
    }
    assert_eq!(server.says("acme").as_deref(), Some("whole"));
    assert_eq!(server.log_count(reason), 1, "{}", server.log());
    server.publish("acme.snapshot", &acme(1, "mended"));
    server.comes_to_say("acme", Some("mended"));
    server.publish("acme.snapshot", b"a text that somebody dropped here");
    eventually("the stranger is told", || {
        (server.log_count("acme.snapshot: it is not a snapshot") > 0).then_some(())
    });
    assert_eq!(server.says("acme").as_deref(), Some("mended"));
    fs::remove_file(server.path("acme.snapshot")).expect("removed");
    server.comes_to_say("acme", None);
}

#[test]
fn of_two_sites_with_one_tracking_id_the_one_already_served_stays() {
    let of = |id: &str| site(id, "track_shared", 1, id);
    let by_tracking_id =
        |server: &Server| said(&server.get("/v1/resolve?trackingId=track_shared&route=/&variants="));
    let server = Server::start(&[("b.snapshot", &of("bear"))], &[]);
    server.publish("a.snapshot", &of("ant"));
    let refusal = "a.snapshot: site ant has the tracking ID track_shared of site bear";
    eventually("the second is refused by name", || (server.log_count(refusal) == 1).then_some(()));
    assert_eq!(by_tracking_id(&server).as_deref(), Some("bear"));
    assert_eq!(server.says("ant"), None);
    // At the start nobody was there first: the lesser site ID is.
    let server = server.restart(&[]);
    assert_eq!(by_tracking_id(&server).as_deref(), Some("ant"));
    assert_eq!(server.says("bear"), None);
    fs::remove_file(server.path("a.snapshot")).expect("removed");
    server.comes_to_say("bear", Some("bear"));
}

#[test]
fn a_version_that_claims_another_site_s_tracking_id_is_refused_and_the_one_before_it_stays() {
    let bear = site("bear", "track_bear", 1, "bear");
    let server = Server::start(&[("b.snapshot", &bear), ("a-1.snapshot", &acme(1, "one"))], &[]);
    server.publish("a-2.snapshot", &site("acme", "track_bear", 2, "two"));
    let refusal = "a-2.snapshot: site acme has the tracking ID track_bear of site bear";
    eventually("it is refused by name", || (server.log_count(refusal) == 1).then_some(()));
    assert_eq!(server.says("acme").as_deref(), Some("one"));
    assert_eq!(server.says("bear").as_deref(), Some("bear"));
    // Freed, the tracking ID goes to the version that waits for it.
    fs::remove_file(server.path("b.snapshot")).expect("removed");
    server.comes_to_say("acme", Some("two"));
}

#[test]
fn a_restart_serves_the_same() {
    let snapshots = [
        ("1.snapshot", acme(1, "one")),
        ("2.snapshot", acme(2, "two")),
        ("other.snapshot", site("other", "track_other", 9, "other")),
    ];
    let held: Vec<(&str, &[u8])> = snapshots.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
    let server = Server::start(&held, &[]);
    let seen = |server: &Server| {
        ["acme", "other"].map(|id| {
            let response = server.get(&format!("/v1/resolve?site={id}&route=/&variants="));
            (
                response.field("etag").map(str::to_owned),
                response.field("x-version").map(str::to_owned),
                response.body,
            )
        })
    };
    let before = seen(&server);
    let server = server.restart(&[]);
    assert_eq!(seen(&server), before);
}

#[test]
fn publishing_one_page_leaves_the_bytes_and_the_etags_of_the_others_alone() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "before"))], &[]);
    let targets = [
        "/v1/resolve?site=acme&route=/fixed&variants=",
        "/v1/resolve?site=acme&route=/fixed",
        "/v1/variants?site=acme&route=/fixed",
        "/v1/variants?site=acme&route=/fixed&include=combinations",
    ];
    let seen =
        || targets.map(|target| server.get(target)).map(|r| (r.field("etag").map(str::to_owned), r.body));
    let before = seen();
    let page = server.get("/v1/resolve?site=acme&route=/&variants=");
    server.publish("acme.snapshot", &acme(2, "after"));
    server.comes_to_say("acme", Some("after"));
    assert_eq!(seen(), before);
    assert_ne!(server.get("/v1/resolve?site=acme&route=/&variants=").field("etag"), page.field("etag"));
    let etag = before[0].0.as_deref().expect("an ETag");
    assert_eq!(server.get_with(targets[0], &[("If-None-Match", etag)]).status, 304);
}

#[test]
fn a_copy_that_is_still_being_written_is_not_taken_before_it_is_whole() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "old"))], &["--rescan-ms", "20"]);
    let new = acme(2, "new");
    let path = server.path("slow.snapshot");
    let is_old = || assert_eq!(server.says("acme").as_deref(), Some("old"));
    for (chunk, end) in [0, 7, HEADER_BYTES, new.len() / 2, new.len() - 1].into_iter().enumerate() {
        fs::write(&path, &new[..end]).expect("written in part");
        server.scans();
        is_old();
        assert_eq!(server.log_count("slow.snapshot: it is damaged"), 0, "chunk {chunk}: {}", server.log());
    }
    fs::write(&path, &new).expect("written whole");
    server.comes_to_say("acme", Some("new"));
    // Over a live file, too: what is there is kept until the new one is whole.
    let newest = acme(3, "newest");
    fs::write(&path, &newest[..newest.len() / 2]).expect("written in part");
    server.scans();
    assert_eq!(server.says("acme").as_deref(), Some("new"));
    fs::write(&path, &newest).expect("written whole");
    server.comes_to_say("acme", Some("newest"));
}

#[test]
fn whatever_happens_to_a_live_file_no_get_fails() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "one"))], &["--rescan-ms", "20"]);
    let path = server.path("acme.snapshot");
    let ((), asked) = under_load(server.edge, 2, ask_acme, || {
        for round in 0..5 {
            fs::File::options().write(true).open(&path).expect("opened").set_len(0).expect("truncated");
            server.scans();
            fs::write(&path, vec![0; 100_000]).expect("overwritten");
            server.scans();
            fs::write(&path, acme(1, "in place")).expect("overwritten");
            server.comes_to_say("acme", Some("in place"));
            // Another version lies beside it while the file itself is gone.
            server.publish("beside.snapshot", &acme(2, "beside"));
            server.comes_to_say("acme", Some("beside"));
            fs::remove_file(&path).expect("removed");
            server.scans();
            server.publish("acme.snapshot", &acme(3, &format!("round {round}")));
            server.comes_to_say("acme", Some(&format!("round {round}")));
            fs::remove_file(server.path("beside.snapshot")).expect("removed");
        }
    });
    assert!(asked > 100, "only {asked} requests");
}

#[test]
fn what_does_not_fit_the_memory_is_refused_and_the_old_content_is_served() {
    let old = acme(1, "old");
    let room = (old.len() * 3 / 2).to_string();
    let server =
        Server::start(&[("acme.snapshot", &old)], &["--snapshots-memory", &room, "--rescan-ms", "20"]);
    server.publish("acme.snapshot", &acme(2, "new"));
    eventually("the refusal names the flag", || {
        let log = server.log();
        (log.contains("acme.snapshot: its ") && log.contains("--snapshots-memory")).then_some(())
    });
    assert_eq!(server.says("acme").as_deref(), Some("old"));
    // Once the old one is gone, and every worker has let go of it, there is room.
    fs::rename(server.path("acme.snapshot"), server.path("aside")).expect("renamed");
    server.comes_to_say("acme", None);
    fs::rename(server.path("aside"), server.path("acme.snapshot")).expect("renamed");
    server.comes_to_say("acme", Some("new"));
}
