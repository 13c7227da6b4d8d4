//! The allocator of the program: without memory, the process ends with a sentence and an exit code.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code of an error of the system.
const EXIT_CODE: i32 = 3;

/// The allocator of the system. If it has no memory, the process ends. The standard library would abort it, without a word
/// about the cause. The next start recovers all acknowledged records, as after a kill.
#[derive(Debug)]
pub struct ExitingAllocator;

// SAFETY: it passes each call on to `System`, and returns only blocks that `System` has allocated.
unsafe impl GlobalAlloc for ExitingAllocator {
    // SAFETY: the caller fulfils the conditions of `System`.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        allocated(unsafe { System.alloc(layout) }, layout.size())
    }

    // SAFETY: as above.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        allocated(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    // SAFETY: as above.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        allocated(unsafe { System.realloc(block, layout, size) }, size)
    }

    // SAFETY: as above.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

fn allocated(block: *mut u8, bytes: usize) -> *mut u8 {
    if block.is_null() {
        exit_without_memory(bytes);
    }
    block
}

/// Writes one line to standard error and ends the process. Allocates nothing and waits for no lock.
#[cold]
fn exit_without_memory(bytes: usize) -> ! {
    static IS_ENDING: AtomicBool = AtomicBool::new(false);
    if !IS_ENDING.swap(true, Ordering::Relaxed) {
        let mut digits = itoa::Buffer::new();
        for text in [
            "parallax: cannot allocate ",
            digits.format(bytes),
            " bytes: the system has no memory for this process. Raise its limits (ulimit -v, memory.max of the container, \
             vm.overcommit_memory), or lower --profiles-memory and the other sizes\n",
        ] {
            // SAFETY: the bytes are valid for their length. An error is ignored: nobody can read the message.
            let _ = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
        }
    }
    // SAFETY: it ends the process and runs nothing of it.
    unsafe { libc::_exit(EXIT_CODE) }
}
