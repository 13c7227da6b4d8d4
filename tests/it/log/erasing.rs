//! An erased visitor is in no byte of the folder; everybody else is as before.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use parallax::checksum::keyed;
use parallax::clock::Clock;
use parallax::limits::{ERASED_IDS_MAX, PAYLOAD_BYTES_MAX, RETENTION_EVERY_MS, REWRITE_BYTES};
use parallax::storage::disk::{Disk, RealDisk};
use parallax::visitors::log::bloom::{Whose, may_contain};
use parallax::visitors::log::format::{
    BATCH_HEADER_BYTES, HEADER_BYTES, batch_length, secret_from_bytes, secret_to_bytes,
};
use parallax::visitors::log::{
    self, EraseError, Erased, Flaw, Follower, Item, Kind, Options, Outcome, Reader, Record, Records, Request,
    Secret, Verdict, Visitor, check_folder, read_footer, segment_name,
};

use super::simulated::{Plan, SimulatedDisk};
use super::{FOLDER, Log, TestClock, hex, options, record};
use crate::dice::Dice;
use crate::harness::temporary_folder;

/// Records of visitors, each with its own key, sent as one request; no verdicts where the disk refuses.
pub fn send(log: &mut Log, now_ms: i64, records: &[(u128, &str)]) -> Vec<Verdict> {
    let mut request = Request::new(0);
    for (key, visitor) in records {
        let payload = format!(r#"{{"note":"{visitor} was here at {key}"}}"#);
        let (anon_id, user_id) = match visitor.strip_prefix("user-") {
            Some(_) => (None, Some(*visitor)),
            None => (Some(*visitor), None),
        };
        let name = format!("page of {visitor}");
        let record = Record { anon_id, user_id, name: Some(&name), ..record(*key, now_ms, &payload) };
        request.push(&record).expect("it is within all bounds");
    }
    if log.port.send(request).is_err() {
        return Vec::new();
    }
    log.writer.step();
    let completion = log.port.take().expect("a step answers what was sent");
    let is_refused = completion.outcome == Outcome::DiskUnavailable;
    if is_refused { Vec::new() } else { completion.request.verdicts().to_vec() }
}

pub fn visitor(ids: &[&str]) -> Visitor {
    let whose = |id: &str| if id.starts_with("user-") { Whose::User } else { Whose::Anon };
    Visitor { site: "acme".to_owned(), ids: ids.iter().map(|id| (whose(id), (*id).to_owned())).collect() }
}

pub fn erase(log: &mut Log, ids: &[&str]) -> Result<Erased, EraseError> {
    let erasure = log.queue.erase(visitor(ids))?;
    log.writer.step();
    erasure.finish()
}

/// Seq, kind and payload of each record, and what is wrong.
fn read(disk: Arc<dyn Disk>, folder: &Path) -> (Vec<(u64, Kind, String)>, Vec<Flaw>) {
    let mut reader = Reader::open(disk, folder, 0).expect("it opens");
    let (mut read, mut flaws) = (Vec::new(), Vec::new());
    while let Some(item) = reader.read_next().expect("it reads") {
        match item {
            Item::Records(records) => {
                let entry = |(seq, record): (u64, Record<'_>)| (seq, record.kind, record.payload.to_owned());
                read.extend(records.iter().map(entry));
            }
            Item::Finding(finding) => flaws.push(finding.flaw),
        }
    }
    (read, flaws)
}

/// The files of the simulated folder that hold `text`.
pub fn files_with(disk: &SimulatedDisk, text: &str) -> Vec<String> {
    let holds = |name: &String| holds(&disk.bytes(&Path::new(FOLDER).join(name)), text);
    disk.names().into_iter().filter(|name| name != "lock").filter(holds).collect()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn nothing_of_an_erased_visitor_is_in_the_folder_and_every_other_record_is_as_it_was() {
    let folder = temporary_folder();
    let folder = folder.path();
    let clock = Arc::<TestClock>::default();
    let options = Options { segment_bytes: 4_000, ..options() };
    let mut log = Log::open_at(folder, Arc::new(RealDisk), &clock, options.clone()).expect("it opens");
    let mut dice = Dice(7);
    let visitors = ["ana-1", "ana-2", "user-ana", "bob-1", "user-carl", "ana-11", "dora-1"];
    let mut sent = Vec::new();
    for batch in 0..60_u128 {
        let records: Vec<(u128, &str)> =
            (1..=1 + dice.below(5) as u128).map(|n| (batch * 10 + n, *dice.of(&visitors))).collect();
        send(&mut log, clock.now_ms(), &records);
        sent.extend(records);
    }
    let before = read(Arc::new(RealDisk), folder).0;
    let erased_ids = ["ana-1", "ana-2", "user-ana"];
    let erased = erase(&mut log, &erased_ids).expect("the disk is well");
    let is_erased = |seq: u64| erased_ids.contains(&sent[seq as usize - 1].1);
    let count = (1..=sent.len() as u64).filter(|seq| is_erased(*seq)).count();
    assert_eq!((erased.records, erased.seq), (count as u64, sent.len() as u64 + 1));
    assert!(erased.segments > 5, "{erased:?}");
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let bytes = fs::read(entry.path()).expect("it reads");
        for text in ["ana-1 was", "ana-1Viewed", "page of ana-1/", "ana-2", "user-ana"] {
            assert!(!holds(&bytes, text), "{text} stands in {:?}", entry.file_name());
        }
    }
    assert_eq!(send(&mut log, clock.now_ms(), &[(9_999, "ana-1")]), [Verdict::Accepted(erased.seq + 1)]);
    log.stop();
    let (after, flaws) = read(Arc::new(RealDisk), folder);
    assert_eq!((after.len(), flaws), (sent.len() + 2, vec![]));
    for (seq, kind, payload) in &before {
        let now = &after[*seq as usize - 1];
        if is_erased(*seq) {
            assert_eq!((now.0, now.1, now.2.trim_matches('\0')), (*seq, Kind::Void, ""));
        } else {
            assert_eq!(now, &(*seq, *kind, payload.clone()));
        }
    }
    assert!(after[sent.len() + 1].2.contains("ana-1 was here"), "an event after it is of a new visitor");
    let checked = check_folder(Arc::new(RealDisk), folder).expect("it reads");
    assert_eq!((checked.findings, checked.void), (vec![], count as u64));
    let log = Log::open_at(folder, Arc::new(RealDisk), &clock, options).expect("it opens");
    assert_eq!((log.report.findings.len(), log.report.finished), (0, None));
    assert_eq!(fs::metadata(folder.join("secret")).expect("it is there").permissions().mode() & 0o777, 0o600);
}

/// A segment of its own for each of five batches.
fn five(disk: &SimulatedDisk, clock: &Arc<TestClock>, options: Options) -> Log {
    let options = Options { segment_bytes: 1, ..options };
    let mut log = Log::open(Arc::new(disk.clone()), clock, options).expect("the disk is well");
    for (key, visitors) in
        [["ana", "bob"], ["bob", "carl"], ["user-ana", "dora"], ["bob", "bob"], ["ana", "ana"]]
            .iter()
            .enumerate()
    {
        let key = 2 * key as u128 + 1;
        send(&mut log, clock.now_ms(), &[(key, visitors[0]), (key + 1, visitors[1])]);
    }
    log
}

#[test]
fn a_segment_without_the_visitor_is_not_touched_and_a_footer_tells_of_the_others_only() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = five(&disk, &clock, options());
    disk.take_log();
    let erased = erase(&mut log, &["ana", "user-ana"]).expect("the disk is well");
    assert_eq!(erased, Erased { records: 4, segments: 3, seq: 11 });
    let renamed: Vec<String> =
        disk.take_log().into_iter().filter(|line| line.ends_with(".segment")).collect();
    let expected = [1, 5, 9].map(|seq| format!("rename /data/{}", segment_name(seq)));
    assert!(expected.iter().all(|line| renamed.contains(line)), "{renamed:?}");
    assert!(!renamed.iter().any(|line| line.ends_with(&segment_name(3)) || line.ends_with(&segment_name(7))));
    let footer = |seq| {
        let path = Path::new(FOLDER).join(segment_name(seq));
        read_footer(&disk, &path).expect("it reads").expect("it is sealed")
    };
    let keys = |seq| footer(seq).keys.iter().map(|(key, _)| *key).collect::<Vec<_>>();
    assert_eq!([keys(1), keys(5), keys(9)], [vec![0, 2], vec![0, 6], vec![0, 0]]);
    assert!(!may_contain(&footer(1).filter, "acme", Whose::Anon, "ana"));
    assert!(may_contain(&footer(1).filter, "acme", Whose::Anon, "bob"));
    assert_eq!((footer(9).first_seq, footer(9).last_seq), (9, 10));
    log.stop();
    let mut log = Log::open(Arc::new(disk), &clock, options()).expect("it opens");
    assert_eq!(
        log.folded().into_iter().map(|(_, key)| key).collect::<Vec<_>>(),
        [0, 2, 3, 4, 0, 6, 7, 8, 0, 0, 0]
    );
    let completion = log.record(&[2, 8], clock.now_ms());
    assert_eq!(completion.request.verdicts(), [Verdict::Duplicate; 2], "of the others");
}

/// What a follower was told.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    Folded(u64, Kind),
    Erased(Visitor, u64),
    Named(u64, Vec<bool>),
}

