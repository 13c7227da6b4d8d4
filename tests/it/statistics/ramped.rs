//! A simulated month with a ramp and a pause: the test of the split over all coverages of one phase.

use parallax::testing::condition::{
    bucket_ranges, bucket_shares, choose_variation, hash_after_seed, seed_hash,
};
use parallax::testing::insights::statistics::mismatch::test_any_time;

use crate::dice::Dice;
use crate::harness::times;

const VISITORS: usize = 400_000;
const DAYS: usize = 30;
/// The share of new visitors from these days on.
const RAMP: [(usize, f64); 5] = [(0, 0.01), (2, 0.1), (4, 0.5), (7, 0.0), (9, 1.0)];
const ARMS: usize = 2;
/// At a coverage of 0.01 the arms have 34 and 67 of the ten thousand numbers.
const WEIGHTS: [f64; ARMS] = [1.0 / 3.0, 2.0 / 3.0];

/// Returns the index of the coverage of a day.
fn step_of(day: usize) -> usize {
    RAMP.partition_point(|(from, _)| *from <= day) - 1
}

/// Returns whether the test has an alarm on any day, if the last arm loses this share of its exposures.
fn has_alarm(seed: u64, lost: f64) -> bool {
    let mut dice = Dice(seed);
    let state = seed_hash(&format!("experiment {seed}"));
    let ranges: Vec<Vec<(f64, f64)>> =
        RAMP.iter().map(|(_, coverage)| bucket_ranges(ARMS, *coverage, Some(&WEIGHTS)).collect()).collect();
    // The new exposures of each day, by the coverage and the arm.
    let mut exposed = vec![[[0_u64; ARMS]; RAMP.len()]; DAYS];
    for visitor in 0..VISITORS {
        let bucket = hash_after_seed(state, &format!("{visitor:06}"));
        // Half of the visitors come once, and the others again within a week.
        let first = dice.below(DAYS);
        let visits = [Some(first), (dice.below(2) == 1).then(|| first + 1 + dice.below(7))];
        for day in visits.into_iter().flatten().filter(|day| *day < DAYS) {
            let step = step_of(day);
            let Some(arm) = choose_variation(bucket, ranges[step].iter().copied()) else { continue };
            let is_lost = arm + 1 == ARMS && (dice.below(10_000) as f64) < lost * 10_000.0;
            exposed[day][step][arm] += u64::from(!is_lost);
            // The page of a visitor with a lost exposure never sends one.
            break;
        }
    }
    let mut periods: Vec<(Vec<u64>, Vec<f64>)> =
        ranges.iter().map(|ranges| (vec![0; ARMS], bucket_shares(ranges.iter().copied()))).collect();
    exposed.iter().any(|of_day| {
        for ((counts, _), new) in periods.iter_mut().zip(of_day) {
            counts.iter_mut().zip(new).for_each(|(count, new)| *count += new);
        }
        test_any_time(&periods).is_some_and(|test| test.is_alarm)
    })
}

fn count_alarms(seeds: usize, lost: f64) -> usize {
    (0..seeds as u64).filter(|seed| has_alarm(*seed, lost)).count()
}

#[test]
fn a_ramp_and_a_pause_raise_no_false_alarm_and_three_percent_of_lost_exposures_are_found() {
    let seeds = times(12, 1_000);
    let (sound, lossy) = (count_alarms(seeds, 0.0), count_alarms(seeds, 0.03));
    eprintln!("{sound} alarms of {seeds} sound experiments, {lossy} of {seeds} that lose exposures");
    assert!(sound * 1_000 <= 3 * seeds, "{sound} of {seeds}");
    assert!(lossy * 1_000 >= 990 * seeds, "{lossy} of {seeds}");
}
