//! The bare server: the least work between request and response, so that the kernel's cost becomes visible.
//!
//! It has one thread and one io_uring, multishot accept, multishot receive into a ring of buffers, and one
//! send of fixed bytes per complete request. Of HTTP it knows only the empty line and `Content-Length` in
//! this spelling.

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

use crate::buffers::BufferRing;

const ENTRIES: u32 = 1024;
/// Buffers of the ring, a power of two. Each holds a request.
const BUFFERS: u16 = 256;
const BUFFER_BYTES: usize = 4096;
const GROUP: u16 = 0;
/// Flag of `io_uring_enter`: post the pending completions. The crate sets it only for calls that wait.
const GETEVENTS: u32 = 1;

/// The operations in the upper half of the user data. The lower half is the descriptor.
const ACCEPT: u64 = 0;
const RECEIVE: u64 = 1;
const SEND: u64 = 2;

/// Artificial work besides responding, which the checks of the harness must detect.
#[derive(Clone, Copy, Default)]
pub struct ExtraWork {
    /// Delay of each response after its request. Other requests are not held up meanwhile.
    pub delay: Duration,
    /// Number of times the response's bytes are summed up before sending.
    pub sums: u32,
}

/// Listens, prints the address to standard error, and serves until the process ends.
pub fn run(listen: SocketAddr, response: &'static [u8], extra_work: ExtraWork) -> io::Result<()> {
    let listener = TcpListener::bind(listen)?;
    socket2::SockRef::from(&listener).set_tcp_nodelay(true)?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    serve(&listener, response, extra_work)
}

/// Serves until the process ends.
pub fn serve(listener: &TcpListener, response: &'static [u8], extra_work: ExtraWork) -> io::Result<()> {
    let mut builder = IoUring::builder();
    // The cheapest flags: 5 to 10 % less here than COOP_TASKRUN.
    builder.setup_single_issuer().setup_defer_taskrun();
    let mut ring: IoUring = builder.build(ENTRIES)?;
    let (submitter, queue, mut completions) = ring.split();
    // Leaked, because the kernel may write into the buffers until the process ends.
    let buffers = Box::leak(Box::new(BufferRing::new(&submitter, GROUP, BUFFERS, BUFFER_BYTES)?));
    let (connections, delayed) = (Vec::new(), VecDeque::new());
    let mut server = FloorServer { submitter, queue, buffers, response, extra_work, connections, delayed };
    server.accept(listener.as_raw_fd())?;
    loop {
        // With delayed responses the loop polls, because no timer is precise enough.
        server.submit(usize::from(server.delayed.is_empty()))?;
        completions.sync();
        for completion in &mut completions {
            server.handle_completion(&completion)?;
        }
        server.send_delayed()?;
    }
}

struct FloorServer<'r> {
    submitter: Submitter<'r>,
    queue: SubmissionQueue<'r>,
    buffers: &'static mut BufferRing,
    response: &'static [u8],
    extra_work: ExtraWork,
    /// Connections by descriptor.
    connections: Vec<Option<Connection>>,
    /// Delayed responses: due time, descriptor and number of requests.
    delayed: VecDeque<(Instant, RawFd, usize)>,
}

struct Connection {
    /// Closes the socket when the connection is dropped.
    _socket: OwnedFd,
    counter: RequestCounter,
    /// Requests without a complete response.
    pending_responses: usize,
    /// Sent bytes of the current response.
    sent: usize,
}