#[derive(Clone)]
struct Listener {
    disk: SimulatedDisk,
    told: Arc<Mutex<Vec<Told>>>,
}

impl Follower for Listener {
    fn fold(&mut self, records: Records<'_>) {
        let mut told = self.told.lock().expect("no test panics in here");
        for (seq, record) in records.iter() {
            told.push(Told::Folded(seq, record.kind));
            if record.kind == Kind::Tombstone {
                let secret = Secret::read(Arc::new(self.disk.clone()), Path::new(FOLDER));
                let secret = secret.expect("it reads").expect("it is there");
                let of = |site, whose, id| secret.is_named(&record, site, whose, id);
                told.push(Told::Named(
                    seq,
                    vec![
                        of("acme", Whose::Anon, "ana"),
                        of("acme", Whose::User, "user-ana"),
                        of("acme", Whose::User, "ana"),
                        of("other", Whose::Anon, "ana"),
                        of("acme", Whose::Anon, "bob"),
                    ],
                ));
                assert!(!record.payload.contains("ana"), "never an id: {}", record.payload);
            }
        }
    }

    fn erase(&mut self, visitor: &Visitor, seq: u64) {
        self.told.lock().expect("no test panics in here").push(Told::Erased(visitor.clone(), seq));
    }
}

#[test]
fn whoever_folds_is_told_in_order_and_a_tombstone_tells_by_the_secret_only_whom_it_names() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let listener = Listener { disk: disk.clone(), told: Arc::default() };
    let open = || {
        let clock = Arc::clone(&clock) as Arc<dyn Clock>;
        let follower = Box::new(listener.clone());
        log::open(Path::new(FOLDER), options(), Arc::new(disk.clone()), clock, follower)
            .expect("the disk is well")
    };
    let (queue, mut writer, _) = open();
    let port = queue.port(Arc::new(|| ()));
    let mut both = Request::new(0);
    both.push(&Record { anon_id: Some("ana"), ..record(1, 0, "{}") }).expect("within bounds");
    port.send(both).expect("the queue takes it");
    let erasure = queue.erase(visitor(&["user-ana", "ana"])).expect("it is the only one");
    writer.step();
    erasure.finish().expect("the disk is well");
    let named = Told::Named(2, vec![true, true, false, false, false]);
    let tombstone = Told::Folded(2, Kind::Tombstone);
    let told = std::mem::take(&mut *listener.told.lock().expect("no test panics in here"));
    let erased = Told::Erased(visitor(&["user-ana", "ana"]), 2);
    assert_eq!(told, [Told::Folded(1, Kind::Track), erased, tombstone.clone(), named.clone()]);
    queue.stop();
    writer.close();
    drop(open());
    let told = listener.told.lock().expect("no test panics in here").clone();
    assert_eq!(told, [Told::Folded(1, Kind::Void), tombstone, named]);
}

