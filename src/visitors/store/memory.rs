//! The memory of the table: regions for records, the words of the index of a shard, and loads into the cache.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{NonNull, with_exposed_provenance_mut, without_provenance};

use rustix::mm::{Advice, madvise};

use super::index::EMPTY;
use super::slab::{HUGE_PAGE_BYTES, REGION_BYTES};
use super::sync::{self, AtomicU64};

/// The address and the number of the words of an index. It does not own them.
#[derive(Clone, Copy)]
pub(super) struct IndexWords {
    first: NonNull<AtomicU64>,
    len: usize,
}

impl IndexWords {
    /// Allocates empty words. Their memory is freed by an [`IndexTable`] of them.
    pub(super) fn allocate(word_count: usize) -> Self {
        let words: Box<[AtomicU64]> = (0..word_count).map(|_| AtomicU64::new(EMPTY)).collect();
        Self { first: NonNull::from(Box::leak(words)).cast(), len: word_count }
    }

    /// Returns both as one number that is not 0. So a shard has its index in one atomic word, and a lookup needs
    /// no further access to memory for the number of words.
    pub(super) fn to_bits(self) -> u64 {
        let address = self.first.as_ptr().expose_provenance() / align_of::<AtomicU64>();
        assert!(address < 1 << ADDRESS_BITS, "user space ends at 48 bits");
        assert!(self.len < 1 << (u64::BITS - ADDRESS_BITS), "a table has fewer than 2^32 entries");
        (self.len as u64) << ADDRESS_BITS | address as u64
    }

    /// Returns the words from the number of [`Self::to_bits`]. `None` for 0.
    pub(super) fn from_bits(bits: u64) -> Option<Self> {
        let address = (bits & ((1 << ADDRESS_BITS) - 1)) as usize * align_of::<AtomicU64>();
        let first = NonNull::new(with_exposed_provenance_mut(address))?;
        Some(Self { first, len: (bits >> ADDRESS_BITS) as usize })
    }

    // SAFETY: the caller guarantees that the words are not freed before 'w ends.
    pub(super) unsafe fn get<'w>(self) -> &'w [AtomicU64] {
        // SAFETY: as above. `allocate` made this many words.
        unsafe { NonNull::slice_from_raw_parts(self.first, self.len).as_ref() }
    }
}

/// Bits of an address in [`IndexWords::to_bits`], in units of 8 bytes: addresses have 48 bits, and the last 3 are
/// 0. The other 19 bits are the number of words. They are enough for 5 billion entries, and the table numbers its
/// entries with 32 bits.
const ADDRESS_BITS: u32 = 45;

/// An owner of the words of a retired index.
pub(super) struct IndexTable(pub(super) IndexWords);

// SAFETY: it owns memory of the global allocator that contains atomic words.
unsafe impl Send for IndexTable {}

impl Drop for IndexTable {
    fn drop(&mut self) {
        // SAFETY: `allocate` leaked this memory with that many words, and only the last owner drops it.
        unsafe {
            let words = NonNull::slice_from_raw_parts(self.0.first, self.0.len);
            sync::track_free(&mut Box::from_raw(words.as_ptr()));
        }
    }
}

/// Size of a line of the cache.
const LINE_BYTES: usize = 64;

/// Starts to load `line_count` lines of memory from an address on into the cache. Does nothing except on x86-64.
pub(super) fn prefetch(address: usize, line_count: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in 0..line_count {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let place = without_provenance::<i8>(address.wrapping_add(line * LINE_BYTES));
        // SAFETY: it changes nothing but the cache, and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (address, line_count);
}

/// Asks the system for huge pages in a region. A lookup reads a random record. With small pages, the translation of its
/// address takes most of the time. An error is ignored: a system without huge pages uses small ones.
fn use_huge_pages(region: NonNull<u8>) {
    // Miri does not know the call.
    if !cfg!(miri) {
        // SAFETY: the caller has allocated the region. The advice does not change its content.
        let _ = unsafe { madvise(region.as_ptr().cast(), REGION_BYTES, Advice::LinuxHugepage) };
    }
}

/// A region of memory for records.
pub(super) struct Region(NonNull<u8>);

// SAFETY: it owns memory of the global allocator.
unsafe impl Send for Region {}

impl Region {
    fn layout() -> Layout {
        Layout::from_size_align(REGION_BYTES, HUGE_PAGE_BYTES).expect("two powers of two")
    }

    pub(super) fn new() -> Self {
        // SAFETY: the layout is not empty.
        let region = NonNull::new(unsafe { alloc(Self::layout()) });
        let region = region.unwrap_or_else(|| handle_alloc_error(Self::layout()));
        use_huge_pages(region);
        Self(region)
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
