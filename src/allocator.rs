//! The allocator of the program: without memory, the process ends with a sentence and an exit code.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code of an error of the system.
const EXIT_CODE: i32 = 3;
/// The last line of the process, around the number of bytes.
const LINE_BEGIN: &str = "parallax: cannot allocate ";
const LINE_END: &str = " bytes: the system has no memory for this process. Raise its limits (ulimit -v, memory.max of the \
                        container, vm.overcommit_memory), or lower --profiles-memory and the other sizes\n";
/// Bytes of the longest line: a number has at most 20 digits.
const LINE_BYTES_MAX: usize = LINE_BEGIN.len() + 20 + LINE_END.len();

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
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as above.
        allocated(unsafe { System.realloc(block, layout, new_size) }, new_size)
    }

    // SAFETY: as above.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

fn allocated(block: *mut u8, size_bytes: usize) -> *mut u8 {
    if block.is_null() {
        exit_without_memory(size_bytes);
    }
    block
}

/// Time to wait for the reader of standard error, in ms. It may have stalled.
const WRITE_WAIT_MS: i32 = 500;

/// Writes one line to standard error and ends the process. Allocates nothing and waits for no lock.
#[cold]
fn exit_without_memory(size_bytes: usize) -> ! {
    static IS_ENDING: AtomicBool = AtomicBool::new(false);
    if IS_ENDING.swap(true, Ordering::Relaxed) {
        loop {
            // Another thread writes the line and ends the process.
            // SAFETY: it waits for a signal and touches no memory.
            let _ = unsafe { libc::pause() };
        }
    }
    let mut line = [0; LINE_BYTES_MAX];
    let mut digits = itoa::Buffer::new();
    let mut rest = &mut line[..];
    for text in [LINE_BEGIN, digits.format(size_bytes), LINE_END] {
        // The buffer has room for the longest number.
        let _ = rest.write_all(text.as_bytes());
    }
    let length = LINE_BYTES_MAX - rest.len();
    let mut stderr = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: `stderr` is one valid entry, and `line` is valid for `length` bytes. An error is ignored: nobody can read the
    // message. `_exit` runs nothing of the process.
    unsafe {
        if libc::poll(&raw mut stderr, 1, WRITE_WAIT_MS) > 0 {
            let _ = libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), length);
        }
        libc::_exit(EXIT_CODE)
    }
}