#[test]
fn one_visitor_is_erased_at_a_time_by_one_id_or_as_many_as_are_allowed() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = five(&disk, &clock, options());
    for (count, fits) in [(0, false), (1, true), (ERASED_IDS_MAX - 1, true), (ERASED_IDS_MAX, true)]
        .into_iter()
        .chain([(ERASED_IDS_MAX + 1, false)])
    {
        let ids: Vec<String> = (0..count).map(|n| format!("nobody-{n}")).collect();
        let erased = erase(&mut log, &ids.iter().map(String::as_str).collect::<Vec<_>>());
        match erased {
            Ok(erased) => assert!(fits && erased.records == 0, "{count}: {erased:?}"),
            Err(error) => assert!(!fits && matches!(error, EraseError::Ids(n) if n == count), "{error}"),
        }
    }
    let first = log.queue.erase(visitor(&["ana"])).expect("nobody else is erased");
    assert!(matches!(log.queue.erase(visitor(&["bob"])).err(), Some(EraseError::Busy)));
    assert!(log.queue.figures().is_erasing());
    log.writer.step();
    assert!(matches!(log.queue.erase(visitor(&["bob"])).err(), Some(EraseError::Busy)));
    first.finish().expect("the disk is well");
    let forgotten = log.queue.erase(visitor(&["bob"])).expect("the first has ended");
    drop(forgotten);
    assert!(matches!(log.queue.erase(visitor(&["bob"])).err(), Some(EraseError::Busy)), "it is under way");
    log.writer.step();
    assert_eq!(erase(&mut log, &["carl"]).expect("the disk is well").records, 5, "and bob's four as well");
    let waiting = log.queue.erase(visitor(&["dora"])).expect("the others have ended");
    log.queue.stop();
    log.writer.close();
    assert_eq!(waiting.finish().expect("what was taken is done").records, 1);
    assert!(matches!(log.queue.erase(visitor(&["bob"])).err(), Some(EraseError::Stopped)));
}

