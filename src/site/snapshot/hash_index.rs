//! A hash index from texts to their indices: open addressing, used in place. The texts are stored elsewhere.
//!
//! Slot `hash(text) % slots`, or one of those after it, contains the index plus 1. A 0 ends the search. The
//! number of slots is a power of two and at least twice the number of texts, so that every search ends.

use rkyv::rend::u32_le;

use crate::checksum;

/// Builds the slots for `count` texts, given with their indices.
pub fn build<'t>(count: usize, texts: impl Iterator<Item = (u32, &'t [u8])>) -> Vec<u32> {
    let mut slots = vec![0; (2 * count).next_power_of_two().max(2)];
    let mask = slots.len() - 1;
    for (index, text) in texts {
        let mut slot = checksum::hash64(text) as usize & mask;
        while slots[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        slots[slot] = index + 1;
    }
    slots
}

/// Finds the index of `text`. `is_equal` tells whether the text at an index equals it.
pub fn find(slots: &[u32_le], text: &[u8], is_equal: impl Fn(usize) -> bool) -> Option<u32> {
    let mask = slots.len().checked_sub(1)?;
    let mut slot = checksum::hash64(text) as usize & mask;
    loop {
        let index = slots[slot].to_native().checked_sub(1)?;
        if is_equal(index as usize) {
            return Some(index);
        }
        slot = (slot + 1) & mask;
    }
}

/// Returns whether every search ends and finds only indices below `count`.
pub fn is_valid(slots: &[u32_le], count: usize) -> bool {
    let ends = slots.is_empty() || slots.len().is_power_of_two() && slots.iter().any(|slot| *slot == 0);
    ends && slots.iter().all(|slot| slot.to_native() as usize <= count)
}
