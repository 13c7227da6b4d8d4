//! The phases of experiments: when they begin, the file `phases` of the data directory, its limits and its damage.

use std::fs;
use std::path::Path;
use std::process::Command;

use parallax::testing::clock::now_ms;
use parallax::testing::condition::bucket_ranges;
use parallax::testing::limits::{COVERAGES_KEPT_MAX, PHASES_FILE_BYTES_MAX, PHASES_KEPT_MAX, PHASES_MAX};
use parallax::testing::site::catalog::phases::{Phase, Phases};
use parallax::testing::site::catalog::phases_file::{self, decode, encode};
use parallax::testing::site::compile::compile as compile_site;
use parallax::testing::site::snapshot::open::{Snapshot, SnapshotBudget};
use parallax::testing::site::source::files::Files;
use parallax::testing::site::source::read::read;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::harness::{Server, eventually, temporary_directory};

/// An experiment of the tests: its members in a rule.
pub(super) fn experiment(weights: [f64; 2], seed: &str) -> Value {
    json!({ "key": "e", "variants": ["default", "b"], "weights": weights, "seed": seed })
}

/// Compiles site `acme` with one experiment.
pub(super) fn acme(version: u64, experiment: &Value) -> Vec<u8> {
    compile(version, None, std::slice::from_ref(experiment))
}

/// Compiles site `acme`, or its preview of this name.
fn compile(version: u64, preview: Option<&str>, experiments: &[Value]) -> Vec<u8> {
    let rules: Vec<Value> =
        experiments.iter().map(|experiment| json!({ "experiment": experiment })).collect();
    let zone = json!({ "default": [], "variants": { "b": [], "c": [] }, "rules": rules });
    let page =
        json!({ "path": "/", "layout": { "root": { "props": {} }, "zones": { "z": zone } } }).to_string();
    let files = Files::from_memory([
        ("site.json", &br#"{"site":"acme","trackingId":"track_acme","name":"Acme"}"#[..]),
        ("routes/index.json", page.as_bytes()),
    ]);
    let (mut source, diagnostics) = read(&files, &|_, _| {});
    if let Some(name) = preview {
        source.site = source.site.map(|site| site.into_preview(name).expect("a short name"));
    }
    let compiled = compile_site(&source, diagnostics, version, &|_, _| {});
    compiled.unwrap_or_else(|mistakes| panic!("{}", mistakes.report(&files))).bytes
}

fn open(bytes: &[u8]) -> Snapshot {
    let directory = temporary_directory();
    let path = directory.path().join("acme.snapshot");
    fs::write(&path, bytes).expect("written");
    Snapshot::open(&path, &SnapshotBudget::new(u64::MAX)).expect("a valid snapshot")
}

pub(super) fn observe(phases: &mut Phases, bytes: &[u8], now_ms: i64) {
    let snapshot = open(bytes);
    phases.observe(std::iter::once(snapshot.site()), now_ms);
}

/// The coverages of a phase, each with its time.
pub(super) type Steps = Vec<(i64, f64)>;

/// Returns the weights of each phase, and its coverages with their times.
pub(super) fn summary(phases: &[Phase]) -> Vec<(Vec<f64>, Steps)> {
    let coverages = |phase: &Phase| -> Steps {
        phase.coverages.iter().map(|coverage| (coverage.from_ms, coverage.share)).collect()
    };
    phases.iter().map(|phase| (phase.arms.iter().map(|arm| arm.weight).collect(), coverages(phase))).collect()
}

/// A phase of the encoded form: seed, holdout, arms with their weights, coverages with their times.
type EncodedPhase = (String, f64, Vec<(String, f64)>, Vec<(u64, f64)>);
type EncodedSites = Vec<(String, Vec<(String, Vec<EncodedPhase>)>)>;

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Encodes a file by its specification.
fn file(sites: &EncodedSites) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, sites.len() as u64);
    for (site, experiments) in sites {
        put_text(&mut out, site);
        put_number(&mut out, experiments.len() as u64);
        for (key, phases) in experiments {
            put_text(&mut out, key);
            put_number(&mut out, phases.len() as u64);
            for (seed, holdout, arms, coverages) in phases {
                put_text(&mut out, seed);
                out.extend_from_slice(&holdout.to_le_bytes());
                put_number(&mut out, arms.len() as u64);
                for (key, weight) in arms {
                    put_text(&mut out, key);
                    out.extend_from_slice(&weight.to_le_bytes());
                }
                put_number(&mut out, coverages.len() as u64);
                for (from_ms, share) in coverages {
                    put_number(&mut out, *from_ms);
                    out.extend_from_slice(&share.to_le_bytes());
                }
                put_number(&mut out, 0);
            }
        }
    }
    sealed(&out)
}

