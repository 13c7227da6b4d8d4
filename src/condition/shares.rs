//! The weights and the coverage of an experiment, found again from its ranges without the residue of the arithmetic.
//!
//! A snapshot and the file `phases` keep ranges. The difference of two ends, such as 1 - 0.95, is not the number that
//! the author wrote: it prints as 0.050000000000000044.

use super::bucket::{BucketRange, bucket_ranges};

/// Most digits after the point of a number that [`without_residue`] rounds to.
const DIGITS_MAX: usize = 12;
/// Largest residue of a sum of shares. Each of 64 additions of numbers up to 1 is off by at most 1.2e-16.
const RESIDUE_MAX: f64 = 1e-14;
/// Most digits after the point of a share that the author can have written. More do not change a number above 0.1.
const SHARE_DIGITS_MAX: usize = 17;

/// Returns the weights and the coverage from which [`bucket_ranges`] calculates exactly these ranges. Of several such
/// numbers it returns the shortest one, which is the authored number. Returns `None` if nobody takes part, or for
/// ranges of another origin.
pub fn authored_shares(ranges: &[BucketRange]) -> Option<(Vec<f64>, f64)> {
    let (last_start, last_end) = *ranges.last()?;
    let mut weights = Vec::with_capacity(ranges.len());
    for pair in ranges.windows(2) {
        let start = pair[0].0;
        let next = pair[1].0;
        weights.push(shortest(next - start, &weights, |weight| start + weight == next)?);
    }
    let shown = ranges.iter().zip(&weights).find(|(_, weight)| **weight > 0.0);
    // If no other arm has a weight, the last one has all of it.
    let ((start, end), weight) =
        shown.map_or(((last_start, last_end), 1.0), |(range, weight)| (*range, *weight));
    let coverage = shortest((end - start) / weight, &[], |coverage| start + coverage * weight == end)?;
    if coverage <= 0.0 {
        return None;
    }
    let rest = (last_end - last_start) / coverage;
    weights.push(shortest(rest, &weights, |weight| last_start + coverage * weight == last_end)?);
    let are_shares = weights.iter().all(|weight| *weight >= 0.0)
        && bucket_ranges(ranges.len(), coverage, Some(&weights)).eq(ranges.iter().copied());
    are_shares.then_some((weights, coverage))
}

/// Returns the first of the known numbers for which `is_right` is true, or else the shortest decimal number beside `target`.
fn shortest(target: f64, candidates: &[f64], is_right: impl Fn(f64) -> bool) -> Option<f64> {
    let decimals =
        (0..=SHARE_DIGITS_MAX).map(|digits| format!("{target:.digits$}").parse().unwrap_or(target));
    let neighbours = [target, target.next_down(), target.next_up()];
    let found = candidates.iter().copied().chain(decimals).chain(neighbours).find(|number| is_right(*number));
    // A residue below 0 prints as -0.
    found.map(|number| number + 0.0)
}

/// Returns a sum or a difference of shares as a person would write it: 0.3 for 0.1 + 0.2. A number that is not so close
/// to a short decimal number stays as it is. Never returns -0, which is the sum of no `f64` and a rounded residue below
/// 0, because a person would not write it.
pub(crate) fn without_residue(number: f64) -> f64 {
    let short = format!("{number:.DIGITS_MAX$}").parse().unwrap_or(number);
    let written = if f64::abs(short - number) < RESIDUE_MAX { short } else { number };
    // -0 + 0 is 0.
    written + 0.0
}
