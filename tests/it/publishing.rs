//! `snapshots/` is the whole state of publishing. Files are added, replaced and removed while a server runs
//! (R9; interface, section 12, on snapshots).

mod choosing;
mod files;
mod phases;
mod ramps;
mod since;
mod told;
mod versions;
mod waiting;

use std::fs;
use std::time::{Duration, Instant};

use parallax::testing::site::snapshot::format::HEADER_BYTES;

use crate::harness::{Client, Response, Server, eventually, snapshot, under_load};

/// Compiles site `acme` as `version`. The title of its page `/` is `text`. Its page `/fixed` never changes.
pub(crate) fn acme(version: u64, text: &str) -> Vec<u8> {
    site("acme", "track_acme", version, text)
}

/// Compiles a site. The title of its page `/` is `text`.
pub(crate) fn site(id: &str, tracking_id: &str, version: u64, text: &str) -> Vec<u8> {
    let about = format!(r#"{{"site":"{id}","trackingId":"{tracking_id}","name":"{id}"}}"#);
    let page = format!(r#"{{"path":"/","layout":{{"root":{{"props":{{"title":"{text}"}}}},"zones":{{}}}}}}"#);
    let fixed = r#"{"path":"/fixed","layout":{"root":{"props":{"title":"fixed"}},"zones":{}}}"#;
    snapshot(&[("site.json", &about), ("routes/index.json", &page), ("routes/fixed.json", fixed)], version)
}

/// Returns the title of the page `/`, or `None` if the site is not published.
fn title(response: &Response) -> Option<String> {
    if response.status == 404 {
        assert_eq!(response.code(), "site_not_found");
        return None;
    }
    assert_eq!(response.status, 200, "{}", response.text());
    Some(response.json()["layout"]["root"]["props"]["title"].as_str().expect("a title").to_owned())
}

impl Server {
    fn title_of(&self, site: &str) -> Option<String> {
        title(&self.get(&format!("/v1/resolve?site={site}&route=/&variants=")))
    }

    /// Waits until the title of `site` is `text`, or until it is unpublished. Returns the elapsed time.
    fn wait_until_served(&self, site: &str, text: Option<&str>) -> Duration {
        let start = Instant::now();
        eventually(&format!("{site} has the title {text:?}"), || {
            (self.title_of(site).as_deref() == text).then_some(())
        });
        start.elapsed()
    }

    /// Waits for a complete scan that begins after this call. It publishes two markers, because the scan that
    /// finds the first marker may have begun before the call. The scan that finds the second has not.
    fn wait_for_scan(&self) {
        for _ in 0..2 {
            let text = format!("{:?}", Instant::now()).replace('"', "");
            self.publish("zz-marker.snapshot", &site("marker", "track_marker", 1, &text));
            self.wait_until_served("marker", Some(&text));
        }
    }

    fn log_count(&self, text: &str) -> usize {
        self.log().matches(text).count()
    }
}

fn request_acme(client: &mut Client) {
    let response = client.request("GET", "/v1/resolve?trackingId=track_acme&route=/&variants=", &[]);
    assert!(title(&response).is_some(), "acme is not published");
}

#[test]
fn publishing_replacing_and_removing_take_effect_within_a_second() {
    // Only inotify reports changes here: the next periodic scan is 10 minutes away.
    let server = Server::start(&[], &["--rescan-ms", "600000"]);
    assert_eq!(server.title_of("acme"), None);
    let mut times = Vec::new();
    for round in 0..4 {
        let (new, changed) = (format!("new {round}"), format!("changed {round}"));
        server.publish("acme.snapshot", &acme(1, &new));
        times.push(server.wait_until_served("acme", Some(&new)));
        // The same version with another text, written over the file.
        fs::write(server.path("acme.snapshot"), acme(1, &changed)).expect("overwritten");
        times.push(server.wait_until_served("acme", Some(&changed)));
        fs::remove_file(server.path("acme.snapshot")).expect("removed");
        times.push(server.wait_until_served("acme", None));
    }
    times.sort();
    // The median, so that this test passes on a machine that is busy with other tests.
    assert!(times[times.len() / 2] < Duration::from_secs(1), "{times:?}");
}

#[test]
fn the_highest_version_is_served_and_removing_it_rolls_back() {
    let server = Server::start(&[("z.snapshot", &acme(2, "two"))], &[]);
    server.publish("m.snapshot", &acme(3, "three"));
    server.wait_until_served("acme", Some("three"));
    server.publish("a.snapshot", &acme(1, "one"));
    server.publish("zz.snapshot", &acme(1, "another one"));
    server.wait_for_scan();
    assert_eq!(server.title_of("acme").as_deref(), Some("three"));
    assert_eq!(
        server.log_count("different content"),
        0,
        "a conflict of versions that are not served is logged"
    );
    fs::remove_file(server.path("m.snapshot")).expect("removed");
    server.wait_until_served("acme", Some("two"));
    fs::remove_file(server.path("z.snapshot")).expect("removed");
    eventually("one of two contents of version 1", || {
        server.title_of("acme")?.ends_with("one").then_some(())
    });
    assert_eq!(server.get("/v1/routes?site=acme").field("x-version"), Some("1"));
    server.wait_for_log("different content");
    server.wait_for_scan();
    assert_eq!(server.log_count("different content"), 1, "{}", server.log());
}

#[test]
fn the_greater_hash_of_equal_versions_is_served_with_a_warning() {
    let mut contents: Vec<(String, Vec<u8>)> =
        (0..3).map(|i| i.to_string()).map(|t| (t.clone(), acme(5, &t))).collect();
    contents.sort_by_key(|(_, bytes)| bytes[32..HEADER_BYTES].to_vec());
    let [(_, least), (_, middle), (text, greatest)] = &contents[..] else {
        unreachable!("there are three contents")
    };
    // The greatest hash has the first name in one round and the last name in the other.
    for names in [["c.snapshot", "b.snapshot", "a.snapshot"], ["a.snapshot", "b.snapshot", "c.snapshot"]] {
        let server = Server::start(&[(names[1], middle), (names[2], greatest)], &[]);
        assert_eq!(server.title_of("acme").as_ref(), Some(text));
        let warning =
            format!("{} and {} have different content for version 5 of site acme", names[2], names[1]);
        assert_eq!(server.log_count(&warning), 1, "{}", server.log());
        server.publish(names[0], least);
        server.wait_for_scan();
        assert_eq!(server.title_of("acme").as_ref(), Some(text));
        // The server logs the warning after the swap.
        eventually("the conflict with the third is logged", || {
            (server.log_count("different content") == 2).then_some(())
        });
    }
}

#[test]
fn a_damaged_file_keeps_the_old_content_and_is_logged_once() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "whole"))], &["--rescan-ms", "20"]);
    let mut damaged = acme(2, "damaged");
    *damaged.last_mut().expect("bytes") ^= 1;
    server.publish("acme.snapshot", &damaged);
    let reason = "acme.snapshot: damaged: the content does not match the hash in the header";
    server.wait_for_log(reason);
    for _ in 0..3 {
        server.wait_for_scan();
    }
    assert_eq!(server.title_of("acme").as_deref(), Some("whole"));
    assert_eq!(server.log_count(reason), 1, "{}", server.log());
    server.publish("acme.snapshot", &acme(1, "mended"));
    server.wait_until_served("acme", Some("mended"));
    server.publish("acme.snapshot", b"a text that somebody dropped here");
    server.wait_for_log("acme.snapshot: not a snapshot");
    assert_eq!(server.title_of("acme").as_deref(), Some("mended"));
    fs::remove_file(server.path("acme.snapshot")).expect("removed");
    server.wait_until_served("acme", None);
}

