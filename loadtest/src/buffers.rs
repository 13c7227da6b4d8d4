//! A ring of provided buffers that the kernel receives into. The kernel takes the buffer in front. After
//! reading its bytes, the program returns it.
//!
//! All buffers have one size and are in one mapping, so a buffer's number gives its address. The generator
//! and the bare server both use this module.

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use memmap2::MmapMut;

/// Bytes of an entry in the ring: address (8), length (4), number (2), and in the first entry the tail (2).
const ENTRY_BYTES: usize = 16;

/// A ring of buffers that the kernel receives into.
pub struct BufferRing {
    ring: MmapMut,
    bytes: MmapMut,
    /// Bytes of each buffer.
    buffer_bytes: usize,
    count: u16,
    tail: u16,
}

impl BufferRing {
    /// Registers `count` buffers, a power of two, under this group number, and provides all of them to the
    /// kernel. The value must be dropped after the ring of `submitter`.
    pub fn new(submitter: &Submitter<'_>, group: u16, count: u16, buffer_bytes: usize) -> io::Result<Self> {
        let ring = MmapMut::map_anon(usize::from(count) * ENTRY_BYTES)?;
        let bytes = MmapMut::map_anon(usize::from(count) * buffer_bytes)?;
        // SAFETY: the mapping begins at a page, holds `count` entries, and outlives the ring.
        unsafe { submitter.register_buf_ring(ring.as_ptr() as u64, count, group) }?;
        let mut buffers = Self { ring, bytes, buffer_bytes, count, tail: 0 };
        (0..count).for_each(|buffer| buffers.provide(buffer));
        Ok(buffers)
    }

    /// Returns all bytes of the buffer with this number, received or not.
    pub fn bytes(&self, buffer: u16) -> &[u8] {
        &self.bytes[usize::from(buffer) * self.buffer_bytes..][..self.buffer_bytes]
    }

    /// Provides the buffer to the kernel, which may receive into it from now on.
    #[expect(clippy::host_endian_bytes, reason = "the kernel of this machine reads it")]
    pub fn provide(&mut self, buffer: u16) {
        let address = self.bytes(buffer).as_ptr() as u64;
        let entry = &mut self.ring[usize::from(self.tail % self.count) * ENTRY_BYTES..];
        entry[..8].copy_from_slice(&address.to_ne_bytes());
        entry[8..12].copy_from_slice(&(self.buffer_bytes as u32).to_ne_bytes());
        entry[12..14].copy_from_slice(&buffer.to_ne_bytes());
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: bytes 14 and 15 of the first entry are the tail. It is aligned, because the mapping begins
        // at a page. Only this thread writes it, and nothing here reads or writes it in another way.
        let tail = unsafe { AtomicU16::from_ptr(self.ring.as_mut_ptr().add(14).cast()) };
        tail.store(self.tail, Ordering::Release);
    }
}
