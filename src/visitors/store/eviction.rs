//! The order of eviction: one list for each eviction class, in the order of the last put. Only the writer
//! uses it.
//!
//! Each entry has a node of 24 bytes. The nodes are in chunks that never move, and are linked by their
//! numbers. If many nodes are free, the last nodes are moved to free numbers, and empty chunks at the end are
//! freed. The put order of a node grows with each put and is never reused, so each list is sorted by it.

use super::key::EvictionClass;

/// Nodes per chunk. A chunk is 96 KiB, so allocating one takes the writer some microseconds.
const CHUNK_NODES: usize = 4096;
/// Nodes that one put or remove may renumber: one more than one removal makes necessary.
pub(super) const NODES_RENUMBERED_MAX: usize = 2;
const NONE: u32 = u32::MAX;
const CLASSES: [EvictionClass; 4] =
    [EvictionClass::Pinned, EvictionClass::SingleVisit, EvictionClass::Returning, EvictionClass::Returning];

/// The eviction lists, with items of type `T`.
#[derive(Debug)]
pub(super) struct EvictionLists<T> {
    chunks: Vec<Box<[Node<T>]>>,
    /// Number of nodes, free nodes included.
    node_count: u32,
    /// The first node of the list of free nodes, and the length of that list.
    first_free: u32,
    free_count: u32,
    /// Oldest and newest node of each class.
    ends: [(u32, u32); 3],
    next_order: u64,
}

#[derive(Debug, Clone, Copy)]
struct Node<T> {
    before: u32,
    after: u32,
    /// The put order, shifted by two, with the class in the lowest two bits.
    order_and_class: u64,
    item: Option<T>,
}

impl<T> Node<T> {
    const EMPTY: Self = Self { before: NONE, after: NONE, order_and_class: 0, item: None };
}

/// The content of a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct EvictionEntry<T> {
    pub item: T,
    pub class: EvictionClass,
    pub order: u64,
}

impl<T: Copy> EvictionLists<T> {
    /// Creates empty lists.
    pub(super) fn new() -> Self {
        Self {
            chunks: Vec::new(),
            node_count: 0,
            first_free: NONE,
            free_count: 0,
            ends: [(NONE, NONE); 3],
            next_order: 0,
        }
    }

    /// Allocates a node without content and returns its number.
    pub(super) fn allocate(&mut self) -> u32 {
        if self.first_free != NONE {
            let number = self.first_free;
            self.unlink_free(number);
            return number;
        }
        assert!(self.node_count < NONE, "node numbers are exhausted");
        if self.node_count as usize == self.chunks.len() * CHUNK_NODES {
            self.chunks.push(vec![Node::EMPTY; CHUNK_NODES].into_boxed_slice());
        }
        self.node_count += 1;
        self.node_count - 1
    }

    /// Stores an item in a node and moves the node to the newest end of its class.
    pub(super) fn put(&mut self, node_index: u32, item: T, class: EvictionClass) {
        self.unlink(node_index);
        let newest = std::mem::replace(&mut self.ends[class as usize].1, node_index);
        match newest {
            NONE => self.ends[class as usize].0 = node_index,
            _ => self.node_mut(newest).after = node_index,
        }
        let order_and_class = self.next_order << 2 | class as u64;
        *self.node_mut(node_index) = Node { before: newest, after: NONE, order_and_class, item: Some(item) };
        self.next_order += 1;
    }

    /// Replaces the item of a node without changing its order.
    pub(super) fn replace(&mut self, node_index: u32, item: T) {
        self.node_mut(node_index).item = Some(item);
    }

    /// Frees a node. Its number may be reused.
    pub(super) fn remove(&mut self, node_index: u32) {
        self.unlink(node_index);
        let after = std::mem::replace(&mut self.first_free, node_index);
        if after != NONE {
            self.node_mut(after).before = node_index;
        }
        *self.node_mut(node_index) = Node { after, ..Node::EMPTY };
        self.free_count += 1;
    }

    /// Removes the last node if many nodes are free. If that node had an item, moves it to a free node,
    /// and returns the item and its new number.
    pub(super) fn compact_step(&mut self) -> Option<(T, u32)> {
        if (self.free_count as usize) < self.node_count as usize / 8 + 2 * CHUNK_NODES {
            return None;
        }
        let last = self.node_count - 1;
        let node = *self.node(last);
        let moved = match node.item {
            Some(item) => {
                let number = self.allocate();
                self.renumber(node, number);
                *self.node_mut(last) = Node::EMPTY;
                Some((item, number))
            }
            None => {
                self.unlink_free(last);
                None
            }
        };
        self.node_count = last;
        self.chunks.truncate((last as usize).div_ceil(CHUNK_NODES));
        moved
    }

    /// Returns the content of a node. `None` if the node is free or does not exist.
    pub(super) fn get(&self, node_index: u32) -> Option<EvictionEntry<T>> {
        if node_index >= self.node_count {
            return None;
        }
        let Node { order_and_class, item, .. } = *self.node(node_index);
        Some(EvictionEntry {
            item: item?,
            class: CLASSES[(order_and_class & 3) as usize],
            order: order_and_class >> 2,
        })
    }

    /// Returns the oldest node of a class.
    pub(super) fn oldest(&self, class: EvictionClass) -> Option<EvictionEntry<T>> {
        let (oldest, _) = self.ends[class as usize];
        if oldest == NONE { None } else { self.get(oldest) }
    }

    /// Returns the number of nodes. All node numbers are below it.
    pub(super) fn node_count(&self) -> u32 {
        self.node_count
    }

    /// Returns the memory of all chunks, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.chunks.len() * CHUNK_NODES * size_of::<Node<T>>()
    }

    /// Returns the order that the next put gets.
    pub(super) fn next_order(&self) -> u64 {
        self.next_order
    }

    /// Removes a node from the list of free nodes.
    fn unlink_free(&mut self, node_index: u32) {
        let Node { before, after, .. } = *self.node(node_index);
        match before {
            NONE => self.first_free = after,
            _ => self.node_mut(before).after = after,
        }
        if after != NONE {
            self.node_mut(after).before = before;
        }
        *self.node_mut(node_index) = Node::EMPTY;
        self.free_count -= 1;
    }

    /// Moves a node with content to another number.
    fn renumber(&mut self, node: Node<T>, node_index: u32) {
        let class = (node.order_and_class & 3) as usize;
        match node.before {
            NONE => self.ends[class].0 = node_index,
            _ => self.node_mut(node.before).after = node_index,
        }
        match node.after {
            NONE => self.ends[class].1 = node_index,
            _ => self.node_mut(node.after).before = node_index,
        }
        *self.node_mut(node_index) = node;
    }

    fn unlink(&mut self, node_index: u32) {
        let Node { before, after, order_and_class, item } = *self.node(node_index);
        if item.is_none() {
            return;
        }
        let class = (order_and_class & 3) as usize;
        match before {
            NONE => self.ends[class].0 = after,
            _ => self.node_mut(before).after = after,
        }
        match after {
            NONE => self.ends[class].1 = before,
            _ => self.node_mut(after).before = before,
        }
    }

    fn node(&self, node_index: u32) -> &Node<T> {
        &self.chunks[node_index as usize / CHUNK_NODES][node_index as usize % CHUNK_NODES]
    }

    fn node_mut(&mut self, node_index: u32) -> &mut Node<T> {
        &mut self.chunks[node_index as usize / CHUNK_NODES][node_index as usize % CHUNK_NODES]
    }
}
