//! The slab allocator of records: blocks with slots of equal size. A freed slot fits the next record of its
//! size. Blocks that are nearly empty are evacuated, so that memory can move between sizes. This module only
//! handles addresses and never dereferences them.
//!
//! Slot sizes grow in steps of 16 bytes up to 1 KiB, and in steps of at most a 32nd above. Each size class
//! has its own blocks. At most a 16th of the slots of a class and two blocks may be free. Beyond that, the
//! allocator picks the emptiest of some blocks and names its records one by one, and the table moves them to
//! other blocks. A block without records can go to any class. So the memory is bounded by the present
//! records, not by the sizes that existed before. The global allocator cannot close its holes, and took 7 % more
//! than the bound after a change of sizes.

use super::entry::TABLE_ENTRY_BYTES_MAX;

/// Bytes of a region. A region is allocated at once and never freed before the table. The system
/// provides its pages when they are first used.
pub(super) const REGION_BYTES: usize = 64 << 20;
/// Bytes of a huge page on x86-64, and on ARM with the usual small pages. Regions are aligned to it. The last one in use
/// is resident as a whole.
pub(super) const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Bytes of a block. Large enough that the unused end after the last slot is at most a 15th. Small
/// enough that one block per class is little memory.
pub(super) const BLOCK_BYTES: usize = 256 << 10;
/// Granularity of slot sizes and alignment of slots, in bytes.
pub(super) const SLOT_ALIGN_BYTES: usize = 16;
/// Number of classes in steps of 16 bytes. Above them there are 32 classes for each doubling.
const FINE_CLASSES: usize = 64;
const CLASS_COUNT: usize =
    FINE_CLASSES + 32 * (TABLE_ENTRY_BYTES_MAX / (FINE_CLASSES * SLOT_ALIGN_BYTES)).ilog2() as usize;
/// Maximum bytes of free slots in addition to the free 16th: two blocks of each class.
pub(super) const FREE_SLOTS_BYTES_MAX: usize = CLASS_COUNT * 2 * BLOCK_BYTES;
/// Number of blocks among which the emptiest is chosen for evacuation.
const BLOCKS_COMPARED: usize = 8;
/// Records that one put or remove may move, at about 0.3 us each. A block being evacuated has at
/// least one free slot in 17, so moving this many frees as much as one put can.
pub(super) const RECORDS_MOVED_MAX: usize = 16;

/// An allocator of slots by size.
#[derive(Debug)]
pub(super) struct SlabAllocator {
    /// Address and number of the first block of each region, sorted by address.
    regions: Vec<(usize, usize)>,
    blocks: Vec<Block>,
    /// Blocks without a class.
    empty_blocks: Vec<usize>,
    classes: Vec<SizeClass>,
    /// The block that is being evacuated, and the next slot to look at.
    evacuating: Option<(usize, usize)>,
    /// True if a class may have too many free slots.
    may_be_sparse: bool,
    /// The position at which the next search for a block to evacuate begins.
    scan_start: usize,
}

#[derive(Debug, Default)]
struct Block {
    address: usize,
    class: usize,
    /// One bit per slot that is in use, and the number of these slots.
    bits: Box<[u64]>,
    taken: usize,
    /// All bits before this word are set.
    hint: usize,
    /// The index of this block in the open list of its class, if it is there.
    open_index: Option<usize>,
}

#[derive(Debug, Default)]
struct SizeClass {
    /// Blocks with a free slot that can be allocated.
    open: Vec<usize>,
    /// Number of all slots and of free slots. Includes full blocks, but not blocks that are being
    /// evacuated.
    slots: usize,
    free: usize,
}

impl SlabAllocator {
    /// Creates an allocator without a region.
    pub(super) fn new() -> Self {
        Self {
            regions: Vec::new(),
            blocks: Vec::new(),
            empty_blocks: Vec::new(),
            classes: (0..CLASS_COUNT).map(|_| SizeClass::default()).collect(),
            evacuating: None,
            may_be_sparse: false,
            scan_start: 0,
        }
    }

