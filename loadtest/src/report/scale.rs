//! From figures to places in a picture, and the figures that stand at its edge.

/// An axis of figures above zero, linear or logarithmic, from `low` to `high` at places `from` to `to`.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    pub is_log: bool,
    from: f64,
    to: f64,
}

/// Figures further apart are drawn by their logarithm.
const WIDE: f64 = 10.0;
/// About so many figures stand at an edge.
const TICKS: f64 = 5.0;

impl Scale {
    /// Has room for all of `figures`; from zero where it is linear.
    pub fn of(figures: impl Iterator<Item = f64> + Clone, (from, to): (f64, f64)) -> Self {
        let most = figures.clone().fold(f64::MIN_POSITIVE, f64::max);
        let least = figures.filter(|figure| *figure > 0.0).fold(most, f64::min);
        let is_log = most / least > WIDE;
        let (low, high) = if is_log { (below(least), above(most)) } else { (0.0, most * 1.05) };
        Self { low, high, is_log, from, to }
    }

    /// A linear one from zero.
    pub fn from_zero(high: f64, (from, to): (f64, f64)) -> Self {
        Self { low: 0.0, high, is_log: false, from, to }
    }

    /// Where a figure stands; at the edge where it lies outside.
    pub fn at(&self, figure: f64) -> f64 {
        let figure = figure.clamp(self.low, self.high);
        let part = if self.is_log {
            (figure / self.low).ln() / (self.high / self.low).ln()
        } else {
            (figure - self.low) / (self.high - self.low)
        };
        self.from + part * (self.to - self.from)
    }

    /// Round figures, ascending.
    pub fn ticks(&self) -> Vec<f64> {
        let inside = |figure: &f64| (self.low..=self.high).contains(figure);
        if !self.is_log {
            let step = above(self.high / TICKS);
            return (0..).map(|i| f64::from(i) * step).take_while(|figure| *figure <= self.high).collect();
        }
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let is_long = self.high / self.low > 1_000.0;
        let steps: &[f64] = if is_long { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let ticks = decades.flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)));
        ticks.filter(inside).collect()
    }
}

/// The next of 1, 2, 5, 10, 20, ... that is not below `figure`.
fn above(figure: f64) -> f64 {
    let decade = 10_f64.powf(figure.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|step| step * decade);
    steps.into_iter().find(|step| *step >= figure * 0.999_999).unwrap_or(10.0 * decade)
}

/// The last of 1, 2, 5, 10, 20, ... that is not above `figure`.
fn below(figure: f64) -> f64 {
    1.0 / above(1.0 / figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_figures_are_drawn_from_zero_and_far_ones_by_their_logarithm() {
        let near = Scale::of([40.0, 80.0].into_iter(), (100.0, 0.0));
        assert_eq!(
            (near.at(0.0), near.at(84.0), near.ticks()),
            (100.0, 0.0, vec![0.0, 20.0, 40.0, 60.0, 80.0])
        );
        let far = Scale::of([30.0, 900.0].into_iter(), (0.0, 1.0));
        assert_eq!((far.at(20.0), far.at(1_000.0), far.at(5.0)), (0.0, 1.0, 0.0));
        let ticks: Vec<String> = far.ticks().iter().map(|tick| format!("{tick:.0}")).collect();
        assert_eq!(ticks, ["20", "50", "100", "200", "500", "1000"]);
    }

    #[test]
    fn round_figures_enclose() {
        assert_eq!([1.0, 1.1, 3.0, 70.0].map(above), [1.0, 2.0, 5.0, 100.0]);
        assert_eq!([1.0, 1.1, 3.0, 70.0].map(|figure| below(figure).round()), [1.0, 1.0, 2.0, 50.0]);
    }
}
