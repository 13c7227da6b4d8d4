//! The committed figures of `benches/instructions.txt`: what was counted is held against them, or written in their place.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// A difference of so many in a thousand is none: the compiler lays code out anew for changes elsewhere.
const TOLERANCE_PER_MILLE: i64 = 30;

const HEADER: &str = "\
# Instructions of each case of `cargo bench --profile gate --bench instructions -- --gate`, which fails where one takes over 3 %
# more. The same with --write writes this file. It holds for x86-64 with AVX2, whatever the processor: valgrind shows a program no
# later extension, and what memchr, simd-json, CRCs and the C library choose by. It holds for the compiler and the C library below:
# after an update of theirs write it anew, in a commit of its own.
";

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.txt")
}

/// What the figures depend on beside the source.
fn tools() -> String {
    let version = |program: &str| {
        let output = Command::new(program).arg("--version").output().expect("it is installed");
        String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
    };
    format!("# {}; {}; {}", version("rustc"), version("ldd"), version("valgrind"))
}

/// Puts what was counted in the place of the baseline.
pub fn write(counted: &[(&str, u64)]) {
    let mut text = format!("{HEADER}{}\n", tools());
    counted.iter().for_each(|(name, count)| writeln!(text, "{name} {count}").expect("a string takes all"));
    std::fs::write(path(), text).expect("the baseline is written");
}

/// Says what differs from the baseline; fails where more is taken, or a case is not there.
pub fn hold(counted: &[(&str, u64)]) -> ExitCode {
    let text = std::fs::read_to_string(path()).expect("benches/instructions.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut baseline: BTreeMap<&str, i64> = lines
        .map(|line| line.split_once(' ').expect("a case and a count"))
        .map(|(name, count)| (name, count.parse().expect("a count")))
        .collect();
    let mut is_held = true;
    for (name, count) in counted {
        let Some(then) = baseline.remove(name) else {
            println!("{name}: it has no baseline: write it (--write)");
            is_held = false;
            continue;
        };
        let per_mille = (*count as i64 - then) * 1000 / then;
        if per_mille > TOLERANCE_PER_MILLE {
            println!("{name}: WORSE by {per_mille} in a thousand: {then} before, {count} now");
            is_held = false;
        } else if per_mille < -TOLERANCE_PER_MILLE {
            println!("{name}: better by {} in a thousand: write the new baseline (--write)", -per_mille);
        }
    }
    for name in baseline.keys() {
        println!("{name}: the baseline has it and nothing counts it: write it anew (--write)");
        is_held = false;
    }
    let tools = tools();
    if !is_held && !text.contains(&tools) {
        println!("The baseline is of other tools than these, which may be why:\n{tools}");
    }
    if is_held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
