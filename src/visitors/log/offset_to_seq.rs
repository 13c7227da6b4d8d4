//! Which record a byte of a file is of.

use std::io;
use std::path::Path;

use super::format::BATCH_HEADER_BYTES;
use super::scan::{Item, Scan};
use crate::storage::disk::Disk;

/// Goes through a file of any kind and knows the records of whole batches in it, those of torn and void tails too.
pub struct Locator {
    scan: Scan,
}

impl Locator {
    /// Of the file at `path`.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        let file = disk.open(path)?;
        let end = file.length()?;
        let mut scan = Scan::new(file, end);
        // What was cut from a segment has no header.
        scan.seek(0);
        Ok(Self { scan })
    }

    /// The seq of the record that the byte at `at` is of; to be asked in ascending order.
    ///
    /// # Errors
    /// What the system says.
    pub fn seq_at(&mut self, at: u64) -> io::Result<Option<u64>> {
        while let Some(item) = self.scan.next()? {
            let (item_at, bytes, seq) = match item {
                Item::Damage { at: item_at, bytes } => (item_at, bytes, None),
                Item::Batch { at: item_at, batch } => {
                    let offset = at.checked_sub(item_at + BATCH_HEADER_BYTES as u64);
                    let seq = offset.and_then(|offset| batch.records.seq_at(offset as usize));
                    (item_at, batch.bytes.len() as u64, seq)
                }
            };
            if at < item_at + bytes {
                self.scan.seek(item_at);
                return Ok(seq);
            }
        }
        Ok(None)
    }
}
