//! Work in the order of the input, on the only thread.

/// Maps items. Calls `report_progress` with the number of items done and the total.
pub(crate) fn map<T, S, R>(
    items: &[T],
    make_state: impl Fn() -> S,
    map: impl Fn(&mut S, &T) -> R,
    report_progress: &dyn Fn(usize, usize),
) -> Vec<R> {
    let mut state = make_state();
    let mut results = Vec::with_capacity(items.len());
    for item in items {
        results.push(map(&mut state, item));
        report_progress(results.len(), items.len());
    }
    results
}
