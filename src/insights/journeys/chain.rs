//! Finds the events with which a visitor went through the steps of a funnel.

use crate::insights::questions::row::Row;

/// A search for the chain of a visitor or of a visit. A chain has one event for each reached step. The events are in the order
/// of the log within their times, each event is of one step only, and all are within the window.
///
/// The found chain has the most steps. Among these it begins with the latest event. After its first event, each step has the
/// first event that the step accepts.
#[derive(Debug)]
pub(super) struct ChainFinder {
    step_count: usize,
    /// The maximum time between the first and the last event, in milliseconds.
    window_ms: i64,
    /// For each number of steps, the index of the first event of the chain that begins last.
    starts: Vec<Option<usize>>,
    /// The indices of the events of the found chain.
    events: Vec<usize>,
}

impl ChainFinder {
    pub(super) fn new(step_count: usize, window_ms: Option<i64>) -> Self {
        Self { step_count, window_ms: window_ms.unwrap_or(i64::MAX), starts: Vec::new(), events: Vec::new() }
    }

    /// Returns the indices of the events of the chain. The chain is empty if no event is of the first step.
    pub(super) fn find(&mut self, rows: &[Row]) -> &[usize] {
        let Self { step_count, window_ms, starts, events } = self;
        starts.clear();
        starts.resize(*step_count, None);
        events.clear();
        for (index, row) in rows.iter().enumerate().filter(|(_, row)| row.order != 0) {
            // An event extends a chain by at most one step. So the last step is tried first.
            for step in (0..*step_count).rev().filter(|step| row.order >> step & 1 != 0) {
                let start = if step == 0 { Some(index) } else { starts[step - 1] };
                let is_in_window = |start: &usize| row.time_ms() - rows[*start].time_ms() <= *window_ms;
                starts[step] = starts[step].max(start.filter(is_in_window));
            }
        }
        let Some(last_step) = starts.iter().rposition(Option::is_some) else { return events };
        let mut next = starts[last_step].unwrap_or_default();
        for step in 0..=last_step {
            let accepts = |row: &Row| row.order >> step & 1 != 0;
            let Some(skipped) = rows[next..].iter().position(accepts) else { break };
            events.push(next + skipped);
            next += skipped + 1;
        }
        events
    }
}
