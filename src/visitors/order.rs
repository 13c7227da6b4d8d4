//! Who goes first: entries in the order in which they were last put, one list for each rank. The writer's own.
//!
//! A node of 24 bytes for each entry, in chunks that never move, linked by their numbers. A node's number stays the entry's for as
//! long as the entry is there. Places grow with each put and are never given twice, so that each list is ascending.

use super::table::Rank;

/// Nodes of a chunk: 96 KiB, so that one more costs the writer some microseconds.
const CHUNK: usize = 4096;
const NONE: u32 = u32::MAX;
const RANKS: [Rank; 4] = [Rank::Alias, Rank::Once, Rank::Known, Rank::Known];

/// The lists, of things of type `T`.
#[derive(Debug)]
pub struct Order<T> {
    chunks: Vec<Box<[Node<T>]>>,
    /// Nodes that were ever given out.
    given: u32,
    /// The first of those that came back, linked by `after`.
    free: u32,
    /// Oldest and newest of each rank.
    ends: [(u32, u32); 3],
    next_place: u64,
}

#[derive(Debug, Clone, Copy)]
struct Node<T> {
    before: u32,
    after: u32,
    /// The place, and in the lowest two bits the rank.
    place: u64,
    thing: Option<T>,
}

/// What a node holds.
#[derive(Debug, Clone, Copy)]
pub struct Placed<T> {
    pub thing: T,
    pub rank: Rank,
    pub place: u64,
}

impl<T: Copy> Order<T> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { chunks: Vec::new(), given: 0, free: NONE, ends: [(NONE, NONE); 3], next_place: 0 }
    }

    /// The number of a node that holds nothing.
    pub fn take(&mut self) -> u32 {
        if self.free != NONE {
            let number = self.free;
            self.free = self.node(number).after;
            return number;
        }
        assert!(self.given < NONE, "memory ends long before the numbers do");
        if self.given as usize == self.chunks.len() * CHUNK {
            let empty = Node { before: NONE, after: NONE, place: 0, thing: None };
            self.chunks.push(vec![empty; CHUNK].into_boxed_slice());
        }
        self.given += 1;
        self.given - 1
    }

    /// Puts `thing` into a node, at the newest end of its rank.
    pub fn put(&mut self, number: u32, thing: T, rank: Rank) {
        self.unlink(number);
        let newest = std::mem::replace(&mut self.ends[rank as usize].1, number);
        match newest {
            NONE => self.ends[rank as usize].0 = number,
            _ => self.node_mut(newest).after = number,
        }
        let place = self.next_place << 2 | rank as u64;
        *self.node_mut(number) = Node { before: newest, after: NONE, place, thing: Some(thing) };
        self.next_place += 1;
    }

    /// Empties a node; its number may be given out again.
    pub fn remove(&mut self, number: u32) {
        self.unlink(number);
        let free = std::mem::replace(&mut self.free, number);
        *self.node_mut(number) = Node { before: NONE, after: free, place: 0, thing: None };
    }

    /// What a node holds.
    pub fn get(&self, number: u32) -> Option<Placed<T>> {
        let Node { place, thing, .. } = *self.node(number);
        Some(Placed { thing: thing?, rank: RANKS[(place & 3) as usize], place: place >> 2 })
    }

    /// What was put first, of those of a rank.
    pub fn first(&self, rank: Rank) -> Option<T> {
        let (oldest, _) = self.ends[rank as usize];
        if oldest == NONE { None } else { self.node(oldest).thing }
    }

    /// How many nodes were ever given out: all numbers are below.
    pub fn given(&self) -> u32 {
        self.given
    }

    /// The place that the next put gives.
    pub fn next_place(&self) -> u64 {
        self.next_place
    }

    fn unlink(&mut self, number: u32) {
        let Node { before, after, place, thing } = *self.node(number);
        if thing.is_none() {
            return;
        }
        let rank = (place & 3) as usize;
        match before {
            NONE => self.ends[rank].0 = after,
            _ => self.node_mut(before).after = after,
        }
        match after {
            NONE => self.ends[rank].1 = before,
            _ => self.node_mut(after).before = before,
        }
    }

    fn node(&self, number: u32) -> &Node<T> {
        &self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }

    fn node_mut(&mut self, number: u32) -> &mut Node<T> {
        &mut self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }
}