/// Returns a file with this payload, a correct length and a correct hash.
fn sealed(payload: &[u8]) -> Vec<u8> {
    sealed_as(2, payload)
}

fn sealed_as(format: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = b"\xFFPLXPHAS".to_vec();
    bytes.extend_from_slice(&[format, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    let hash = blake3::hash(&[&bytes[..], payload].concat());
    bytes.extend_from_slice(hash.as_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Returns `count` phases of experiments that no site has, one for each key, from oldest to newest.
fn strangers(count: usize, seed: &str) -> EncodedSites {
    let phase = |index: usize| vec![(seed.to_owned(), 0.0, Vec::new(), vec![(index as u64, 1.0)])];
    let experiments = (0..count).map(|index| (format!("k{index:05}"), phase(index)));
    vec![("gone".to_owned(), experiments.collect())]
}

fn sites() -> impl Strategy<Value = EncodedSites> {
    let arms = prop::collection::vec(("[a-z]{1,3}", 0.0..=1.0_f64), 0..4);
    let coverages = prop::collection::vec((0..1_u64 << 45, 0.0..=1.0_f64), 1..4).prop_map(|mut coverages| {
        coverages.sort_by_key(|coverage| coverage.0);
        coverages
    });
    let phase = ("[a-zé]{0,5}", 0.0..=1.0_f64, arms, coverages);
    let phases = prop::collection::vec(phase, 1..=PHASES_KEPT_MAX).prop_map(|mut phases| {
        phases.sort_by_key(|phase| phase.3[0].0);
        phases
    });
    let experiments = prop::collection::btree_map("[A-Za-z0-9_-]{1,8}", phases, 0..4);
    prop::collection::btree_map(
        "[A-Za-z0-9_-]{1,8}",
        experiments.prop_map(|map| map.into_iter().collect()),
        0..4,
    )
    .prop_map(|map| map.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_file_has_the_specified_form(sites in sites()) {
        let bytes = file(&sites);
        let phases = decode(&bytes).expect("a sound file");
        for (site, experiments) in &sites {
            for (key, expected) in experiments {
                let found: Vec<EncodedPhase> = phases.of(site, key).iter().map(|phase| {
                    let arms = phase.arms.iter().map(|arm| (arm.key.clone(), arm.weight));
                    let coverages = phase.coverages.iter().map(|one| (one.from_ms as u64, one.share));
                    (phase.seed.clone(), phase.holdout, arms.collect(), coverages.collect())
                }).collect();
                prop_assert_eq!(&found, expected);
            }
        }
        prop_assert_eq!(encode(&phases), bytes);
    }

    #[test]
    fn any_changed_byte_is_damage(sites in sites(), at in any::<prop::sample::Index>(), by in 1..=255_u8) {
        let mut bytes = file(&sites);
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn a_forged_payload_never_panics(payload in prop::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..200)) {
        let _ = (decode(&sealed(&payload)), decode(&sealed_as(1, &payload)));
    }
}

#[test]
fn a_forged_payload_with_a_wrong_order_number_or_share_is_damage() {
    let with = |coverages| ("s".to_owned(), 0.0, vec![("b".to_owned(), 0.5)], coverages);
    let phase = |from_ms| with(vec![(from_ms, 1.0)]);
    let one = |phases: Vec<EncodedPhase>| vec![("a".to_owned(), vec![("e".to_owned(), phases)])];
    let is_sound = |sites: &EncodedSites| decode(&file(sites)).is_ok();
    for count in [PHASES_KEPT_MAX - 1, PHASES_KEPT_MAX, PHASES_KEPT_MAX + 1] {
        assert_eq!(is_sound(&one(vec![phase(1); count])), count <= PHASES_KEPT_MAX, "{count}");
    }
    for count in [PHASES_MAX - 1, PHASES_MAX, PHASES_MAX + 1] {
        assert_eq!(is_sound(&strangers(count, "s")), count <= PHASES_MAX, "{count}");
    }
    assert!(is_sound(&one(vec![phase(1), phase(1), phase(2)])));
    assert!(!is_sound(&one(vec![phase(2), phase(1)])), "a later phase first");
    assert!(!is_sound(&one(Vec::new())), "no phase");
    assert!(!is_sound(&one(vec![phase(u64::MAX)])), "a time beyond the calendar");
    for (share, expected) in [(0.0, true), (1.0, true), (-0.1, false), (1.1, false), (f64::NAN, false)] {
        for sites in [
            one(vec![(String::new(), 0.0, vec![("b".to_owned(), share)], vec![(1, 1.0)])]),
            one(vec![(String::new(), share, Vec::new(), vec![(1, 1.0)])]),
            one(vec![with(vec![(1, share)])]),
        ] {
            assert_eq!(is_sound(&sites), expected, "{share}");
        }
    }
    for count in [0, 1, COVERAGES_KEPT_MAX - 1, COVERAGES_KEPT_MAX, COVERAGES_KEPT_MAX + 1] {
        let sites = one(vec![with(vec![(1, 1.0); count])]);
        assert_eq!(is_sound(&sites), (1..=COVERAGES_KEPT_MAX).contains(&count), "{count}");
    }
    assert!(!is_sound(&one(vec![with(vec![(2, 1.0), (1, 1.0)])])), "a later coverage first");
    let twice = [one(vec![phase(1)]), one(vec![phase(1)])].concat();
    assert!(!is_sound(&twice), "a site twice");
}

#[test]
fn a_file_over_4_mib_is_not_read() {
    let directory = temporary_directory();
    let path = directory.path().join("phases");
    let file = fs::File::create(&path).expect("created");
    for bytes in [PHASES_FILE_BYTES_MAX - 1, PHASES_FILE_BYTES_MAX, PHASES_FILE_BYTES_MAX + 1] {
        // A sparse file takes no space.
        file.set_len(bytes).expect("the length is set");
        let error = phases_file::check(&path).expect_err("the file has no phases").to_string();
        let is_over = bytes > PHASES_FILE_BYTES_MAX;
        let fault = if is_over { "expected at most 4194304 bytes, got 4194305" } else { "its magic" };
        assert!(error.contains(fault), "{bytes}: {error}");
    }
}

#[test]
fn the_smallest_file_equals_the_golden_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/smallest.phases.hex");
    let arms = vec![("default".to_owned(), 0.5), ("b".to_owned(), 0.5)];
    let phases = vec![("e".to_owned(), 0.0, arms, vec![(1_767_225_600_000, 1.0)])];
    let bytes = file(&vec![("a".to_owned(), vec![("e".to_owned(), phases)])]);
    assert_eq!(encode(&decode(&bytes).expect("a sound file")), bytes);
    let line =
        |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ") + "\n";
    let text: String = bytes.chunks(16).map(line).collect();
    if std::env::var_os("PARALLAX_BLESS").is_some_and(|v| v == "1") {
        fs::write(&path, &text).expect("the golden file is written");
    }
    assert_eq!(fs::read_to_string(path).expect("the golden file"), text);
}

#[test]
fn a_file_of_format_1_goes_on_with_its_phases() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/phases-1/phases");
    let golden = decode(&fs::read(&path).expect("the golden file")).expect("a sound file");
    let since = vec![(1_767_225_600_000, 1.0)];
    assert_eq!(summary(golden.of("a", "e")), [(vec![0.5, 0.5], since)]);
    assert_eq!(phases_file::check(&path).expect("readable"), Some(1));
    // Weights without a short decimal form, at a coverage.
    for (weights, coverage) in
        [(vec![1.0 / 3.0; 3], 0.3), (vec![0.95, 0.05], 0.1), (vec![0.0, 0.3, 0.7], 1.0)]
    {
        let arms = ["default", "b", "c"];
        let mut payload = vec![1];
        put_text(&mut payload, "acme");
        payload.push(1);
        put_text(&mut payload, "e");
        payload.extend([1, 7]);
        put_text(&mut payload, "s");
        put_number(&mut payload, weights.len() as u64);
        for ((start, end), arm) in bucket_ranges(weights.len(), coverage, Some(&weights)).zip(arms) {
            put_text(&mut payload, arm);
            payload.extend(start.to_le_bytes());
            payload.extend(end.to_le_bytes());
        }
        let mut phases = decode(&sealed_as(1, &payload)).expect("a sound file");
        let mut served = experiment([0.5, 0.5], "s");
        served["variants"] = json!(arms[..weights.len()]);
        served["weights"] = json!(weights);
        served["coverage"] = json!(coverage);
        observe(&mut phases, &acme(1, &served), 9_000);
        assert_eq!(summary(phases.of("acme", "e")), [(weights, vec![(7, coverage)])]);
    }
}

#[test]
fn a_change_of_arms_weights_seed_or_holdout_begins_a_phase_and_nothing_else_does() {
    let first = || experiment([0.5, 0.5], "s");
    let with = |member: &str, value: Value| {
        let mut experiment = first();
        experiment[member] = value;
        experiment
    };
    for (changed, begins) in [
        (with("weights", json!([0.4, 0.6])), true),
        (with("variants", json!(["b", "default"])), true),
        (with("coverage", json!(0.5)), false),
        (with("seed", json!("t")), true),
        (with("holdout", json!(0.1)), true),
        (with("namespace", json!(["n", 0, 0.5])), false),
        (with("goal", json!("Order Placed")), false),
        (with("coverage", json!(1)), false),
    ] {
        let mut phases = Phases::default();
        observe(&mut phases, &acme(1, &first()), 1_000);
        observe(&mut phases, &acme(2, &changed), 2_000);
        let begun: Vec<i64> = phases.of("acme", "e").iter().map(Phase::from_ms).collect();
        assert_eq!(begun, if begins { vec![1_000, 2_000] } else { vec![1_000] }, "{changed}");
    }
}

#[test]
fn an_experiment_keeps_its_phases_while_it_is_not_published() {
    let mut phases = Phases::default();
    observe(&mut phases, &acme(1, &experiment([0.5, 0.5], "s")), 1_000);
    observe(&mut phases, &compile(2, None, &[]), 2_000);
    observe(&mut phases, &acme(3, &experiment([0.5, 0.5], "s")), 3_000);
    assert_eq!(summary(phases.of("acme", "e")), [(vec![0.5, 0.5], vec![(1_000, 1.0)])]);
    let keys: Vec<&str> = phases.experiments("acme").map(|(key, _)| key).collect();
    assert_eq!(keys, ["e"]);
    assert_eq!((phases.of("acme", "other"), phases.of("other", "e")), (&[][..], &[][..]));
}

#[test]
fn a_clock_that_is_set_back_does_not_change_the_order_of_phases() {
    let mut phases = Phases::default();
    for (version, now_ms) in [(1, 5_000), (2, 3_000), (3, -1)] {
        observe(&mut phases, &acme(version, &experiment([0.5, 0.5], &format!("s{version}"))), now_ms);
    }
    let begun: Vec<i64> = phases.of("acme", "e").iter().map(Phase::from_ms).collect();
    assert_eq!(begun, [5_000; 3]);
    assert_eq!(decode(&encode(&phases)), Ok(phases));
}

#[test]
fn a_preview_has_no_phases() {
    let mut phases = Phases::default();
    observe(&mut phases, &compile(1, Some("spring"), &[experiment([0.5, 0.5], "s")]), 1_000);
    assert_eq!(phases, Phases::default());
}

#[test]
fn the_oldest_phases_over_the_limit_of_an_experiment_are_dropped() {
    let mut phases = Phases::default();
    for version in 1..=PHASES_KEPT_MAX as u64 + 1 {
        observe(&mut phases, &acme(version, &experiment([0.5, 0.5], &format!("s{version}"))), version as i64);
        let first = version.saturating_sub(PHASES_KEPT_MAX as u64) as i64 + 1;
        let begun: Vec<i64> = phases.of("acme", "e").iter().map(Phase::from_ms).collect();
        assert_eq!(begun, (first..=version as i64).collect::<Vec<_>>());
    }
}

#[test]
fn the_oldest_phases_that_are_not_served_are_dropped_over_the_limit_of_all() {
    for count in [PHASES_MAX - 2, PHASES_MAX - 1, PHASES_MAX] {
        let mut phases = decode(&file(&strangers(count, "s"))).expect("a sound file");
        observe(&mut phases, &acme(1, &experiment([0.5, 0.5], "s")), 0);
        assert_eq!(phases.of("acme", "e").len(), 1, "the served one stays, although it is the oldest");
        assert_eq!(phases.of("gone", "k00000").is_empty(), count == PHASES_MAX, "{count}");
        assert_eq!(phases.of("gone", "k00001").len(), 1);
    }
    // Their memory has a limit too: 41 seeds of 100,000 bytes fit it, and 42 do not.
    for (count, is_dropped) in [(41, false), (42, true)] {
        let mut phases = decode(&file(&strangers(count, &"s".repeat(100_000)))).expect("a sound file");
        observe(&mut phases, &acme(1, &experiment([0.5, 0.5], "t")), 9_000);
        assert_eq!(phases.of("gone", "k00000").is_empty(), is_dropped, "{count}");
        assert_eq!((phases.of("gone", "k00001").len(), phases.of("acme", "e").len()), (1, 1));
        assert!(encode(&phases).len() as u64 <= PHASES_FILE_BYTES_MAX);
    }
}

fn check(data: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_parallax"))
        .arg("check")
        .arg(data)
        .output()
        .expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).expect("UTF-8"))
}

/// Waits until the file has `count` phases of the experiment, and returns them.
fn saved_phases(data: &Path, count: usize) -> Vec<Phase> {
    eventually("the phases are saved", || {
        let phases = decode(&fs::read(data.join("phases")).ok()?).ok()?;
        let phases = phases.of("acme", "e");
        (phases.len() == count).then(|| phases.to_vec())
    })
}

#[test]
fn phases_survive_a_restart_and_begin_when_they_are_first_served() {
    let before = now_ms();
    let server = Server::start(&[("acme.snapshot", &acme(1, &experiment([0.5, 0.5], "s")))], &[]);
    let first = saved_phases(server.data(), 1);
    assert!((before..=now_ms()).contains(&first[0].from_ms()), "{first:?}");
    let (code, text) = check(server.data());
    assert!(code == Some(0) && text.contains("phases: sound, 1 phase\n"), "{text}");
    // The same definition goes on, also in a new version.
    let server = server.restart(&[]);
    server.publish("acme.snapshot", &acme(2, &experiment([0.5, 0.5], "s")));
    let changed_after = now_ms();
    server.publish("acme.snapshot", &acme(3, &experiment([0.9, 0.1], "s")));
    let second = saved_phases(server.data(), 2);
    assert_eq!(second[0], first[0]);
    assert!((changed_after..=now_ms()).contains(&second[1].from_ms()), "{second:?}");
    // A change while no server runs begins with the start.
    let restarted_after = now_ms();
    fs::write(server.path("acme.snapshot"), acme(4, &experiment([0.9, 0.1], "t"))).expect("written");
    let server = server.restart(&[]);
    let third = saved_phases(server.data(), 3);
    assert_eq!(third[..2], second);
    assert!((restarted_after..=now_ms()).contains(&third[2].from_ms()), "{third:?}");
}

#[test]
fn a_lost_or_damaged_file_begins_the_first_phase_with_the_start() {
    let server = Server::start(&[("acme.snapshot", &acme(1, &experiment([0.5, 0.5], "s")))], &[]);
    let first = saved_phases(server.data(), 1);
    let path = server.data().join("phases");
    let sound = fs::read(&path).expect("a file");
    let mut flipped = sound.clone();
    flipped[60] ^= 1;
    let mut server = server;
    for damaged in [&sound[..20], &sound[..sound.len() - 1], &flipped, b"", b"phases"] {
        fs::write(&path, damaged).expect("written");
        let (code, text) = check(server.data());
        assert!(code == Some(1) && text.contains("the file `phases` is damaged"), "{text}");
        let restarted_after = now_ms();
        server = server.restart(&[]);
        server.wait_for_log("cannot read the phases of experiments");
        // The server replaces the damaged file.
        assert!(saved_phases(server.data(), 1)[0].from_ms() >= restarted_after.max(first[0].from_ms()));
    }
    fs::remove_file(&path).expect("removed");
    let server = server.restart(&[]);
    saved_phases(server.data(), 1);
    assert!(!server.log().contains("cannot read the phases of experiments"), "{}", server.log());
}

#[test]
fn a_file_that_cannot_be_written_does_not_stop_publishing_and_is_written_later() {
    let data = temporary_directory();
    // A directory of this name cannot be replaced, also not by a privileged user.
    let path = data.path().join("phases");
    fs::create_dir(&path).expect("created");
    let first = acme(1, &experiment([0.5, 0.5], "s"));
    let server = Server::start_with_data(data.path(), &[("acme.snapshot", &first)], &[]);
    eventually("the error is logged", || {
        (server.log_count("cannot save the phases of experiments") == 1).then_some(())
    });
    server.publish("acme.snapshot", &acme(2, &experiment([0.9, 0.1], "s")));
    eventually("the second version is served", || {
        (server.get("/v1/routes?site=acme").field("x-version") == Some("2")).then_some(())
    });
    fs::remove_dir(&path).expect("removed");
    saved_phases(server.data(), 2);
    eventually("the server says so", || {
        (server.log_count("the phases of experiments can be saved again") == 1).then_some(())
    });
}
