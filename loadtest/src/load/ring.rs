//! The ring of one generator thread: everything that the kernel is asked for, and the one place of the load that is unsafe.
//!
//! A slot is a connection's number. Each has a buffer for what it sends, lent for writing only while nothing of it is on its way;
//! what is received lies in a ring of buffers until it is given back. So nothing that the kernel reads or writes moves or is freed
//! while it may.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::cqueue::{self, buffer_select, more};
use io_uring::squeue::Entry;
use io_uring::types::{self, CancelBuilder, Fd, Timespec};
use io_uring::{IoUring, opcode};

use crate::buffers::Buffers;

const ENTRIES: u32 = 1024;
/// As many completions wait before the kernel has to keep them elsewhere.
const COMPLETIONS: u32 = 4 * ENTRIES;
/// Holds an answer of the goals (8 KB) with its head, and a second beside it where they are pipelined.
const BUFFER_BYTES: usize = 32 * 1024;
/// Where there are more connections than this they share: 16 MiB are touched at most.
const BUFFERS_MAX: usize = 512;
const GROUP: u16 = 0;
/// A wait is over after so long, whether or not something happened. A thread whose server is silent sees the time by it; and a
/// processor that expects to be woken so soon does not sleep so deeply that waking it costs the server: without a limit, nginx takes
/// 12.2 us a request, with it 9.8 (64 connections, by turns).
const WAIT: Timespec = Timespec::new().nsec(50_000);
/// `io_uring_enter`: completions are to be made of what has come. The crate asks for it only where it waits.
const GETEVENTS: u32 = 1;

/// The operations; the slot is in the lower half.
const RECEIVE: u64 = 0;
const SEND: u64 = 1;

/// What happened.
pub struct Event {
    pub slot: usize,
    pub what: What,
}

pub enum What {
    /// Bytes came; they are at [`Ring::received`] until [`Ring::give_back`].
    Received(Chunk),
    /// Receiving ended: the server closed, or an error of this number.
    Ended(i32),
    /// Receiving stopped for want of buffers, and can be begun again.
    Paused,
    /// So many bytes were sent, or a negative error number.
    Sent(i32),
}

/// Bytes in a buffer of the ring.
#[derive(Clone, Copy)]
pub struct Chunk {
    buffer: u16,
    length: usize,
    /// Whether receiving goes on by itself.
    pub goes_on: bool,
}

/// What a slot sends.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    is_on_its_way: bool,
}

/// The ring.
pub struct Ring {
    /// Before what it points into: the fields are dropped in this order.
    ring: IoUring,
    buffers: Buffers,
    outgoing: Vec<Outgoing>,
}

