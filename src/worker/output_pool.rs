//! The output buffers of a worker, and their pool.

use crate::api::SharedParts;
use crate::limits::{OUTPUT_BUFFER_BYTES_MAX, OUTPUT_POOL_IDLE_BYTES_MAX};

/// The responses that are sent together.
#[derive(Default)]
pub struct Output {
    pub bytes: Vec<u8>,
    /// The parts of the bytes that need no copy while the client does not read them.
    pub shared: SharedParts,
}

impl Output {
    /// Removes the responses that begin at `offset`.
    pub(super) fn truncate(&mut self, offset: usize) {
        self.bytes.truncate(offset);
        self.shared.truncate(offset);
    }
}

/// A pool of output buffers, used from its end.
pub(super) struct OutputPool {
    /// Limit of `pooled_bytes`.
    bytes_max: usize,
    buffers: Vec<Output>,
    /// Total capacity of the pooled buffers.
    pooled_bytes: usize,
    /// Number of buffers at the front that nobody took since the last call of `free_unused`.
    unused: usize,
}

impl OutputPool {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, buffers: Vec::new(), pooled_bytes: 0, unused: 0 }
    }

    /// Takes a buffer, which is empty.
    pub(super) fn take(&mut self) -> Output {
        let output = self.buffers.pop().unwrap_or_default();
        self.pooled_bytes -= output.bytes.capacity();
        self.unused = self.unused.min(self.buffers.len());
        output
    }

    /// Returns a buffer to the pool, or frees it if it or the pool is too large.
    pub(super) fn recycle(&mut self, mut output: Output) {
        output.shared.clear();
        let bytes = output.bytes.capacity();
        // A buffer without capacity would count as 0 bytes, so the pool would have no bound.
        if bytes > 0 && bytes <= OUTPUT_BUFFER_BYTES_MAX && self.pooled_bytes + bytes <= self.bytes_max {
            output.bytes.clear();
            self.pooled_bytes += bytes;
            self.buffers.push(output);
        }
    }

    /// Frees the buffers that were not used since the last call, down to `OUTPUT_POOL_IDLE_BYTES_MAX`.
    pub(super) fn free_unused(&mut self) {
        let mut left = self.pooled_bytes;
        let freed = self.buffers[..self.unused].iter().take_while(|buffer| {
            let is_too_much = left > OUTPUT_POOL_IDLE_BYTES_MAX;
            left -= buffer.bytes.capacity();
            is_too_much
        });
        let freed = freed.count();
        self.pooled_bytes -= self.buffers.drain(..freed).map(|buffer| buffer.bytes.capacity()).sum::<usize>();
        self.unused = self.buffers.len();
    }
}
