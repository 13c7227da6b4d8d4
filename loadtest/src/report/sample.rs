//! A report that tests render.

use super::{Comparison, Machine, Report, Side};
use crate::outcome;

/// Returns a report on two servers with a latency of 1 ms. Only tests use it.
pub fn sample() -> Report {
    let side =
        |name: &str, costs: [f64; 3]| Side::new(name, "1.0", &costs.map(|us| outcome::sample(1_000, us)));
    Report {
        command: "loadtest resolve-forced".to_owned(),
        date: "2026-11-22T00:00:00Z".to_owned(),
        machine: Machine {
            processor: "A processor".to_owned(),
            processors: 2,
            kernel: "6.18".to_owned(),
            memory_gib: 8.0,
            load: 0.5,
        },
        comparisons: vec![Comparison {
            plan: "resolve-forced".to_owned(),
            about: "GET of a page".to_owned(),
            sides: vec![side("parallax", [5.0, 6.0, 7.0]), side("floor", [4.0, 4.0, 5.0])],
            notes: vec!["8,412 bytes an answer".to_owned()],
        }],
    }
}
