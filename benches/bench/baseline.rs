//! The committed figures of `benches/instructions.txt`: compares new counts with them, or replaces them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Differences up to 30 per mille are ignored: the compiler changes the layout of code when other code
/// changes.
const TOLERANCE_PER_MILLE: i64 = 30;

const HEADER: &str = "\
# Instructions of each case of `cargo bench --profile gate --bench instructions -- --gate`, which fails if a case takes over 3 %
# more. `--write` instead of `--gate` writes this file. The figures are valid for every x86-64 processor with AVX2: valgrind hides
# later extensions, by which memchr, simd-json, CRCs and the C library choose their code. They are valid only for the versions of
# compiler, C library and valgrind below. After an update of one of them, write this file again, in a commit of its own.
";

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.txt")
}

/// Returns the versions of the tools on which the figures depend, besides the source.
fn tools() -> String {
    let version = |program: &str| {
        let output = Command::new(program).arg("--version").output().expect("the tool is installed");
        String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
    };
    format!("# {}; {}; {}", version("rustc"), version("ldd"), version("valgrind"))
}

/// Replaces the baseline by these counts.
pub fn write(counted: &[(&str, u64)]) {
    let mut text = format!("{HEADER}{}\n", tools());
    counted
        .iter()
        .for_each(|(name, count)| writeln!(text, "{name} {count}").expect("writing to a String cannot fail"));
    std::fs::write(path(), text).expect("the baseline is written");
}

/// Prints the differences from the baseline. Fails if a count grew too much or the cases are not the same.
pub fn compare(counted: &[(&str, u64)]) -> ExitCode {
    let text = std::fs::read_to_string(path()).expect("benches/instructions.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut baseline: BTreeMap<&str, i64> = lines
        .map(|line| line.split_once(' ').expect("a case and a count"))
        .map(|(name, count)| (name, count.parse().expect("a count")))
        .collect();
    let mut is_held = true;
    for (name, count) in counted {
        let Some(then) = baseline.remove(name) else {
            println!("{name}: no baseline; add one with --write");
            is_held = false;
            continue;
        };
        let per_mille = (*count as i64 - then) * 1000 / then;
        if per_mille > TOLERANCE_PER_MILLE {
            println!("{name}: WORSE by {per_mille} per mille: baseline {then}, now {count}");
            is_held = false;
        } else if per_mille < -TOLERANCE_PER_MILLE {
            println!("{name}: better by {} per mille; update the baseline with --write", -per_mille);
        }
    }
    for name in baseline.keys() {
        println!("{name}: in the baseline, but no such case exists; update the baseline with --write");
        is_held = false;
    }
    let tools = tools();
    if !is_held && !text.contains(&tools) {
        println!(
            "The baseline was written with other versions of the tools, which may be the reason:\n{tools}"
        );
    }
    if is_held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
