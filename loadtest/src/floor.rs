//! A bare server: as little as can be done between a request and its answer, so that what the kernel takes can be seen.
//!
//! One thread, one ring, multishot accept and receive into a ring of buffers, one send for each request that is whole, always of
//! the same bytes. It knows nothing of HTTP but the empty line and `Content-Length`, and that only as it is written here.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::cqueue::{self, buffer_select, more};
use io_uring::squeue::Entry;
use io_uring::{IoUring, SubmissionQueue, Submitter, opcode, types};
use memchr::memmem;
use memmap2::MmapMut;

const ENTRIES: u32 = 1024;
/// Buffers of the ring, a power of two; each holds a request.
const BUFFERS: u16 = 256;
const BUFFER_BYTES: usize = 4096;
const GROUP: u16 = 0;
/// Bytes of an entry in the ring of buffers: address (8), length (4), number (2), and in the first entry the tail (2).
const BUFFER_ENTRY_BYTES: usize = 16;

/// The operations; what they are about is a descriptor.
const ACCEPT: u64 = 0;
const RECEIVE: u64 = 1;
const SEND: u64 = 2;

/// Serves until the process ends.
pub fn serve(listener: &TcpListener, answer: &'static [u8]) -> io::Result<()> {
    let mut builder = IoUring::builder();
    // The cheapest of the flags: 5 to 10 % less here than COOP_TASKRUN.
    builder.setup_single_issuer().setup_defer_taskrun();
    let mut ring: IoUring = builder.build(ENTRIES)?;
    let (submitter, queue, mut completions) = ring.split();
    let buffers = Buffers::new(&submitter)?;
    let mut server = Bare { submitter, queue, buffers, answer, connections: Vec::new() };
    server.accept(listener.as_raw_fd())?;
    loop {
        server.submit(1)?;
        completions.sync();
        for completion in &mut completions {
            server.take(&completion)?;
        }
    }
}

struct Bare<'r> {
    submitter: Submitter<'r>,
    queue: SubmissionQueue<'r>,
    buffers: Buffers,
    answer: &'static [u8],
    /// By descriptor.
    connections: Vec<Option<Connection>>,
}

struct Connection {
    /// Closes it in the end.
    _socket: OwnedFd,
    /// Of a request that is not whole.
    kept: Vec<u8>,
    /// Requests that are not answered.
    due: usize,
    /// Bytes of the present answer that are sent.
    sent: usize,
}

impl Bare<'_> {
    fn take(&mut self, completion: &cqueue::Entry) -> io::Result<()> {
        let (operation, descriptor) = (completion.user_data() >> 32, completion.user_data() as u32 as RawFd);
        let (result, flags) = (completion.result(), completion.flags());
        match operation {
            ACCEPT => {
                if result >= 0 {
                    self.open(result)?;
                }
                if more(flags) { Ok(()) } else { self.accept(descriptor) }
            }
            RECEIVE => self.received(descriptor, result, flags),
            _ => self.sent(descriptor, result),
        }
    }

    fn open(&mut self, descriptor: RawFd) -> io::Result<()> {
        let at = descriptor as usize;
        if self.connections.len() <= at {
            self.connections.resize_with(at + 1, || None);
        }
        // SAFETY: the kernel has just accepted it, and nobody else knows of it.
        let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
        self.connections[at] = Some(Connection { _socket: socket, kept: Vec::new(), due: 0, sent: 0 });
        self.receive(descriptor)
    }

    fn received(&mut self, descriptor: RawFd, result: i32, flags: u32) -> io::Result<()> {
        const OUT_OF_BUFFERS: i32 = -105;
        let Some(connection) = &mut self.connections[descriptor as usize] else { return Ok(()) };
        if result > 0 {
            let buffer = buffer_select(flags).expect("it was received into one");
            let requests = connection.requests(&self.buffers.bytes(buffer)[..result as usize]);
            self.buffers.give(buffer);
            let is_first = connection.due == 0 && requests > 0;
            connection.due += requests;
            if is_first {
                self.send(descriptor)?;
            }
        } else if result != OUT_OF_BUFFERS {
            self.connections[descriptor as usize] = None;
            return Ok(());
        }
        if more(flags) { Ok(()) } else { self.receive(descriptor) }
    }

    fn sent(&mut self, descriptor: RawFd, result: i32) -> io::Result<()> {
        let Some(connection) = &mut self.connections[descriptor as usize] else { return Ok(()) };
        if result <= 0 {
            self.connections[descriptor as usize] = None;
            return Ok(());
        }
        connection.sent += result as usize;
        if connection.sent == self.answer.len() {
            (connection.sent, connection.due) = (0, connection.due - 1);
        }
        if connection.due > 0 { self.send(descriptor) } else { Ok(()) }
    }

    fn accept(&mut self, listener: RawFd) -> io::Result<()> {
        self.push(opcode::AcceptMulti::new(types::Fd(listener)).build(), ACCEPT, listener)
    }

    fn receive(&mut self, descriptor: RawFd) -> io::Result<()> {
        self.push(opcode::RecvMulti::new(types::Fd(descriptor), GROUP).build(), RECEIVE, descriptor)
    }

    fn send(&mut self, descriptor: RawFd) -> io::Result<()> {
        let sent = self.connections[descriptor as usize].as_ref().map_or(0, |connection| connection.sent);
        let rest = &self.answer[sent..];
        let send = opcode::Send::new(types::Fd(descriptor), rest.as_ptr(), rest.len() as u32);
        self.push(send.build(), SEND, descriptor)
    }

    fn push(&mut self, entry: Entry, operation: u64, descriptor: RawFd) -> io::Result<()> {
        let entry = entry.user_data(operation << 32 | u64::from(descriptor as u32));
        if self.queue.is_full() {
            self.submit(0)?;
        }
        // SAFETY: what is sent is never freed, what is received into belongs to the ring of buffers, and accepting without an
        // address points nowhere.
        unsafe { self.queue.push(&entry) }.map_err(io::Error::other)
    }

    fn submit(&mut self, wait_for: usize) -> io::Result<()> {
        self.queue.sync();
        match self.submitter.submit_and_wait(wait_for) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => self.queue.sync(),
        }
        Ok(())
    }
}