impl Ring {
    /// For so many slots.
    pub fn new(slots: usize) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        // The cheapest of the flags; the last lets a thread that polls see that something came without a call.
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_cqsize(COMPLETIONS);
        let ring: IoUring = builder.build(ENTRIES)?;
        let count = slots.next_power_of_two().clamp(16, BUFFERS_MAX);
        let buffers = Buffers::new(&ring.submitter(), GROUP, count as u16, BUFFER_BYTES)?;
        let mut outgoing = Vec::new();
        outgoing.resize_with(slots, Outgoing::default);
        Ok(Self { ring, buffers, outgoing })
    }

    /// Whether something that the slot sends is on its way.
    pub fn is_sending(&self, slot: usize) -> bool {
        self.outgoing[slot].is_on_its_way
    }

    /// What the slot sends next, to be written.
    pub fn compose(&mut self, slot: usize) -> &mut Vec<u8> {
        let outgoing = &mut self.outgoing[slot];
        assert!(!outgoing.is_on_its_way, "the kernel still reads it");
        outgoing.bytes.clear();
        &mut outgoing.bytes
    }

    /// Sends what was composed, from this byte on.
    pub fn send(&mut self, slot: usize, socket: BorrowedFd<'_>, from: usize) -> io::Result<()> {
        let outgoing = &mut self.outgoing[slot];
        assert!(!outgoing.is_on_its_way, "one send at a time");
        outgoing.is_on_its_way = true;
        let rest = &outgoing.bytes[from..];
        let send = opcode::Send::new(Fd(socket.as_raw_fd()), rest.as_ptr(), rest.len() as u32);
        self.push(send.build(), SEND, slot)
    }

    /// Bytes of what was composed.
    pub fn composed_bytes(&self, slot: usize) -> usize {
        self.outgoing[slot].bytes.len()
    }

    /// Receives until the connection ends.
    pub fn receive(&mut self, slot: usize, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.push(opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build(), RECEIVE, slot)
    }

    /// What a chunk holds.
    pub fn received(&self, chunk: Chunk) -> &[u8] {
        &self.buffers.bytes(chunk.buffer)[..chunk.length]
    }

    /// Once a chunk is read; what it holds is overwritten soon.
    pub fn give_back(&mut self, chunk: Chunk) {
        self.buffers.give(chunk.buffer);
    }

    /// Hands the kernel what was asked for, and waits until something happened, or not for long.
    pub fn wait(&mut self) -> io::Result<()> {
        let limit = types::SubmitArgs::new().timespec(&WAIT);
        done(self.ring.submitter().submit_with_args(1, &limit))
    }

    /// The same without waiting; no call into the kernel where nothing was asked for and nothing came.
    pub fn poll(&mut self) -> io::Result<()> {
        let queue = self.ring.submission();
        let (asked, came) = (queue.len(), queue.taskrun() || queue.cq_overflow());
        drop(queue);
        if asked == 0 && !came {
            return Ok(());
        }
        // SAFETY: without an argument the call reads the ring alone.
        done(unsafe { self.ring.submitter().enter::<()>(asked as u32, 0, GETEVENTS, None) })
    }

    /// What happened next, as far as the last wait or poll knows.
    pub fn next(&mut self) -> Option<Event> {
        let completion = self.ring.completion().next()?;
        let slot = completion.user_data() as u32 as usize;
        if completion.user_data() >> 32 == RECEIVE {
            return Some(Event { slot, what: received(&completion) });
        }
        self.outgoing[slot].is_on_its_way = false;
        Some(Event { slot, what: What::Sent(completion.result()) })
    }

    fn push(&mut self, entry: Entry, operation: u64, slot: usize) -> io::Result<()> {
        let entry = entry.user_data(operation << 32 | slot as u64);
        if self.ring.submission().is_full() {
            self.ring.submit()?;
        }
        // SAFETY: what is sent is neither changed nor moved until its completion (`is_on_its_way`), what is received into belongs to
        // the ring of buffers; both outlive the ring.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)
    }
}

impl Drop for Ring {
    /// Nothing may be under way when the buffers are freed; an error means that nothing was.
    fn drop(&mut self) {
        let _ = self.ring.submitter().register_sync_cancel(None::<types::Timespec>, CancelBuilder::any());
    }
}

/// A call that something came between, or that waited in vain, is done all the same.
fn done(submitted: io::Result<usize>) -> io::Result<()> {
    const TIME_IS_UP: i32 = 62;
    match submitted {
        Err(error)
            if error.kind() == io::ErrorKind::Interrupted || error.raw_os_error() == Some(TIME_IS_UP) =>
        {
            Ok(())
        }
        submitted => submitted.map(drop),
    }
}

fn received(completion: &cqueue::Entry) -> What {
    const OUT_OF_BUFFERS: i32 = -105;
    let (result, flags) = (completion.result(), completion.flags());
    match buffer_select(flags) {
        Some(buffer) if result > 0 => {
            What::Received(Chunk { buffer, length: result as usize, goes_on: more(flags) })
        }
        _ if result == OUT_OF_BUFFERS => What::Paused,
        _ => What::Ended(result),
    }
}
