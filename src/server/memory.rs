//! The settings of the allocator.

/// Size from which glibc maps a buffer alone and unmaps it when it is freed, in bytes. It is glibc's own first
/// value. glibc raises it when such a buffer is freed. Then the buffers of slow readers are in the heap, and a
/// small allocation above them keeps their memory after these clients are gone.
#[cfg(target_env = "gnu")]
const MAPPED_BUFFER_BYTES_MIN: i32 = 128 * 1024;

/// Keeps the size from which buffers are mapped alone.
pub(super) fn fix_mapped_buffer_size() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two integers, may be called at any time, and reports an invalid value by its result.
    let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BUFFER_BYTES_MIN) };
}
