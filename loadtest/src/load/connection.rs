//! One connection: what it sent, what it awaits, and the answers read from its bytes.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::answer::{Read, Reader};
use super::judge::Judge;

/// A server on loopback that takes longer has no room in its queue.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);

pub struct Connection {
    socket: Socket,
    reader: Reader,
    /// The present answer, where it is checked.
    whole: Vec<u8>,
    is_kept: bool,
    /// Whether the server said that the answer is its last.
    pub is_last: bool,
    /// The template of the next answer.
    pub template: usize,
    /// Answers that are awaited.
    pub awaited: usize,
    /// Since when latency counts: when it was due, or sent.
    pub mark: u64,
    /// Since when nothing is awaited.
    pub idle_since: u64,
    /// Bytes sent of what is sent now.
    pub sent: usize,
    /// Whether the ring receives for it.
    pub is_receiving: bool,
    /// Whether it is on its way to being opened again.
    pub is_closing: bool,
}

impl Connection {
    /// Connects; the first request is this template.
    pub fn open(address: SocketAddr, template: usize) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_tcp_nodelay(true)?;
        socket.connect_timeout(&address.into(), CONNECT_PATIENCE)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            reader: Reader::default(),
            whole: Vec::new(),
            is_kept: false,
            is_last: false,
            template,
            awaited: 0,
            mark: 0,
            idle_since: 0,
            sent: 0,
            is_receiving: false,
            is_closing: false,
        })
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Ends what the ring does for it; an error means that the server ended it before.
    pub fn close(&mut self) {
        self.is_closing = true;
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Reads answers that came at `now`, up to one that is the last. An error is about framing: nothing behind it can be read.
    pub fn read(
        &mut self,
        mut bytes: &[u8],
        now: u64,
        templates: usize,
        judge: &mut Judge<'_>,
    ) -> Result<(), String> {
        judge.received(bytes.len(), now);
        while !bytes.is_empty() {
            if self.awaited == 0 || self.is_last {
                return Err("bytes came that were not asked for".to_owned());
            }
            if self.reader.is_between() {
                self.is_kept = judge.is_checked(self.template);
                self.whole.clear();
            }
            let Read { used, ended } = self.reader.read(bytes)?;
            if self.is_kept {
                self.whole.extend_from_slice(&bytes[..used]);
            }
            bytes = &bytes[used..];
            if let Some(answer) = ended {
                let whole = self.is_kept.then_some(&self.whole[..]);
                judge.answered(self.template, answer, whole, self.mark, now);
                self.template = (self.template + 1) % templates;
                self.awaited -= 1;
                self.is_last = answer.closes;
            }
        }
        Ok(())
    }
}
