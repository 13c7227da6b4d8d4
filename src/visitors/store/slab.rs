//! Where records stand: slots of equal size in blocks, so that a slot that is left fits the next record of its size, and blocks that
//! are nearly empty are emptied, so that memory goes where the sizes go. Addresses only; nothing here is looked at through them.
//!
//! Sizes go in steps of 16 up to 1 KiB and of at most a 32nd beyond. A class of one size holds blocks; what is free in them is at
//! most a 16th of its slots and two blocks, or the emptiest of some blocks is named record by record, to be moved by the table into
//! the others. A block without a record goes to any class. So memory is bounded by what the records take, whatever sizes there were
//! before; the allocator, whose holes stay where they are, took 7 % more than the bound after a change of sizes.

use crate::limits::RECORD_BYTES_MAX;

/// A region comes from the allocator at once and stays; its pages are lent as they are touched.
pub const REGION_BYTES: usize = 64 << 20;
/// Large enough that the rest behind the last slot is at most a 15th; small enough that one for each class is little.
pub const BLOCK_BYTES: usize = 256 << 10;
/// Of sizes, and of addresses.
pub const STEP: usize = 16;
/// Steps in 16 bytes, then 32 classes for each doubling.
const FINE_CLASSES: usize = 64;
const CLASSES: usize = FINE_CLASSES + 32 * (RECORD_BYTES_MAX / (FINE_CLASSES * STEP)).ilog2() as usize;
/// What may be free beside a 16th: two blocks of each class.
pub const SLOTS_BYTES_FREE: usize = CLASSES * 2 * BLOCK_BYTES;
/// Blocks of which the emptiest is chosen.
const TRIED: usize = 8;

/// All of them.
#[derive(Debug)]
pub struct Slots {
    /// Address and first block of each region, by address.
    regions: Vec<(usize, usize)>,
    blocks: Vec<Block>,
    /// Blocks without a class.
    empty: Vec<usize>,
    classes: Vec<Class>,
    /// The block that is being emptied, and the slot that is looked at next.
    leaving: Option<(usize, usize)>,
    /// Whether a class may have too much that is free.
    may_be_sparse: bool,
    /// Where the next search for blocks begins.
    turn: usize,
}

#[derive(Debug, Default)]
struct Block {
    address: usize,
    class: usize,
    /// Slots that are taken: a bit each, and how many.
    bits: Box<[u64]>,
    taken: usize,
    /// Bits before this word are all set.
    hint: usize,
    /// Where it stands in its class's list, if it does.
    open_at: Option<usize>,
}

#[derive(Debug, Default)]
struct Class {
    /// Blocks with a free slot that may be taken.
    open: Vec<usize>,
    /// Slots of its blocks, full ones included, and those that are free; without blocks that are being emptied.
    slots: usize,
    free: usize,
}

impl Slots {
    /// Without a region.
    pub fn new() -> Self {
        Self {
            regions: Vec::new(),
            blocks: Vec::new(),
            empty: Vec::new(),
            classes: (0..CLASSES).map(|_| Class::default()).collect(),
            leaving: None,
            may_be_sparse: false,
            turn: 0,
        }
    }

    /// A region of [`REGION_BYTES`] at this address.
    pub fn add_region(&mut self, address: usize) {
        let first = self.blocks.len();
        let at = self.regions.partition_point(|(other, _)| *other < address);
        self.regions.insert(at, (address, first));
        let blocks = (0..REGION_BYTES / BLOCK_BYTES).map(|block| address + block * BLOCK_BYTES);
        self.blocks.extend(blocks.map(|address| Block { address, ..Block::default() }));
        // The first ones are taken first, so that pages are touched in order.
        self.empty.extend((first..self.blocks.len()).rev());
    }

    /// Bytes of blocks that hold records or may.
    pub fn bytes(&self) -> usize {
        (self.blocks.len() - self.empty.len()) * BLOCK_BYTES
    }

    /// The address of a slot for so many bytes; None asks for one region more.
    pub fn take(&mut self, bytes: usize) -> Option<usize> {
        let class = class_of(bytes);
        let number = match self.classes[class].open.last() {
            Some(number) => *number,
            None => self.begin(class)?,
        };
        let block = &mut self.blocks[number];
        let slot = block.take();
        let (address, is_full) =
            (block.address + slot * size_of_class(class), block.taken == slots_of(class));
        self.classes[class].free -= 1;
        if is_full {
            self.close(number);
        }
        Some(address)
    }

    /// Nobody looks at a slot any more.
    pub fn give_back(&mut self, address: usize) {
        let number = self.block_of(address);
        let block = &mut self.blocks[number];
        let class = block.class;
        let was_full = block.taken == slots_of(class);
        block.give_back((address - block.address) / size_of_class(class));
        let is_empty = block.taken == 0;
        // Others are being emptied, or were: they are open no more, and were not full when they were chosen.
        if was_full || block.open_at.is_some() {
            self.classes[class].free += 1;
            self.may_be_sparse |= self.is_sparse(class);
        }
        if was_full {
            self.open(number);
        }
        if is_empty {
            self.end(number);
        }
    }

