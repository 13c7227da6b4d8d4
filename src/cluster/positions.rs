//! The file `positions` of a directory, and the orders of its records as exports and erasures ask for them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::order::{PositionEntry, Positions};
use crate::storage;
use crate::visitors::ownership::OrderOf;

/// Name of the file.
pub(crate) const POSITIONS_FILE: &str = "positions";

/// The orders of the own records, shared between the log writer and the jobs of the admin address.
#[derive(Clone, Default)]
pub(crate) struct Orders(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    positions: Positions,
    /// The last own seq that has returned.
    returned: u64,
}

impl Orders {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the order of an own record. One that has not returned is after all entries of ownership.
    pub(crate) fn order_of(&self, seq: u64) -> u64 {
        let state = self.lock();
        // The greatest number would be outside of a visitor without an end.
        state.positions.order_of(seq, state.returned).min(u64::MAX - 1)
    }

    /// Returns the orders as of now, and of all later times.
    pub(crate) fn as_function(&self) -> OrderOf {
        let orders = self.clone();
        Arc::new(move |seq| orders.order_of(seq))
    }

    /// Returns the first seq from which on all records have at least this order.
    pub(crate) fn first_seq_from(&self, least_order: u64) -> u64 {
        let state = self.lock();
        state.positions.first_seq_from(least_order, state.returned)
    }

    /// Returns the order below which the log has no record. `last_order` is that of the state.
    pub(crate) fn oldest(&self, first_seq: u64, last_order: u64) -> u64 {
        let state = self.lock();
        state.positions.oldest(first_seq, state.returned, last_order)
    }
}

/// The writer of the file. Entries are in memory until [`save`](Self::save).
pub struct PositionsFile {
    path: PathBuf,
    orders: Orders,
    unwritten: Vec<PositionEntry>,
    /// True if the file has entries that are deleted.
    is_outdated: bool,
}

impl PositionsFile {
    /// Reads the file of a directory.
    pub fn open(directory: &Path) -> Self {
        let path = directory.join(POSITIONS_FILE);
        let positions = Positions::from_bytes(&fs::read(&path).unwrap_or_default());
        let orders = Orders(Arc::new(Mutex::new(State { positions, returned: 0 })));
        // A torn last entry must not stay before the next one.
        Self { path, orders, unwritten: Vec::new(), is_outdated: true }
    }

    pub(crate) fn orders(&self) -> Orders {
        self.orders.clone()
    }

    /// Continues after an order: the stream gives the later entries again.
    pub(crate) fn rewind(&mut self, last_order: u64) {
        self.change(|positions| positions.rewind(last_order));
    }

    /// Deletes the entries of the records after a seq, which are other records now.
    pub(crate) fn delete_after(&mut self, seq: u64) {
        self.change(|positions| positions.delete_after(seq));
    }

    fn change(&mut self, change: impl FnOnce(&mut Positions)) {
        change(&mut self.orders.lock().positions);
        (self.is_outdated, self.unwritten) = (true, Vec::new());
    }

    /// Notes a message in which ties were made or records of the log were accepted: the seq and the order of the first of
    /// these, and the last seq of the log that has returned.
    pub(crate) fn on_message(
        &mut self,
        own_first: Option<PositionEntry>,
        makes_tie: bool,
        returned_seq: u64,
    ) {
        let mut state = self.orders.lock();
        let entry = state.positions.on_message(own_first, makes_tie);
        state.returned = returned_seq;
        self.unwritten.extend(entry);
    }

    /// Notes the records of a message that took effect, in the log of the cluster. That log has nothing that has not returned.
    pub(crate) fn on_records(&mut self, first_seq: u64, orders: &[u64], makes_tie: bool) {
        let mut state = self.orders.lock();
        self.unwritten.extend(state.positions.on_records(first_seq, orders, makes_tie));
        state.returned = first_seq + orders.len() as u64 - 1;
    }

    pub(crate) fn set_returned(&self, returned_seq: u64) {
        self.orders.lock().returned = returned_seq;
    }

    /// Makes all entries durable. `first_seq` is the first record that retention has kept.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn save(&mut self, first_seq: u64) -> io::Result<()> {
        let mut state = self.orders.lock();
        let before = state.positions.len();
        state.positions.delete_before(first_seq);
        if self.is_outdated || state.positions.len() != before {
            storage::write_data_file(&self.path, &state.positions.to_bytes())?;
        } else if !self.unwritten.is_empty() {
            let bytes: Vec<u8> = self.unwritten.iter().flat_map(|entry| entry.to_bytes()).collect();
            let mut file = OpenOptions::new().append(true).open(&self.path)?;
            file.write_all(&bytes)?;
            file.sync_data()?;
        }
        (self.is_outdated, self.unwritten) = (false, Vec::new());
        Ok(())
    }
}
