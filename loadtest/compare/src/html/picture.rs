//! SVG pictures of a comparison: percentile curves, and bars of the CPU time per request. The colours come
//! from the page's style sheet, by the number of the side.

use std::fmt::Write;

use loadtest::report::gather::Spread;
use loadtest::report::table::{self, format_figure, group_digits};
use loadtest::report::{Comparison, Side};

use super::escape::escape;
use super::scale::Scale;

pub const STYLE: &str = include_str!("page.css");
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 330.0;
/// Margins of the curves, in pixels: left and right for figures and names, above and below.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 34.0;
const ABOVE: f64 = 12.0;
const BELOW: f64 = 44.0;
/// Labelled percentiles. Each has a point with its figure on every curve.
const MARKS: [(f64, &str); 5] =
    [(0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %")];

/// Converts a quantile to its number of nines, so that 90 %, 99 % and 99.9 % have equal distances.
fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile).log10()
}

/// Draws latencies up to 99.99 % of the requests. Writing to a `String` cannot fail.
pub fn curves(comparison: &Comparison) -> String {
    let points_of = |side: &'_ Side| -> Vec<(f64, f64)> {
        let quantiles = side.latency_us.quantiles.iter().copied();
        quantiles.filter(|(at, _)| (MARKS[0].0..1.0).contains(at)).collect()
    };
    let sides: Vec<_> = comparison.sides.iter().map(|side| (side, points_of(side))).collect();
    let figures = sides.iter().flat_map(|(_, points)| points.iter().map(|(_, us)| *us));
    let y = Scale::of(figures, (HEIGHT - BELOW, ABOVE));
    let (first, last) = (nines(MARKS[0].0), nines(MARKS[MARKS.len() - 1].0));
    let x = |at: f64| LEFT + (nines(at) - first) / (last - first) * (WIDTH - LEFT - RIGHT);
    let mut svg = open(HEIGHT, "Latency by percentile");
    grid(&mut svg, &y, &x);
    for (number, (side, points)) in sides.iter().enumerate() {
        let line: Vec<String> =
            points.iter().map(|(at, us)| format!("{:.1},{:.1}", x(*at), y.position(*us))).collect();
        let void = if side.void_windows() > 0 { " void" } else { "" };
        let _ = writeln!(svg, r#"<polyline class="line s{number}{void}" points="{}"/>"#, line.join(" "));
        for (at, name) in MARKS {
            points.iter().filter(|(found, _)| (found - at).abs() < 1e-9).for_each(|(_, us)| {
                let (cx, cy, server) = (x(at), y.position(*us), escape(&side.server));
                let _ = writeln!(svg, r#"<circle class="point s{number}" cx="{cx:.1}" cy="{cy:.1}" r="3.5"><title>{server}, {name}: {} us</title></circle>"#, format_figure(*us));
            });
        }
    }
    svg + "</svg>\n"
}

fn grid(svg: &mut String, y: &Scale, x: &impl Fn(f64) -> f64) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BELOW);
    let log = if y.is_log { " (logarithmic)" } else { "" };
    for us in y.ticks() {
        let at = y.position(us);
        let _ = writeln!(
            svg,
            r#"<path class="grid" d="M{LEFT} {at:.1}H{right}"/><text class="end" x="{:.1}" y="{:.1}">{}</text>"#,
            LEFT - 8.0,
            at + 4.0,
            label(us)
        );
    }
    for (at, name) in MARKS {
        let at = x(at);
        let _ = writeln!(
            svg,
            r#"<path class="grid" d="M{at:.1} {ABOVE}V{bottom}"/><text class="middle" x="{at:.1}" y="{:.1}">{name}</text>"#,
            bottom + 18.0
        );
    }
    let _ = writeln!(
        svg,
        r#"<text class="quiet" x="{LEFT}" y="{:.1}">latency in microseconds{log}, by percentile of requests</text>"#,
        HEIGHT - 6.0
    );
}

/// Formats an axis label without meaningless decimal places.
fn label(figure: f64) -> String {
    if figure >= 1.0 || figure == 0.0 { group_digits(figure.round() as u64) } else { figure.to_string() }
}

