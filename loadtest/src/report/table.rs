//! A report as a table for the terminal.

use std::fmt::Write;

use super::gather::Spread;
use super::{Comparison, Report, Side, Window};

/// One of a window's figures.
pub type Figure = fn(&Window) -> f64;

/// Figures that are compared: what each is called, and where it stands.
pub const COMPARED: [(&str, Figure); 5] = [
    ("CPU a request", |window| window.server_us_per_request),
    ("requests a second", |window| window.per_second),
    ("p50", |window| window.p50_us),
    ("p99", |window| window.p99_us),
    ("p99.9", |window| window.p999_us),
];

const HEADINGS: [&str; 8] =
    ["server CPU us", "least-most", "a second", "p50 us", "p99 us", "p99.9 us", "generator us", "checked"];

/// The whole report.
pub fn table(report: &Report) -> String {
    let mut text = format!("{}\n{}\n", report.command, report.machine.words());
    for comparison in &report.comparisons {
        text += &one(comparison);
    }
    text
}

/// Writing to a String cannot fail.
fn one(comparison: &Comparison) -> String {
    let mut text = format!("\n{}: {}\n", comparison.plan, comparison.about);
    let wide = comparison.sides.iter().map(|side| side.server.chars().count()).max().unwrap_or(0);
    let _ = write!(text, "{:wide$}", "");
    for heading in HEADINGS {
        let _ = write!(text, "  {heading:>13}");
    }
    text.push('\n');
    for side in &comparison.sides {
        let _ = write!(text, "{:wide$}", side.server);
        for cell in cells(side) {
            let _ = write!(text, "  {cell:>13}");
        }
        text.push('\n');
    }
    for line in ratios(comparison).iter().chain(&voids(comparison)).chain(&comparison.notes) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// What stands in the row of a side, under [`HEADINGS`].
fn cells(side: &Side) -> [String; 8] {
    let spread = |figure: Figure| Spread::of(side.windows.iter().map(figure));
    let cpu = spread(|window| window.server_us_per_request);
    let latency = |figure| match side.voids() {
        0 => digits(spread(figure).median),
        _ => "void".to_owned(),
    };
    [
        digits(cpu.median),
        format!("{}-{}", digits(cpu.least), digits(cpu.most)),
        digits(spread(|window| window.per_second).median),
        latency(|window| window.p50_us),
        latency(|window| window.p99_us),
        latency(|window| window.p999_us),
        digits(spread(|window| window.generator_us_per_request).median),
        grouped(side.windows.iter().map(|window| window.checked).sum()),
    ]
}

/// How many times the other's the first side's figures are, in the order of [`COMPARED`]; None for a latency that is void.
pub fn compared<'a>(first: &'a Side, other: &'a Side) -> impl Iterator<Item = Option<Spread>> + 'a {
    let is_void = first.voids() + other.voids() > 0;
    let is_latency = |name: &str| name.starts_with('p');
    COMPARED.iter().map(move |&(name, figure)| {
        (!is_void || !is_latency(name)).then(|| Spread::ratio(first, other, figure))
    })
}

/// The first side against each of the others, in a line each.
fn ratios(comparison: &Comparison) -> Vec<String> {
    let Some((first, others)) = comparison.sides.split_first() else { return Vec::new() };
    let line = |other: &Side| {
        let ratios = COMPARED.iter().zip(compared(first, other));
        let said = ratios.filter_map(|((name, _), ratio)| {
            let Spread { median, least, most } = ratio?;
            Some(format!("{name} {} x ({}-{})", times(median), times(least), times(most)))
        });
        format!("{} against {}: {}", first.server, other.server, said.collect::<Vec<_>>().join(", "))
    };
    others.iter().map(line).collect()
}

/// A line for each side that has void windows.
pub fn voids(comparison: &Comparison) -> Vec<String> {
    let void = comparison.sides.iter().filter(|side| side.voids() > 0);
    void.map(|side| {
        let (voids, all) = (side.voids(), side.windows.len());
        format!(
            "VOID: in {voids} of {all} windows of {} over 1 % of the requests left late: ask fewer a second",
            side.server
        )
    })
    .collect()
}

/// Three digits that count, all of a great figure.
pub fn digits(value: f64) -> String {
    match value {
        _ if value >= 1_000.0 => grouped(value.round() as u64),
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// By thousands.
pub fn grouped(value: u64) -> String {
    match value / 1_000 {
        0 => value.to_string(),
        thousands => format!("{},{:03}", grouped(thousands), value % 1_000),
    }
}

/// How many times: two digits behind the point, or the first two that count.
pub fn times(ratio: f64) -> String {
    if ratio < 0.1 { format!("{ratio:.3}") } else { format!("{ratio:.2}") }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn each_side_has_a_row_and_each_other_side_a_ratio() {
        let text = table(&sample());
        let expected = "\
loadtest resolve-forced
A processor, 2 processors, 8 GiB, Linux 6.18, load average 0.50 when it began

resolve-forced: GET of a page
          server CPU us     least-most       a second         p50 us         p99 us       p99.9 us   generator us        checked
parallax           6.00      5.00-7.00          1,000          1,000          1,000          1,000           1.00          3,000
floor              4.00      4.00-5.00          1,000          1,000          1,000          1,000           1.00          3,000
parallax against floor: CPU a request 1.40 x (1.25-1.50), requests a second 1.00 x (1.00-1.00), p50 1.00 x (1.00-1.00), p99 1.00 x (1.00-1.00), p99.9 1.00 x (1.00-1.00)
8,412 bytes an answer
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_void_window_takes_the_latencies_away() {
        let mut report = sample();
        report.comparisons[0].sides[1].windows[2].is_void = true;
        let text = table(&report);
        assert!(text.contains("VOID: in 1 of 3 windows of floor"), "{text}");
        let row = text.lines().find(|line| line.starts_with("floor")).expect("a row");
        assert_eq!(row.matches("void").count(), 3);
        assert!(!text.contains("p99 1.00 x"), "{text}");
    }

    #[test]
    fn figures_have_three_digits() {
        let figures = [1.234, 12.34, 123.4, 1_234.4, 12_345.6, 1_002_003.0];
        assert_eq!(figures.map(digits), ["1.23", "12.3", "123", "1,234", "12,346", "1,002,003"]);
        assert_eq!([0.0678, 0.678, 6.78].map(times), ["0.068", "0.68", "6.78"]);
    }
}