    /// Adds a region of [`REGION_BYTES`] at this address.
    pub(super) fn add_region(&mut self, address: usize) {
        let first = self.blocks.len();
        let at = self.regions.partition_point(|(other, _)| *other < address);
        self.regions.insert(at, (address, first));
        let blocks = (0..REGION_BYTES / BLOCK_BYTES).map(|block| address + block * BLOCK_BYTES);
        self.blocks.extend(blocks.map(|address| Block { address, ..Block::default() }));
        // The first blocks are used first, so that pages are touched in order.
        self.empty_blocks.extend((first..self.blocks.len()).rev());
    }

    /// Returns the bytes of all blocks that have a class.
    pub(super) fn bytes(&self) -> usize {
        (self.blocks.len() - self.empty_blocks.len()) * BLOCK_BYTES
    }

    /// Allocates a slot for `bytes` bytes and returns its address. `None` means that the allocator needs
    /// another region.
    pub(super) fn allocate(&mut self, bytes: usize) -> Option<usize> {
        let class = class_of(bytes);
        let number = match self.classes[class].open.last() {
            Some(number) => *number,
            None => self.assign_block(class)?,
        };
        let block = &mut self.blocks[number];
        let slot = block.allocate();
        let address = block.address + slot * slot_bytes(class);
        let is_full = block.taken == slots_per_block(class);
        self.classes[class].free -= 1;
        if is_full {
            self.remove_open(number);
        }
        Some(address)
    }

    /// Frees a slot. No reader may be using it.
    pub(super) fn free(&mut self, address: usize) {
        let number = self.block_of(address);
        let block = &mut self.blocks[number];
        let class = block.class;
        let was_full = block.taken == slots_per_block(class);
        block.free((address - block.address) / slot_bytes(class));
        let is_empty = block.taken == 0;
        // A block that is neither full nor open is being evacuated, or was. Its slots no longer count for its
        // class.
        if was_full || block.open_index.is_some() {
            self.classes[class].free += 1;
            self.may_be_sparse |= self.is_sparse(class);
        }
        if was_full {
            self.add_open(number);
        }
        if is_empty {
            self.release_block(number);
        }
    }

    /// Returns the address of a slot whose record must be moved to another block. The record may be
    /// retired already. `None` if no class has too many free slots.
    pub(super) fn next_to_move(&mut self) -> Option<usize> {
        loop {
            if let Some((number, from)) = self.evacuating {
                let block = &self.blocks[number];
                if let Some(slot) = block.next_taken(from) {
                    self.evacuating = Some((number, slot + 1));
                    return Some(block.address + slot * slot_bytes(block.class));
                }
                self.evacuating = None;
                self.may_be_sparse = true;
            }
            if !std::mem::take(&mut self.may_be_sparse) {
                return None;
            }
            self.start_evacuation();
        }
    }

    /// Assigns an empty block to a class.
    fn assign_block(&mut self, class_index: usize) -> Option<usize> {
        let number = self.empty_blocks.pop()?;
        let slots = slots_per_block(class_index);
        let block = &mut self.blocks[number];
        block.class = class_index;
        block.bits = vec![0; slots.div_ceil(64)].into_boxed_slice();
        // The bits after the last slot count as slots in use.
        (slots..block.bits.len() * 64).for_each(|slot| block.bits[slot / 64] |= 1 << (slot % 64));
        block.hint = 0;
        self.classes[class_index].slots += slots;
        self.classes[class_index].free += slots;
        self.add_open(number);
        Some(number)
    }

    /// Removes a block without records from its class, so that any class can use it.
    fn release_block(&mut self, block_index: usize) {
        if self.blocks[block_index].open_index.is_some() {
            self.detach_block(block_index);
        }
        if self.evacuating.is_some_and(|(leaving, _)| leaving == block_index) {
            self.evacuating = None;
            self.may_be_sparse = true;
        }
        self.blocks[block_index].bits = Box::default();
        self.empty_blocks.push(block_index);
    }