#[test]
fn events_go_on_and_retention_waits_while_a_visitor_is_erased() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let retained = Options { retain_ms: Some(90_000), ..options() };
    let mut log = five(&disk, &clock, retained);
    let erasure = log.queue.erase(visitor(&["ana"])).expect("nobody else is erased");
    log.writer.step();
    clock.pass(2 * RETENTION_EVERY_MS);
    assert_eq!(send(&mut log, clock.now_ms(), &[(77, "ana")]), [Verdict::Accepted(12)]);
    assert!(disk.names().contains(&segment_name(1)), "what is old stays");
    let due = log.writer.due().expect("retention looks again") - clock.monotonic();
    assert!(due.as_millis() > 0, "and nothing spins");
    assert_eq!(erasure.finish().expect("the disk is well").records, 3);
    clock.pass(RETENTION_EVERY_MS);
    log.writer.step();
    let segments: Vec<String> =
        disk.names().into_iter().filter(|name| log::seq_of(name).is_some_and(|seq| seq < 11)).collect();
    assert_eq!(segments, [""; 0], "what is old goes then");
    assert_eq!(files_with(&disk, "ana was here"), [segment_name(12)], "of the new visitor");
}

#[test]
fn what_retention_could_not_delete_is_gone_after_an_erasure() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = five(&disk, &clock, Options { retain_ms: Some(1_000), ..options() });
    clock.pass(RETENTION_EVERY_MS);
    let kept = disk.bytes(&Path::new(FOLDER).join(segment_name(1)));
    log.writer.step();
    assert!(!disk.names().contains(&segment_name(1)));
    disk.put(&Path::new(FOLDER).join(segment_name(1)), &kept);
    erase(&mut log, &["ana"]).expect("the disk is well");
    assert_eq!(files_with(&disk, "ana"), [""; 0]);
}