#[test]
fn the_name_of_a_file_cannot_write_a_second_line_into_the_log() {
    let server = Server::start(&[], &["--rescan-ms", "20"]);
    for (name, logged) in [
        ("a\nERROR forged.snapshot", r"a\nERROR forged.snapshot"),
        ("b\r\tERROR forged.snapshot", r"b\r\tERROR forged.snapshot"),
        ("c\u{1b}[2K\u{8}\u{85}.snapshot", r"c\x1b[2K\x08\u{85}.snapshot"),
    ] {
        server.publish(name, b"a text");
        let line = format!("{logged}: not a snapshot: ");
        eventually("the refusal is logged", || (server.log_count(&line) == 1).then_some(()));
    }
    let log = server.log();
    assert!(log.lines().all(|line| line.contains(" INFO ") || line.contains(" WARN ")), "{log}");
    assert!(!log.trim_end().contains(|c: char| c.is_control() && c != '\n'), "{log:?}");
}

#[test]
fn each_refusal_of_a_file_says_what_to_do() {
    let server = Server::start(&[], &["--rescan-ms", "20"]);
    let whole = acme(1, "whole");
    let (mut damaged, mut old) = (whole.clone(), whole.clone());
    *damaged.last_mut().expect("bytes") ^= 1;
    old[8] ^= 1;
    let again = "copy the file again, or compile the site again";
    for (name, bytes, start, end) in [
        ("empty.snapshot", &b""[..], "incomplete: 0 of ", "; copy the file again"),
        ("foreign.snapshot", b"a text", "not a snapshot: ", again),
        ("damaged.snapshot", &damaged, "damaged: ", again),
        ("cut.snapshot", &whole[..whole.len() - 1], "incomplete: ", "; copy the file again"),
        ("old.snapshot", &old, "unsupported format version ", "with this release's `parallax compile`"),
    ] {
        server.publish(name, bytes);
        let line = eventually("the refusal is logged", || {
            let log = server.log();
            log.lines().find(|line| line.contains(&format!("{name}: "))).map(str::to_owned)
        });
        assert!(line.contains(&format!("{name}: {start}")) && line.ends_with(end), "{line}");
    }
    std::os::unix::fs::symlink("nowhere", server.path("link.snapshot")).expect("a link");
    eventually("the refusal is logged", || {
        let end = "; let the server read the file, or delete it";
        let is_it = |line: &str| line.contains("link.snapshot: cannot be read: ") && line.ends_with(end);
        server.log().lines().any(is_it).then_some(())
    });
}

