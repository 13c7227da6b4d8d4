//! A ring of buffers that the kernel receives into: it takes the one in front, and is given it back once its bytes are read.
//!
//! All are of one size, in one map, so that a number says where one lies. A file of its own because the bare server has such a
//! ring as well as the generator.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use memmap2::MmapMut;

/// Bytes of an entry in the ring: address (8), length (4), number (2), and in the first entry the tail (2).
const ENTRY_BYTES: usize = 16;

/// Buffers that the kernel receives into, and the ring by which it is told of them.
pub struct Buffers {
    ring: MmapMut,
    bytes: MmapMut,
    /// Of each.
    buffer_bytes: usize,
    count: u16,
    tail: u16,
}

impl Buffers {
    /// So many, a power of two, all the kernel's, under the group's number. It must be dropped after the ring of `submitter`.
    pub fn new(submitter: &Submitter<'_>, group: u16, count: u16, buffer_bytes: usize) -> io::Result<Self> {
        let ring = MmapMut::map_anon(usize::from(count) * ENTRY_BYTES)?;
        let bytes = MmapMut::map_anon(usize::from(count) * buffer_bytes)?;
        // SAFETY: the map begins at a page, holds so many entries, and outlives the ring.
        unsafe { submitter.register_buf_ring(ring.as_ptr() as u64, count, group) }?;
        let mut buffers = Self { ring, bytes, buffer_bytes, count, tail: 0 };
        (0..count).for_each(|buffer| buffers.give(buffer));
        Ok(buffers)
    }

    /// Of the buffer with this number, read or not.
    pub fn bytes(&self, buffer: u16) -> &[u8] {
        &self.bytes[usize::from(buffer) * self.buffer_bytes..][..self.buffer_bytes]
    }

    /// Lets the kernel receive into it.
    #[expect(clippy::host_endian_bytes, reason = "the kernel of this machine reads it")]
    pub fn give(&mut self, buffer: u16) {
        let address = self.bytes(buffer).as_ptr() as u64;
        let entry = &mut self.ring[usize::from(self.tail % self.count) * ENTRY_BYTES..];
        entry[..8].copy_from_slice(&address.to_ne_bytes());
        entry[8..12].copy_from_slice(&(self.buffer_bytes as u32).to_ne_bytes());
        entry[12..14].copy_from_slice(&buffer.to_ne_bytes());
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: bytes 14 and 15 of the first entry are the tail, aligned since the map begins at a page; only this thread
        // writes it, and nothing here reads or writes it otherwise.
        let tail = unsafe { AtomicU16::from_ptr(self.ring.as_mut_ptr().add(14).cast()) };
        tail.store(self.tail, Ordering::Release);
    }
}
