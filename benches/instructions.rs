//! How many user-space instructions does an answer take, from request bytes to response bytes?
//!
//! `cargo bench --bench instructions` runs each case under `valgrind --tool=callgrind` with two
//! counts of repetitions; the difference is the case alone. It does not depend on the machine's
//! mood. The copy of the body is part of the figure. In test mode each case is answered once.

#![expect(clippy::print_stdout, reason = "its table is what it is for")]

#[path = "bench/cases.rs"]
mod cases;
#[path = "bench/compiled.rs"]
mod compiled;
#[path = "bench/content.rs"]
mod content;
#[path = "bench/served.rs"]
mod served;
#[path = "bench/site.rs"]
mod site;

use std::process::Command;

use cases::cases;
use compiled::compiled;
use content::site_with_content;
use served::Served;

const FEW: usize = 1_000;
const MANY: usize = 3_000;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words[..] {
        [flag, name, count] if flag == "--repeat" => repeat(name, count.parse().expect("a count")),
        words if words.iter().any(|word| word == "--bench") => count_all(),
        _ => cases().iter().for_each(|case| repeat(case.name, 1)),
    }
}

fn repeat(name: &str, count: usize) {
    let case = cases().into_iter().find(|case| case.name == name).expect("a case of this name");
    let mut served = Served::new(&compiled(&site_with_content(), 1));
    case.assert(served.answer(&case.request));
    for _ in 0..count {
        std::hint::black_box(served.answer(std::hint::black_box(&case.request)).len());
    }
}

fn count_all() {
    println!("{:<24} {:>12} {:>12}", "case", "instructions", "answer bytes");
    for case in cases() {
        let mut served = Served::new(&compiled(&site_with_content(), 1));
        let bytes = served.answer(&case.request).len();
        let each = (instructions(case.name, MANY) - instructions(case.name, FEW)) / (MANY - FEW) as u64;
        println!("{:<24} {each:>12} {bytes:>12}", case.name);
    }
}

fn instructions(name: &str, count: usize) -> u64 {
    let itself = std::env::current_exe().expect("a program knows itself");
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(itself)
        .args(["--repeat", name, &count.to_string()])
        .output()
        .expect("valgrind is installed");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let collected = said.lines().find_map(|line| line.split("Collected : ").nth(1));
    collected.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("no count in {said}"))
}