#[test]
fn tails_that_were_kept_aside_lose_the_visitor_and_whatever_cannot_be_read() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = five(&disk, &clock, options());
    let whole = disk.bytes(&Path::new(FOLDER).join(segment_name(1)));
    let end = HEADER_BYTES + batch_length(&whole[HEADER_BYTES..]).expect("a batch");
    let aside = |n: u32| Path::new(FOLDER).join(format!("{:020}.torn-{n}", 1));
    let torn = b"ana was here and whoever else: {{{";
    disk.put(&aside(1), &whole[HEADER_BYTES..end]);
    disk.put(&aside(2), &[&[1; 16], &whole[HEADER_BYTES..end], &torn[..]].concat());
    disk.put(&aside(3), torn);
    let others = disk.bytes(&Path::new(FOLDER).join(segment_name(3)));
    let end_of_others = HEADER_BYTES + batch_length(&others[HEADER_BYTES..]).expect("a batch");
    disk.put(&aside(4), &others[HEADER_BYTES..end_of_others]);
    let erased = erase(&mut log, &["ana"]).expect("the disk is well");
    assert_eq!(erased.records, 3, "those of tails do not count");
    assert_eq!(files_with(&disk, "ana was"), [segment_name(5)], "user-ana is another");
    assert_eq!(
        files_with(&disk, "bob was here at 2"),
        [segment_name(1), "00000000000000000001.torn-1".to_owned(), "00000000000000000001.torn-2".to_owned()]
    );
    assert!(!disk.names().contains(&"00000000000000000001.torn-3".to_owned()), "no batch of it is whole");
    assert_eq!(disk.bytes(&aside(4)), others[HEADER_BYTES..end_of_others], "nothing of the visitor");
    assert_eq!(disk.bytes(&aside(2))[..16], [0; 16]);
}

#[test]
fn damage_in_a_segment_that_may_hold_the_visitor_is_zeroed_and_stays_a_loss() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk is well");
    let keys = 1..=4_u128;
    keys.clone().for_each(|key| drop(send(&mut log, 0, &[(key, "ana"), (key + 10, "bob")])));
    log.stop();
    let path = Path::new(FOLDER).join(segment_name(1));
    let mut bytes = disk.bytes(&path);
    let batch = batch_length(&bytes[HEADER_BYTES..]).expect("a batch");
    bytes[HEADER_BYTES + batch + 90] ^= 1;
    disk.put(&path, &bytes);
    let lost = |disk: &SimulatedDisk| {
        let checked = check_folder(Arc::new(disk.clone()), Path::new(FOLDER)).expect("it reads");
        checked.findings.iter().map(|finding| (finding.flaw, finding.lost.clone())).collect::<Vec<_>>()
    };
    let before = lost(&disk);
    assert_eq!(before, [(Flaw::Batch, 3..5)]);
    let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("it opens");
    assert_eq!(erase(&mut log, &["ana"]).expect("the disk is well").records, 3);
    assert_eq!((lost(&disk), files_with(&disk, "ana")), (before, vec![]));
    let damaged = HEADER_BYTES + batch..HEADER_BYTES + 2 * batch;
    assert!(disk.bytes(&path)[damaged].iter().all(|byte| *byte == 0), "all else is where it was");
    assert_eq!(files_with(&disk, "bob was here at 14"), [segment_name(1)]);
}