    /// Chooses a block to evacuate, if a class has too many free slots.
    fn start_evacuation(&mut self) {
        let sparse = (0..CLASS_COUNT)
            .map(|class| (self.scan_start + class) % CLASS_COUNT)
            .find(|class| self.is_sparse(*class));
        let Some(class) = sparse else { return };
        self.scan_start += 1;
        let open = &self.classes[class].open;
        let tried = (0..BLOCKS_COMPARED.min(open.len()))
            .map(|step| open[(self.scan_start * BLOCKS_COMPARED + step) % open.len()]);
        let Some(number) = tried.min_by_key(|number| self.blocks[*number].taken) else { return };
        self.detach_block(number);
        self.evacuating = Some((number, 0));
    }

    /// Removes an open block from the counts and the open list of its class.
    fn detach_block(&mut self, block_index: usize) {
        let Block { class, taken, .. } = self.blocks[block_index];
        self.remove_open(block_index);
        self.classes[class].slots -= slots_per_block(class);
        self.classes[class].free -= slots_per_block(class) - taken;
    }

    fn is_sparse(&self, class_index: usize) -> bool {
        let SizeClass { slots, free, .. } = self.classes[class_index];
        free > slots / 16 + 2 * slots_per_block(class_index)
    }

    fn add_open(&mut self, block_index: usize) {
        let open = &mut self.classes[self.blocks[block_index].class].open;
        self.blocks[block_index].open_index = Some(open.len());
        open.push(block_index);
    }

    fn remove_open(&mut self, block_index: usize) {
        let open = &mut self.classes[self.blocks[block_index].class].open;
        let Some(at) = self.blocks[block_index].open_index.take() else { return };
        open.swap_remove(at);
        if let Some(moved) = open.get(at) {
            self.blocks[*moved].open_index = Some(at);
        }
    }

    fn block_of(&self, address: usize) -> usize {
        let region = self.regions.partition_point(|(other, _)| *other <= address) - 1;
        let (begin, first) = self.regions[region];
        first + (address - begin) / BLOCK_BYTES
    }
}

impl Block {
    fn allocate(&mut self) -> usize {
        let rest = &self.bits[self.hint..];
        self.hint += rest.iter().position(|word| *word != !0).expect("an open block has a free slot");
        let bit = self.bits[self.hint].trailing_ones() as usize;
        self.bits[self.hint] |= 1 << bit;
        self.taken += 1;
        self.hint * 64 + bit
    }

    fn free(&mut self, slot_index: usize) {
        let word = slot_index / 64;
        let bit = 1 << (slot_index % 64);
        debug_assert!(self.bits[word] & bit != 0, "a slot is given back once");
        self.bits[word] &= !bit;
        self.taken -= 1;
        self.hint = self.hint.min(word);
    }

    /// Returns the first slot in use at or after `start`.
    fn next_taken(&self, start: usize) -> Option<usize> {
        let is_taken = |slot: &usize| self.bits[slot / 64] & 1 << (slot % 64) != 0;
        (start..slots_per_block(self.class)).find(is_taken)
    }
}

/// Returns the class for records of `bytes` bytes, at least 1.
fn class_of(bytes: usize) -> usize {
    let last = bytes - 1;
    if last < FINE_CLASSES * SLOT_ALIGN_BYTES {
        return last / SLOT_ALIGN_BYTES;
    }
    let doubling = last.ilog2();
    let first = FINE_CLASSES + 32 * (doubling - (FINE_CLASSES * SLOT_ALIGN_BYTES).ilog2()) as usize;
    first + ((last - (1 << doubling)) >> (doubling - 5))
}

fn slot_bytes(class_index: usize) -> usize {
    let Some(coarse) = class_index.checked_sub(FINE_CLASSES) else {
        return (class_index + 1) * SLOT_ALIGN_BYTES;
    };
    let doubling = (FINE_CLASSES * SLOT_ALIGN_BYTES) << (coarse / 32);
    doubling + (coarse % 32 + 1) * doubling / 32
}

fn slots_per_block(class_index: usize) -> usize {
    BLOCK_BYTES / slot_bytes(class_index)
}

// The largest class has the size of the largest record.
const _: () = assert!(
    TABLE_ENTRY_BYTES_MAX == (FINE_CLASSES * SLOT_ALIGN_BYTES) << ((CLASS_COUNT - FINE_CLASSES) / 32)
);
