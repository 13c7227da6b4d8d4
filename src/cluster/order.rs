//! The order of records in the stream, and the file `positions` that maps own seqs to orders.
//!
//! # Purpose
//!
//! On one machine seqs order records, ties and tombstones. In a cluster every node must find the same owner
//! for a record, whichever node recorded it. So ties have *orders*: the position of the message, times
//! 65,536, plus the index of the record among the records of the message that the filter accepted.
//!
//! An export or an erasure reads the own log, which has seqs. The file `positions` of a directory maps own
//! seqs to orders. An entry has the first seq of an own run and its order. The follower
//! adds one for the first own run after any tie, and for each own run that makes one. Between two entries all
//! own records have the same ties before and after them, so the order of a record is that of the entry before
//! it plus the distance of the seqs, but not beyond the message of the entry. A record that has not returned is after all entries.
//!
//! The log of the cluster has a file of the same kind. Records without effect are not in that log, so a message that makes a
//! tie can have several entries.
//!
//! # Layout
//!
//! An entry has 16 bytes, little-endian: first seq (8), order (8). Entries ascend in both. A torn last
//! entry is ignored.
//!
//! # Writing
//!
//! The entries up to position p are durable before a checkpoint of position p gets its name. A start deletes
//! the entries after the position of its checkpoint, because the stream gives them again. Retention deletes
//! entries with the records.

use crate::little_endian::u64_at;

/// Records of a message that have an order of their own. A run has at most 256 KiB and a record at least 80
/// bytes, so the index is below 3,277.
pub(crate) use crate::visitors::ties::ORDERS_PER_POSITION;
/// Length of an encoded entry.
pub const ENTRY_BYTES: usize = 16;

/// Returns the order of a record by the position of its message and its index there.
pub fn order(global_position: u64, index: u64) -> u64 {
    global_position * ORDERS_PER_POSITION + index.min(ORDERS_PER_POSITION - 1)
}

/// An entry of the file `positions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositionEntry {
    pub first_seq: u64,
    pub order: u64,
}

impl PositionEntry {
    /// Encodes the entry.
    pub fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.first_seq.to_le_bytes());
        bytes[8..].copy_from_slice(&self.order.to_le_bytes());
        bytes
    }
}

/// The content of the file `positions`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Positions {
    entries: Vec<PositionEntry>,
    /// True if a tie was made since the newest entry.
    is_tied: bool,
}

impl Positions {
    /// Decodes the file. Ignores a torn last entry.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let entry = |bytes: &[u8; ENTRY_BYTES]| PositionEntry {
            first_seq: u64_at(bytes, 0),
            order: u64_at(bytes, 8),
        };
        // A tie may have been made after the last entry. One entry more does no harm.
        Self { entries: bytes.as_chunks().0.iter().map(entry).collect(), is_tied: true }
    }

    /// Encodes the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.entries.iter().flat_map(|entry| entry.to_bytes()).collect()
    }

    /// Notes a message in which ties were made or own records were accepted. `own_first` has the seq and the order of the first
    /// accepted own record. Returns the entry that is appended to the file.
    pub fn on_message(&mut self, own_first: Option<PositionEntry>, makes_tie: bool) -> Option<PositionEntry> {
        let is_later =
            |first: &PositionEntry| self.entries.last().is_none_or(|last| last.first_seq < first.first_seq);
        // A record that is accepted again keeps its first order.
        let own_first = own_first.filter(is_later);
        let entry = own_first.filter(|_| makes_tie || self.is_tied || self.entries.is_empty());
        self.is_tied = (self.is_tied && own_first.is_none()) || makes_tie;
        self.entries.extend(entry);
        entry
    }

    /// Notes the records of a message that took effect, in the log of the cluster: the seq of the first, and their orders.
    /// Returns the entries that are appended to the file. If a record made a tie, orders between two records count, so the
    /// records after each gap have an entry of their own.
    pub fn on_records(&mut self, first_seq: u64, orders: &[u64], makes_tie: bool) -> Vec<PositionEntry> {
        let entries =
            (first_seq..).zip(orders).map(|(first_seq, order)| PositionEntry { first_seq, order: *order });
        let mut added = Vec::new();
        let mut next_order = None;
        for entry in entries {
            let is_after_gap = makes_tie && next_order != Some(entry.order);
            if next_order.is_none() || is_after_gap {
                added.extend(self.on_message(Some(entry), makes_tie));
            }
            next_order = Some(entry.order + 1);
        }
        added
    }

    /// Deletes the entries after an order, at a start and after the stream has lost its end.
    pub fn rewind(&mut self, last_order: u64) {
        self.entries.retain(|entry| entry.order <= last_order);
        self.is_tied = true;
    }

    /// Deletes the entries of the records after a seq, which are other records now.
    pub fn delete_after(&mut self, seq: u64) {
        self.entries.retain(|entry| entry.first_seq <= seq);
        self.is_tied = true;
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entries of a log that was alone until `last_seq`: the order of each record is its seq.
    pub fn of_seqs(last_seq: u64) -> Self {
        let of_seq = |seq| PositionEntry { first_seq: seq, order: seq };
        let entry = |position| of_seq(position * ORDERS_PER_POSITION);
        Self { entries: (0..=last_seq / ORDERS_PER_POSITION).map(entry).collect(), is_tied: true }
    }

    /// Deletes the entries that only records before `first_seq` need.
    pub fn delete_before(&mut self, first_seq: u64) {
        let needed = self.entries.partition_point(|entry| entry.first_seq <= first_seq);
        self.entries.drain(..needed.saturating_sub(1));
    }

    /// Returns the order of an own record. `returned_seq` is the last own seq that has returned: a later record
    /// is after all entries.
    pub fn order_of(&self, seq: u64, returned_seq: u64) -> u64 {
        let before = self.entries.partition_point(|entry| entry.first_seq <= seq);
        match before.checked_sub(1).map(|index| self.entries[index]) {
            _ if seq > returned_seq => u64::MAX,
            Some(entry) => {
                let last_order = entry.order | (ORDERS_PER_POSITION - 1);
                entry.order.saturating_add(seq - entry.first_seq).min(last_order)
            }
            None => 0,
        }
    }

    /// Returns the first seq from which on all records have at least this order. Those after `returned_seq` have.
    pub fn first_seq_from(&self, least_order: u64, returned_seq: u64) -> u64 {
        if least_order == 0 {
            return 0;
        }
        let below = self.entries.partition_point(|entry| entry.order < least_order);
        self.entries.get(below).map_or(returned_seq + 1, |entry| entry.first_seq)
    }

    /// Returns the order below which the log has no record, for a heartbeat. A record that has not returned
    /// can be in a message after that of `last_order`, and before that of the heartbeat.
    pub fn oldest(&self, first_seq: u64, returned_seq: u64, last_order: u64) -> u64 {
        self.order_of(first_seq, returned_seq).min(last_order + 1)
    }
}

/// Returns which entries of one anonymous ID may be dropped (rule T3): those whose next entry has an order
/// below the floor. `orders` are the orders of its entries, ascending. Returns their number, from the oldest
/// on.
pub fn droppable(orders: &[u64], floor: u64) -> usize {
    orders.iter().skip(1).take_while(|order| **order < floor).count()
}
