//! A file of the simulated disk: the bytes that reads see, and the bytes that a power cut leaves.

use std::collections::BTreeSet;

use crate::dice::Dice;

/// Bytes that a disk writes atomically.
const SECTOR: usize = 512;

/// A file's bytes in the page cache and on the platter.
#[derive(Debug, Clone, Default)]
pub struct Inode {
    pub cache: Vec<u8>,
    platter: Vec<u8>,
    dirty: BTreeSet<usize>,
}

impl Inode {
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        self.cache.resize(self.cache.len().max(end), 0);
        self.cache[at..end].copy_from_slice(bytes);
        if !bytes.is_empty() {
            self.dirty.extend(at / SECTOR..=(end - 1) / SECTOR);
        }
    }

    /// Cuts the file. The cut is durable after the next sync, or earlier.
    pub fn trim(&mut self, length: usize) {
        self.cache.truncate(length);
        self.dirty.retain(|sector| sector * SECTOR < length);
    }

    pub fn truncate(&mut self, length: usize) {
        self.cache.truncate(length);
        self.platter.truncate(length);
        self.dirty.retain(|sector| sector * SECTOR < length);
    }

    pub fn sync(&mut self) {
        let sectors: Vec<usize> = std::mem::take(&mut self.dirty).into_iter().collect();
        self.write_back(&sectors, self.cache.len());
    }

    /// Marks the pages clean although none, some or all of them reached the platter.
    pub fn fail_sync(&mut self, random: &mut Dice) {
        self.persist_some(random);
        self.dirty.clear();
    }

    /// Discards the page cache after none, some or all of it reached the platter.
    pub fn cut_power(&mut self, random: &mut Dice) {
        self.persist_some(random);
        self.dirty.clear();
        self.cache.clone_from(&self.platter);
    }

    /// Writes any of the unsynced sectors, and sets any length between the old and the new one.
    fn persist_some(&mut self, random: &mut Dice) {
        let dirty: Vec<usize> = self.dirty.iter().copied().collect();
        let (old, new) = (self.platter.len(), self.cache.len());
        let (least, most) = (old.min(new), old.max(new));
        let (sectors, length) = match random.below(4) {
            0 => (Vec::new(), old),
            1 => (dirty, new),
            2 => {
                let length = least + random.below(most - least + 1);
                (dirty.into_iter().filter(|sector| sector * SECTOR < length).collect(), length)
            }
            _ => {
                let length = if random.below(2) == 0 { new } else { least + random.below(most - least + 1) };
                (dirty.into_iter().filter(|_| random.below(2) == 0).collect(), length)
            }
        };
        self.write_back(&sectors, length);
    }

    fn write_back(&mut self, sectors: &[usize], length: usize) {
        self.platter.resize(length, 0);
        for sector in sectors {
            let range = sector * SECTOR..((sector + 1) * SECTOR).min(length);
            if let (Some(to), Some(from)) = (self.platter.get_mut(range.clone()), self.cache.get(range)) {
                to.copy_from_slice(from);
            }
        }
    }
}