impl FloorServer<'_> {
    fn handle_completion(&mut self, completion: &cqueue::Entry) -> io::Result<()> {
        let (operation, descriptor) = (completion.user_data() >> 32, completion.user_data() as u32 as RawFd);
        let (result, flags) = (completion.result(), completion.flags());
        match operation {
            ACCEPT => {
                if result >= 0 {
                    self.open(result)?;
                }
                if more(flags) { Ok(()) } else { self.accept(descriptor) }
            }
            RECEIVE => self.on_received(descriptor, result, flags),
            _ => self.on_sent(descriptor, result),
        }
    }

    fn open(&mut self, descriptor: RawFd) -> io::Result<()> {
        let at = descriptor as usize;
        if self.connections.len() <= at {
            self.connections.resize_with(at + 1, || None);
        }
        // SAFETY: the kernel has just accepted this descriptor, and nothing else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
        self.connections[at] = Some(Connection {
            _socket: socket,
            counter: RequestCounter::default(),
            pending_responses: 0,
            sent: 0,
        });
        self.receive(descriptor)
    }

    fn on_received(&mut self, descriptor: RawFd, result: i32, flags: u32) -> io::Result<()> {
        const OUT_OF_BUFFERS: i32 = -105;
        let Some(connection) = &mut self.connections[descriptor as usize] else { return Ok(()) };
        if result > 0 {
            let buffer = buffer_select(flags).expect("it was received into one");
            let requests = connection.counter.count(&self.buffers.bytes(buffer)[..result as usize]);
            self.buffers.provide(buffer);
            if self.extra_work.delay.is_zero() {
                self.send_responses(descriptor, requests)?;
            } else {
                self.delayed.push_back((Instant::now() + self.extra_work.delay, descriptor, requests));
            }
        } else if result != OUT_OF_BUFFERS {
            self.close(descriptor);
            return Ok(());
        }
        if more(flags) { Ok(()) } else { self.receive(descriptor) }
    }

    /// Does the extra work and sends a response for each request, after those that are still unsent.
    fn send_responses(&mut self, descriptor: RawFd, requests: usize) -> io::Result<()> {
        for _ in 0..self.extra_work.sums as usize * requests {
            black_box(black_box(self.response).iter().map(|byte| u64::from(*byte)).sum::<u64>());
        }
        let Some(connection) = &mut self.connections[descriptor as usize] else { return Ok(()) };
        let is_first = connection.pending_responses == 0 && requests > 0;
        connection.pending_responses += requests;
        if is_first { self.send(descriptor) } else { Ok(()) }
    }

    fn send_delayed(&mut self) -> io::Result<()> {
        while let Some(&(due, descriptor, requests)) = self.delayed.front()
            && due <= Instant::now()
        {
            self.delayed.pop_front();
            self.send_responses(descriptor, requests)?;
        }
        Ok(())
    }

    fn close(&mut self, descriptor: RawFd) {
        self.connections[descriptor as usize] = None;
        // Another connection may have this number by the time they are due.
        self.delayed.retain(|delayed| delayed.1 != descriptor);
    }

    fn on_sent(&mut self, descriptor: RawFd, result: i32) -> io::Result<()> {
        let Some(connection) = &mut self.connections[descriptor as usize] else { return Ok(()) };
        if result <= 0 {
            self.close(descriptor);
            return Ok(());
        }
        connection.sent += result as usize;
        if connection.sent == self.response.len() {
            (connection.sent, connection.pending_responses) = (0, connection.pending_responses - 1);
        }
        if connection.pending_responses > 0 { self.send(descriptor) } else { Ok(()) }
    }

    fn accept(&mut self, listener: RawFd) -> io::Result<()> {
        self.push(opcode::AcceptMulti::new(types::Fd(listener)).build(), ACCEPT, listener)
    }

    fn receive(&mut self, descriptor: RawFd) -> io::Result<()> {
        self.push(opcode::RecvMulti::new(types::Fd(descriptor), GROUP).build(), RECEIVE, descriptor)
    }

    fn send(&mut self, descriptor: RawFd) -> io::Result<()> {
        let sent = self.connections[descriptor as usize].as_ref().map_or(0, |connection| connection.sent);
        let rest = &self.response[sent..];
        let send = opcode::Send::new(types::Fd(descriptor), rest.as_ptr(), rest.len() as u32);
        self.push(send.build(), SEND, descriptor)
    }

    fn push(&mut self, entry: Entry, operation: u64, descriptor: RawFd) -> io::Result<()> {
        let entry = entry.user_data(operation << 32 | u64::from(descriptor as u32));
        if self.queue.is_full() {
            self.submit(0)?;
        }
        // SAFETY: the sent bytes are never freed, the receive buffers belong to the ring of buffers, and an
        // accept without an address has no pointer.
        unsafe { self.queue.push(&entry) }.map_err(io::Error::other)
    }

    fn submit(&mut self, wait_for: usize) -> io::Result<()> {
        self.queue.sync();
        let submitted = if wait_for == 0 {
            // SAFETY: without an argument the call reads only the ring.
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

/// A counter of the requests on a connection.
#[derive(Default)]
pub struct RequestCounter {
    /// Received bytes of an incomplete request.
    partial_request: Vec<u8>,
}

impl RequestCounter {
    /// Counts the requests that end in `received`.
    pub fn count(&mut self, received: &[u8]) -> usize {
        let partial = std::mem::take(&mut self.partial_request);
        let joined = if partial.is_empty() { Vec::new() } else { [&partial, received].concat() };
        let mut rest = if partial.is_empty() { received } else { &joined };
        let mut requests = 0;
        while let Some(tail) = request_bytes(rest).and_then(|bytes| rest.get(bytes..)) {
            (rest, requests) = (tail, requests + 1);
        }
        self.partial_request.extend_from_slice(rest);
        requests
    }
}

/// Returns the length of the first request in `bytes`, whether or not its body is complete. Returns `None` if
/// the head is incomplete.
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
    fn each_request_gets_a_response_however_its_bytes_arrive() {
        const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        if let Err(error) = IoUring::new(1) {
            return eprintln!("skipped: io_uring is unavailable: {error}");
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut stream = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        std::thread::spawn(move || serve(&listener, RESPONSE, ExtraWork::default()));
        for (sent, responses) in [
            ("GET / HTTP/1.1\r\n\r\n", 1),
            ("GET / HTTP/1.1\r\n\r", 0),
            ("\nGET\r\n\r\nGET\r\n\r\n", 3),
            ("POST\r\nContent-Length: 12\r\n\r\n01234567", 0),
            ("\r\n\r\nGET\r\n\r\nPOST\r\nContent-Length: 3\r\nA: 1\r\n\r\n012", 3),
        ] {
            stream.write_all(sent.as_bytes()).expect("sent");
            let mut received = vec![0; responses * RESPONSE.len()];
            stream.read_exact(&mut received).expect("answered");
            assert_eq!(received, RESPONSE.repeat(responses));
        }
    }
}
