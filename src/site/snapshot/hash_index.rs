//! From a text to its index, in place: open addressing over texts that stand elsewhere.
//!
//! Slot `hash(text) % slots`, or else the following ones, hold the index and 1; 0 ends the search. The slots are a power of
//! two, at least twice as many as texts, so that a search ends.

use rkyv::rend::u32_le;

use crate::checksum;

/// The slots of `count` texts, given with their indices.
pub fn slots<'t>(count: usize, texts: impl Iterator<Item = (u32, &'t [u8])>) -> Vec<u32> {
    let mut slots = vec![0; (2 * count).next_power_of_two().max(2)];
    let mask = slots.len() - 1;
    for (index, text) in texts {
        let mut slot = checksum::table(text) as usize & mask;
        while slots[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        slots[slot] = index + 1;
    }
    slots
}

/// The index of `text`, among the texts of which `is` tells whether one is it.
pub fn find(slots: &[u32_le], text: &[u8], is: impl Fn(usize) -> bool) -> Option<u32> {
    let mask = slots.len().checked_sub(1)?;
    let mut slot = checksum::table(text) as usize & mask;
    loop {
        let index = slots[slot].to_native().checked_sub(1)?;
        if is(index as usize) {
            return Some(index);
        }
        slot = (slot + 1) & mask;
    }
}

/// Whether searches end, and name only the first `count` texts.
pub fn is_sound(slots: &[u32_le], count: usize) -> bool {
    let ends = slots.is_empty() || slots.len().is_power_of_two() && slots.iter().any(|slot| *slot == 0);
    ends && slots.iter().all(|slot| slot.to_native() as usize <= count)
}