    /// The address of a slot whose record is to be moved, if there still is one in it.
    pub fn next_to_move(&mut self) -> Option<usize> {
        loop {
            if let Some((number, from)) = self.leaving {
                let block = &self.blocks[number];
                if let Some(slot) = block.next_taken(from) {
                    self.leaving = Some((number, slot + 1));
                    return Some(block.address + slot * size_of_class(block.class));
                }
                self.leaving = None;
                self.may_be_sparse = true;
            }
            if !std::mem::take(&mut self.may_be_sparse) {
                return None;
            }
            self.leave();
        }
    }

    /// Gives a class a block more.
    fn begin(&mut self, class: usize) -> Option<usize> {
        let number = self.empty.pop()?;
        let slots = slots_of(class);
        let block = &mut self.blocks[number];
        block.class = class;
        block.bits = vec![0; slots.div_ceil(64)].into_boxed_slice();
        // What stands behind the last slot counts as taken.
        (slots..block.bits.len() * 64).for_each(|slot| block.bits[slot / 64] |= 1 << (slot % 64));
        block.hint = 0;
        self.classes[class].slots += slots;
        self.classes[class].free += slots;
        self.open(number);
        Some(number)
    }

    /// A block without a record belongs to nobody.
    fn end(&mut self, number: usize) {
        if self.blocks[number].open_at.is_some() {
            self.let_go(number);
        }
        if self.leaving.is_some_and(|(leaving, _)| leaving == number) {
            self.leaving = None;
            self.may_be_sparse = true;
        }
        self.blocks[number].bits = Box::default();
        self.empty.push(number);
    }

    /// Chooses a block to be emptied, if a class has too much that is free.
    fn leave(&mut self) {
        let sparse =
            (0..CLASSES).map(|class| (self.turn + class) % CLASSES).find(|class| self.is_sparse(*class));
        let Some(class) = sparse else { return };
        self.turn += 1;
        let open = &self.classes[class].open;
        let tried = (0..TRIED.min(open.len())).map(|step| open[(self.turn * TRIED + step) % open.len()]);
        let Some(number) = tried.min_by_key(|number| self.blocks[*number].taken) else { return };
        self.let_go(number);
        self.leaving = Some((number, 0));
    }

    /// Takes an open block out of its class.
    fn let_go(&mut self, number: usize) {
        let Block { class, taken, .. } = self.blocks[number];
        self.close(number);
        self.classes[class].slots -= slots_of(class);
        self.classes[class].free -= slots_of(class) - taken;
    }

    fn is_sparse(&self, class: usize) -> bool {
        let Class { slots, free, .. } = self.classes[class];
        free > slots / 16 + 2 * slots_of(class)
    }

    fn open(&mut self, number: usize) {
        let open = &mut self.classes[self.blocks[number].class].open;
        self.blocks[number].open_at = Some(open.len());
        open.push(number);
    }

    fn close(&mut self, number: usize) {
        let open = &mut self.classes[self.blocks[number].class].open;
        let Some(at) = self.blocks[number].open_at.take() else { return };
        open.swap_remove(at);
        if let Some(moved) = open.get(at) {
            self.blocks[*moved].open_at = Some(at);
        }
    }

    fn block_of(&self, address: usize) -> usize {
        let region = self.regions.partition_point(|(other, _)| *other <= address) - 1;
        let (begin, first) = self.regions[region];
        first + (address - begin) / BLOCK_BYTES
    }
}

impl Block {
    fn take(&mut self) -> usize {
        let rest = &self.bits[self.hint..];
        self.hint += rest.iter().position(|word| *word != !0).expect("an open block has a free slot");
        let bit = self.bits[self.hint].trailing_ones() as usize;
        self.bits[self.hint] |= 1 << bit;
        self.taken += 1;
        self.hint * 64 + bit
    }

    fn give_back(&mut self, slot: usize) {
        let (word, bit) = (slot / 64, 1 << (slot % 64));
        debug_assert!(self.bits[word] & bit != 0, "a slot is given back once");
        self.bits[word] &= !bit;
        self.taken -= 1;
        self.hint = self.hint.min(word);
    }

    /// The first slot that is taken, of those at `from` and behind.
    fn next_taken(&self, from: usize) -> Option<usize> {
        let is_taken = |slot: &usize| self.bits[slot / 64] & 1 << (slot % 64) != 0;
        (from..slots_of(self.class)).find(is_taken)
    }
}

/// The class of records of so many bytes, at least 1.
fn class_of(bytes: usize) -> usize {
    let last = bytes - 1;
    if last < FINE_CLASSES * STEP {
        return last / STEP;
    }
    let doubling = last.ilog2();
    let first = FINE_CLASSES + 32 * (doubling - (FINE_CLASSES * STEP).ilog2()) as usize;
    first + ((last - (1 << doubling)) >> (doubling - 5))
}

fn size_of_class(class: usize) -> usize {
    let Some(coarse) = class.checked_sub(FINE_CLASSES) else { return (class + 1) * STEP };
    let doubling = (FINE_CLASSES * STEP) << (coarse / 32);
    doubling + (coarse % 32 + 1) * doubling / 32
}

fn slots_of(class: usize) -> usize {
    BLOCK_BYTES / size_of_class(class)
}

// The largest class is the largest record.
const _: () = assert!(RECORD_BYTES_MAX == (FINE_CLASSES * STEP) << ((CLASSES - FINE_CLASSES) / 32));
