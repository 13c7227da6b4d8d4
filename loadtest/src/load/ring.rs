//! The io_uring of one generator thread: all requests to the kernel. It has the only `unsafe` code of the
//! generator besides the ring of buffers.
//!
//! A slot is a connection's number. Each slot has a send buffer, which can be written only while no send is
//! in flight. Received bytes are in a ring of buffers until they are released. So memory that the kernel may
//! read or write is never moved or freed.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::cqueue::{self, buffer_select, more};
use io_uring::squeue::Entry;
use io_uring::types::{self, CancelBuilder, Fd, Timespec};
use io_uring::{IoUring, opcode};

use crate::buffers::BufferRing;

const ENTRIES: u32 = 1024;
/// Size of the completion queue. Further completions would go to a slower overflow list in the kernel.
const COMPLETIONS: u32 = 4 * ENTRIES;
/// Bytes of a receive buffer: enough for two pipelined responses of 8 KB with their heads.
const BUFFER_BYTES: usize = 32 * 1024;
/// Most receive buffers. More connections than this share them. They use at most 16 MiB.
const BUFFERS_MAX: usize = 512;
const GROUP: u16 = 0;
/// Longest wait, 50 us, whether or not something happened. A thread with a silent server sees the time pass.
/// A CPU that expects a wake-up so soon sleeps less deeply, so that waking it costs the server less: without
/// a limit nginx takes 12.2 us per request, with it 9.8 us (64 connections, by turns).
const WAIT_TIMEOUT: Timespec = Timespec::new().nsec(50_000);
/// Flag of `io_uring_enter`: post the pending completions. The crate sets it only for calls that wait.
const GETEVENTS: u32 = 1;

/// The operations in the upper half of the user data. The lower half is the slot.
const RECEIVE: u64 = 0;
const SEND: u64 = 1;

/// A completion.
pub struct Event {
    pub slot: usize,
    pub kind: EventKind,
}

pub enum EventKind {
    /// Bytes were received. They are at [`Ring::received`] until they are released.
    Received(Chunk),
    /// Receiving ended: with 0 the server closed the connection, else this is the negative error number.
    Ended(i32),
    /// Receiving stopped because no buffer was free. It can be started again.
    Paused,
    /// The number of sent bytes, or a negative error number.
    Sent(i32),
}

/// Received bytes in a buffer of the ring.
#[derive(Clone, Copy)]
pub struct Chunk {
    buffer: u16,
    length: usize,
    /// True if the multishot receive continues by itself.
    pub is_continued: bool,
}

/// The send buffer of a slot.
#[derive(Default)]
struct SendBuffer {
    bytes: Vec<u8>,
    is_in_flight: bool,
}

/// The io_uring and its buffers.
pub struct Ring {
    /// Must be dropped before the buffers that it points to. Fields are dropped in this order.
    ring: IoUring,
    buffers: BufferRing,
    send_buffers: Vec<SendBuffer>,
}

