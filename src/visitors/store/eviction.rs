//! Who goes first: entries in the order in which they were last put, one list for each rank. The writer's own.
//!
//! A node of 24 bytes for each entry, in chunks that never move, linked by their numbers. Where many nodes are free, the last ones
//! give up their numbers for free ones, and chunks are given back. Places grow with each put and are never given twice, so that
//! each list is ascending.

use super::entry::Rank;

/// Nodes of a chunk: 96 KiB, so that one more costs the writer some microseconds.
const CHUNK: usize = 4096;
const NONE: u32 = u32::MAX;
const RANKS: [Rank; 4] = [Rank::Alias, Rank::Once, Rank::Known, Rank::Known];

/// The lists, of things of type `T`.
#[derive(Debug)]
pub struct Order<T> {
    chunks: Vec<Box<[Node<T>]>>,
    /// Nodes that there are, free ones included.
    given: u32,
    /// The first of those that are free, linked like the others, and how many they are.
    free: u32,
    free_nodes: u32,
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

impl<T> Node<T> {
    const EMPTY: Self = Self { before: NONE, after: NONE, place: 0, thing: None };
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
        Self {
            chunks: Vec::new(),
            given: 0,
            free: NONE,
            free_nodes: 0,
            ends: [(NONE, NONE); 3],
            next_place: 0,
        }
    }

    /// The number of a node that holds nothing.
    pub fn take(&mut self) -> u32 {
        if self.free != NONE {
            let number = self.free;
            self.unfree(number);
            return number;
        }
        assert!(self.given < NONE, "memory ends long before the numbers do");
        if self.given as usize == self.chunks.len() * CHUNK {
            self.chunks.push(vec![Node::EMPTY; CHUNK].into_boxed_slice());
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

    /// What a node holds stands elsewhere now.
    pub fn replace(&mut self, number: u32, thing: T) {
        self.node_mut(number).thing = Some(thing);
    }

    /// Empties a node; its number may be given out again.
    pub fn remove(&mut self, number: u32) {
        self.unlink(number);
        let after = std::mem::replace(&mut self.free, number);
        if after != NONE {
            self.node_mut(after).before = number;
        }
        *self.node_mut(number) = Node { after, ..Node::EMPTY };
        self.free_nodes += 1;
    }

    /// One step towards fewer nodes, if many are free: what the last one held, if it held something, and its number from now on.
    pub fn pack(&mut self) -> Option<(T, u32)> {
        if (self.free_nodes as usize) < self.given as usize / 8 + 2 * CHUNK {
            return None;
        }
        let last = self.given - 1;
        let node = *self.node(last);
        let moved = match node.thing {
            Some(thing) => {
                let number = self.take();
                self.renumber(node, number);
                *self.node_mut(last) = Node::EMPTY;
                Some((thing, number))
            }
            None => {
                self.unfree(last);
                None
            }
        };
        self.given = last;
        self.chunks.truncate((last as usize).div_ceil(CHUNK));
        moved
    }

    /// What a node holds.
    pub fn get(&self, number: u32) -> Option<Placed<T>> {
        if number >= self.given {
            return None;
        }
        let Node { place, thing, .. } = *self.node(number);
        Some(Placed { thing: thing?, rank: RANKS[(place & 3) as usize], place: place >> 2 })
    }

    /// What was put first, of those of a rank.
    pub fn first(&self, rank: Rank) -> Option<Placed<T>> {
        let (oldest, _) = self.ends[rank as usize];
        if oldest == NONE { None } else { self.get(oldest) }
    }

    /// How many nodes there are: all numbers are below.
    pub fn given(&self) -> u32 {
        self.given
    }

    /// Bytes of its chunks.
    pub fn bytes(&self) -> usize {
        self.chunks.len() * CHUNK * size_of::<Node<T>>()
    }

    /// The place that the next put gives.
    pub fn next_place(&self) -> u64 {
        self.next_place
    }

    /// A free node is free no more.
    fn unfree(&mut self, number: u32) {
        let Node { before, after, .. } = *self.node(number);
        match before {
            NONE => self.free = after,
            _ => self.node_mut(before).after = after,
        }
        if after != NONE {
            self.node_mut(after).before = before;
        }
        *self.node_mut(number) = Node::EMPTY;
        self.free_nodes -= 1;
    }

    /// Gives a node that holds something another number.
    fn renumber(&mut self, node: Node<T>, number: u32) {
        let rank = (node.place & 3) as usize;
        match node.before {
            NONE => self.ends[rank].0 = number,
            _ => self.node_mut(node.before).after = number,
        }
        match node.after {
            NONE => self.ends[rank].1 = number,
            _ => self.node_mut(node.after).before = number,
        }
        *self.node_mut(number) = node;
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