const BAR: f64 = 20.0;
const BAR_STEP: f64 = 34.0;
const BAR_LEFT: f64 = 150.0;
/// Space for the figure to the right of the longest bar.
const BAR_RIGHT: f64 = 220.0;

/// Draws the CPU time per request of each side: a bar for the median, a line from minimum to maximum, and the
/// first side's ratio to it.
pub fn bars(comparison: &Comparison) -> String {
    let spreads: Vec<Spread> = comparison.sides.iter().map(cost).collect();
    let max = spreads.iter().fold(f64::MIN_POSITIVE, |max, spread| max.max(spread.max));
    let x = Scale::from_zero(max, (BAR_LEFT, WIDTH - BAR_RIGHT));
    let mut svg = open(spreads.len() as f64 * BAR_STEP, "CPU time per request");
    for (number, (side, spread)) in comparison.sides.iter().zip(&spreads).enumerate() {
        let top = number as f64 * BAR_STEP + (BAR_STEP - BAR) / 2.0;
        let (middle, text) = (top + BAR / 2.0, top + BAR / 2.0 + 4.0);
        let (min, max) = (x.position(spread.min), x.position(spread.max));
        let name = escape(&side.server);
        let _ = writeln!(svg, r#"<text class="end" x="{:.1}" y="{text:.1}">{name}</text>"#, BAR_LEFT - 10.0);
        let _ = writeln!(
            svg,
            r#"<rect class="bar s{number}" x="{BAR_LEFT}" y="{top:.1}" width="{:.1}" height="{BAR}" rx="2"/>"#,
            x.position(spread.median) - BAR_LEFT
        );
        let _ = writeln!(
            svg,
            r#"<path class="range" d="M{min:.1} {middle:.1}H{max:.1}M{min:.1} {:.1}v8M{max:.1} {:.1}v8"/>"#,
            middle - 4.0,
            middle - 4.0
        );
        let _ = writeln!(
            svg,
            r#"<text x="{:.1}" y="{text:.1}">{} us{}</text>"#,
            max + 10.0,
            format_figure(spread.median),
            ratio_label(comparison, side, number)
        );
    }
    svg + "</svg>\n"
}

/// Draws the bars as a standalone SVG file.
pub fn bars_alone(comparison: &Comparison) -> String {
    let open = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" ");
    bars(comparison).replacen("<svg ", &open, 1).replacen(">\n", &format!(">\n<style>\n{STYLE}</style>\n"), 1)
}

fn cost(side: &Side) -> Spread {
    Spread::of(side.windows.iter().map(|window| window.server_us_per_request))
}

/// Returns the first side's ratio to this one as a label. It is empty for the first side.
fn ratio_label(comparison: &Comparison, side: &Side, number: usize) -> String {
    if number == 0 {
        return String::new();
    }
    let first = &comparison.sides[0];
    let ratio = Spread::ratio(first, side, |window| window.server_us_per_request);
    format!(" ({}: {} x)", escape(&first.server), table::format_ratio(ratio.median))
}

fn open(height: f64, title: &str) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n")
}

#[cfg(test)]
mod tests {
    use loadtest::report::sample::sample;

    use super::*;

    #[test]
    fn each_side_has_a_curve_with_its_points_and_a_bar() {
        let comparison = &sample().comparisons[0];
        let (curves, bars) = (curves(comparison), bars(comparison));
        assert_eq!(curves.matches("<polyline").count(), 2);
        assert_eq!(curves.matches("<circle").count(), 2 * MARKS.len());
        assert!(curves.contains("<title>floor, 99.9 %: 1,000 us</title>"), "{curves}");
        assert_eq!(bars.matches("<rect").count(), 2);
        assert!(bars.contains("4.00 us (parallax: 1.40 x)"), "{bars}");
    }

    #[test]
    fn a_side_without_windows_has_a_picture() {
        let mut comparison = sample().comparisons.remove(0);
        comparison.sides = vec![Side::new("none", "", &[])];
        assert!(!curves(&comparison).contains("NaN"));
        assert!(!bars(&comparison).contains("NaN"));
    }
}