impl Connection {
    /// Counts the requests that end in `received`.
    fn requests(&mut self, received: &[u8]) -> usize {
        let kept = std::mem::take(&mut self.kept);
        let joined = if kept.is_empty() { Vec::new() } else { [&kept, received].concat() };
        let mut rest = if kept.is_empty() { received } else { &joined };
        let mut requests = 0;
        while let Some(behind) = request_bytes(rest).and_then(|bytes| rest.get(bytes..)) {
            (rest, requests) = (behind, requests + 1);
        }
        self.kept.extend_from_slice(rest);
        requests
    }
}

/// Bytes of the request that `bytes` begin with, whether or not all of its body is there; None where its head is not.
fn request_bytes(bytes: &[u8]) -> Option<usize> {
    const END: &[u8] = b"\r\n\r\n";
    const LENGTH: &[u8] = b"\r\nContent-Length: ";
    let head = memmem::find(bytes, END)?;
    let digits = memmem::find(&bytes[..head], LENGTH).map_or(&[][..], |at| &bytes[at + LENGTH.len()..]);
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let body = digits.fold(0, |length, digit| 10 * length + usize::from(digit - b'0'));
    Some(head + END.len() + body)
}

/// Buffers that the kernel receives into, and the ring by which it is told of them.
struct Buffers {
    ring: MmapMut,
    bytes: MmapMut,
    tail: u16,
}

impl Buffers {
    fn new(submitter: &Submitter<'_>) -> io::Result<Self> {
        let ring = MmapMut::map_anon(usize::from(BUFFERS) * BUFFER_ENTRY_BYTES)?;
        let bytes = MmapMut::map_anon(usize::from(BUFFERS) * BUFFER_BYTES)?;
        // SAFETY: the map begins at a page, holds so many entries, and lives as long as the ring: both are dropped when the
        // process ends.
        unsafe { submitter.register_buf_ring(ring.as_ptr() as u64, BUFFERS, GROUP) }?;
        let mut buffers = Self { ring, bytes, tail: 0 };
        (0..BUFFERS).for_each(|buffer| buffers.give(buffer));
        Ok(buffers)
    }

    fn bytes(&self, buffer: u16) -> &[u8] {
        &self.bytes[usize::from(buffer) * BUFFER_BYTES..][..BUFFER_BYTES]
    }

    /// Lets the kernel receive into it.
    #[expect(clippy::host_endian_bytes, reason = "the kernel of this machine reads it")]
    fn give(&mut self, buffer: u16) {
        let address = self.bytes(buffer).as_ptr() as u64;
        let entry = &mut self.ring[usize::from(self.tail % BUFFERS) * BUFFER_ENTRY_BYTES..];
        entry[..8].copy_from_slice(&address.to_ne_bytes());
        entry[8..12].copy_from_slice(&(BUFFER_BYTES as u32).to_ne_bytes());
        entry[12..14].copy_from_slice(&buffer.to_ne_bytes());
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: bytes 14 and 15 of the first entry are the tail, aligned since the map begins at a page; only this thread
        // writes it, and nothing here reads or writes it otherwise.
        let tail = unsafe { AtomicU16::from_ptr(self.ring.as_mut_ptr().add(14).cast()) };
        tail.store(self.tail, Ordering::Release);
    }
}