#[test]
fn a_served_site_keeps_its_tracking_id() {
    let of = |id: &str| site(id, "track_shared", 1, id);
    let by_tracking_id =
        |server: &Server| title(&server.get("/v1/resolve?trackingId=track_shared&route=/&variants="));
    let server = Server::start(&[("b.snapshot", &of("bear"))], &[]);
    server.publish("a.snapshot", &of("ant"));
    let refusal = "a.snapshot: site ant has tracking ID track_shared, which belongs to site bear";
    eventually("the second site is refused by name", || (server.log_count(refusal) == 1).then_some(()));
    assert_eq!(by_tracking_id(&server).as_deref(), Some("bear"));
    assert_eq!(server.title_of("ant"), None);
    // At startup no site is served yet. So the smaller site ID gets the tracking ID.
    let server = server.restart(&[]);
    assert_eq!(by_tracking_id(&server).as_deref(), Some("ant"));
    assert_eq!(server.title_of("bear"), None);
    fs::remove_file(server.path("a.snapshot")).expect("removed");
    server.wait_until_served("bear", Some("bear"));
}

#[test]
fn a_version_with_the_tracking_id_of_another_site_is_refused() {
    let bear = site("bear", "track_bear", 1, "bear");
    let server = Server::start(&[("b.snapshot", &bear), ("a-1.snapshot", &acme(1, "one"))], &[]);
    server.publish("a-2.snapshot", &site("acme", "track_bear", 2, "two"));
    let refusal = "a-2.snapshot: site acme has tracking ID track_bear, which belongs to site bear";
    eventually("the version is refused by name", || (server.log_count(refusal) == 1).then_some(()));
    assert_eq!(server.title_of("acme").as_deref(), Some("one"));
    assert_eq!(server.title_of("bear").as_deref(), Some("bear"));
    // Without the other site the waiting version gets its tracking ID.
    fs::remove_file(server.path("b.snapshot")).expect("removed");
    server.wait_until_served("acme", Some("two"));
}

#[test]
fn a_restart_serves_the_same_content() {
    let snapshots = [
        ("1.snapshot", acme(1, "one")),
        ("2.snapshot", acme(2, "two")),
        ("other.snapshot", site("other", "track_other", 9, "other")),
    ];
    let held: Vec<(&str, &[u8])> = snapshots.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
    let server = Server::start(&held, &[]);
    let responses = |server: &Server| {
        ["acme", "other"].map(|id| {
            let response = server.get(&format!("/v1/resolve?site={id}&route=/&variants="));
            (
                response.field("etag").map(str::to_owned),
                response.field("x-version").map(str::to_owned),
                response.body,
            )
        })
    };
    let before = responses(&server);
    let server = server.restart(&[]);
    assert_eq!(responses(&server), before);
}

#[test]
fn publishing_one_page_keeps_the_bytes_and_etags_of_other_pages() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "before"))], &[]);
    let targets = [
        "/v1/resolve?site=acme&route=/fixed&variants=",
        "/v1/resolve?site=acme&route=/fixed",
        "/v1/variants?site=acme&route=/fixed",
        "/v1/variants?site=acme&route=/fixed&include=combinations",
    ];
    let responses =
        || targets.map(|target| server.get(target)).map(|r| (r.field("etag").map(str::to_owned), r.body));
    let before = responses();
    let page = server.get("/v1/resolve?site=acme&route=/&variants=");
    server.publish("acme.snapshot", &acme(2, "after"));
    server.wait_until_served("acme", Some("after"));
    assert_eq!(responses(), before);
    assert_ne!(server.get("/v1/resolve?site=acme&route=/&variants=").field("etag"), page.field("etag"));
    let etag = before[0].0.as_deref().expect("an ETag");
    assert_eq!(server.get_with(targets[0], &[("If-None-Match", etag)]).status, 304);
}

