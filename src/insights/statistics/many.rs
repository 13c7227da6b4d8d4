//! Adjusts the p-values of several comparisons. Without the adjustment, more comparisons would give more false alarms.

/// Adjusts the p-values by the method of Benjamini and Hochberg (1995). Keeps the order of the p-values. A p-value of
/// `None` stays `None`.
pub fn benjamini_hochberg(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    adjust(p_values, |sorted| {
        let count = sorted.len() as f64;
        let mut lowest: f64 = 1.0;
        for (index, p) in sorted.iter_mut().enumerate().rev() {
            lowest = lowest.min(*p * (count / (index + 1) as f64));
            *p = lowest;
        }
    })
}

/// Adjusts p-values that are 1 divided by an e-value (the e-BH procedure of Wang and Ramdas 2022). A p-value of `None` counts as
/// one of 1, and stays `None`. Each adjusted p-value below `alpha` is a discovery. At most `alpha` of the discoveries are
/// expected to be false, also if the p-values depend on each other.
pub fn e_benjamini_hochberg(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    let counted: Vec<_> = p_values.iter().map(|p| p.or(Some(1.0))).collect();
    let adjusted = benjamini_hochberg(&counted);
    p_values.iter().zip(adjusted).map(|(p, adjusted)| p.and(adjusted)).collect()
}

/// Adjusts the p-values by the method of Holm (1979). Keeps the order of the p-values. A p-value of `None` stays
/// `None`.
pub fn holm(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    adjust(p_values, |sorted| {
        let count = sorted.len();
        let mut highest: f64 = 0.0;
        for (index, p) in sorted.iter_mut().enumerate() {
            highest = highest.max((*p * (count - index) as f64).min(1.0));
            *p = highest;
        }
    })
}

/// Sorts the p-values that are not `None`, and calls `adjust_sorted` with them. Returns the adjusted p-values in the
/// original order.
fn adjust(p_values: &[Option<f64>], adjust_sorted: impl Fn(&mut [f64])) -> Vec<Option<f64>> {
    let indexed = p_values.iter().enumerate().filter_map(|(index, p)| Some((index, (*p)?)));
    let mut indexed: Vec<(usize, f64)> = indexed.collect();
    indexed.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut sorted: Vec<f64> = indexed.iter().map(|(_, p)| *p).collect();
    adjust_sorted(&mut sorted);
    let mut adjusted = vec![None; p_values.len()];
    for ((index, _), p) in indexed.iter().zip(sorted) {
        adjusted[*index] = Some(p);
    }
    adjusted
}
