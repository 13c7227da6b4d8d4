//! Work on all CPUs of the process, with results in the order of the input.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use crate::threads;

/// Largest number of items that a thread takes at once. A larger one would leave threads without work at the end.
const BLOCK_ITEMS_MAX: usize = 64;

/// Maps items on all CPUs. The results have the order of the items, so they do not depend on the number of threads.
///
/// Threads that the system does not start are left out. Each thread creates a state with `make_state` and reuses it. Calls
/// `report_progress` on this thread with the number of items done and the total.
pub(crate) fn map<T: Sync, S, R: Send>(
    items: &[T],
    make_state: impl Fn() -> S + Sync,
    map: impl Fn(&mut S, &T) -> R + Sync,
    report_progress: &dyn Fn(usize, usize),
) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    let block_items = (items.len() / (8 * threads.max(1))).clamp(1, BLOCK_ITEMS_MAX);
    let mut results: Vec<Option<R>> = Vec::with_capacity(items.len());
    results.resize_with(items.len(), || None);
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let work = |sender: Sender<(usize, Vec<R>)>| {
        let mut state = make_state();
        loop {
            let first = next.fetch_add(block_items, Ordering::Relaxed);
            let block = items.get(first..).unwrap_or_default();
            let block = &block[..block.len().min(block_items)];
            if block.is_empty() {
                return;
            }
            let mapped: Vec<R> = block.iter().map(|item| map(&mut state, item)).collect();
            if sender.send((first, mapped)).is_err() {
                return;
            }
        }
    };
    thread::scope(|scope| {
        let start = || {
            let sender = sender.clone();
            threads::spawn_scoped(scope, "parallel", || work(sender)).ok()
        };
        // With fewer threads it takes longer. Without any, this one does the work.
        if (0..threads).map_while(|_| start()).count() == 0 {
            work(sender.clone());
        }
        drop(sender);
        let mut done = 0;
        for (first, mapped) in receiver {
            done += mapped.len();
            for (slot, result) in results[first..].iter_mut().zip(mapped) {
                *slot = Some(result);
            }
            report_progress(done, items.len());
        }
    });
    // A thread that panicked has ended the scope with its panic.
    results.into_iter().map(|result| result.expect("every item has a result")).collect()
}