#[test]
fn a_partly_written_file_is_not_served_until_it_is_complete() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "old"))], &["--rescan-ms", "20"]);
    let new = acme(2, "new");
    let path = server.path("slow.snapshot");
    let is_old = || assert_eq!(server.title_of("acme").as_deref(), Some("old"));
    for (chunk, end) in [0, 7, HEADER_BYTES, new.len() / 2, new.len() - 1].into_iter().enumerate() {
        fs::write(&path, &new[..end]).expect("written");
        server.wait_for_scan();
        is_old();
        assert_eq!(server.log_count("slow.snapshot: damaged"), 0, "chunk {chunk}: {}", server.log());
    }
    fs::write(&path, &new).expect("written");
    server.wait_until_served("acme", Some("new"));
    // The same over a served file: its old content is served until the new one is complete.
    let newest = acme(3, "newest");
    fs::write(&path, &newest[..newest.len() / 2]).expect("written");
    server.wait_for_scan();
    assert_eq!(server.title_of("acme").as_deref(), Some("new"));
    fs::write(&path, &newest).expect("written");
    server.wait_until_served("acme", Some("newest"));
}

#[test]
fn no_get_fails_while_a_served_file_changes() {
    let server = Server::start(&[("acme.snapshot", &acme(1, "one"))], &["--rescan-ms", "20"]);
    let path = server.path("acme.snapshot");
    let ((), requests) = under_load(server.edge, 2, request_acme, || {
        for round in 0..5 {
            fs::File::options().write(true).open(&path).expect("opened").set_len(0).expect("truncated");
            server.wait_for_scan();
            fs::write(&path, vec![0; 100_000]).expect("overwritten");
            server.wait_for_scan();
            fs::write(&path, acme(1, "in place")).expect("overwritten");
            server.wait_until_served("acme", Some("in place"));
            // A second file has another version while this file is removed.
            server.publish("beside.snapshot", &acme(2, "beside"));
            server.wait_until_served("acme", Some("beside"));
            fs::remove_file(&path).expect("removed");
            server.wait_for_scan();
            server.publish("acme.snapshot", &acme(3, &format!("round {round}")));
            server.wait_until_served("acme", Some(&format!("round {round}")));
            fs::remove_file(server.path("beside.snapshot")).expect("removed");
        }
    });
    assert!(requests > 100, "only {requests} requests");
}

#[test]
fn a_snapshot_over_the_memory_limit_is_refused_and_the_old_one_stays() {
    let old = acme(1, "old");
    let room = (old.len() * 3 / 2).to_string();
    let server =
        Server::start(&[("acme.snapshot", &old)], &["--snapshots-memory", &room, "--rescan-ms", "20"]);
    server.publish("acme.snapshot", &acme(2, "new"));
    eventually("the refusal with the flag is logged", || {
        let log = server.log();
        (log.contains("acme.snapshot: snapshot memory exhausted") && log.contains("--snapshots-memory"))
            .then_some(())
    });
    assert_eq!(server.title_of("acme").as_deref(), Some("old"));
    // There is memory again when the old snapshot is removed and every worker has released it.
    fs::rename(server.path("acme.snapshot"), server.path("aside")).expect("renamed");
    server.wait_until_served("acme", None);
    fs::rename(server.path("aside"), server.path("acme.snapshot")).expect("renamed");
    server.wait_until_served("acme", Some("new"));
}

#[test]
fn a_file_with_a_lower_version_is_logged_once_and_counted() {
    let server = Server::start(&[("a.snapshot", &acme(2, "two")), ("b.snapshot", &acme(1, "one"))], &[]);
    let superseded = || {
        let metrics = server.admin_get("/metrics");
        let line = metrics.text().lines().find(|line| line.starts_with("parallax_snapshots_superseded "));
        line.expect("a metric").rsplit(' ').next().expect("a value").to_owned()
    };
    assert_eq!((superseded(), server.title_of("acme")), ("1".to_owned(), Some("two".to_owned())));
    server.publish("c.snapshot", &acme(3, "three"));
    server.wait_until_served("acme", Some("three"));
    server.wait_for_scan();
    assert_eq!(superseded(), "2");
    assert_eq!(server.log_count("b.snapshot: version 1 of site acme is not served"), 1);
    assert_eq!(server.log_count("a.snapshot: version 2 of site acme is not served"), 1);
    fs::remove_file(server.path("c.snapshot")).expect("removed");
    server.wait_until_served("acme", Some("two"));
    fs::remove_file(server.path("b.snapshot")).expect("removed");
    server.wait_for_scan();
    assert_eq!(superseded(), "0");
}
