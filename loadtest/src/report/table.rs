//! A report as a table for the terminal.

use std::fmt::Write;

use super::gather::Spread;
use super::{Comparison, Report, Side, Window};

/// A function that returns one figure of a window.
pub type Figure = fn(&Window) -> f64;

/// Names and accessors of the figures that are compared.
pub const COMPARED_FIGURES: [(&str, Figure); 5] = [
    ("CPU per request", |window| window.server_us_per_request),
    ("requests per second", |window| window.per_second),
    ("p50", |window| window.p50_us),
    ("p99", |window| window.p99_us),
    ("p99.9", |window| window.p999_us),
];

const HEADINGS: [&str; 8] =
    ["server CPU us", "min-max", "per second", "p50 us", "p99 us", "p99.9 us", "generator us", "checked"];

/// Renders the whole report.
pub fn table(report: &Report) -> String {
    let mut text = format!("{}\n{}\n", report.command, report.machine.description());
    for comparison in &report.comparisons {
        text += &comparison_table(comparison);
    }
    text
}

/// Renders one comparison. Writing to a `String` cannot fail.
fn comparison_table(comparison: &Comparison) -> String {
    let mut text = format!("\n{}: {}\n", comparison.plan, comparison.about);
    let width = comparison.sides.iter().map(|side| side.server.chars().count()).max().unwrap_or(0);
    let _ = write!(text, "{:width$}", "");
    for heading in HEADINGS {
        let _ = write!(text, "  {heading:>13}");
    }
    text.push('\n');
    for side in &comparison.sides {
        let _ = write!(text, "{:width$}", side.server);
        for cell in cells(side) {
            let _ = write!(text, "  {cell:>13}");
        }
        text.push('\n');
    }
    for line in ratios(comparison).iter().chain(&void_warnings(comparison)).chain(&comparison.notes) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Returns the cells of a side's row, under [`HEADINGS`].
fn cells(side: &Side) -> [String; 8] {
    let spread = |figure: Figure| Spread::of(side.windows.iter().map(figure));
    let cpu = spread(|window| window.server_us_per_request);
    let latency = |figure| match side.void_windows() {
        0 => format_figure(spread(figure).median),
        _ => "void".to_owned(),
    };
    [
        format_figure(cpu.median),
        format!("{}-{}", format_figure(cpu.min), format_figure(cpu.max)),
        format_figure(spread(|window| window.per_second).median),
        latency(|window| window.p50_us),
        latency(|window| window.p99_us),
        latency(|window| window.p999_us),
        format_figure(spread(|window| window.generator_us_per_request).median),
        group_digits(side.windows.iter().map(|window| window.checked).sum()),
    ]
}

/// Returns the ratios of the first side's figures to the other's, in the order of [`COMPARED_FIGURES`]. A
/// void latency is `None`.
pub fn figure_ratios<'a>(first: &'a Side, other: &'a Side) -> impl Iterator<Item = Option<Spread>> + 'a {
    let is_void = first.void_windows() + other.void_windows() > 0;
    let is_latency = |name: &str| name.starts_with('p');
    COMPARED_FIGURES.iter().map(move |&(name, figure)| {
        (!is_void || !is_latency(name)).then(|| Spread::ratio(first, other, figure))
    })
}

/// Returns a line for each other side, with the first side's ratios to it.
fn ratios(comparison: &Comparison) -> Vec<String> {
    let Some((first, others)) = comparison.sides.split_first() else { return Vec::new() };
    let line = |other: &Side| {
        let ratios = COMPARED_FIGURES.iter().zip(figure_ratios(first, other));
        let texts = ratios.filter_map(|((name, _), ratio)| {
            let Spread { median, min, max } = ratio?;
            Some(format!("{name} {} x ({}-{})", format_ratio(median), format_ratio(min), format_ratio(max)))
        });
        format!("{} against {}: {}", first.server, other.server, texts.collect::<Vec<_>>().join(", "))
    };
    others.iter().map(line).collect()
}

/// Returns a warning for each side that has void windows.
pub fn void_warnings(comparison: &Comparison) -> Vec<String> {
    let void = comparison.sides.iter().filter(|side| side.void_windows() > 0);
    void.map(|side| {
        let (voids, all) = (side.void_windows(), side.windows.len());
        format!(
            "VOID: in {voids} of {all} windows of {}, over 1 % of the requests were sent late; lower the rate",
            side.server
        )
    })
    .collect()
}

/// Formats a figure with three significant digits, or all digits if it is greater.
pub fn format_figure(value: f64) -> String {
    match value {
        _ if value >= 1_000.0 => group_digits(value.round() as u64),
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Formats a number with thousands separators.
pub fn group_digits(value: u64) -> String {
    match value / 1_000 {
        0 => value.to_string(),
        thousands => format!("{},{:03}", group_digits(thousands), value % 1_000),
    }
}

/// Formats a ratio with two decimal places, or three below 0.1.
pub fn format_ratio(ratio: f64) -> String {
    if ratio < 0.1 { format!("{ratio:.3}") } else { format!("{ratio:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::sample;

    #[test]
    fn each_side_has_a_row_and_each_other_side_a_ratio() {
        let text = table(&sample());
        let expected = "\
loadtest resolve-forced
A processor, 2 processors, 8 GiB, Linux 6.18, load average 0.50 at the start

resolve-forced: GET of a page
          server CPU us        min-max     per second         p50 us         p99 us       p99.9 us   generator us        checked
parallax           6.00      5.00-7.00          1,000          1,000          1,000          1,000           1.00          3,000
floor              4.00      4.00-5.00          1,000          1,000          1,000          1,000           1.00          3,000
parallax against floor: CPU per request 1.40 x (1.25-1.50), requests per second 1.00 x (1.00-1.00), p50 1.00 x (1.00-1.00), p99 1.00 x (1.00-1.00), p99.9 1.00 x (1.00-1.00)
8,412 bytes an answer
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_void_window_hides_the_latencies() {
        let mut report = sample();
        report.comparisons[0].sides[1].windows[2].is_void = true;
        let text = table(&report);
        assert!(text.contains("VOID: in 1 of 3 windows of floor"), "{text}");
        let row = text.lines().find(|line| line.starts_with("floor")).expect("a row");
        assert_eq!(row.matches("void").count(), 3);
        assert!(!text.contains("p99 1.00 x"), "{text}");
    }

    #[test]
    fn figures_have_three_significant_digits() {
        let figures = [1.234, 12.34, 123.4, 1_234.4, 12_345.6, 1_002_003.0];
        assert_eq!(figures.map(format_figure), ["1.23", "12.3", "123", "1,234", "12,346", "1,002,003"]);
        assert_eq!([0.0678, 0.678, 6.78].map(format_ratio), ["0.068", "0.68", "6.78"]);
    }
}