#[test]
fn batches_around_what_is_written_at_once_stay_in_their_places() {
    for bytes in [REWRITE_BYTES - 8, REWRITE_BYTES, REWRITE_BYTES + 8, 3 * REWRITE_BYTES] {
        let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
        let mut log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("the disk is well");
        let mut request = Request::new(0);
        let record = |key| Record { anon_id: Some("ana"), ..record(key, 0, "") };
        let texts = ["acme", "m", "ana", "Viewed", "/x"].concat().len();
        let parts = 2 * bytes.div_ceil(PAYLOAD_BYTES_MAX);
        for key in 1..=parts {
            let part = (bytes - BATCH_HEADER_BYTES - request.bytes()) / (parts + 1 - key) / 8 * 8;
            let payload = "x".repeat(part - 72 - texts);
            request.push(&Record { payload: &payload, ..record(key as u128) }).expect("within bounds");
        }
        assert_eq!(request.bytes() + BATCH_HEADER_BYTES, bytes);
        log.port.send(request).expect("the queue takes it");
        log.writer.step();
        send(&mut log, 0, &[(98, "bob"), (99, "ana")]);
        let path = Path::new(FOLDER).join(segment_name(1));
        let before = disk.bytes(&path);
        let others = HEADER_BYTES + bytes..HEADER_BYTES + bytes + BATCH_HEADER_BYTES;
        assert_eq!(erase(&mut log, &["ana"]).expect("the disk is well").records, parts as u64 + 1);
        let after = disk.bytes(&path);
        assert_eq!(after[others.clone()][..12], before[others][..12], "all but its checksum");
        assert!(holds(&after, "bob was here at 98") && !holds(&after, "ana") && !holds(&after, "xx"));
        let checked = check_folder(Arc::new(disk), Path::new(FOLDER)).expect("it reads");
        assert_eq!((checked.findings, checked.void), (vec![], parts as u64 + 1));
    }
}

#[test]
fn names_are_hmac_sha_256_and_the_secret_is_as_it_was() {
    // RFC 4231, test case 1; zeros behind a shorter key change nothing.
    let mut key = [0; 32];
    key[..20].fill(0x0b);
    let expected = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7\n";
    assert_eq!(hex(&keyed(&key, &[b"Hi ", b"There"])), expected);
    let key = std::array::from_fn(|at| at as u8);
    let bytes = secret_to_bytes(&key);
    let golden = "ff504c5853454352000102030405060708090a0b0c0d0e0f1011121314151617\n\
                  18191a1b1c1d1e1f00000000";
    assert_eq!(&hex(&bytes)[..golden.len()], golden);
    assert_eq!(secret_from_bytes(&bytes), Some(key));
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes;
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(secret_from_bytes(&damaged), None, "bit {bit}");
    }
    assert_eq!(secret_from_bytes(&bytes[..47]), None);
}

#[test]
fn a_damaged_secret_is_said_and_nobody_is_erased_by_another() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = five(&disk, &clock, options());
    erase(&mut log, &["ana"]).expect("the disk is well");
    let path = Path::new(FOLDER).join("secret");
    let mut bytes = disk.bytes(&path);
    bytes[9] ^= 1;
    disk.put(&path, &bytes);
    let refused = erase(&mut log, &["bob"]).expect_err("no key, no name").to_string();
    assert!(refused.contains("`secret` is damaged"), "{refused}");
    assert_eq!(files_with(&disk, "bob was here at 3").len(), 1, "nothing was begun");
    drop(log);
    disk.put(&Path::new(FOLDER).join("erasing"), b"");
    let log = Log::open(Arc::new(disk.clone()), &clock, options()).expect("it serves all the same");
    assert_eq!(log.report.findings.iter().map(|finding| finding.flaw).collect::<Vec<_>>(), [Flaw::Secret]);
    assert!(log.report.is_loud() && disk.names().contains(&"erasing".to_owned()));
}

#[test]
fn a_disk_that_fails_begins_no_erasure_or_says_that_it_is_not_finished() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::<TestClock>::default());
    let mut log = five(&disk, &clock, options());
    disk.plan(Plan::Full);
    let refused = erase(&mut log, &["ana"]).expect_err("there is no room").to_string();
    assert!(refused.ends_with("the next erasure or the next start finishes it"), "{refused}");
    disk.plan(Plan::Never);
    clock.pass(500);
    log.writer.step();
    assert_eq!(erase(&mut log, &["ana"]).expect("the disk is well").records, 3);
    assert_eq!(files_with(&disk, "ana was").len(), 1);
}
