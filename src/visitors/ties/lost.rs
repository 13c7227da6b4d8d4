//! A Bloom filter of the anonymous IDs that were tied to a user and lost their alias in the table, by eviction
//! or by the limit on the IDs of a user.
//!
//! The filter is part of the fold: it decides whether a tie may merge the anonymous profile. Its pages are
//! shared with copies until they change, so that a checkpoint copies it in microseconds.

use std::sync::Arc;

/// Bits of the filter: 16 MiB. With 10 million IDs, one in 300 other IDs is a false positive. A tie of such an
/// ID loses the anonymous history, and no more.
const BITS: u64 = 1 << 27;
const PROBES: u64 = 6;
/// Words of a page, which is copied as a whole when it changes during a checkpoint.
const PAGE_WORDS: usize = 512;
const PAGES: usize = BITS as usize / 64 / PAGE_WORDS;
/// Words of a line, the unit in a checkpoint. Only lines with a bit are stored.
const LINE_WORDS: usize = 8;
/// Bytes of a line.
pub const LINE_BYTES: usize = LINE_WORDS * 8;
/// Number of lines of a full filter.
pub const LINES: u32 = (PAGES * PAGE_WORDS / LINE_WORDS) as u32;

/// The filter. A clone shares its pages.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LostAliases {
    /// All pages, or none while the filter is empty. A page without a bit is absent.
    pages: Vec<Option<Arc<[u64; PAGE_WORDS]>>>,
}

impl LostAliases {
    /// Returns whether no ID was added.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Adds an ID by the two halves of its key in the table.
    pub fn insert(&mut self, key: [u64; 2]) {
        for bit in probes(key) {
            *self.word_mut(bit / 64) |= 1 << (bit % 64);
        }
    }

    /// Returns whether an ID may have been added. There are no false negatives.
    pub fn may_contain(&self, key: [u64; 2]) -> bool {
        !self.pages.is_empty() && probes(key).all(|bit| self.word(bit / 64) & 1 << (bit % 64) != 0)
    }

    /// Iterates over the lines that have a bit: the number and the bytes of each, in ascending order.
    pub fn lines(&self) -> impl Iterator<Item = (u32, [u8; LINE_BYTES])> {
        let pages = self.pages.iter().enumerate().filter_map(|(at, page)| Some((at, page.as_ref()?)));
        pages.flat_map(|(at, page)| {
            let lines = page.as_chunks::<LINE_WORDS>().0.iter().enumerate();
            lines.filter(|(_, line)| **line != [0; LINE_WORDS]).map(move |(in_page, line)| {
                let bytes = std::array::from_fn(|i| line[i / 8].to_le_bytes()[i % 8]);
                ((at * PAGE_WORDS / LINE_WORDS + in_page) as u32, bytes)
            })
        })
    }

    /// Sets a line of a filter that is being restored. Returns false if there is no such line.
    pub fn set_line(&mut self, line_index: u32, bytes: &[u8; LINE_BYTES]) -> bool {
        if line_index >= LINES {
            return false;
        }
        for (at, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
            *self.word_mut((line_index as usize * LINE_WORDS + at) as u64) = u64::from_le_bytes(*word);
        }
        true
    }

    fn word(&self, index: u64) -> u64 {
        let page = self.pages[index as usize / PAGE_WORDS].as_ref();
        page.map_or(0, |page| page[index as usize % PAGE_WORDS])
    }

    fn word_mut(&mut self, index: u64) -> &mut u64 {
        if self.pages.is_empty() {
            self.pages.resize(PAGES, None);
        }
        let page = self.pages[index as usize / PAGE_WORDS].get_or_insert_with(|| Arc::new([0; PAGE_WORDS]));
        &mut Arc::make_mut(page)[index as usize % PAGE_WORDS]
    }
}

fn probes([start, stride]: [u64; 2]) -> impl Iterator<Item = u64> {
    (0..PROBES).map(move |i| start.wrapping_add(i.wrapping_mul(stride | 1)) & (BITS - 1))
}
