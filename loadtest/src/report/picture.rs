//! Pictures of a comparison, as SVG: its percentile curves, and bars of what a request costs. Colours are those of the page that
//! holds them, by the number of the side.

use std::fmt::Write;

use super::escape::escape;
use super::gather::Spread;
use super::scale::Scale;
use super::table::{self, digits, grouped};
use super::{Comparison, Side};

pub const STYLE: &str = include_str!("page.css");
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 330.0;
/// What the curves leave free: left and right for figures and names, above and below.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 34.0;
const ABOVE: f64 = 12.0;
const BELOW: f64 = 44.0;
/// Percentiles with their names at the edge, and a point on each curve that says its figure.
const MARKS: [(f64, &str); 5] =
    [(0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %")];

/// The number of tenths that a part of one is short of it: as far to 99 % as from there to 99.9 %.
fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile).log10()
}

/// Latency up to 99.99 % of the requests. Writing to a String cannot fail.
pub fn curves(comparison: &Comparison) -> String {
    let drawn = |side: &'_ Side| -> Vec<(f64, f64)> {
        let quantiles = side.latency_us.quantiles.iter().copied();
        quantiles.filter(|(at, _)| (MARKS[0].0..1.0).contains(at)).collect()
    };
    let sides: Vec<_> = comparison.sides.iter().map(|side| (side, drawn(side))).collect();
    let figures = sides.iter().flat_map(|(_, points)| points.iter().map(|(_, us)| *us));
    let y = Scale::of(figures, (HEIGHT - BELOW, ABOVE));
    let (first, last) = (nines(MARKS[0].0), nines(MARKS[MARKS.len() - 1].0));
    let x = |at: f64| LEFT + (nines(at) - first) / (last - first) * (WIDTH - LEFT - RIGHT);
    let mut svg = open(HEIGHT, "Latency by percentile");
    grid(&mut svg, &y, &x);
    for (number, (side, points)) in sides.iter().enumerate() {
        let line: Vec<String> =
            points.iter().map(|(at, us)| format!("{:.1},{:.1}", x(*at), y.at(*us))).collect();
        let void = if side.voids() > 0 { " void" } else { "" };
        let _ = writeln!(svg, r#"<polyline class="line s{number}{void}" points="{}"/>"#, line.join(" "));
        for (at, name) in MARKS {
            points.iter().filter(|(found, _)| (found - at).abs() < 1e-9).for_each(|(_, us)| {
                let (cx, cy, said) = (x(at), y.at(*us), escape(&side.server));
                let _ = writeln!(svg, r#"<circle class="point s{number}" cx="{cx:.1}" cy="{cy:.1}" r="3.5"><title>{said}, {name}: {} us</title></circle>"#, digits(*us));
            });
        }
    }
    svg + "</svg>\n"
}

fn grid(svg: &mut String, y: &Scale, x: &impl Fn(f64) -> f64) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BELOW);
    let log = if y.is_log { " (logarithmic)" } else { "" };
    for us in y.ticks() {
        let at = y.at(us);
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
        r#"<text class="quiet" x="{LEFT}" y="{:.1}">microseconds{log} that so many of the requests took at most</text>"#,
        HEIGHT - 6.0
    );
}

/// A figure at the edge, without digits behind the point that say nothing.
fn label(figure: f64) -> String {
    if figure >= 1.0 || figure == 0.0 { grouped(figure.round() as u64) } else { figure.to_string() }
}

const BAR: f64 = 20.0;
const BAR_STEP: f64 = 34.0;
const BAR_LEFT: f64 = 150.0;
/// For the figure behind the longest bar.
const BAR_RIGHT: f64 = 220.0;

/// CPU time of a request: the median, from the least to the most, and how many times the others' the first side takes.
pub fn bars(comparison: &Comparison) -> String {
    let spreads: Vec<Spread> = comparison.sides.iter().map(cost).collect();
    let most = spreads.iter().fold(f64::MIN_POSITIVE, |most, spread| most.max(spread.most));
    let x = Scale::from_zero(most, (BAR_LEFT, WIDTH - BAR_RIGHT));
    let mut svg = open(spreads.len() as f64 * BAR_STEP, "CPU time of a request");
    for (number, (side, spread)) in comparison.sides.iter().zip(&spreads).enumerate() {
        let top = number as f64 * BAR_STEP + (BAR_STEP - BAR) / 2.0;
        let (middle, text) = (top + BAR / 2.0, top + BAR / 2.0 + 4.0);
        let (least, most) = (x.at(spread.least), x.at(spread.most));
        let name = escape(&side.server);
        let _ = writeln!(svg, r#"<text class="end" x="{:.1}" y="{text:.1}">{name}</text>"#, BAR_LEFT - 10.0);
        let _ = writeln!(
            svg,
            r#"<rect class="bar s{number}" x="{BAR_LEFT}" y="{top:.1}" width="{:.1}" height="{BAR}" rx="2"/>"#,
            x.at(spread.median) - BAR_LEFT
        );
        let _ = writeln!(
            svg,
            r#"<path class="range" d="M{least:.1} {middle:.1}H{most:.1}M{least:.1} {:.1}v8M{most:.1} {:.1}v8"/>"#,
            middle - 4.0,
            middle - 4.0
        );
        let _ = writeln!(
            svg,
            r#"<text x="{:.1}" y="{text:.1}">{} us{}</text>"#,
            most + 10.0,
            digits(spread.median),
            times(comparison, side, number)
        );
    }
    svg + "</svg>\n"
}

/// The same as a file of its own.
pub fn bars_alone(comparison: &Comparison) -> String {
    let open = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" ");
    bars(comparison).replacen("<svg ", &open, 1).replacen(">\n", &format!(">\n<style>\n{STYLE}</style>\n"), 1)
}

fn cost(side: &Side) -> Spread {
    Spread::of(side.windows.iter().map(|window| window.server_us_per_request))
}

/// Behind the others' figures: how many times theirs the first side takes.
fn times(comparison: &Comparison, side: &Side, number: usize) -> String {
    if number == 0 {
        return String::new();
    }
    let first = &comparison.sides[0];
    let ratio = Spread::ratio(first, side, |window| window.server_us_per_request);
    format!(" ({}: {} x)", escape(&first.server), table::times(ratio.median))
}

fn open(height: f64, title: &str) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n")
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
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
    fn nothing_that_was_measured_still_has_a_picture() {
        let mut comparison = sample().comparisons.remove(0);
        comparison.sides = vec![Side::new("none", "", &[])];
        assert!(!curves(&comparison).contains("NaN"));
        assert!(!bars(&comparison).contains("NaN"));
    }
}