impl Ring {
    /// Creates a ring for this many slots.
    pub fn new(slots: usize) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        // The cheapest flags. With the last one, a polling thread notices completions without a system call.
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_cqsize(COMPLETIONS);
        let ring: IoUring = builder.build(ENTRIES)?;
        let count = slots.next_power_of_two().clamp(16, BUFFERS_MAX);
        let buffers = BufferRing::new(&ring.submitter(), GROUP, count as u16, BUFFER_BYTES)?;
        let mut send_buffers = Vec::new();
        send_buffers.resize_with(slots, SendBuffer::default);
        Ok(Self { ring, buffers, send_buffers })
    }

    /// Returns whether a send of the slot is in flight.
    pub fn is_sending(&self, slot: usize) -> bool {
        self.send_buffers[slot].is_in_flight
    }

    /// Returns the slot's empty send buffer for writing.
    pub fn send_buffer(&mut self, slot: usize) -> &mut Vec<u8> {
        let buffer = &mut self.send_buffers[slot];
        assert!(!buffer.is_in_flight, "the kernel still reads it");
        buffer.bytes.clear();
        &mut buffer.bytes
    }

    /// Sends the slot's send buffer from this byte on.
    pub fn send(&mut self, slot: usize, socket: BorrowedFd<'_>, from: usize) -> io::Result<()> {
        let buffer = &mut self.send_buffers[slot];
        assert!(!buffer.is_in_flight, "one send at a time");
        buffer.is_in_flight = true;
        let rest = &buffer.bytes[from..];
        let send = opcode::Send::new(Fd(socket.as_raw_fd()), rest.as_ptr(), rest.len() as u32);
        self.push(send.build(), SEND, slot)
    }

    /// Returns the length of the slot's send buffer.
    pub fn send_buffer_bytes(&self, slot: usize) -> usize {
        self.send_buffers[slot].bytes.len()
    }

    /// Starts a multishot receive.
    pub fn receive(&mut self, slot: usize, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.push(opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build(), RECEIVE, slot)
    }

    /// Returns the bytes of a chunk.
    pub fn received(&self, chunk: Chunk) -> &[u8] {
        &self.buffers.bytes(chunk.buffer)[..chunk.length]
    }

    /// Releases the buffer of a chunk. The kernel may overwrite it from now on.
    pub fn release(&mut self, chunk: Chunk) {
        self.buffers.provide(chunk.buffer);
    }

    /// Submits the queued operations, and waits for a completion or the timeout.
    pub fn wait(&mut self) -> io::Result<()> {
        let limit = types::SubmitArgs::new().timespec(&WAIT_TIMEOUT);
        ignore_interruption(self.ring.submitter().submit_with_args(1, &limit))
    }

    /// Submits without waiting. Makes no system call if nothing is queued and no completion is pending.
    pub fn poll(&mut self) -> io::Result<()> {
        let queue = self.ring.submission();
        let (queued, has_pending) = (queue.len(), queue.taskrun() || queue.cq_overflow());
        drop(queue);
        if queued == 0 && !has_pending {
            return Ok(());
        }
        // SAFETY: without an argument the call reads only the ring.
        ignore_interruption(unsafe { self.ring.submitter().enter::<()>(queued as u32, 0, GETEVENTS, None) })
    }

    /// Returns the next completion that the last wait or poll made visible.
    pub fn next(&mut self) -> Option<Event> {
        let completion = self.ring.completion().next()?;
        let slot = completion.user_data() as u32 as usize;
        if completion.user_data() >> 32 == RECEIVE {
            return Some(Event { slot, kind: received(&completion) });
        }
        self.send_buffers[slot].is_in_flight = false;
        Some(Event { slot, kind: EventKind::Sent(completion.result()) })
    }

    fn push(&mut self, entry: Entry, operation: u64, slot: usize) -> io::Result<()> {
        let entry = entry.user_data(operation << 32 | slot as u64);
        if self.ring.submission().is_full() {
            self.ring.submit()?;
        }
        // SAFETY: sent bytes are neither changed nor moved until their completion (`is_in_flight`), and the
        // receive buffers belong to the ring of buffers. Both outlive the ring.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)
    }
}

impl Drop for Ring {
    /// Cancels all operations, because none may be in flight when the buffers are freed. An error means that
    /// there was none.
    fn drop(&mut self) {
        let _ = self.ring.submitter().register_sync_cancel(None::<types::Timespec>, CancelBuilder::any());
    }
}

/// Ignores an interrupted call and an expired timeout.
fn ignore_interruption(submitted: io::Result<usize>) -> io::Result<()> {
    const ETIME: i32 = 62;
    match submitted {
        Err(error) if error.kind() == io::ErrorKind::Interrupted || error.raw_os_error() == Some(ETIME) => {
            Ok(())
        }
        submitted => submitted.map(drop),
    }
}

fn received(completion: &cqueue::Entry) -> EventKind {
    const OUT_OF_BUFFERS: i32 = -105;
    let (result, flags) = (completion.result(), completion.flags());
    match buffer_select(flags) {
        Some(buffer) if result > 0 => {
            EventKind::Received(Chunk { buffer, length: result as usize, is_continued: more(flags) })
        }
        _ if result == OUT_OF_BUFFERS => EventKind::Paused,
        _ => EventKind::Ended(result),
    }
}
