//! The fuzz targets (R3) hold for their seeds, for mutations of the seeds, and for random bytes. libFuzzer
//! searches further: see `tests/fuzz/README.md`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::dice::Dice;
use crate::fuzz::TARGETS;
use crate::harness::times;
use crate::mutated::mutations::mutant;

/// Returns the contents of the files of a directory with their names, sorted by name.
fn contents(directory: &str) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz").join(directory);
    let paths = directory.read_dir().expect("a directory").map(|entry| entry.expect("an entry").path());
    let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let mut contents: Vec<_> =
        paths.map(|path| (name(&path), std::fs::read(path).expect("readable"))).collect();
    contents.sort();
    contents
}

#[test]
fn every_target_holds_for_its_seeds_and_their_mutations() {
    for (name, target) in TARGETS {
        let assert_holds = |bytes: &[u8]| {
            let held = catch_unwind(AssertUnwindSafe(|| target(bytes)));
            assert!(held.is_ok(), "{name}: {}", bytes.escape_ascii());
        };
        let seeds: Vec<Vec<u8>> =
            contents(&format!("seeds/{name}")).into_iter().map(|(_, bytes)| bytes).collect();
        seeds.iter().for_each(|seed| assert_holds(seed));
        let mut dice = Dice(20_260_105);
        for _ in 0..times(2_000, 1_000_000) {
            assert_holds(&mutant(&seeds, &mut dice));
            let noise: Vec<u8> = (0..dice.below(64)).map(|_| dice.next_u64() as u8).collect();
            assert_holds(&noise);
        }
    }
}

#[test]
fn every_target_is_registered_with_the_fuzzer() {
    let registered: Vec<String> = contents("fuzz_targets").into_iter().map(|(name, _)| name).collect();
    assert_eq!(registered, TARGETS.map(|(name, _)| name));
    let manifest = include_str!("../fuzz/Cargo.toml");
    for (name, text) in contents("fuzz_targets") {
        let call = format!("parallax_fuzz::{name}::{name}(bytes)");
        assert!(String::from_utf8(text).expect("UTF-8").contains(&call), "{name}");
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
    }
}
