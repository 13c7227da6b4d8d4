//! A bare server: as little as can be done between a request and its answer, so that what the kernel takes can be seen.
//!
//! One thread, one ring, multishot accept and receive into a ring of buffers, one send for each request that is whole, always of
//! the same bytes. It knows nothing of HTTP but the empty line and `Content-Length`, and that only as it is written here.

use std::collections::VecDeque;
use std::hint::black_box;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use io_uring::cqueue::{self, buffer_select, more};
use io_uring::squeue::Entry;
use io_uring::{IoUring, SubmissionQueue, Submitter, opcode, types};
use memchr::memmem;

use crate::buffers::Buffers;

const ENTRIES: u32 = 1024;
/// Buffers of the ring, a power of two; each holds a request.
const BUFFERS: u16 = 256;
const BUFFER_BYTES: usize = 4096;
const GROUP: u16 = 0;
/// `io_uring_enter`: completions are to be made of what has come. The crate asks for it only where it waits.
const GETEVENTS: u32 = 1;

/// The operations; what they are about is a descriptor.
const ACCEPT: u64 = 0;
const RECEIVE: u64 = 1;
const SEND: u64 = 2;

/// What it does beside answering, so that there is something to be found.
#[derive(Clone, Copy, Default)]
pub struct Burden {
    /// Every answer leaves so long after its request came; what is asked meanwhile waits for nothing else.
    pub delay: Duration,
    /// How often the answer is summed up before it leaves.
    pub sums: u32,
}

/// Listens, says its address on the error output, and serves until the process ends.
pub fn run(listen: SocketAddr, answer: &'static [u8], burden: Burden) -> io::Result<()> {
    let listener = TcpListener::bind(listen)?;
    socket2::SockRef::from(&listener).set_tcp_nodelay(true)?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    serve(&listener, answer, burden)
}

/// Serves until the process ends.
pub fn serve(listener: &TcpListener, answer: &'static [u8], burden: Burden) -> io::Result<()> {
    let mut builder = IoUring::builder();
    // The cheapest of the flags: 5 to 10 % less here than COOP_TASKRUN.
    builder.setup_single_issuer().setup_defer_taskrun();
    let mut ring: IoUring = builder.build(ENTRIES)?;
    let (submitter, queue, mut completions) = ring.split();
    // For ever, as the kernel may write into them until the process ends.
    let buffers = Box::leak(Box::new(Buffers::new(&submitter, GROUP, BUFFERS, BUFFER_BYTES)?));
    let (connections, delayed) = (Vec::new(), VecDeque::new());
    let mut server = Bare { submitter, queue, buffers, answer, burden, connections, delayed };
    server.accept(listener.as_raw_fd())?;
    loop {
        // Where answers are delayed it polls, as no timer is so exact.
        server.submit(usize::from(server.delayed.is_empty()))?;
        completions.sync();
        for completion in &mut completions {
            server.take(&completion)?;
        }
        server.answer_delayed()?;
    }
}

struct Bare<'r> {
    submitter: Submitter<'r>,
    queue: SubmissionQueue<'r>,
    buffers: &'static mut Buffers,
    answer: &'static [u8],
    burden: Burden,
    /// By descriptor.
    connections: Vec<Option<Connection>>,
    /// When requests are to be answered: how many of which descriptor.
    delayed: VecDeque<(Instant, RawFd, usize)>,
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
            if self.burden.delay.is_zero() {
                self.answer(descriptor, requests)?;
            } else {
                self.delayed.push_back((Instant::now() + self.burden.delay, descriptor, requests));
            }
        } else if result != OUT_OF_BUFFERS {
            self.close(descriptor);
            return Ok(());
        }
        if more(flags) { Ok(()) } else { self.receive(descriptor) }
    }

    /// Answers requests, after those that are not yet answered.
    fn answer(&mut self, descriptor: RawFd, requests: usize) -> io::Result<()> {
        for _ in 0..self.burden.sums as usize * requests {
            black_box(black_box(self.answer).iter().map(|byte| u64::from(*byte)).sum::<u64>());
        }
        let Some(connection) = &mut self.connections[descriptor as usize] else { return Ok(()) };
        let is_first = connection.due == 0 && requests > 0;
        connection.due += requests;
        if is_first { self.send(descriptor) } else { Ok(()) }
    }

    fn answer_delayed(&mut self) -> io::Result<()> {
        while let Some(&(due, descriptor, requests)) = self.delayed.front()
            && due <= Instant::now()
        {
            self.delayed.pop_front();
            self.answer(descriptor, requests)?;
        }
        Ok(())
    }

    fn close(&mut self, descriptor: RawFd) {
        self.connections[descriptor as usize] = None;
        // Its number may be another's by then.
        self.delayed.retain(|delayed| delayed.1 != descriptor);
    }

    fn sent(&mut self, descriptor: RawFd, result: i32) -> io::Result<()> {
        let Some(connection) = &mut self.connections[descriptor as usize] else { return Ok(()) };
        if result <= 0 {
            self.close(descriptor);
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
        let submitted = if wait_for == 0 {
            // SAFETY: without an argument the call reads the ring alone.
            unsafe { self.submitter.enter::<()>(self.queue.len() as u32, 0, GETEVENTS, None) }
        } else {
            self.submitter.submit_and_wait(wait_for)
        };
        match submitted {
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn requests_that_come_whole_in_parts_and_together_have_an_answer_each() {
        const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        if let Err(error) = IoUring::new(1) {
            return eprintln!("skipped: io_uring is not to be had: {error}");
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut stream = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        std::thread::spawn(move || serve(&listener, ANSWER, Burden::default()));
        for (sent, answers) in [
            ("GET / HTTP/1.1\r\n\r\n", 1),
            ("GET / HTTP/1.1\r\n\r", 0),
            ("\nGET\r\n\r\nGET\r\n\r\n", 3),
            ("POST\r\nContent-Length: 12\r\n\r\n01234567", 0),
            ("\r\n\r\nGET\r\n\r\nPOST\r\nContent-Length: 3\r\nA: 1\r\n\r\n012", 3),
        ] {
            stream.write_all(sent.as_bytes()).expect("sent");
            let mut received = vec![0; answers * ANSWER.len()];
            stream.read_exact(&mut received).expect("answered");
            assert_eq!(received, ANSWER.repeat(answers));
        }
    }
}
