//! Axes of a picture: from figures to coordinates, and the labelled figures.

/// An axis of positive figures, linear or logarithmic, that maps `low` to `from` and `high` to `to`.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    pub is_log: bool,
    from: f64,
    to: f64,
}

/// Ratio of greatest to least figure above which the axis is logarithmic.
const LOG_RATIO_MIN: f64 = 10.0;
/// Approximate number of labels on a linear axis.
const TICKS: f64 = 5.0;

impl Scale {
    /// Creates an axis with room for all of `figures`. A linear one begins at zero.
    pub fn of(figures: impl Iterator<Item = f64> + Clone, (from, to): (f64, f64)) -> Self {
        let max = figures.clone().fold(f64::MIN_POSITIVE, f64::max);
        let min = figures.filter(|figure| *figure > 0.0).fold(max, f64::min);
        let is_log = max / min > LOG_RATIO_MIN;
        let (low, high) = if is_log { (round_down(min), round_up(max)) } else { (0.0, max * 1.05) };
        Self { low, high, is_log, from, to }
    }

    /// Creates a linear axis from zero.
    pub fn from_zero(high: f64, (from, to): (f64, f64)) -> Self {
        Self { low: 0.0, high, is_log: false, from, to }
    }

    /// Returns the coordinate of a figure. Figures outside the range are moved to its end.
    pub fn position(&self, figure: f64) -> f64 {
        let figure = figure.clamp(self.low, self.high);
        let part = if self.is_log {
            (figure / self.low).ln() / (self.high / self.low).ln()
        } else {
            (figure - self.low) / (self.high - self.low)
        };
        self.from + part * (self.to - self.from)
    }

    /// Returns round figures for the labels, in ascending order.
    pub fn ticks(&self) -> Vec<f64> {
        let inside = |figure: &f64| (self.low..=self.high).contains(figure);
        if !self.is_log {
            let step = round_up(self.high / TICKS);
            return (0..).map(|i| f64::from(i) * step).take_while(|figure| *figure <= self.high).collect();
        }
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let is_long = self.high / self.low > 1_000.0;
        let steps: &[f64] = if is_long { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let ticks = decades.flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)));
        ticks.filter(inside).collect()
    }
}

/// Rounds up to the next of 1, 2, 5, 10, 20, ...
fn round_up(figure: f64) -> f64 {
    let decade = 10_f64.powf(figure.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|step| step * decade);
    steps.into_iter().find(|step| *step >= figure * 0.999_999).unwrap_or(10.0 * decade)
}

/// Rounds down to the next of 1, 2, 5, 10, 20, ...
fn round_down(figure: f64) -> f64 {
    1.0 / round_up(1.0 / figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_range_has_a_logarithmic_axis() {
        let near = Scale::of([40.0, 80.0].into_iter(), (100.0, 0.0));
        assert_eq!(
            (near.position(0.0), near.position(84.0), near.ticks()),
            (100.0, 0.0, vec![0.0, 20.0, 40.0, 60.0, 80.0])
        );
        let far = Scale::of([30.0, 900.0].into_iter(), (0.0, 1.0));
        assert_eq!((far.position(20.0), far.position(1_000.0), far.position(5.0)), (0.0, 1.0, 0.0));
        let ticks: Vec<String> = far.ticks().iter().map(|tick| format!("{tick:.0}")).collect();
        assert_eq!(ticks, ["20", "50", "100", "200", "500", "1000"]);
    }

    #[test]
    fn figures_are_rounded_up_and_down() {
        assert_eq!([1.0, 1.1, 3.0, 70.0].map(round_up), [1.0, 2.0, 5.0, 100.0]);
        assert_eq!([1.0, 1.1, 3.0, 70.0].map(|figure| round_down(figure).round()), [1.0, 1.0, 2.0, 50.0]);
    }
}
