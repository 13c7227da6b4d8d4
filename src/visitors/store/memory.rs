//! Owners of the table's memory: regions for records, and the words of the index of a shard.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use super::index::EMPTY;
use super::slab::{REGION_BYTES, SLOT_ALIGN_BYTES};
use super::sync::{self, AtomicU64, Ordering};

/// An owner of the words of a retired index. It points to the first word, which contains the number
/// of the words after it.
pub(super) struct IndexTable(pub(super) NonNull<AtomicU64>);

// SAFETY: it owns memory of the global allocator that contains atomic words.
unsafe impl Send for IndexTable {}

impl IndexTable {
    pub(super) fn allocate(len: usize) -> NonNull<AtomicU64> {
        let words: Box<[AtomicU64]> = (0..=len).map(|_| AtomicU64::new(EMPTY)).collect();
        words[0].store(len as u64, Ordering::Relaxed);
        NonNull::from(Box::leak(words)).cast()
    }

    // SAFETY: the caller guarantees that `first` is from `allocate` and is not dropped before 'w ends.
    pub(super) unsafe fn words<'w>(first: NonNull<AtomicU64>) -> &'w [AtomicU64] {
        // SAFETY: as above. The first word contains the number of the words after it.
        unsafe {
            NonNull::slice_from_raw_parts(first.add(1), first.as_ref().load(Ordering::Relaxed) as usize)
                .as_ref()
        }
    }
}

impl Drop for IndexTable {
    fn drop(&mut self) {
        // SAFETY: `allocate` leaked this memory with that many words, and only the last owner drops it.
        unsafe {
            let len = 1 + self.0.as_ref().load(Ordering::Relaxed) as usize;
            let mut words = Box::from_raw(NonNull::slice_from_raw_parts(self.0, len).as_ptr());
            sync::track_free(&mut words);
        }
    }
}

/// A region of memory for records.
pub(super) struct Region(NonNull<u8>);

// SAFETY: it owns memory of the global allocator.
unsafe impl Send for Region {}

impl Region {
    fn layout() -> Layout {
        Layout::from_size_align(REGION_BYTES, SLOT_ALIGN_BYTES).expect("two powers of two")
    }

    pub(super) fn new() -> Self {
        // SAFETY: the layout is not empty.
        let region = NonNull::new(unsafe { alloc(Self::layout()) });
        Self(region.unwrap_or_else(|| handle_alloc_error(Self::layout())))
    }

    /// Returns the address of the first byte.
    pub(super) fn address(&self) -> usize {
        self.0.as_ptr().expose_provenance()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the region was allocated with this layout. It is dropped after the writer and all readers.
        unsafe { dealloc(self.0.as_ptr(), Self::layout()) };
    }
}
