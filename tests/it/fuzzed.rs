//! What is fuzzed (R3) holds for the seeds, for mistakes made of them, and for bytes that mean nothing. Finding more is
//! libFuzzer's business: see `tests/fuzz/README.md`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::dice::Dice;
use crate::fuzz::TARGETS;
use crate::harness::times;
use crate::mutated::mutations::mutant;

/// The contents of a folder's files, by name; comes with the names.
fn contents(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz").join(folder);
    let paths = folder.read_dir().expect("a folder").map(|entry| entry.expect("an entry").path());
    let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let mut contents: Vec<_> =
        paths.map(|path| (name(&path), std::fs::read(path).expect("readable"))).collect();
    contents.sort();
    contents
}

#[test]
fn every_target_holds_for_its_seeds_and_for_mistakes_made_of_them() {
    for (name, target) in TARGETS {
        let hold = |bytes: &[u8]| {
            let held = catch_unwind(AssertUnwindSafe(|| target(bytes)));
            assert!(held.is_ok(), "{name}: {}", bytes.escape_ascii());
        };
        let seeds: Vec<Vec<u8>> =
            contents(&format!("seeds/{name}")).into_iter().map(|(_, bytes)| bytes).collect();
        seeds.iter().for_each(|seed| hold(seed));
        let mut dice = Dice(20_260_105);
        for _ in 0..times(2_000, 1_000_000) {
            hold(&mutant(&seeds, &mut dice));
            let noise: Vec<u8> = (0..dice.below(64)).map(|_| dice.byte()).collect();
            hold(&noise);
        }
    }
}

#[test]
fn every_target_is_handed_to_the_fuzzer() {
    let handed: Vec<String> = contents("fuzz_targets").into_iter().map(|(name, _)| name).collect();
    assert_eq!(handed, TARGETS.map(|(name, _)| name));
    let manifest = include_str!("../fuzz/Cargo.toml");
    for (name, text) in contents("fuzz_targets") {
        let call = format!("parallax_fuzz::{name}::{name}(bytes)");
        assert!(String::from_utf8(text).expect("UTF-8").contains(&call), "{name}");
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
    }
}
